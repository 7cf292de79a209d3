"""The price of tuning: what the best setting of a learner gains over its median setting, and over its default."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop._support.formats import fixed, plural
from crossprop.descriptions import nested
from crossprop.experiments import SweepSpec
from crossprop.experiments.evaluate import scores
from crossprop.experiments.experiment import Experiment
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.results import SweepResults, read_results

if TYPE_CHECKING:
    import xarray

UNTUNED = "untuned"
"""The folder, within that of an arena, of the division in which nothing is tuned."""
OVERALL = "overall"


class Price(NamedTuple):
    """The error of the best setting against that of two others: less than 0 is less error."""

    median: float
    """Against the median setting of the list's grid, on the seeds of the tuning, in percent: -100 if that diverged, and
    NaN if the best did."""
    default: Finding | None
    """Against the default, on fresh seeds; None if that was not run."""


Pair = tuple["xarray.DataArray", "xarray.DataArray"]
"""One value per fresh seed of the best setting, and of the default."""
Prices = Mapping[str, Mapping[str, Price]]
"""By stream, or `OVERALL` for the mean over all of them, and by learner."""


def prices_of(arena: Experiment, sweeps: Mapping[str, SweepResults], untuned: Path) -> Prices:
    """What tuning gains in an arena; `untuned` has the sweeps with default settings, if they were run."""
    medians = {name: _against_median(arena.stages[name].spec, sweep) for name, sweep in sweeps.items()}
    pairs = {name: _pairs(sweep, untuned / name) for name, sweep in sweeps.items()}
    everywhere = set.intersection(*(set(each) for each in pairs.values()))
    learners = next(iter(sweeps.values())).learners
    medians[OVERALL] = {name: float(np.mean([each[name] for each in medians.values()])) for name in learners}
    pairs[OVERALL] = {
        name: _together([each[name] for each in pairs.values()]) for name in learners if name in everywhere
    }
    defaults = {name: _against_default(each) for name, each in pairs.items()}
    return {
        name: {learner: Price(median, defaults[name].get(learner)) for learner, median in own.items()}
        for name, own in medians.items()
    }


def _against_median(spec: SweepSpec, sweep: SweepResults) -> dict[str, float]:
    """The best setting against the median of those that the list names, of an even number the better one in the middle,
    in percent, by learner."""
    found = {}
    for grid in spec.grids:
        values, choice = scores(grid, sweep.blocks), sweep.learners[grid.name].choice
        means = np.sort(values.values.reshape(-1, values.sizes["seed"]).mean(axis=1))
        median = float(means[(len(means) - 1) // 2])
        known = median > 0 and not choice.diverged
        found[grid.name] = 100 * (choice.mean / median - 1) if known else math.nan
    return found


def _pairs(sweep: SweepResults, store: Path) -> dict[str, Pair]:
    """The learners that were run with their defaults on the same stream, in the same network."""
    if not (store / "store.json").is_file():
        return {}
    untuned = read_results(store)
    best, default = sweep.evaluation.values(), untuned.evaluation.values()
    both = [name for name in best if name in default and _where(sweep, name) == _where(untuned, name)]
    return {name: (best[name], default[name]) for name in both}


def _where(sweep: SweepResults, name: str) -> tuple[object, ...]:
    """What two runs must share to be compared."""
    grid = sweep.learners[name].grid
    return grid.stream, [*nested(grid.learner)][-1]["network"], grid.common["steps"], grid.record_every


def _together(pairs: Sequence[Pair]) -> Pair:
    """The mean over streams, with the mean error of the default there as the unit."""
    units = [float(default.mean()) for _, default in pairs]
    best, default = (sum(pair[at] / unit for pair, unit in zip(pairs, units, strict=True)) for at in (0, 1))
    return best, default  # pyright: ignore[reportReturnType]


def _against_default(pairs: Mapping[str, Pair]) -> dict[str, Finding]:
    values = {name: best for name, (best, _) in pairs.items()}
    values |= {f"{name} by default": default for name, (_, default) in pairs.items()}
    return {each.learner: each for each in compare(values, {name: f"{name} by default" for name in pairs})}


def gains(overall: Mapping[str, Price]) -> list[str]:
    """What tuning gains on average over learners and streams, in sentences."""
    medians = {name: price.median for name, price in overall.items()}
    defaults = {name: price.default.percent.mean for name, price in overall.items() if price.default}
    return [
        *_gain("the median setting of its grid, on the seeds of the tuning", medians),
        *_gain("the default, on fresh seeds", defaults),
    ]


def _gain(over: str, percents: Mapping[str, float]) -> list[str]:
    known = {name: -percent for name, percent in percents.items() if math.isfinite(percent)}
    if not known:
        return []
    least, most = min(known, key=lambda name: known[name]), max(known, key=lambda name: known[name])
    return [
        f"Of {plural(len(known), 'learner')}, the best setting has {fixed(float(np.mean([*known.values()])), 0)}% less "
        f"error than {over}: from {fixed(known[least], 0)}% ({least}) to {fixed(known[most], 0)}% ({most})."
    ]
