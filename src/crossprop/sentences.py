"""What a comparison says, in words: "crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds"."""

import math
from typing import NamedTuple, Protocol, runtime_checkable

from crossprop.formats import decimals, fixed

FAR = 10_000
"""Intervals of two or three runs can be absurdly wide: beyond this, only that they are is shown."""


@runtime_checkable
class Estimated(Protocol):
    """A mean with its interval, which is NaN if unknown."""

    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class Span(NamedTuple):
    """A mean, and its interval in brackets behind a space, both with as many decimals as its width supports."""

    mean: str
    between: str


def span(mean: float, low: float, high: float) -> Span:
    """A number as text; the last digit is at most a third of the width of its interval."""
    known = math.isfinite(low) and math.isfinite(high)
    places = decimals((high - low) / 3 if known and high > low else abs(mean) / 10, digits=1)
    return Span(_text(mean, places), f" [{_text(low, places)}, {_text(high, places)}]" * known)


def _text(value: float, places: int) -> str:
    if abs(value) < FAR:
        return fixed(value, places)
    return f"{'<' if value < 0 else '>'} {fixed(math.copysign(FAR, value), 0)}"


def ratio(noun: str, a: str, b: str, times: Estimated, count: str = "", equal: float = 0.0) -> str:
    """A ratio of `a` to `b`: in percent above or below, or in times if it is 2 or more.

    If its interval excludes differences of `equal` or more, it says that they are within that of each other; if the
    mean is 0 to the last digit shown, that they are about the same.
    """
    mean, low, high = times.mean, times.low, times.high
    above = span(100 * (mean - 1), 100 * (low - 1), 100 * (high - 1))
    if low > 1 / (1 + equal) and high < 1 + equal:
        return f"{a}'s {noun} is within {equal:.0%} of {b}'s: {above.mean}%{above.between}{count}"
    if mean >= 2:
        shown = span(mean, low, high)
        return f"{a}'s {noun} is {shown.mean} times {b}'s{shown.between}{count}"
    if not above.mean.strip("−0."):
        return f"{a}'s {noun} is about {b}'s: 0%{above.between}{count}"
    if mean >= 1:
        return f"{a}'s {noun} is {above.mean}% above {b}'s{above.between}{count}"
    below = span(100 * (1 - mean), 100 * (1 - high), 100 * (1 - low))
    return f"{a}'s {noun} is {below.mean}% below {b}'s{below.between}{count}"


def p_text(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def points(text: str, words: tuple[str, str], number: Estimated, count: str = "") -> str:
    """A difference in percentage points, put in place of `{}` in the text with the word for more or for less."""
    mean, low, high = number.mean, number.low, number.high
    word, lower = (words[0], (mean, low, high)) if mean >= 0 else (words[1], (-mean, -high, -low))
    shown = span(*lower)
    return text.format(f"{shown.mean} points {word}") + shown.between + count


def share(text: str, number: Estimated, count: str = "") -> str:
    """A share in percent, put in place of `{}` in the text."""
    shown = span(100 * number.mean, 100 * number.low, 100 * number.high)
    return text.format(f"{shown.mean}%") + shown.between + count
