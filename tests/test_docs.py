"""Every code block of the README and the docs runs; long commands in a quick form."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from crossprop.cli import main
from crossprop.learners import LEARNERS
from crossprop.streams import STREAMS

pytestmark = pytest.mark.usefixtures("quick_compilation")
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUICK = {
    **{"seeds=30": "seeds=2", "seeds=5": "seeds=2", "seeds=3": "seeds=1", "hidden=500": "hidden=20"},
    **{"evaluate=60": "evaluate=3", "hidden=100": "hidden=20"},
    **{"cp.Geoff()": "cp.Geoff(examples=200)", "size=(2000, 8)": "size=(400, 8)"},
}
SHORT = {
    "run": ["--seeds", "2", "--hidden", "10", "--examples", "60"],
    "sweep": ["--seeds", "2", "--over", "network.hidden=10", "--over", "stream.examples=60"],
    "reproduce": ["geoff", "--quick", "--seeds", "2"],
    "bench": ["--quick", "--repeats", "1", "--workloads", "geoff-30"],
    "study": ["--quick"],
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WRITTEN = {"bench": "*/bench.json", "plot": "*/sweep.html", "study": "*/study.html"}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    source = "\n".join(blocks(page, "python"))
    for long, quick in QUICK.items():
        source = source.replace(long, quick)
    if "import torch" in source:
        pytest.importorskip("torch")
    before = [(registry, dict(registry)) for registry in (LEARNERS, STREAMS)]
    namespace = {"__name__": page.stem}
    try:
        exec(compile(source, page.name, "exec"), namespace)
    finally:
        for registry, entries in before:
            registry.clear()
            registry.update(entries)
        plt.close("all")
    assert "records" in namespace or not source


@pytest.mark.parametrize(
    "command",
    [line for page in PAGES for block in blocks(page, "bash") for line in block.splitlines()],
)
def test_command_of_the_page_runs(command, tmp_path, monkeypatch):
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif words[0] == "crossprop":
        monkeypatch.chdir(tmp_path)
        Path("sweep.toml").write_text("".join(blocks(ROOT / "docs" / "sweeping.md", "toml")))
        if words[1] in ("status", "plot"):
            main(["sweep", "sweep.toml", "--store", words[2], *SHORT["sweep"]])
        main([*words[1:], *SHORT.get(words[1], [])])
        written = WRITTEN.get(words[1], "*/*.zarr")
        assert ("--out" not in words) or any(tmp_path.glob(written))
    else:
        assert words[:2] == ["pip", "install"]
        assert words[2:] in [["crossprop"], ["jax[cuda12]"], *([f"crossprop[{extra}]"] for extra in EXTRAS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_links_to_is_there(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", prose):
        assert (page.parent / target).exists(), target
