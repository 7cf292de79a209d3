"""What a comparison says, in words: "crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds"."""

import math
from typing import NamedTuple

from crossprop.formats import decimals, fixed
from crossprop.paper.verdicts import EQUAL, Number

FAR = 10_000
"""Intervals of two or three runs can be absurdly wide: beyond this, only the order of magnitude is shown."""


class Span(NamedTuple):
    """A mean, and its interval in brackets behind a space, both with as many decimals as its width supports."""

    mean: str
    between: str


def span(mean: float, low: float, high: float, digits: int) -> Span:
    """A number as text, with so many digits of the width of its interval."""
    known = math.isfinite(low) and math.isfinite(high)
    places = decimals(high - low if known and high > low else abs(mean) / 10, digits)
    return Span(_text(mean, places), f" [{_text(low, places)}, {_text(high, places)}]" * known)


def _text(value: float, places: int) -> str:
    return (
        fixed(value, places)
        if abs(value) < FAR
        else f"{'<' if value < 0 else '>'} {fixed(math.copysign(FAR, value), 0)}"
    )


def ratio(noun: str, a: str, b: str, number: Number, count: str) -> str:
    """A ratio of `a` to `b`: in percent above or below, or as so many times if it is 2 or more."""
    mean, low, high = number.mean, number.low, number.high
    above = span(100 * (mean - 1), 100 * (low - 1), 100 * (high - 1), digits=1)
    if low > 1 / (1 + EQUAL) and high < 1 + EQUAL:
        above = span(100 * (mean - 1), 100 * (low - 1), 100 * (high - 1), digits=2)
        return f"{a}'s {noun} is within 1% of {b}'s: {above.mean}%{above.between}{count}"
    if mean >= 2:
        times = span(mean, low, high, digits=2)
        return f"{a}'s {noun} is {times.mean} times {b}'s{times.between}{count}"
    if mean >= 1:
        return f"{a}'s {noun} is {above.mean}% above {b}'s{above.between}{count}"
    below = span(100 * (1 - mean), 100 * (1 - high), 100 * (1 - low), digits=1)
    return f"{a}'s {noun} is {below.mean}% below {b}'s{below.between}{count}"


def points(text: str, words: tuple[str, str], number: Number, count: str) -> str:
    """A difference in percentage points, put in place of `{}` in the text with the word for more or for less."""
    mean, low, high = number.mean, number.low, number.high
    word, lower = (words[0], (mean, low, high)) if mean >= 0 else (words[1], (-mean, -high, -low))
    shown = span(*lower, digits=2)
    return text.format(f"{shown.mean} points {word}") + shown.between + count


def share(text: str, number: Number, count: str = "") -> str:
    """A share in percent, put in place of `{}` in the text."""
    shown = span(100 * number.mean, 100 * number.low, 100 * number.high, digits=1)
    return text.format(f"{shown.mean}%") + shown.between + count
