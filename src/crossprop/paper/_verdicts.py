"""Claims, and how comparisons lead to a verdict: numbers with intervals, parts of a claim, their combination."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossprop.statistics import Paired

if TYPE_CHECKING:
    import xarray

HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
CANNOT = "cannot be decided here"
FEWEST = 5
"""With fewer pairs, an interval that includes 0 decides nothing."""


@dataclass(frozen=True)
class Number:
    """A statistic with its interval, which is NaN if unknown."""

    label: str
    mean: float
    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if math.isnan(self.low):
            return f"{self.label}: {self.mean:.3g}{unit}, no interval"
        return f"{self.label}: {self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]{unit}"


@dataclass(frozen=True)
class Part:
    """One part of a claim: what it says, whether that is true (None: undecided), and the number that decides it."""

    says: str
    true: bool | None
    number: Number

    def __str__(self) -> str:
        word = {True: "yes", False: "no", None: "undecided"}[self.true]
        return f"{self.says}: {word} ({self.number})"


@dataclass(frozen=True)
class Judgement:
    """What a rule found; its numbers are means over `pairs` paired values."""

    verdict: str
    why: str
    numbers: tuple[Number, ...]
    pairs: int


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, or our own, with the rule that decides it, in words and as a function of records."""

    id: str
    experiment: str
    claim: str
    rule: str
    judge: "Callable[[xarray.Dataset], Judgement]"


def number(label: str, paired: Paired, unit: str = "", scale: float = 1.0) -> Number:
    """A paired comparison as a number of a claim."""
    return Number(label, scale * paired.mean, scale * paired.low, scale * paired.high, unit)


def joint_level(comparisons: int) -> float:
    """The level of each of several intervals for all of them to hold together at 95% (Bonferroni)."""
    return 1 - 0.05 / comparisons


def inside(number: Number, low: float, high: float = math.inf) -> bool | None:
    """Whether the interval lies between the bounds; None if it crosses one."""
    if low < number.low and number.high < high:
        return True
    return False if number.high <= low or number.low >= high else None


def significantly_below(number: Number, pairs: int) -> bool | None:
    """Whether the interval lies below 0; None if it includes 0 and there are few pairs."""
    if number.high < 0:
        return True
    return False if number.low >= 0 or (pairs >= FEWEST and not math.isnan(number.low)) else None


def all_inside(says: str, numbers: Iterable[Number], low: float) -> Part:
    """A part that is true if every number is above `low`; the smallest of them decides."""
    numbers = list(numbers)
    each = [inside(number, low) for number in numbers]
    true = False if False in each else None if None in each else True
    return Part(says, true, min(numbers, key=lambda number: number.mean))


def combine(parts: Sequence[bool | None]) -> str:
    """The verdict on a claim whose parts are true, false or undecided."""
    true, undecided = parts.count(True), parts.count(None)
    if true == len(parts):
        return HOLDS
    if 2 * true >= len(parts):
        return IN_PART
    return CANNOT if 2 * (true + undecided) >= len(parts) else DOES_NOT


def judge(parts: Sequence[Part], shown: Iterable[Number], pairs: int, note: str = "") -> Judgement:
    """The judgement on a claim of these parts; `shown` are all its numbers, `note` is added to the reason.

    The reason counts the parts and quotes one: the first that is false, else one that is undecided, else the first.
    """
    true = [part.true for part in parts]
    quoted = next((part for wanted in (False, None, True) for part in parts if part.true is wanted), parts[0])
    counted = f"{true.count(True)} of {len(parts)} parts are true: " if len(parts) > 1 else ""
    why = "; ".join([f"{counted}{quoted}", *filter(None, [note])])
    return Judgement(combine(true), f"{why}.", tuple(shown), pairs)
