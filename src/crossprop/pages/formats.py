"""Numbers as text for pages."""

import math


def interval(mean: float, low: float, high: float) -> str:
    """A mean and its interval, with as many decimals as the width of the interval supports."""
    known = math.isfinite(low) and math.isfinite(high)
    width = high - low if known and high > low else abs(mean) / 10
    if not math.isfinite(mean):
        return "not a number"
    decimals = max(0, 1 - math.floor(math.log10(width))) if width else 0

    def text(value: float) -> str:
        return f"{value:.3g}" if decimals > 6 else f"{value:,.{decimals}f}"

    return minus_signs(f"{text(mean)} [{text(low)}, {text(high)}]" if known else text(mean))


def minus_signs(text: str) -> str:
    """Numbers with typographic minus signs instead of hyphens."""
    return text.replace("-", "\N{MINUS SIGN}")


def duration(seconds: float) -> str:
    """A time such as `1.5 s`, `3 min 12 s` or `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def upper_first(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
