"""Rules that claims of several papers use."""

from collections.abc import Sequence

import numpy as np

from crossprop._support.formats import span
from crossprop.library.verdicts import Bounds, Finding, Number
from crossprop.statistics import paired_difference


def mean_of(label: str, values: np.ndarray, level: float, unit: str = "") -> Number:
    """A mean over seeds with its interval."""
    return Number.of(label, paired_difference(values, 0.0, level), unit)


def near(label: str, values: np.ndarray, published: float, within: float, level: float) -> Finding:
    """The mean over seeds lies within some distance of a published value."""
    number = mean_of(label, values, level)
    return Finding(number, Bounds(published - within, published + within), f"{said(number)}, published {published:g}")


def below(label: str, values: np.ndarray, bound: float, level: float) -> Finding:
    """The mean over seeds is below a bound."""
    number = mean_of(label, values, level)
    return Finding(number, Bounds(high=bound), f"{said(number)}, where below {bound:g} is claimed")


def edge_note(what: str, best: object, tried: Sequence[object]) -> str:
    """What to say of a best setting that is the first or the last of those tried, in their order; else nothing."""
    return f"{what} is at the edge of those tried" if best in (tried[0], tried[-1]) else ""


def said(number: Number) -> str:
    """A number as a sentence: its label is what it is."""
    return f"{number.label} is {''.join(span(number.interval))}"
