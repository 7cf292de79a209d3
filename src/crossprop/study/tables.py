"""The table of a study, with every number."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crossprop.costs import Cost
from crossprop.experiments.page import write_table
from crossprop.records import PHASES
from crossprop.statistics import Estimate
from crossprop.study.answers import BACKPROP, FROZEN, Result, Row

COLUMNS: dict[str, Callable[[Row], Any]] = {
    "learner": lambda row: row.learner,
    "rule": lambda row: row.rule,
    "optimizer": lambda row: row.optimizer,
    "setting": lambda row: row.swept.setting(),
    "at the edge": lambda row: " ".join(row.swept.choice.edges),
    "incoming_drift": lambda row: float(row.drift.mean),
} | {
    f"{phase} {part}": lambda row, phase=phase, part=part: _mean(row, phase, part)
    for phase in PHASES
    for part in Estimate._fields
} | {
    f"{phase} minus {reference} {part}": lambda row, phase=phase, reference=reference, part=part: getattr(
        row.versus.get(reference, {}).get(phase), part, ""
    )
    for reference in (BACKPROP, FROZEN)
    for phase in PHASES
    for part in ("mean", "low", "high", "won", "pairs", "p")
}  # fmt: skip
"""The columns of `table.csv`, after the name of the study's column and before the costs."""


def _mean(row: Row, phase: str, part: str) -> float | str:
    return float(getattr(row.estimates[phase], part)) if phase in row.estimates else ""


def write_study_table(columns: Mapping[str, Result], costs: Mapping[str, Cost], path: Path) -> None:
    """Writes the table of a study; the learners of the first column have costs."""
    rows = [
        [
            name,
            *(column(row) for column in COLUMNS.values()),
            *(costs.get(row.learner, ("", "")) if not at else ("", "")),
        ]
        for at, (name, (_, _, rows)) in enumerate(columns.items())
        for row in rows
    ]
    write_table(path, ["column", *COLUMNS, *Cost._fields], rows)
