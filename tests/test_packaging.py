"""The wheel holds the package and nothing else, its base dependencies are enough for the command line, and `make`
installs the versions of constraints.txt.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import PathDistribution
from itertools import chain
from pathlib import Path

import pytest
from constraints import merged
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import crossprop as cp

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "crossprop"
BASE = {"jax", "equinox", "optax", "jaxtyping", "wadler-lindig", "numpy", "scipy", "xarray", "tyro", "rich"}
EXTRAS = {
    "paper": {"matplotlib", "plotly", "jinja2", "scikit-learn", "mlxtend", "opentsne"},
    "cluster": {"dask", "distributed"},
    "lab": {"starlette", "uvicorn"},
    "sklearn": {"scikit-learn"},
    "river": {"river"},
}


def command(*words, **options):
    """Runs a command to its end and returns what it printed; a failure shows both of its streams."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(made_once):
    def build(folder):
        command(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)

    (path,) = made_once("wheel", build).glob("*.whl")
    return path


def test_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {str(Path("crossprop") / path.relative_to(PACKAGE)) for path in files}
    assert "crossprop/py.typed" in names
    assert {Path(name).suffix for name in names} >= {".py", ".toml", ".js", ".css", ".jinja"}


def test_wheel_states_version_license_and_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        found = PathDistribution(zipfile.Path(archive, f"crossprop-{cp.__version__}.dist-info/"))
        assert found.version == cp.__version__
        assert found.metadata["License-Expression"] == "Apache-2.0"
        (script,) = found.entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("crossprop", "crossprop.cli:main")


def test_wheel_requires_only_what_run_sweep_and_the_command_line_need(wheel):
    with zipfile.ZipFile(wheel) as archive:
        lines = PathDistribution(zipfile.Path(archive, f"crossprop-{cp.__version__}.dist-info/")).requires or []
    required = {}
    for line in lines:
        extra = re.search(r"extra == ['\"](\w+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        assert name is not None
        required.setdefault(extra and extra[1], set()).add(name[0].lower())
    assert required[None] == BASE
    assert {name: required[name] for name in EXTRAS} == EXTRAS
    assert required["all"] == set().union(*EXTRAS.values())


def test_changelog_and_citation_name_the_version():
    assert f"\n## [{cp.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {cp.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_constraints_hold_an_allowed_version_of_every_dependency_for_every_supported_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    required = [Requirement(line) for line in lines if not line.startswith(("crossprop[", "torch"))]
    constraints = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    supported = [python for line in project["classifiers"] for python in re.findall(r"Python :: (3\.\d+)", line)]
    assert supported == ["3.11", "3.12", "3.13"]
    for python in supported:
        here = [line for line in constraints if line.marker is None or line.marker.evaluate({"python_version": python})]
        versions = {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in here}
        assert len(versions) == len(here), f"Python {python}: a package has two versions"
        for requirement in required:
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier, (python, str(requirement))


def test_constraints_have_a_marker_where_the_version_depends_on_python():
    packages = {
        "3.9": {"same": "1", "two": "1", "three": "1", "early": "1"},
        "3.10": {"same": "1", "two": "2", "three": "2"},
        "3.11": {"same": "1", "two": "2", "three": "3", "late": "1"},
    }
    assert merged(packages) == [
        "early==1",
        "late==1",
        "same==1",
        'three==1 ; python_version < "3.10"',
        'three==2 ; python_version >= "3.10" and python_version < "3.11"',
        'three==3 ; python_version >= "3.11"',
        'two==1 ; python_version < "3.10"',
        'two==2 ; python_version >= "3.10"',
    ]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_test_runs_no_checker_and_installs_the_constrained_versions_unless_told_otherwise(tmp_path):
    def told(*words):
        clean = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "NEWEST", "LOWEST"}}
        options = ["--dry-run", "--no-print-directory", f"VENV={tmp_path / 'venv'}"]
        return command("make", *options, *words, cwd=ROOT, env=clean).splitlines()

    def installs(*words):
        (line,) = (line for line in told("test", *words) if "--editable" in line)
        return line

    assert "pytest" in told("test")[-1]
    assert not [line for line in told("test") if re.search("ruff|basedpyright|lint-imports", line)]
    checks = "\n".join(told("check"))
    assert all(name in checks for name in ("ruff check", "ruff format", "lint-imports", "basedpyright"))
    assert "PIP_CONSTRAINT=constraints.txt" in installs()
    assert "constraints.txt" not in installs("NEWEST=1")
    assert "lowest-direct" in installs("LOWEST=1")


@pytest.mark.parametrize("module", ["crossprop", "crossprop.cli"])
def test_import_loads_no_package_of_an_extra(module):
    extras = ["matplotlib", "plotly", "jinja2", "sklearn", "mlxtend", "openTSNE", "dask", "distributed"]
    extras += ["starlette", "uvicorn"]
    code = f"import sys, {module}; print(*(name for name in {extras} if name in sys.modules))"
    assert command(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)}).split() == []


@pytest.mark.long
def test_wheel_alone_in_a_new_environment_runs_geoff(wheel, tmp_path):
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    here = {"cwd": tmp_path, "env": alone | {"COLUMNS": "100"}}
    command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, **here)
    command(python, "-m", "pip", "check", **here)

    where = command(python, "-c", "import crossprop; print(crossprop.__version__, crossprop.__file__)", **here)
    assert where.startswith(f"{cp.__version__} {folder}")
    look = (
        "import importlib.util as u; print(*(n for n in ('matplotlib', 'plotly', 'sklearn', 'dask') if u.find_spec(n)))"
    )
    assert command(python, "-c", look, **here).split() == []
    said = command(
        folder / "bin" / "crossprop", "run", "geoff", *["--seeds", "1", "--hidden", "10", "--examples", "100"], **here
    )
    assert "crossprop" in said and "backprop" in said
