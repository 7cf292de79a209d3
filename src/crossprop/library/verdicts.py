"""Claims, and the one rule that leads from intervals to a verdict.

A claim has parts, and a part has findings: numbers with intervals, each with the bounds that the claim sets it. A
finding is true if its interval lies inside the bounds, false if it lies outside, and undecided if it includes both.
`verdict_of` combines them. What is compared with a bound of "more" or "less" also counts as false if the interval shows
that there is no difference, which is one of less than `EQUAL`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from crossprop._support.formats import plural

if TYPE_CHECKING:
    import xarray

    from crossprop.statistics import Paired

HOLDS, IN_PART, DOES_NOT, NOT_SHOWN = "holds", "holds in part", "does not hold", "not shown"
CANNOT = "cannot be decided here"
EQUAL = 0.01
"""A difference of less than 1% counts as none."""


class CannotDecide(Exception):
    """The records lack what a claim needs; the message says what."""


@dataclass(frozen=True)
class Number:
    """A statistic with its interval, which is NaN if unknown."""

    label: str
    mean: float
    low: float
    high: float
    unit: str = ""

    @classmethod
    def of(cls, label: str, paired: "Paired", unit: str = "", scale: float = 1.0) -> "Number":
        """A paired comparison as a number."""
        return cls(label, paired.mean, paired.low, paired.high, unit).times(scale)

    @property
    def interval(self) -> tuple[float, float, float]:
        """The mean and the ends of its interval."""
        return self.mean, self.low, self.high

    def times(self, scale: float) -> "Number":
        """The number in another unit."""
        return replace(self, mean=scale * self.mean, low=scale * self.low, high=scale * self.high)


@dataclass(frozen=True)
class Bounds:
    """Where a claim says that a number lies; `equal` is the range that counts as no difference."""

    low: float = -math.inf
    high: float = math.inf
    equal: tuple[float, float] | None = None

    def true_of(self, number: Number) -> bool | None:
        """Whether the interval lies inside; None if it includes values inside and outside, or is unknown."""
        if self.equal and self.equal[0] < number.low and number.high < self.equal[1]:
            return False
        if self.low < number.low and number.high < self.high:
            return True
        return False if number.high <= self.low or number.low >= self.high else None

    def room(self, number: Number) -> float:
        """How far the mean is inside; negative outside."""
        return min(number.mean - self.low, self.high - number.mean)


MORE_TIMES = Bounds(low=1, equal=(1 / (1 + EQUAL), 1 + EQUAL))
"""A ratio that says "more"."""
LESS_TIMES = Bounds(high=1, equal=MORE_TIMES.equal)
"""A ratio that says "less"."""
MORE = Bounds(low=0, equal=(-EQUAL, EQUAL))
"""A difference of two shares that says "more"."""


@dataclass(frozen=True)
class Finding:
    """A number, the bounds that the claim sets it, and what it says, as a sentence without its full stop."""

    number: Number
    bounds: Bounds
    sentence: str

    @property
    def true(self) -> bool | None:
        """Whether the finding is as claimed; None if it is undecided."""
        return self.bounds.true_of(self.number)


@dataclass(frozen=True)
class Part:
    """One part of a claim, true if all its findings are. `says` completes "It is claimed that"."""

    says: str
    findings: tuple[Finding, ...]

    @property
    def true(self) -> bool | None:
        """Whether the part is true: false if a finding is, else undecided if one is."""
        each = [finding.true for finding in self.findings]
        return False if False in each else None if None in each else True

    @property
    def decisive(self) -> Finding:
        """The finding with the least room, among those that make the part what it is."""
        return min(
            (finding for finding in self.findings if finding.true is self.true),
            key=lambda finding: finding.bounds.room(finding.number),
        )

    @property
    def sentence(self) -> str:
        """What the decisive finding says."""
        several = f"even in the closest of {len(self.findings)} comparisons, "
        return several * (self.true is True and len(self.findings) > 1) + self.decisive.sentence


@dataclass(frozen=True)
class Judgement:
    """What was found about a claim: its parts, how many paired values the numbers are means over, further findings that
    are shown and not counted, and what else the reason should mention."""

    parts: Sequence[Part]
    pairs: int
    shown: Sequence[Finding] = ()
    note: str = ""


Judge = Callable[["xarray.Dataset"], Judgement]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or our own, with the rule that decides it, in words and as a function of records."""

    id: str
    experiment: str
    claim: str
    rule: str
    judge: Judge


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: its rule, the reason in plain words, of which `quote` is the sentence to quote, how each
    part was decided, the numbers, and what they are taken over."""

    id: str
    experiment: str
    claim: str
    rule: str
    verdict: str
    quote: str
    why: str
    parts: tuple[str, ...]
    numbers: tuple[Number, ...]
    over: str


def joint_level(comparisons: int) -> float:
    """The level of each of several intervals for all of them to hold together at 95% (Bonferroni)."""
    return 1 - 0.05 / comparisons


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


def reason(parts: Sequence[Part], note: str = "") -> tuple[str, str]:
    """Why the verdict is what it is: the sentence to quote, and what else there is to say.

    The first part that speaks for the claim is quoted if it holds, the first that speaks against it if it does not, and
    one of each if it holds in part.
    """
    true = [part for part in parts if part.true is True]
    against = [part for wanted in (False, None) for part in parts if part.true is wanted]
    verdict = verdict_of([part.true for part in parts])
    if verdict == HOLDS:
        quote = true[0].sentence
    elif verdict == IN_PART:
        same = true[0].decisive.number == against[0].decisive.number
        quote = f"{true[0].sentence}; " + ("that is less than claimed" if same else f"but {against[0].sentence}")
    elif verdict == DOES_NOT:
        quote = against[0].sentence
    else:
        quote = next(part for part in parts if part.true is None).sentence
    quote += f"; {note}" * bool(note) + "."
    more = " The interval includes what is claimed and what is not." * (verdict == NOT_SHOWN)
    if len(parts) > 2:
        count = f"All {len(parts)}" if verdict == HOLDS else f"{len(true) or 'None'} of {len(parts)}"
        more += f" {count} parts are as claimed."
    return quote, more


def verdict_on(claim: Claim, records: "xarray.Dataset") -> Verdict:
    """The verdict on one claim, from the records of its experiment."""
    about = (claim.id, claim.experiment, claim.claim, claim.rule)
    try:
        found = claim.judge(records)
    except CannotDecide as problem:
        return Verdict(
            *about, CANNOT, f"{problem}.", f"{problem}.", (), (), "nothing: the records lack what the claim needs"
        )
    words = {True: "yes", False: "no", None: "undecided"}
    parts = tuple(f"{part.says}: {words[part.true]} ({part.decisive.number.label})" for part in found.parts)
    findings = [*(finding for part in found.parts for finding in part.findings), *found.shown]
    numbers = {finding.number.label: finding.number for finding in findings}
    verdict, (quote, more) = verdict_of([part.true for part in found.parts]), reason(found.parts, found.note)
    over = _over(records, found.pairs)
    return Verdict(*about, verdict, quote, quote + more, parts, tuple(numbers.values()), over)


def verdicts_on(claims: Iterable[Claim], records: "Mapping[str, xarray.Dataset]") -> list[Verdict]:
    """The verdict on every claim about an experiment whose records are given."""
    return [verdict_on(claim, records[claim.experiment]) for claim in claims if claim.experiment in records]


def _over(records: "xarray.Dataset", pairs: int) -> str:
    if "seed" not in records.sizes:
        return f"paired over {plural(pairs, 'example')} of one run"
    if records.sizes["seed"] > 1:
        return f"paired over {plural(pairs, 'seed')}"
    return f"paired over {plural(pairs, 'disjoint window')} of one run, which is not the same as independent runs"


def to_json(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """The verdicts in JSON's types; numbers that are not finite become null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [plain(asdict(verdict)) for verdict in verdicts]
