"""Comparisons of learners on fresh seeds: verdicts, sentences, and cells of tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossprop._support.files import atomic_write
from crossprop._support.formats import p_text, percent, upper_first
from crossprop.experiments.evaluate import Comparison
from crossprop.figures import Look
from crossprop.pages import charts

VERDICTS = {"yes": "yes", "no": "no", "open": "no difference shown"}
PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
"""The CSS class of each answer."""
NOTHING = "This tiny version shows that everything works. With so few seeds and examples, its answers mean nothing."
QUICK = "quick version: tiny, it shows that everything works and nothing else"


class Answer(NamedTuple):
    """A question, its answer in a word, and the reason in a sentence."""

    question: str
    verdict: str
    why: str


def write_answers(path: Path, answers: Sequence[Answer], **about: Any) -> None:
    """Writes `answers.json`: what the answers are `about`, then the answers."""
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(about | {"answers": [each._asdict() for each in answers]}, indent=1))


def common_verdict(comparisons: Sequence[Comparison]) -> str:
    """The answer of several comparisons in words: their common one; if they disagree, `no` unless one is yes."""
    verdicts = {VERDICTS[each.verdict] for each in comparisons}
    if len(verdicts) == 1:
        return verdicts.pop()
    return "it depends" if "yes" in verdicts else "no"


def sentence_list(comparisons: Sequence[Comparison], noun: str) -> str:
    """Comparisons in a sentence."""
    return upper_first("; ".join(each.sentence(noun) for each in comparisons)) + "."


class TableCell(NamedTuple):
    """A comparison in a table: the difference in percent, the CSS class of its pill, and seeds won with p-value."""

    text: str
    pill: str
    note: str


def table_cell(comparison: Comparison) -> TableCell:
    """The cell of a comparison."""
    *interval, won, pairs = comparison.percent
    text = percent((interval[0], interval[1], interval[2]))
    if not np.isfinite(interval[0]):
        return TableCell("", "", text)
    pill = {"yes": "yes", "no": "no", "open": ""}[comparison.verdict]
    return TableCell(text, pill, f"{won} of {pairs} won, {p_text(comparison.p)}")


def forest_mark(comparison: Comparison, group: str, look: Look, control: bool) -> dict[str, Any] | None:
    """A line of a forest chart, as the page's script takes it, without numbers if the learner diverged; None if the
    means cannot be compared for another reason."""
    diverged = np.isinf(comparison.estimate.mean)
    if not (diverged or np.isfinite(comparison.difference.mean)):
        return None
    mean, low, high = [None] * 3 if diverged else charts.rounded(np.array(comparison.percent[:3]))
    marks = {"name": comparison.learner, "group": group, "mean": mean, "low": low, "high": high}
    return marks | charts.line_look(look, control)
