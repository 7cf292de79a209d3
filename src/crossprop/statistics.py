"""Honest statistics over seeds: intervals by the bootstrap."""

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
