"""Numbers and names as text, for sentences, tables and pages."""

import math
import re
from collections.abc import Sequence


def interval(mean: float, low: float, high: float) -> str:
    """A mean and its interval, with as many decimals as the width of the interval supports."""
    if not math.isfinite(mean):
        return "not a number"
    known = math.isfinite(low) and math.isfinite(high)
    places = decimals(high - low if known and high > low else abs(mean) / 10)
    shown = fixed(mean, places)
    return f"{shown} [{fixed(low, places)}, {fixed(high, places)}]" if known else shown


FAR = 10_000
"""Intervals of two or three runs can be absurdly wide: beyond this, only that they are is shown."""
Interval = tuple[float, float, float]
"""A mean and the ends of its interval, which are NaN if unknown."""


def span(interval: Interval) -> tuple[str, str]:
    """A mean, and its interval in brackets behind a space, with as many decimals as a third of its width supports."""
    mean, low, high = interval
    known = math.isfinite(low) and math.isfinite(high)
    places = decimals((high - low) / 3 if known and high > low else abs(mean) / 10, digits=1)
    return _near(mean, places), f" [{_near(low, places)}, {_near(high, places)}]" * known


def _near(value: float, places: int) -> str:
    if abs(value) < FAR:
        return fixed(value, places)
    return f"{'<' if value < 0 else '>'} {fixed(math.copysign(FAR, value), 0)}"


def decimals(width: float, digits: int = 2) -> int:
    """How many decimals show `digits` digits of the width of an interval."""
    return max(0, digits - 1 - math.floor(math.log10(width))) if width > 0 else 0


def fixed(value: float, places: int) -> str:
    """A number with `places` decimals, a typographic minus sign, and commas between thousands."""
    text = f"{value:.3g}" if places > 6 else f"{value:,.{places}f}"
    return minus_signs(text.removeprefix("-") if not text.strip("-0.,") else text)


def minus_signs(text: str) -> str:
    """Numbers with typographic minus signs instead of hyphens."""
    return text.replace("-", "\N{MINUS SIGN}")


def unbroken(text: str) -> str:
    """The text with intervals and p-values, such as `[25, 29]` and `p < 0.001`, that no line break divides."""
    return re.sub(r" \[[^\]]*\]|\bp [<=] [\d.]+\d", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def plural(count: int, noun: str) -> str:
    """A number of things: `1 seed`, `30 seeds`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """A time such as `1.5 s`, `3 min 12 s` or `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def about(seconds: float) -> str:
    """A time that is not known well: `40 s`, `3 min` or `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def upper_first(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
