"""Conclusions of a report from its verdicts, in sentences to quote."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossprop._support.formats import listed, plural
from crossprop.library.verdicts import CANNOT, DOES_NOT, HOLDS, IN_PART, NOT_SHOWN, Verdict

Leads = Mapping[str, Mapping[str | None, str]]
"""For each claim that a conclusion quotes, the sentence around the quote by verdict; None is for all other verdicts."""
WORDS = {
    HOLDS: ("holds", "hold"),
    IN_PART: ("holds in part", "hold in part"),
    DOES_NOT: ("does not hold", "do not hold"),
    NOT_SHOWN: ("is not shown", "are not shown"),
    CANNOT: ("cannot be decided", "cannot be decided"),
}


@dataclass(frozen=True)
class Headline:
    """The chart at the top: a few learners of one experiment, with a note beside each."""

    experiment: str
    variable: str
    title: str
    notes: Mapping[str, str]


def conclusions(verdicts: Sequence[Verdict], what: str, leads: Leads, own: Sequence[str] = ()) -> list[str]:
    """What was found: how many claims of the paper hold in `what`, then the claims of `leads` with their numbers.

    Claims in `own` are not the paper's, and not among those counted.
    """
    paper = [verdict for verdict in verdicts if verdict.id not in own]
    counts = Counter(verdict.verdict for verdict in paper)
    said = [f"{count} {words[count != 1]}" for verdict, words in WORDS.items() if (count := counts[verdict])]
    first = [f"Of {plural(len(paper), 'claim')} of the paper, {listed(said)} in {what}."] if said else []
    quoted = [verdict for verdict in verdicts if verdict.id in leads and verdict.verdict != CANNOT]
    quoted.sort(key=lambda verdict: [*leads].index(verdict.id))
    return first + [leads[each.id].get(each.verdict, leads[each.id][None]).format(each.quote) for each in quoted]
