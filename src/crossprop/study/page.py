"""`study.html`: a study on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossprop._support.formats import interval, upper_first
from crossprop.costs import Cost
from crossprop.experiments.questions import Answer
from crossprop.figures import CONTROLS, LOOKS
from crossprop.pages.comparisons import NOTHING, PILLS, QUICK, TableCell, forest_mark, table_cell
from crossprop.pages.writing import write_page
from crossprop.plot.page import best_settings, pictures_of, write
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, FROZEN, Result, Row, conclusions

OTHER_RULE = ("#6a51a3", "-")
NO_SWITCH = TableCell("", "", "no switch")


def write_study(
    path: Path,
    title: str,
    columns: Mapping[str, Result],
    costs: Mapping[str, Cost],
    answers: list[Answer],
    *,
    ran: str,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of a study to `path`, one self-contained file, with the charts of its first column; the charts of
    every other column get a page of their own beside it. `ran` says in a sentence what was run."""
    (_, first), *others = columns.items()
    pictures = pictures_of(first.sweep)
    for name, column in others:
        write(column.sweep, path.with_name(f"{name}.html"), command)
    forest = _forest(first.rows)
    contents = [("conclusion", "Conclusion"), ("answers", "The answers")]
    contents += [(f"comparisons-{name}", upper_first(column.title)) for name, column in columns.items()]
    contents += [*pictures.contents, ("rerun", "Run it again")]
    write_page(
        path,
        "study/study.html.jinja",
        data=pictures.data | {"forests": [forest], "quick": quick},
        title=title,
        contents=contents,
        banner=QUICK if quick else "",
        conclusions=[NOTHING] if quick else conclusions(columns, answers),
        forest=forest,
        ran=ran,
        answers=answers,
        pills=PILLS,
        phases=[upper_first(phase) for phase in PHASES.values()],
        measure=first.sweep.measure,
        columns={name: _tables(column) for name, column in columns.items()},
        costs=costs,
        pictures=pictures,
        command=command,
        facts=facts,
        quick=quick,
    )


def _forest(rows: Sequence[Row]) -> dict[str, Any]:
    """The chart of differences: every rule against backprop with the same optimizer, one view per phase."""
    phases = {title: marks for phase, title in PHASES.items() if (marks := _marks(rows, phase))}
    return {"phases": phases, "reference": BACKPROP, "axis": f"error against tuned {BACKPROP}, in percent"}


def _marks(rows: Sequence[Row], phase: str) -> list[dict[str, Any]]:
    marks = [
        forest_mark(comparison, row.optimizer, LOOKS.get(row.rule, OTHER_RULE), row.rule in CONTROLS)
        for row in rows
        if (comparison := row.versus.get(BACKPROP, {}).get(phase)) is not None
    ]
    return [mark for mark in marks if mark]


def _tables(column: Result) -> dict[str, Any]:
    return {
        "title": upper_first(column.title),
        "means": {row.learner: _means(row) for row in column.rows},
        "versus": {reference: _versus(column.rows, reference) for reference in (BACKPROP, FROZEN)},
        "best": best_settings(column.sweep),
    }


def _means(row: Row) -> list[str]:
    estimates = [*(row.estimates.get(phase) for phase in PHASES), row.drift]
    return [interval(*map(float, estimate)) if estimate else "" for estimate in estimates]


def _versus(rows: Sequence[Row], reference: str) -> dict[str, list[TableCell]]:
    """The comparisons with a reference by learner, one for each phase."""
    return {
        row.learner: [
            table_cell(row.versus[reference][phase]) if phase in row.versus[reference] else NO_SWITCH
            for phase in PHASES
        ]
        for row in rows
        if reference in row.versus
    }
