"""Answers on pages: their table, and comparisons as cells of tables."""

import math
from collections.abc import Sequence

from crossprop._support.formats import interval
from crossprop.experiments.findings import Finding, p_text, signed_percent
from crossprop.experiments.page import Cell, Section, Table, Text
from crossprop.experiments.questions import CANNOT, DOES_NOT, HOLDS, NOT_SHOWN, Answer

PILLS = {
    "yes": ("yes", "here", "everywhere", HOLDS),
    "no": ("no", DOES_NOT),
    "open": ("no difference shown", "nowhere", NOT_SHOWN, CANNOT),
}
"""The answers and verdicts on claims by their CSS class; all others are `part`."""


def answers_section(answers: Sequence[Answer], text: str = "", *elements: object) -> Section:
    """The table of the answers, below a text on how they were decided, and further elements."""
    rows = [(str(at), each.question, *_cells(each)) for at, each in enumerate(answers, start=1)]
    table = Table("Questions", ["", "Question", "Answer", "Why"], rows, "words claims")
    return Section("answers", "The answers", [*([Text(text)] if text else []), table, *elements])


def claims_table(answers: Sequence[Answer]) -> Table:
    """The table of claims with their verdicts; rules and numbers are folded."""
    rows = [(each.id, each.question, *_cells(each)) for each in answers]
    return Table("Claims", ["", "Claim", "Verdict", "Why"], rows, "words claims", "claim")


def _cells(answer: Answer) -> tuple[Cell, Cell]:
    """The verdict, and why."""
    folded: dict[str, Sequence[str]] = {}
    if answer.rule:
        folded = {"Rule": [answer.rule, f"Numbers are {answer.over}."], "How each part was decided": answer.parts}
    if answer.findings:
        folded["All numbers [joint 95% intervals]"] = [
            f"{each.label}: {interval(*each.interval)} {each.unit}" for each in answer.findings
        ]
    why = Cell(lines=answer.why.splitlines(), fold="rule and numbers" if folded else "", folded=folded)
    known = [pill for pill, verdicts in PILLS.items() if answer.verdict in verdicts]
    known += ["no"] * answer.verdict.startswith("better nowhere")
    return Cell(answer.verdict, next(iter(known), "part")), why


def table_cell(finding: Finding, *, short: bool = False) -> Cell:
    """The cell of a comparison: the difference in percent, and unless in short in how many seeds it is lower."""
    text = signed_percent(finding, short=short)
    if not math.isfinite(finding.mean):
        return Cell(text) if short else Cell(note=text)
    pill = "" if finding.inside is None else finding.verdict
    return Cell(text, pill, "" if short else f"{finding.won} of {finding.pairs} won, {p_text(finding.p)}")
