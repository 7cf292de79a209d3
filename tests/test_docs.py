"""Every code block of the README and the docs runs, and so do the examples; long ones in a quick form. Links lead
somewhere, and the site is built and searched from disk."""

import asyncio
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType

import gallery
import matplotlib.pyplot as plt
import pytest
import yaml
from markdown.extensions.toc import slugify

import crossprop as cp
from crossprop.cli import main
from crossprop.learners import LEARNERS
from crossprop.objectives import OBJECTIVES
from crossprop.optimizers import OPTIMIZERS
from crossprop.replacements import REPLACEMENTS
from crossprop.streams import STREAMS

pytestmark = pytest.mark.usefixtures("quick_compilation")
ROOT = Path(__file__).parent.parent
REGISTRIES = (LEARNERS, STREAMS, OPTIMIZERS, REPLACEMENTS, OBJECTIVES)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
QUICK = {
    **{"seeds=30": "seeds=2", "seeds=5": "seeds=2", "seeds=4": "seeds=1", "seeds=3": "seeds=1"},
    **{
        "hidden=500": "hidden=20",
        "hidden=100": "hidden=20",
        "hidden=(50, 50)": "hidden=(8, 8)",
        "hidden=50": "hidden=8",
    },
    **{"record_every=500": "record_every=50", "evaluate=60": "evaluate=3", "cp.Geoff()": "cp.Geoff(examples=100)"},
    **{"cp.LabelShift(cp.datasets.digits(), ": "cp.LabelShift(cp.datasets.digits(), examples=600, "},
}
QUICK_EXAMPLES = {
    "reproduce": {"seeds, hidden, examples = 30, 500, 5000": "seeds, hidden, examples = 2, 8, 250"},
    "drift": {"seeds, readings = 5, 6000": "seeds, readings = 1, 1500"},
    "sweep": {
        "seeds, fresh, hidden, examples = 3, 20, 50, 1500": "seeds, fresh, hidden, examples = 1, 2, 8, 100",
        "2**-12, 2**-6": "2**-10, 2**-9",
    },
    "optimizers": {"steps, window = 20_000, 1000": "steps, window = 2000, 100"},
    "features": {'seeds, hidden, tasks = 3, 40, "ABC"': 'seeds, hidden, tasks = 1, 12, "A"'},
    "foresight": {
        "seeds, hidden, aheads = 5, (50, 50), [-0.5, 0, 1, 2, 4]": "seeds, hidden, aheads = 2, (8, 8), [0, 2]",
        "2**-8, 2**-3": "2**-6, 2**-5",
        'tasks="ABC"': 'tasks="A", examples=200',
    },
}
QUICK_EXAMPLES |= {
    "skorch_digits": {
        "[0.01, 0.03, 0.1, 0.3, 1.0], 3": "[0.01, 0.1], 2",
        "epochs, step_sizes, folds = 8": "epochs, step_sizes, folds = 2",
    },
    "lightning_digits": {"epochs = 6": "epochs = 1"},
}
SHORT = {
    "run": ["--seeds", "2", "--hidden", "10", "--examples", "60"],
    "run tracking": ["--steps", "60"],
    "run data.csv": ["--seeds", "2", "--hidden", "10"],
    "run random-labels": ["--steps", "60"],
    "run class-pairs": ["--steps", "60"],
    "run traced": ["--steps", "60"],
    "run atari": ["--set", "stream.frames=60"],
    "sweep": ["--seeds", "2", "--over", "network.hidden=10", "--over", "stream.examples=60"],
    "reproduce": ["geoff", "--quick", "--seeds", "2"],
    "reproduce --list": [],
    "reproduce sutton1992": ["fixed", "--quick"],
    "bench": ["--quick", "--repeats", "1", "--workloads", "geoff-30"],
    "study": ["--quick"],
    "arena": ["--quick", "tracking"],
    "arena --show": [],
    "arena --untuned": ["--quick", "tracking"],
    "arena data.csv": ["--quick"],
    "lab": ["--no-open"],
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WRITTEN = {"bench": "*/bench.json", "plot": "*/sweep.html", "study": "*/study.html", "arena": "*/arena.html"}


LONG = {"deep-networks", "tutorial", "drift", "features", "foresight", "replacements", "optimizers"}
LONG |= {"adding-a-learner", "adding-a-stream"}
"""Pages and examples that take more than about five seconds."""
LONG_COMMANDS = ("crossprop study", "crossprop reproduce --out", "crossprop reproduce sutton1992", "crossprop arena")


def _commands():
    """The commands of all pages; those that take long, and those with the options of one before them, are long."""
    met = []
    for line in dict.fromkeys(line for page in PAGES for block in blocks(page, "bash") for line in block.splitlines()):
        words = shlex.split(line, comments=True)
        to_do = {"run": words[:3], "plot": words[:2]}.get("".join(words[1:2]))
        options = {word for word in words if word.startswith("--")}
        again = to_do is not None and any(to_do == other and options <= theirs for other, theirs in met)
        met.append((to_do, options))
        yield pytest.param(line, marks=[pytest.mark.long] * (again or line.startswith(LONG_COMMANDS)))


def _each(paths):
    return [pytest.param(path, id=path.name, marks=[pytest.mark.long] * (path.stem in LONG)) for path in paths]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def assert_lower_errors_than_trivial(runs):
    """Where an example has a trivial predictor beside it, every learner but `raw` has a lower error."""
    for learners, records in runs:
        if isinstance(learners, dict):
            means = records["error" if "error" in records else "loss"].mean(["seed", "step"]).to_series()
            trivial = [name for name, each in learners.items() if isinstance(each, cp.Trivial)]
            others = means.drop([*trivial, "raw"], errors="ignore")
            assert not trivial or others.max() < means[trivial].min(), means


@pytest.mark.parametrize("page", _each(PAGES))
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    source = "\n".join(blocks(page, "python"))
    for long, quick in QUICK.items():
        source = source.replace(long, quick)
    if "import torch" in source:
        pytest.importorskip("torch")
    before = [(registry, dict(registry)) for registry in REGISTRIES]
    namespace, runs, run = {"__name__": page.stem}, [], cp.run

    def noted(learners, *given, **named):
        made = run(learners, *given, **named)
        runs.append((learners, made[0] if isinstance(made, tuple) else made))
        return made

    monkeypatch.setattr(cp, "run", noted)
    try:
        exec(compile(source, page.name, "exec"), namespace)
        assert_lower_errors_than_trivial(runs)
    finally:
        for registry, entries in before:
            registry.clear()
            registry.update(entries)
        plt.close("all")
    assert "records" in namespace or not source


@pytest.mark.parametrize("command", [*_commands()])
def test_command_of_the_page_runs(command, tmp_path, monkeypatch):
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif words[0] == "crossprop":
        monkeypatch.chdir(tmp_path)
        Path("data.csv").write_text("size,price\n" + "".join(f"{row},{row % 7 / 2}\n" for row in range(100)))
        Path("sweep.toml").write_text("".join(blocks(ROOT / "docs" / "sweeping.md", "toml")))
        if words[1] == "lab":  # it would serve until Ctrl-C
            server = pytest.importorskip("crossprop.lab.server")
            monkeypatch.setattr(server.uvicorn.Server, "serve", lambda self, sockets: asyncio.sleep(0))
        if words[1] == "card":
            main(["run", "digits", "--learners", "frozen", "--out", "digits", *SHORT["run"]])
        if words[1:3] == ["card", "check"]:
            main(["card", "make", "digits"])
        if words[1] in ("status", "plot"):
            main(["sweep", "sweep.toml", "--store", words[2], *SHORT["sweep"]])
        main([*words[1:], *SHORT.get(" ".join(words[1:3]), SHORT.get(words[1], []))])
        written = WRITTEN.get(words[1], "*/*.nc")
        assert ("--out" not in words) or any(tmp_path.glob(written))
    else:
        assert words[:2] == ["pip", "install"]
        of_jax = metadata("jax").get_all("Provides-Extra") or []
        ours = [".", *(f"{name}[{extra}]" for name in (".", "crossprop") for extra in EXTRAS)]
        known = [*ours, *(f"jax[{extra}]" for extra in of_jax)]
        assert words[2:] and set(words[2:]) <= set(known)


@pytest.mark.parametrize("example", _each(EXAMPLES))
def test_example_runs_and_ends_with_a_figure(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    source = example.read_text()
    for package in re.findall(r"^(?:import|from) (torch|skorch|lightning)\b", source, flags=re.MULTILINE):
        pytest.importorskip(package)
    for long, quick in QUICK_EXAMPLES[example.stem].items():
        assert long in source
        source = source.replace(long, quick)
    exec(compile(source, example.name, "exec"), {"__name__": "__main__"})
    drawn = [axes for axes in plt.gcf().axes if axes.has_data()]
    plt.close("all")
    assert drawn
    assert capsys.readouterr().out.strip()
    assert example.read_text().startswith("# %% [markdown]\n# # ")


def _prose(page):
    return re.sub(r"```.*?```|`[^`\n]+`", "", page.read_text(), flags=re.DOTALL)


def _anchors(page):
    titles = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.M
    )
    return {slugify(title, "-") for title in titles}


def _interactive_pages():
    return {ROOT / "docs" / "interactive" / f"{name}.html" for name in gallery.PAGES}


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "docs" / "api").glob("*.md")), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"],
    ids=lambda page: page.name,
)
def test_what_the_page_links_to_is_there(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)]*)\)", _prose(page)):
        found = (page.parent / target).resolve() if target else page
        assert found.exists() or found in _interactive_pages(), target
        assert not anchor or anchor in _anchors(found), f"{target}#{anchor}"


