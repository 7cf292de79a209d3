"""Findings, and the law of evidence that decides them.

A finding is a statistic over paired values with its interval: a mean, a difference, or a ratio. It is inside its
bounds, outside them, or undecided. The law has two parameters: the correction for several comparisons, and the least
difference that counts. Claims of papers go by intervals that hold jointly for all comparisons of a claim (Bonferroni),
and a difference of less than `EQUAL` counts as none. Tuned comparisons go by p-values with Holm's correction for all
comparisons that were made together, and any difference counts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crossprop._support import checks as check
from crossprop._support.formats import Interval, minus_signs, span
from crossprop.experiments.blocks import weighted_mean
from crossprop.experiments.labelled import NOT_RUN
from crossprop.records import measure, phase_weights, window_lengths
from crossprop.statistics import Estimate, finite_mean_interval, holm, paired_difference, paired_p

if TYPE_CHECKING:
    import xarray

    from crossprop.experiments.findings import Finding

EQUAL = 0.01
"""A difference of less than 1% counts as none, where a claim says "more" or "less"."""
LEVEL = 0.05
"""A difference counts if its corrected p-value is below this."""
Verdict = Literal["yes", "no", "no difference shown"]
LABELS: Mapping[bool | None, Verdict] = {True: "yes", False: "no", None: "no difference shown"}
"""Names of the three outcomes: inside, outside, undecided."""


@dataclass(frozen=True)
class Bounds:
    """The bounds that a statistic is said to lie in; `equal` is the range that counts as no difference."""

    low: float = -math.inf
    high: float = math.inf
    equal: tuple[float, float] | None = None

    def hold(self, low: float, high: float) -> bool | None:
        """Whether an interval lies inside; None if it includes values inside and outside, or is unknown."""
        if self.equal and self.equal[0] < low and high < self.equal[1]:
            return False
        if self.low < low and high < self.high:
            return True
        return False if high <= self.low or low >= self.high else None

    def room(self, mean: float) -> float:
        """The distance of a mean from the nearest bound; negative outside."""
        return min(mean - self.low, self.high - mean)


LOWER, HIGHER = Bounds(high=0), Bounds(low=0)
"""A difference that is below 0, or above."""
HIGHER_BY_EQUAL = Bounds(low=0, equal=(-EQUAL, EQUAL))
"""A difference of two shares that says "more"."""
MORE_TIMES = Bounds(low=1, equal=(1 / (1 + EQUAL), 1 + EQUAL))
"""A ratio that says "more"."""
LESS_TIMES = Bounds(high=1, equal=MORE_TIMES.equal)
"""A ratio that says "less"."""


@dataclass(frozen=True)
class Finding:
    """A statistic over paired values with its interval: of a learner alone, or compared with a reference.

    Those of `compare` are differences of two means; they
    have p-values, and intervals of 95% of each comparison alone.
    """

    quantity: str
    learner: str
    reference: str
    mean: float
    low: float
    high: float
    pairs: int
    won: int = 0
    """In how many pairs the learner is below the reference."""
    tied: int = 0
    """In how many pairs the two are equal."""
    p: float = math.nan
    """The p-value, with Holm's correction for all comparisons made `together`; NaN where the interval decides."""
    together: int = 1
    learner_mean: float = math.nan
    """The mean of the learner alone; infinite if a run diverged."""
    unit: str = ""
    sign: str = ""
    """The sign between learner and reference in the label: `/` in a ratio, `-` in a difference."""
    bounds: Bounds = LOWER
    part: str = ""
    """The part of a claim that it decides; empty if it is only shown."""
    said: str = ""
    """The finding as a sentence without its full stop, where `sentence` does not make it."""
    note: str = ""
    """Further remarks."""

    @property
    def id(self) -> tuple[str, str, str]:
        """The id of the finding."""
        return self.quantity, self.learner, self.reference

    @property
    def label(self) -> str:
        """The label of the finding."""
        learners = f"{self.learner} {self.sign} {self.reference}" if self.reference else self.learner
        return f"{self.quantity}, {learners}" if self.learner else self.quantity

    @property
    def interval(self) -> tuple[float, float, float]:
        """The mean and the ends of its interval."""
        return self.mean, self.low, self.high

    @property
    def inside(self) -> bool | None:
        """Whether it lies inside its bounds; None if it is undecided."""
        if math.isnan(self.p):
            return self.bounds.hold(self.low, self.high)
        return self.bounds.low < self.mean < self.bounds.high if self.p < LEVEL else None

    @property
    def verdict(self) -> Verdict:
        """`inside` as an answer."""
        return LABELS[self.inside]

    @property
    def difference(self) -> Estimate:
        """The mean difference and its interval."""
        return Estimate(*self.interval)

    @property
    def percent(self) -> Estimate:
        """A difference in percent of the reference's mean."""
        whole = np.float64(self.learner_mean - self.mean) / 100
        return Estimate(*(float(each / whole) for each in self.interval))

    def sentence(self, noun: str = "mean", *, with_p: bool = True) -> str:
        """The comparison of `noun` in words, without a full stop."""
        return self.said or comparison(self, noun, with_p)

    def __repr__(self) -> str:
        return self.sentence()


