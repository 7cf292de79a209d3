"""Draws an arena's table: `python tools/arena_figure.py arena/table.csv FIGURE.png`.

A row for every learner, a column for every stream: the difference of its error to the reference's in percent, blue
where it is lower and red where it is higher, bold where the difference shows.
"""

import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from crossprop._support.formats import minus_signs
from crossprop.experiments.findings import LEVEL

LIMIT = 40
"""Differences in percent from which on colours stay the same."""

Row = dict[str, str]
Table = dict[str, dict[str, Row]]
"""Rows by learner and by the title of the stream, of which Overall is the first."""


def read(path: str | Path) -> Table:
    found: Table = {}
    with Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["learner"], {})[row["title"]] = row
    return found


def shows(row: Row) -> bool:
    """Whether the difference is significant."""
    return bool(row["percent"]) and float(row["p"]) < LEVEL


def percent(row: Row) -> float:
    """The difference to the reference; NaN for the reference, and where a seed diverged."""
    return float(row["percent"] or "nan")


def said(row: Row) -> str:
    if math.isfinite(percent(row)):
        return minus_signs(f"{percent(row):+.0f}")
    return "diverged" if row["percent"] else "reference"


def draw(axes: Any, table: Table) -> None:
    columns = [*next(iter(table.values()))]
    values = np.array([[percent(row) for row in rows.values()] for rows in table.values()])
    axes.imshow(np.ma.masked_invalid(values), cmap="RdBu_r", vmin=-LIMIT, vmax=LIMIT, aspect="auto")
    for y, rows in enumerate(table.values()):
        for x, row in enumerate(rows.values()):
            text = "0" if said(row) in ("+0", minus_signs("-0"), "reference") else said(row)
            colour = "white" if abs(values[y, x]) > 0.6 * LIMIT else "#222222"
            weight = "bold" if shows(row) else "normal"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=colour, fontweight=weight)
    axes.set_xticks(range(len(columns)), [each.replace(" ", "\n", 1) for each in columns], fontsize=8.5)
    axes.set_yticks(range(len(table)), table, fontsize=8.5)
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(table) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)


def main(table: str, out: str) -> None:
    rows = read(table)
    figure = Figure(figsize=(9, 0.27 * len(rows) + 1.1), layout="constrained")
    axes = figure.subplots()
    draw(axes, rows)
    note = "error against tuned backprop in percent, lower is better; bold: the difference shows; by mean rank"
    axes.set_xlabel(note, fontsize=8.5, color="#555555", labelpad=8)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
