"""From comparisons to a verdict: numbers with intervals, the parts of a claim, and what they amount to together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossprop.statistics import Paired

HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
CANNOT = "cannot be decided here"
FEWEST = 5


@dataclass(frozen=True)
class Number:
    """A statistic with its interval; NaN where it is unknown."""

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
    """One part of a claim: what it says, whether that is so (None: undecided), and the number that decides."""

    says: str
    so: bool | None
    number: Number

    def __str__(self) -> str:
        word = {True: "yes", False: "no", None: "undecided"}[self.so]
        return f"{self.says}: {word} ({self.number})"


@dataclass(frozen=True)
class Judgement:
    """What a rule found: `pairs` is how many paired values its numbers are means of."""

    verdict: str
    why: str
    numbers: tuple[Number, ...]
    pairs: int


def number(label: str, paired: Paired, unit: str = "", scale: float = 1.0) -> Number:
    return Number(label, scale * paired.mean, scale * paired.low, scale * paired.high, unit)


def together(comparisons: int) -> float:
    """The level of each interval at which that many hold together at 95% (Bonferroni)."""
    return 1 - 0.05 / comparisons


def inside(number: Number, low: float, high: float = math.inf) -> bool | None:
    if low < number.low and number.high < high:
        return True
    return False if number.high <= low or number.low >= high else None


def significantly_below(number: Number, pairs: int) -> bool | None:
    if number.high < 0:
        return True
    return False if number.low >= 0 or (pairs >= FEWEST and not math.isnan(number.low)) else None


def all_inside(says: str, numbers: Iterable[Number], low: float) -> Part:
    """A part that is so when every number is above `low`; the smallest of them decides."""
    numbers = list(numbers)
    each = [inside(number, low) for number in numbers]
    so = False if False in each else None if None in each else True
    return Part(says, so, min(numbers, key=lambda number: number.mean))


def settle(parts: Sequence[bool | None]) -> str:
    so, undecided = parts.count(True), parts.count(None)
    if so == len(parts):
        return HOLDS
    if 2 * so >= len(parts):
        return IN_PART
    return CANNOT if 2 * (so + undecided) >= len(parts) else DOES_NOT


def judge(parts: Sequence[Part], shown: Iterable[Number], pairs: int, aside: str = "") -> Judgement:
    """The verdict on a claim of these parts; `shown` are all its numbers, `aside` what its reason says besides.

    The reason counts the parts and quotes one: the first that is not so, else one that is undecided, else the first.
    """
    so = [part.so for part in parts]
    quoted = next((part for wanted in (False, None, True) for part in parts if part.so is wanted), parts[0])
    counted = f"{so.count(True)} of {len(parts)} parts so: " if len(parts) > 1 else ""
    why = "; ".join([f"{counted}{quoted}", *filter(None, [aside])])
    return Judgement(settle(so), f"{why}.", tuple(shown), pairs)
