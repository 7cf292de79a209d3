"""Writes constraints.txt: the versions that `make` installs, the newest of today for every Python given.

    python tools/constraints.py python3.11 python3.12 python3.13

Each Python gets a new virtual environment with `.[dev]`. A package whose version depends on the Python has a line with
a marker for each version. A constraint only chooses the version of what is installed anyway: lines for packages that
only some platforms need do no harm elsewhere.
"""

import json
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """\
# The versions that the tests pass with, for every supported Python. `make` installs these, `make NEWEST=1` does not.
# Written by `python tools/constraints.py python3.11 python3.12 python3.13`.
"""


def newest(interpreter: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The interpreter's version, such as "3.11", and the version of every package in a new environment of it."""
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--upgrade", "pip"], check=True)
    subprocess.run([*pip, "install", "--quiet", "--no-compile", "--editable", ".[dev]"], check=True, cwd=ROOT)
    listing = [*pip, "list", "--format=json", "--exclude-editable", "--exclude=setuptools"]
    listed = subprocess.run(listing, check=True, stdout=subprocess.PIPE)
    version = "import sys; print('{}.{}'.format(*sys.version_info))"
    found = subprocess.run([python, "-c", version], check=True, stdout=subprocess.PIPE, text=True)
    return found.stdout.strip(), {package["name"].lower(): package["version"] for package in json.loads(listed.stdout)}


def merged(packages: dict[str, dict[str, str]]) -> list[str]:
    """The lines for packages by Python, which is in ascending order."""
    lines: list[str] = []
    for name in sorted(set().union(*packages.values())):
        versions = [(python, found[name]) for python, found in packages.items() if name in found]
        groups = [(version, next(group)[0]) for version, group in groupby(versions, key=lambda pair: pair[1])]
        for i, (version, first) in enumerate(groups):
            bounds = [f'python_version >= "{first}"'] if i else []
            bounds += [f'python_version < "{later}"' for _, later in groups[i + 1 : i + 2]]
            lines.append(" ; ".join([f"{name}=={version}", *filter(None, [" and ".join(bounds)])]))
    return lines


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        packages = dict(newest(python, Path(folder, str(i))) for i, python in enumerate(sys.argv[1:]))
    ascending = sorted(packages, key=lambda python: [int(part) for part in python.split(".")])
    lines = merged({python: packages[python] for python in ascending})
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
