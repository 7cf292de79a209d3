"""Comparisons of learners on fresh seeds: verdicts, sentences, and cells of tables."""

from collections.abc import Sequence

import numpy as np

from crossprop.experiments.findings import LABELS, Finding
from crossprop.experiments.page import Cell
from crossprop.experiments.words import p_text, signed_percent

PILLS = {"yes": "yes", "no": "no", "no difference shown": "open", "it depends": "part"}
"""The CSS class of each answer."""
NOTHING = "This tiny version shows that everything works. With so few seeds and examples, its answers mean nothing."
QUICK = "quick version: tiny, it shows that everything works and nothing else"


def common_verdict(findings: Sequence[Finding]) -> str:
    """The answer of several comparisons in words: their common one; if they disagree, `no` unless one is yes."""
    verdicts = {each.verdict for each in findings}
    if len(verdicts) == 1:
        return verdicts.pop()
    return "it depends" if "yes" in verdicts else "no"


def table_cell(finding: Finding) -> Cell:
    """The cell of a comparison."""
    text = signed_percent(finding.percent)
    if not np.isfinite(finding.mean):
        return Cell(note=text)
    pill = "" if finding.inside is None else LABELS[finding.inside]
    return Cell(text, pill, f"{finding.won} of {finding.pairs} won, {p_text(finding.p)}")