def test_navigation_has_every_page_of_the_docs():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        return [page for each in (entry.values() if isinstance(entry, dict) else entry) for page in pages(each)]

    found = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(found) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def test_every_public_name_is_in_the_reference():
    import crossprop as cp

    described = set(re.findall(r"^::: (\S+)$", "".join(p.read_text() for p in (ROOT / "docs/api").glob("*.md")), re.M))
    modules = {"datasets", "probes", "oracle", "metrics", "plot", "replacements"}
    public = {name for name in dir(cp) if not name.startswith("_") and callable(getattr(cp, name))}
    assert {f"crossprop.{name}" for name in public} <= described
    shown = {name for name in dir(cp) if isinstance(getattr(cp, name), ModuleType)}
    assert shown == {*modules, "optimizers"}, "tab completion shows public modules alone"
    for module in modules:
        assert any(name.startswith(f"crossprop.{module}") for name in described), module


def test_citation_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    bibtex = "".join(blocks(ROOT / "docs" / "citing.md", "bibtex"))
    named = [f"{each['family-names']}, {each['given-names']}" for each in paper["authors"]]
    for text in (citation["title"], citation["version"], paper["title"], " and ".join(named), str(paper["year"])):
        assert f"{{{text}}}" in bibtex
    assert f"{{{{{citation['authors'][0]['name']}}}}}" in bibtex
