"""Questions about the records of an experiment, and their answers. A claim of a paper is a question.

A question's `find` returns findings. Those with the same `part` decide that part of the claim: it is true if all are
inside their bounds, false if one is outside, and else undecided. `verdict_of` combines the parts.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._support.files import atomic_write
from crossprop._support.formats import listed, plural, upper_first
from crossprop.experiments.findings import Finding
from crossprop.experiments.measures import CannotDecide, Runs

if TYPE_CHECKING:
    import xarray

HOLDS, IN_PART, DOES_NOT, NOT_SHOWN = "holds", "holds in part", "does not hold", "not shown"
CANNOT = "cannot be decided here"
VERDICTS = {
    HOLDS: ("holds", "hold"),
    IN_PART: ("holds in part", "hold in part"),
    DOES_NOT: ("does not hold", "do not hold"),
    NOT_SHOWN: ("is not shown", "are not shown"),
    CANNOT: ("cannot be decided", "cannot be decided"),
}
"""Each verdict on a claim as a verb, for one claim and for several."""
Leads = Mapping[str, Mapping[str, str]]
"""For each claim that a conclusion quotes, the sentence around the quote by verdict, or `otherwise`."""
Find = Callable[[Runs], Sequence[Finding]]


@dataclass(frozen=True)
class Question:
    """A question about the records `of` an experiment, such as a claim, with the rule that decides it, in words and as
    a function."""

    id: str
    of: str
    asks: str
    rule: str
    find: Find
    all_together: bool = False
    """Whether intervals hold jointly with those that are only shown."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question: a verdict, and the reason in plain words.

    Those on claims also have the claim's rule, the sentence to quote, how each part was decided, the findings, and what
    these are taken over.
    """

    id: str
    question: str
    verdict: str
    why: str
    of: str = ""
    rule: str = ""
    quote: str = ""
    parts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    over: str = ""


def answers_on(questions: Iterable[Question], records: "Mapping[str, xarray.Dataset]") -> list[Answer]:
    """The answers to all questions about an experiment whose records are given."""
    return [answer(question, records[question.of]) for question in questions if question.of in records]


def answer(question: Question, records: "xarray.Dataset") -> Answer:
    """The answer to one question, from the records of its experiment."""
    about: dict[str, Any] = {"id": question.id, "question": question.asks, "of": question.of, "rule": question.rule}
    try:
        found = question.find(Runs(records))
        together = {each.id for each in found if each.part or question.all_together}
        found = question.find(Runs(records, level=1 - 0.05 / len(together)))  # Bonferroni
    except CannotDecide as problem:
        over = "nothing: the records lack what the claim needs"
        return Answer(**about, verdict=CANNOT, why=f"{problem}.", quote=f"{problem}.", over=over)
    parts: dict[str, list[Finding]] = {}
    for each in found:
        if each.part:
            parts.setdefault(each.part, []).append(each)
    words = {True: "yes", False: "no", None: "undecided"}
    told = tuple(f"{part}: {words[all_inside(each)]} ({decisive(each).label})" for part, each in parts.items())
    verdict, (quote, more) = verdict_of([*map(all_inside, parts.values())]), reason([*parts.values()])
    return Answer(
        **about,
        verdict=verdict,
        why=quote + more,
        quote=quote,
        parts=told,
        findings=tuple({each.id: each for each in found}.values()),
        over=f"paired over {_pairs(records, found[0].pairs)}",
    )


def all_inside(part: Sequence[Finding]) -> bool | None:
    """Whether a part is true: false if a finding is outside its bounds, else undecided if one is."""
    each = [finding.inside for finding in part]
    return False if False in each else None if None in each else True


def decisive(part: Sequence[Finding]) -> Finding:
    """The finding with the least room, among those that make the part what it is."""
    truth = all_inside(part)
    return min((each for each in part if each.inside is truth), key=lambda each: each.bounds.room(each.mean))


def verdict_of(parts: Sequence[bool | None]) -> str:
    """The verdict on a claim whose parts are true, false or undecided (None).

    All true: it holds. At least half: it holds in part. If that many could not be true even if all undecided ones were,
    it does not hold. Otherwise it is not shown.
    """
    true, undecided = parts.count(True), parts.count(None)
    if true == len(parts):
        return HOLDS
    if 2 * true >= len(parts):
        return IN_PART
    return NOT_SHOWN if 2 * (true + undecided) >= len(parts) else DOES_NOT


def reason(parts: Sequence[Sequence[Finding]]) -> tuple[str, str]:
    """Why the verdict is what it is: the sentence to quote, and what else there is to say.

    The first part that speaks for the claim is quoted if it holds, the first that speaks against it if it does not, and
    one of each if it holds in part.
    """
    by_truth = {truth: [part for part in parts if all_inside(part) is truth] for truth in (True, False, None)}
    true, against = by_truth[True], by_truth[False] + by_truth[None]
    verdict = verdict_of([*map(all_inside, parts)])
    if verdict == HOLDS:
        quote = _sentence(true[0])
    elif verdict == IN_PART:
        same = decisive(true[0]).interval == decisive(against[0]).interval
        quote = f"{_sentence(true[0])}; " + ("that is less than claimed" if same else f"but {_sentence(against[0])}")
    else:
        quote = _sentence(against[0] if verdict == DOES_NOT else by_truth[None][0])
    notes = dict.fromkeys(each.note for part in parts for each in part if each.note)
    quote = "; ".join([quote, *notes]) + "."
    more = " The interval includes what is claimed and what is not." * (verdict == NOT_SHOWN)
    if len(parts) > 2:
        count = f"All {len(parts)}" if verdict == HOLDS else f"{len(true) or 'None'} of {len(parts)}"
        more += f" {count} parts are as claimed."
    return quote, more


def _sentence(part: Sequence[Finding]) -> str:
    several = f"even in the closest of {len(part)} comparisons, "
    return several * (all_inside(part) is True and len(part) > 1) + decisive(part).sentence()


def _pairs(records: "xarray.Dataset", pairs: int) -> str:
    if "seed" not in records.sizes:
        return f"{plural(pairs, 'example')} of one run"
    if records.sizes["seed"] > 1:
        return plural(pairs, "seed")
    return f"{plural(pairs, 'disjoint window')} of one run, which is not the same as independent runs"


def tally(answers: Sequence[Answer]) -> list[str]:
    """How many claims have each verdict, in words."""
    counts = Counter(each.verdict for each in answers)
    return [f"{count} {words[count != 1]}" for verdict, words in VERDICTS.items() if (count := counts[verdict])]


def conclusions(answers: Sequence[Answer], what: str, leads: Leads, own: Sequence[str] = ()) -> list[str]:
    """The conclusion: how many claims of the paper hold in `what`, then the claims of `leads` with their numbers.

    Claims in `own` are not the paper's, and not among those counted.
    """
    paper = [each for each in answers if each.id not in own]
    said = tally(paper)
    first = [f"Of {plural(len(paper), 'claim')} of the paper, {listed(said)} in {what}."] if said else []
    quoted = {each.id: each for each in answers if each.verdict != CANNOT}
    return first + [
        lead.get(quoted[id].verdict, lead["otherwise"]).format(quoted[id].quote)
        for id, lead in leads.items()
        if id in quoted
    ]


def claims_json(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """The answers on claims in JSON's types; numbers that are not finite become null."""
    finite = lambda value: value if math.isfinite(value) else None
    return [
        {
            **{"id": each.id, "experiment": each.of, "claim": each.question, "rule": each.rule},
            **{"verdict": each.verdict, "quote": each.quote, "why": each.why, "parts": [*each.parts]},
            "numbers": [
                {"label": number.label}
                | {name: finite(getattr(number, name)) for name in ("mean", "low", "high")}
                | {"unit": number.unit}
                for number in each.findings
            ],
            "over": each.over,
        }
        for each in answers
    ]


def compared(id: str, question: str, findings: Sequence[Finding], noun: str, of: str = "") -> Answer:
    """The answer that comparisons of `noun` have in common; if they disagree, `no` unless one is yes."""
    verdicts = {each.verdict for each in findings}
    verdict = verdicts.pop() if len(verdicts) == 1 else "it depends" if "yes" in verdicts else "no"
    return Answer(id, question, verdict, upper_first("; ".join(each.sentence(noun) for each in findings)) + ".", of=of)


def write_answers(path: Path, answers: Sequence[Answer], **about: Any) -> None:
    """Writes `answers.json`: what the answers are `about`, then the answers."""
    told = [{"question": each.question, "verdict": each.verdict, "why": each.why} for each in answers]
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(about | {"answers": told}, indent=1))
