"""Puts the interactive pages that the site links to into docs/interactive: `python tools/gallery.py`.

The page of your own run is taken where there is one, `reproduction/report.html` or `sutton1992/report.html`. Otherwise
it is made here, in `build/gallery`: the paper's GEOFF and Sutton (1992) in full.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = {
    "reproduction": ("report.html", ["reproduce", "geoff"]),
    "sutton1992": ("report.html", ["reproduce", "sutton1992"]),
}


def main() -> None:
    (ROOT / "docs" / "interactive").mkdir(exist_ok=True)
    for name, (page, command) in PAGES.items():
        found = ROOT / name / page
        if not found.exists():
            found = ROOT / "build" / "gallery" / name / page
        if not found.exists():
            crossprop = [sys.executable, "-c", "from crossprop.cli import main; main()"]
            out = str(found.parent.relative_to(ROOT))  # the page shows the command
            subprocess.run([*crossprop, *command, "--out", out], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(found, ROOT / "docs" / "interactive" / f"{name}.html")


if __name__ == "__main__":
    main()
