"""Draws the table of an arena: `python tools/arena_figure.py arena/table.md docs/figures/arena.png`.

A row for every learner, a column for every stream: the difference of its error to the reference's in percent, blue
where it is lower and red where it is higher, bold where the difference shows.
"""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

LIMIT = 40
"""Differences in percent from which on colours stay the same."""
CELL = re.compile(r"(?:[\d.]+\. )?([+−]\d+)%(\*?)")


def read(path: str) -> tuple[list[str], dict[str, list[str]]]:
    """The names of the columns, and the cells of every learner from the overall difference on, without the cost."""
    lines = [line.strip("| ").split(" | ") for line in Path(path).read_text().splitlines() if line.startswith("| ")]
    header, *rows = lines
    return header[2:-1], {row[0]: row[2:-1] for row in rows}


def draw(axes: Any, columns: list[str], rows: dict[str, list[str]]) -> None:
    found = {name: [CELL.match(cell) for cell in cells] for name, cells in rows.items()}
    number = [[float(cell[1].replace("−", "-")) if cell else np.nan for cell in cells] for cells in found.values()]
    values = np.array(number)
    axes.imshow(np.ma.masked_invalid(values), cmap="RdBu_r", vmin=-LIMIT, vmax=LIMIT, aspect="auto")
    for y, (name, cells) in enumerate(found.items()):
        for x, cell in enumerate(cells):
            said = cell[1] if cell else rows[name][x].rpartition(". ")[2]
            said = "0" if said in ("+0", "−0", "reference") else said
            colour = "white" if cell and abs(values[y, x]) > 0.6 * LIMIT else "#222222"
            weight = "bold" if cell and cell[2] else "normal"
            axes.text(x, y, said, ha="center", va="center", fontsize=8, color=colour, fontweight=weight)
    axes.set_xticks(range(len(columns)), [each.replace(" ", "\n", 1) for each in columns], fontsize=8.5)
    axes.set_yticks(range(len(rows)), rows, fontsize=8.5)
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)


def main(table: str, out: str) -> None:
    columns, rows = read(table)
    figure = Figure(figsize=(9, 0.27 * len(rows) + 1.1), layout="constrained")
    axes = figure.subplots()
    draw(axes, columns, rows)
    note = "error against tuned backprop in percent, lower is better; bold: the difference shows; by mean rank"
    axes.set_xlabel(note, fontsize=8.5, color="#555555", labelpad=8)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
