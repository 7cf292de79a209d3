"""Honest statistics over seeds: curves with bootstrap bands, and paired comparisons with intervals."""

from typing import NamedTuple

import numpy as np

from crossprop import _checks as check


class Estimate(NamedTuple):
    """A mean with its interval; of one value the interval is unknown, NaN."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def mean_interval(values: np.ndarray, axis: int = 0, level: float = 0.95, resamples: int = 2000) -> Estimate:
    """The mean over `axis` and its percentile bootstrap interval, the same every time.

    All other axes are resampled together, so that a curve's interval holds over the same draws of runs.

    ```python
    mean, low, high = mean_interval(np.array([1.0, 2.0, 4.0]))
    ```
    """
    check.number("level", level, above=0, high=1)
    check.integer("resamples", resamples, low=1)
    values = np.moveaxis(np.asarray(values, np.float64), axis, 0)
    mean = values.mean(axis=0)
    count = len(values)
    if count < 2:
        return Estimate(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    shares = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=resamples) / count
    means = np.tensordot(shares, values, axes=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Estimate(mean, low, high)


class Paired(NamedTuple):
    """How two learners compare over the same `pairs` of runs: a mean with its interval, and how many `a` wins."""

    mean: float
    low: float
    high: float
    won: int  # pairs in which a is lower
    pairs: int


def paired_difference(a: np.ndarray, b: np.ndarray | float, level: float = 0.95) -> Paired:
    """The mean of `a - b`, pair by pair, with Student's t interval; of one pair the interval is unknown, NaN.

    With few pairs the percentile bootstrap is too narrow (over five, a 95% interval holds the truth about five times in
    six), and it cannot be widened for many comparisons; Student's t can.

    ```python
    paired_difference(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 5.0])).won  # 3
    ```
    """
    from scipy.special import stdtrit

    check.number("level", level, above=0, high=1)
    a = np.asarray(a, np.float64)
    check.shape("a", a, (a.size,))
    b = np.full_like(a, b) if np.ndim(b) == 0 else np.asarray(b, np.float64)
    check.shape("b", b, a.shape)
    if not a.size:
        raise ValueError("a must hold at least one value, got none")
    mean, won, pairs = float((a - b).mean()), int((a < b).sum()), a.size
    if pairs < 2:
        return Paired(mean, np.nan, np.nan, won, pairs)
    half = float(stdtrit(pairs - 1, (1 + level) / 2) * (a - b).std(ddof=1) / np.sqrt(pairs))
    return Paired(mean, mean - half, mean + half, won, pairs)


def paired_p(a: np.ndarray, b: np.ndarray) -> float:
    """How likely a mean difference as far from 0 as that of the pairs would be by chance: Student's t, two-sided.

    It is below 0.05 just where the 95% interval of `paired_difference` leaves 0 out; of one pair it is 1.
    """
    from scipy.special import stdtr

    mean, *_, pairs = paired_difference(a, b)
    if pairs < 2 or mean == 0:
        return 1.0
    spread = np.std(np.asarray(a, np.float64) - b, ddof=1)
    return float(2 * stdtr(pairs - 1, -abs(mean) / spread * np.sqrt(pairs))) if spread else 0.0


class Wins(NamedTuple):
    """Of `pairs` of runs, how many `a` won, being lower, and how many were `tied`."""

    won: int
    tied: int
    pairs: int
    p: float  # of the sign test, two-sided, ties left out


def wins(a: np.ndarray, b: np.ndarray) -> Wins:
    """How many pairs `a` wins, and how likely a count as uneven would be if either were as likely to win.

    ```python
    wins(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 4.0]))  # 2 won, 1 tied, of 3
    ```
    """
    from scipy.special import bdtr

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    check.shape("b", b, a.shape)
    won, lost = int((a < b).sum()), int((a > b).sum())
    p = min(1.0, 2 * float(bdtr(min(won, lost), won + lost, 0.5))) if won + lost else 1.0
    return Wins(won, a.size - won - lost, a.size, p)


def holm(p: np.ndarray) -> np.ndarray:
    """The p-values corrected for being many (Holm, 1979): that any true null among them falls below a level has at
    most that level's probability, however they depend on each other.

    ```python
    holm(np.array([0.01, 0.04, 0.03]))  # [0.03, 0.06, 0.06]
    ```
    """
    p = np.asarray(p, np.float64)
    check.shape("p", p, (p.size,))
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p must be between 0 and 1, got {p[~((p >= 0) & (p <= 1))][0]}")
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return corrected


def paired_ratio(a: np.ndarray, b: np.ndarray, level: float = 0.95) -> Paired:
    """The geometric mean of `a / b`, pair by pair, with its interval: `paired_difference` of the logarithms."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    for name, values in (("a", a), ("b", b)):
        if not (values > 0).all():
            raise ValueError(f"{name} must be above 0 for a ratio, got {values.min()}")
    logs = paired_difference(np.log(a), np.log(b), level)
    return logs._replace(mean=float(np.exp(logs.mean)), low=float(np.exp(logs.low)), high=float(np.exp(logs.high)))
