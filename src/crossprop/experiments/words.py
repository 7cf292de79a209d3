"""Findings in words, such as "crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds"."""

import math
from typing import TYPE_CHECKING

from crossprop._support.formats import Interval, minus_signs, span

if TYPE_CHECKING:
    from crossprop.experiments.findings import Finding


def ratio(noun: str, a: str, b: str, times: Interval, count: str = "", equal: float = 0.0) -> str:
    """A ratio of `a` to `b`: in percent above or below, or in times if it is 2 or more.

    If its interval excludes differences of `equal` or more, it says that they are within that of each other; if the
    mean is 0 to the last digit shown, that they are about the same. In an interval that includes 0, what is below has
    a minus sign.
    """
    mean, low, high = times
    above, between = span((100 * (mean - 1), 100 * (low - 1), 100 * (high - 1)))
    if low > 1 / (1 + equal) and high < 1 + equal:
        return f"{a}'s {noun} is within {equal:.0%} of {b}'s: {above}%{between}{count}"
    if mean >= 2:
        times_mean, between = span(times)
        return f"{a}'s {noun} is {times_mean} times {b}'s{between}{count}"
    if not above.strip("−0."):
        return f"{a}'s {noun} is about {b}'s: 0%{between}{count}"
    if mean >= 1:
        return f"{a}'s {noun} is {above}% above {b}'s{between}{count}"
    below, turned = span((100 * (1 - mean), 100 * (1 - high), 100 * (1 - low)))
    return f"{a}'s {noun} is {below}% below {b}'s{between if high > 1 else turned}{count}"


def comparison(finding: "Finding", noun: str, with_p: bool = True) -> str:
    """A finding of `compare` in words, without a full stop."""
    learner, reference = finding.learner, finding.reference
    if not finding.pairs:
        return f"{learner} and {reference} have no seed in common, so they cannot be compared"
    if not math.isfinite(finding.mean):
        diverged = reference if math.isfinite(finding.learner_mean) else learner
        return f"{diverged} diverged, so its mean cannot be compared"
    if finding.tied == finding.pairs:
        return f"{learner}'s {noun} equals {reference}'s in every seed"
    mean, low, high = (1 + part / 100 for part in finding.percent)
    count = f", in {finding.agreeing} of {finding.pairs} seeds"
    corrected = f" after Holm over {finding.together}" if finding.together > 1 else ""
    return ratio(noun, learner, reference, (mean, low, high), count) + f", {p_text(finding.p)}{corrected}" * with_p


def stated(text: str, interval: Interval, unit: str = "{}", count: str = "", times: float = 1) -> str:
    """The text with so many `times` the mean in the place of its `{}`, and then the interval. A unit such as
    `{} points more|less` says it of a mean below 0 by the second word, without the minus sign."""
    mean, low, high = (times * each for each in interval)
    unit, _, opposite = unit.partition("|")
    if opposite and mean < 0:
        unit, mean, low, high = unit.rpartition(" ")[0] + f" {opposite}", -mean, -high, -low
    shown, between = span((mean, low, high))
    return text.format(unit.format(shown)) + between + count


def signed_percent(finding: "Finding", *, short: bool = False) -> str:
    """A difference in percent with its sign and its interval; in short, with a star if it is significant."""
    mean, low, high = finding.percent
    if not math.isfinite(mean):
        return "diverged"
    star = "*" * (finding.inside is not None)
    return minus_signs(f"{mean:+.0f}%{star}" if short else f"{mean:+.1f}% [{low:+.1f}, {high:+.1f}]")


def p_text(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