def phase_mean(records: "xarray.Dataset", phase: str) -> "xarray.DataArray":
    """The mean loss, or share misclassified, of every run over a phase; infinite where it diverged."""
    weights = phase_weights(window_lengths(records), records.task.values, phase)
    values = records[measure(records)].transpose("seed", "step")
    mean = weighted_mean(values.values, weights, records.diverged_at.values)
    return records.diverged_at.copy(data=mean)


def compare(values: "Mapping[str, xarray.DataArray] | xarray.Dataset", against: Mapping[str, str]) -> list[Finding]:
    """Every learner of `against` compared with the one named beside it, seed by seed, over the seeds that both have.

    ```python
    for each in compare(records, {"crossprop": "backprop"}):
        print(each.sentence("error"))  # crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds, ...
    ```

    **Arguments:**

    - `values`: the records of a run, or those of each learner in a dict as `Evaluation.records`, whose loss or share
      misclassified is then averaged over all steps; or one number per seed for every learner, as `Evaluation.values`.
    - `against`: the name of the reference, by learner.

    Percentages are ratios of arithmetic means less 1: the mean paired difference in percent of the reference's mean
    over the same seeds. 95% intervals are of each comparison alone; p-values have Holm's correction for all of the
    call. Where a seed diverged, the difference is not known: its p-value is 1.
    """
    from xarray import Dataset

    if isinstance(values, Dataset):
        dims = ("learner", "seed", "step")
        if not {*dims} <= {*values.dims}:
            found = ", ".join(map(str, values.dims))
            raise ValueError(f"values must be records with the dims {', '.join(dims)}, got {found}")
        values = {str(name): _run_mean(values.sel(learner=name)) for name in values.learner.values}
    for name, given, what in (("values", values, "the records of a run, or "), ("against", against, "")):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be {what}a dict by learner, got {check.shown(given)}")
    found = []
    for learner, reference in against.items():
        check.choice("a learner in against", learner, values)
        check.choice("a reference in against", reference, values)
        both = [_by_seed(name, values[name]) for name in (learner, reference)]
        common = sorted(set.intersection(*({*each.seed.values.tolist()} for each in both)))
        a, b = (each.sel(seed=common).values for each in both)
        difference, p = Estimate(np.nan, np.nan, np.nan), 1.0
        if len(a) and np.isfinite(a).all() and np.isfinite(b).all():
            difference, p = paired_difference(a, b), paired_p(a, b)
        won, tied, mean = int((a < b).sum()), int((a == b).sum()), float(finite_mean_interval(a).mean)
        found.append(Finding("", learner, reference, *difference, len(a), won, tied, p, learner_mean=mean))
    corrected = holm(np.array([each.p for each in found]))
    return [replace(each, p=float(p), together=len(found)) for each, p in zip(found, corrected, strict=True)]


def _run_mean(records: "xarray.Dataset") -> "xarray.DataArray":
    """One value for every seed that was run: tables that were joined, or are not finished, have gaps."""
    return phase_mean(records.isel(seed=np.flatnonzero(records.diverged_at.values > NOT_RUN)), "all")


def _by_seed(name: str, values: Any) -> "xarray.DataArray":
    """One learner's values, which must have the dim `seed` alone, or be records of a single setting."""
    from xarray import DataArray, Dataset

    if isinstance(values, Dataset) and {*values.dims} == {"seed", "step"}:
        return _run_mean(values)
    if not isinstance(values, DataArray | Dataset):
        raise TypeError(f"values[{name!r}] must be an xarray.DataArray with the dim seed, got {check.shown(values)}")
    if isinstance(values, Dataset) or values.dims != ("seed",):
        found = ", ".join(map(str, values.dims))
        raise ValueError(
            f"values[{name!r}] must have one number per seed, got the dims {found}: choose one setting, as by "
            '.sel(step_size=0.01), or let a sweep do so: sweep(..., store="folder", evaluate=30)'
        )
    return values


# Findings in words, such as "crossprop's error is 27% above backprop's [25, 29], in 30 of 30 seeds".


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


def comparison(finding: Finding, noun: str, with_p: bool = True) -> str:
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
    agreeing = finding.won if finding.mean < 0 else finding.pairs - finding.won - finding.tied
    count = f", in {agreeing} of {finding.pairs} seeds"
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


def signed_percent(finding: Finding, *, short: bool = False) -> str:
    """A difference in percent with its sign and its interval; in short, with a star if it is significant."""
    mean, low, high = finding.percent
    if not math.isfinite(mean):
        return "diverged"
    star = "*" * (finding.inside is not None)
    return minus_signs(f"{mean:+.0f}%{star}" if short else f"{mean:+.1f}% [{low:+.1f}, {high:+.1f}]")


def p_text(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
