"""What the plots of a sweep share: the panels that its learners stand in, and the scales of their axes."""

from collections.abc import Mapping, Sequence

import numpy as np

from crossprop.experiments.results import Profile, SweepResults

LINES = "eta"
MOST_TICKS = 6


def groups(sweep: SweepResults) -> dict[str, list[str]]:
    """The learners that share a panel: all of them, or with many learners those that have the same optimizer."""
    optimizers: dict[str, list[str]] = {}
    for name, swept in sweep.learners.items():
        optimizers.setdefault(swept.info.optimizer, []).append(name)
    return optimizers if len(sweep.learners) > 8 and len(optimizers) > 1 else {"": list(sweep.learners)}


def is_log(values: Sequence[float]) -> bool:
    """Whether numbers are better shown on a logarithmic axis."""
    return min(values) > 0 and max(values) / min(values) > 3


def color_limits(profiles: Sequence[Profile]) -> tuple[float, float]:
    """The range of the colours of heat maps: from the best score to the 90th percentile."""
    finite = np.concatenate([np.ones(0), *(profile.mean[np.isfinite(profile.mean)] for profile in profiles)])
    return (float(finite.min()), float(np.quantile(finite, 0.9))) if len(finite) else (0.0, 1.0)


def thinned(ticks: Mapping[float, str]) -> dict[float, str]:
    """The ticks of an axis. If there are many, those between whole powers of 2 have no label."""
    many = len(ticks) > MOST_TICKS
    return {place: "" if many and "·" in label else label for place, label in sorted(ticks.items())}
