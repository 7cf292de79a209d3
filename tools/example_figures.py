"""Runs the examples and keeps the figure of each in docs/figures: `python tools/example_figures.py [NAME ...]`."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent


def main() -> None:
    plt.switch_backend("agg")
    for name in sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("*.py")):
        plt.show = lambda: None
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
        plt.savefig(ROOT / "docs" / "figures" / f"example-{name}.png", dpi=80)
        plt.close("all")


if __name__ == "__main__":
    main()
