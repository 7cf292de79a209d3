"""`study.html`: a study on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossprop.formats import interval, minus_signs, upper_first
from crossprop.pages.writing import write_page
from crossprop.plot.page import best_settings, pictures_of, write
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, FROZEN, Answer, Result, Row, p_text, verdict
from crossprop.study.costs import Cost
from crossprop.sweeps.evaluate import Comparison

PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
"""The CSS class of each answer."""
QUICK = "quick version: tiny, it shows that everything works and nothing else"


def write_study(
    path: Path,
    title: str,
    columns: Mapping[str, Result],
    costs: Mapping[str, Cost],
    answers: Sequence[Answer],
    *,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of a study to `path`, one self-contained file, with the charts of its first column; the charts of
    every other column get a page of their own beside it."""
    (_, first), *others = columns.items()
    pictures = pictures_of(first.sweep)
    for name, column in others:
        write(column.sweep, path.with_name(f"{name}.html"))
    contents = [("answers", "The answers")]
    contents += [(f"comparisons-{name}", upper_first(column.title)) for name, column in columns.items()]
    contents += [*pictures.contents, ("rerun", "Run it again")]
    write_page(
        path,
        "study/study.html.jinja",
        data=pictures.data,
        title=title,
        contents=contents,
        banner=QUICK if quick else "",
        answers=answers,
        pills=PILLS,
        phases=[upper_first(phase) for phase in PHASES.values()],
        measure=first.sweep.measure,
        columns={name: _tables(column) for name, column in columns.items()},
        costs=costs,
        pictures=pictures,
        command=command,
        facts=facts,
    )


def _tables(column: Result) -> dict[str, Any]:
    return {
        "title": upper_first(column.title),
        "means": {row.learner: _means(row) for row in column.rows},
        "versus": {reference: _versus(column.rows, reference) for reference in (BACKPROP, FROZEN)},
        "best": best_settings(column.sweep),
    }


class Cell(NamedTuple):
    """A comparison in one phase: the difference in percent, the CSS class of its pill, and seeds won with p-value."""

    text: str
    pill: str
    note: str


def _means(row: Row) -> list[str]:
    estimates = [*(row.estimates.get(phase) for phase in PHASES), row.drift]
    return [interval(*map(float, estimate)) if estimate else "" for estimate in estimates]


def _versus(rows: Sequence[Row], reference: str) -> dict[str, list[Cell]]:
    """The comparisons with a reference by learner, one for each phase."""
    return {
        row.learner: [_cell(row.versus[reference].get(phase)) for phase in PHASES]
        for row in rows
        if reference in row.versus
    }


def _cell(comparison: Comparison | None) -> Cell:
    if comparison is None:
        return Cell("", "", "no switch")
    mean, low, high, won, pairs = comparison.percent
    if not np.isfinite(mean):
        return Cell("", "", "diverged")
    pill = {"yes": "yes", "no": "no", "open": ""}[verdict(comparison)]
    text = minus_signs(f"{mean:+.1f}% [{low:+.1f}, {high:+.1f}]")
    return Cell(text, pill, f"{won} of {pairs} won, {p_text(comparison.p)}")
