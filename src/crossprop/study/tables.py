"""The tables of a study: `table.csv` with every number, and `table.md` to read."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._files import atomic_write
from crossprop.costs import Cost
from crossprop.pages.comparisons import LEVEL
from crossprop.plot.numbers import setting
from crossprop.records import PHASES
from crossprop.statistics import Estimate, Paired
from crossprop.study.answers import BACKPROP, FROZEN, Result, Row
from crossprop.sweeps.evaluate import Comparison

COLUMNS: dict[str, Callable[[Row], Any]] = {
    "learner": lambda row: row.learner,
    "rule": lambda row: row.rule,
    "optimizer": lambda row: row.optimizer,
    "setting": lambda row: setting(row.swept),
    "at the edge": lambda row: " ".join(row.swept.choice.edges),
    "incoming_drift": lambda row: float(row.drift.mean),
} | {
    f"{phase} {part}": lambda row, phase=phase, part=part: _mean(row, phase, part)
    for phase in PHASES
    for part in Estimate._fields
} | {
    f"{phase} minus {reference} {part}": lambda row, phase=phase, reference=reference, part=part: _part(
        row.versus.get(reference, {}).get(phase), part
    )
    for reference in (BACKPROP, FROZEN)
    for phase in PHASES
    for part in (*Paired._fields, "p")
}  # fmt: skip
"""The columns of `table.csv`, after the name of the study's column and before the costs."""


def _mean(row: Row, phase: str, part: str) -> float | str:
    return float(getattr(row.estimates[phase], part)) if phase in row.estimates else ""


def _part(comparison: Comparison | None, part: str) -> float | str:
    if comparison is None:
        return ""
    return comparison.p if part == "p" else getattr(comparison.difference, part)


def _markdown(rows: Sequence[Row], measure: str, costs: Mapping[str, Cost]) -> str:
    """The short table, one row per learner."""
    lines = [
        f"| learner | {measure}, all steps | end of tasks | after a switch | vs. backprop, all steps | after a switch "
        "| vs. frozen | U moved | µs per step | numbers kept | setting |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        means = [f"{float(row.estimates[phase].mean):.4g}" if phase in row.estimates else "" for phase in PHASES]
        means[0] += f" [{float(row.estimates['all'].low):.4g}, {float(row.estimates['all'].high):.4g}]"
        pairs = [(BACKPROP, "all"), (BACKPROP, "switch"), (FROZEN, "all")]
        versus = [_short(row.versus.get(reference, {}).get(phase)) for reference, phase in pairs]
        cost = costs.get(row.learner)
        costing = [f"{cost.microseconds:.3g}", f"{cost.numbers:,}"] if cost else ["", ""]
        cells = [row.learner, *means, *versus, f"{float(row.drift.mean):.3g}", *costing, setting(row.swept, "!")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _short(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if not np.isfinite(comparison.difference.mean):
        return "diverged"
    mean, low, high, won, pairs = comparison.percent
    star = "*" * (comparison.p < LEVEL)
    return f"{mean:+.1f}%{star} [{low:+.1f}, {high:+.1f}], {won}/{pairs}"


def write_tables(columns: Mapping[str, Result], costs: Mapping[str, Cost], folder: Path) -> None:
    """Writes `table.csv` and `table.md` to a folder; the first column has the costs."""
    of_column = [costs if at == 0 else {} for at in range(len(columns))]
    with atomic_write(folder / "table.csv") as path, path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["column", *COLUMNS, *Cost._fields])
        for (name, (_, _, rows)), own in zip(columns.items(), of_column, strict=True):
            cells = lambda row: [column(row) for column in COLUMNS.values()]
            writer.writerows([name, *cells(row), *own.get(row.learner, ("", ""))] for row in rows)
    with atomic_write(folder / "table.md") as path:
        tables = [
            f"**{title}**\n\n{_markdown(rows, sweep.measure, own)}"
            for (title, sweep, rows), own in zip(columns.values(), of_column, strict=True)
        ]
        path.write_text("\n".join(tables))
