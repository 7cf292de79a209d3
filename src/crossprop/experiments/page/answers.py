"""Answers on pages: their table, and comparisons as cells of tables."""

import math
from collections.abc import Callable, Sequence

from crossprop.experiments.findings import Finding
from crossprop.experiments.page import Cell, Section, Text, questions
from crossprop.experiments.questions import Answer
from crossprop.experiments.words import p_text, signed_percent

PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
"""The CSS class of each answer."""
NOTHING = "This tiny version shows that everything works. With so few seeds and examples, its answers mean nothing."
QUICK = "quick version: tiny, it shows that everything works and nothing else"


def answers_section(
    answers: Sequence[Answer], text: str = "", *elements: object, pill: Callable[[str], str] = PILLS.__getitem__
) -> Section:
    """The table of the answers, below a text on how they were decided, and further elements."""
    rows = [
        (str(at), each.question, Cell(each.verdict, pill(each.verdict)), Cell(lines=each.why.splitlines()))
        for at, each in enumerate(answers, start=1)
    ]
    table = questions(("Question", "Answer", "Why"), rows, "Questions")
    return Section("answers", "The answers", [*([Text(text)] if text else []), table, *elements])


def table_cell(finding: Finding, *, short: bool = False) -> Cell:
    """The cell of a comparison: the difference in percent, and unless in short in how many seeds it is lower."""
    text = signed_percent(finding, short=short)
    if not math.isfinite(finding.mean):
        return Cell(text) if short else Cell(note=text)
    pill = "" if finding.inside is None else finding.verdict
    return Cell(text, pill, "" if short else f"{finding.won} of {finding.pairs} won, {p_text(finding.p)}")
