"""`study.html`: a study on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crossprop.formats import interval, minus_signs, upper_first
from crossprop.pages.writing import write_page
from crossprop.plot.numbers import Sweep
from crossprop.plot.page import best_settings, pictures_of
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, FROZEN, Answer, Row, p_text, verdict
from crossprop.sweeps.evaluate import Comparison

PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
"""The CSS class of each answer."""
QUICK = "quick version: tiny, it shows that everything works and nothing else"


def write_study(
    path: Path,
    title: str,
    sweep: Sweep,
    rows: Sequence[Row],
    answers: Sequence[Answer],
    *,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of a study to `path`, one self-contained file."""
    pictures = pictures_of(sweep)
    contents = [("answers", "The answers"), ("comparisons", "Every rule with every optimizer")]
    contents += [("best", "The best settings"), *pictures.contents, ("rerun", "Run it again")]
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
        measure=sweep.measure,
        means={row.learner: _means(row) for row in rows},
        versus={reference: _versus(rows, reference) for reference in (BACKPROP, FROZEN)},
        best=best_settings(sweep),
        pictures=pictures,
        command=command,
        facts=facts,
    )


class Cell(NamedTuple):
    """A comparison in one phase: the difference in percent, the CSS class of its pill, and seeds won with p-value."""

    text: str
    pill: str
    note: str


def _means(row: Row) -> list[str]:
    estimates = [*(row.estimates[phase] for phase in PHASES), row.drift]
    return [interval(*map(float, estimate)) for estimate in estimates]


def _versus(rows: Sequence[Row], reference: str) -> dict[str, list[Cell | None]]:
    """The comparisons with a reference by learner, one for each phase; None where a seed diverged."""
    return {
        row.learner: [_cell(row.versus[reference][phase]) for phase in PHASES]
        for row in rows
        if reference in row.versus
    }


def _cell(comparison: Comparison) -> Cell | None:
    mean, low, high, won, pairs = comparison.percent
    if not np.isfinite(mean):
        return None
    pill = {"yes": "yes", "no": "no", "open": ""}[verdict(comparison)]
    text = minus_signs(f"{mean:+.1f}% [{low:+.1f}, {high:+.1f}]")
    return Cell(text, pill, f"{won} of {pairs} won, {p_text(comparison.p)}")
