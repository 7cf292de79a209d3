"""Evaluation: a setting is chosen on the sweep's seeds and judged on fresh ones, which had no part in the choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from crossprop._support import checks as check
from crossprop._support.formats import p_text, ratio
from crossprop.experiments.blocks import Block, StoredBlock, weighted_mean
from crossprop.experiments.grid import Grid, value_labels
from crossprop.experiments.labelled import NOT_RUN, labelled_at
from crossprop.experiments.store import read_store
from crossprop.records import measure, phase_weights, window_lengths
from crossprop.specification import facts
from crossprop.statistics import Estimate, Paired, finite_mean_interval, holm, paired_difference, paired_p

if TYPE_CHECKING:
    import xarray

LEVEL = 0.05
"""A difference counts if its corrected p-value is below this."""


class Choice(NamedTuple):
    """The best setting of a learner: its mean over the sweep's seeds, how many of them diverged, and the axes on which
    it stands at the edge of the grid."""

    point: dict[str, Any]
    mean: float
    diverged: int
    edges: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """The best setting of every learner, and its records on fresh seeds, with dims `seed` and `step`."""

    chosen: dict[str, Choice]
    records: "dict[str, xarray.Dataset]"

    def values(self, phase: str = "all") -> "dict[str, xarray.DataArray]":
        """One value per seed for every learner: the mean loss, or share misclassified, over a phase of the run.

        Phases are `"all"`, `"end"` (the last fifth of each task) and `"switch"` (the first tenth after each switch).
        """
        return {name: phase_mean(records, phase) for name, records in self.records.items()}


class Comparison(NamedTuple):
    """A learner against another: its mean with a bootstrap interval, their paired difference with Student's t
    interval and the seeds won, a p-value, in how many seeds the two are equal, and how many comparisons were made
    together. The p-value has Holm's correction for all of these; intervals are 95% of each comparison alone."""

    learner: str
    reference: str
    estimate: Estimate
    difference: Paired
    p: float
    tied: int = 0
    together: int = 1

    @property
    def p_text(self) -> str:
        """The p-value in words, with the number of comparisons that it is corrected for."""
        corrected = f" after Holm over {self.together}" if self.together > 1 else ""
        return f"{p_text(self.p)}{corrected}"

    @property
    def agreeing(self) -> int:
        """The number of seeds in which the difference has the sign of the mean difference."""
        _, _, _, won, pairs = self.difference
        return won if self.difference.mean < 0 else pairs - won - self.tied

    @property
    def percent(self) -> Paired:
        """The ratio of the means less 1, in percent; its interval is that of the difference, in percent of the
        reference's mean."""
        mean, low, high, *rest = self.difference
        whole = (self.estimate.mean - mean) / 100
        return Paired(float(mean / whole), float(low / whole), float(high / whole), *rest)

    @property
    def verdict(self) -> Literal["yes", "no", "open"]:
        """Whether the learner's error is lower: `open` unless the corrected p-value is below `LEVEL`."""
        if not self.p < LEVEL:
            return "open"
        return "yes" if self.difference.mean < 0 else "no"

    def sentence(self, noun: str = "mean", *, with_p: bool = True) -> str:
        """The comparison of `noun` in words, without a full stop."""
        relative = self.percent
        if not relative.pairs:
            return f"{self.learner} and {self.reference} have no seed in common, so they cannot be compared"
        if not np.isfinite(relative.mean):
            diverged = self.reference if np.isfinite(self.estimate.mean) else self.learner
            return f"{diverged} diverged on a seed, so its mean cannot be compared"
        if self.tied == relative.pairs:
            return f"{self.learner}'s {noun} equals {self.reference}'s in every seed"
        mean, low, high = (1 + part / 100 for part in relative[:3])
        count = f", in {self.agreeing} of {relative.pairs} seeds"
        return ratio(noun, self.learner, self.reference, (mean, low, high), count) + f", {self.p_text}" * with_p


def open_evaluation(store: str | Path) -> Evaluation:
    """What `sweep` with `evaluate` has put into a store. Learners whose best setting has no fresh seeds are not there.

    ```python
    evaluation = open_evaluation("geoff-sweep")
    compare(evaluation.values(), {"crossprop": "backprop"})
    ```
    """
    header, blocks = read_store(Path(store))
    evaluation = evaluated(header.grids, header.record_every, blocks)
    if not evaluation.records:
        raise ValueError(f"{str(store)!r} must hold an evaluation: run the same sweep with --evaluate 60")
    return evaluation


def evaluated(grids: Sequence[Grid], record_every: int, stored: Sequence[StoredBlock]) -> Evaluation:
    chosen, records = {}, {}
    for grid in grids:
        if (choice := choose(grid, stored)) is None:
            continue
        fresh = labelled_at(choice.point, replace(grid, seeds=grid.evaluation), record_every, stored)
        fresh = fresh.isel(seed=np.flatnonzero(fresh.diverged_at.values != NOT_RUN))
        if fresh.sizes["seed"]:
            chosen[grid.name], records[grid.name] = choice, fresh
    return Evaluation(chosen, records)


def evaluation_blocks(grids: Sequence[Grid], blocks: Sequence[Block], stored: Sequence[StoredBlock]) -> list[Block]:
    """The blocks of the best settings, with the seeds that are set aside."""
    seeds = {}
    for grid in grids:
        choice = choose(grid, stored)
        assert choice is not None
        seeds[next(name for name, point in grid.points.items() if point == choice.point)] = grid.evaluation
    return [block._replace(seeds=seeds[block.identity]) for block in blocks if block.identity in seeds]


def choose(grid: Grid, stored: Sequence[StoredBlock]) -> Choice | None:
    """The setting with the least mean over steps and seeds; one with a diverged seed comes after all without.

    None where no setting has been run.
    """
    found = scores(grid, stored)
    values = found.values.reshape(-1, found.sizes["seed"])
    ran = ~np.isnan(values).all(axis=1)
    if not ran.any():
        return None
    diverged = np.isinf(values).sum(axis=1)
    finite = np.where(np.isfinite(values), values, np.nan)
    means = np.array([np.nanmean(row) if np.isfinite(row).any() else np.inf for row in finite])
    best = min(np.flatnonzero(ran), key=lambda at: (diverged[at], means[at]))
    point = list(grid.points.values())[best]
    return Choice(point, float(means[best]), int(diverged[best]), edges(grid, point))


def edges(grid: Grid, point: Mapping[str, Any]) -> tuple[str, ...]:
    """The axes on which a point has the least or the greatest number of several, short of the hyperparameter's limits:
    there is nothing beyond."""
    found = []
    for axis, value in point.items():
        numbers = [each for each in grid.over[axis] if isinstance(each, int | float) and not isinstance(each, bool)]
        inside = value not in (min(numbers, default=None), max(numbers, default=None))
        limits = facts({**grid.learner, **point}, axis).limits
        if len(numbers) > 1 and value is not None and not inside and value not in limits:
            found.append(axis)
    return tuple(found)


def scores(grid: Grid, stored: Sequence[StoredBlock]) -> "xarray.DataArray":
    """A number for every setting and seed, with dims of the axes and `seed`: the mean over the run, infinite where it
    diverged, NaN where it is not there."""
    import xarray

    places = {identity: place for place, identity in enumerate(grid.points)}
    seeds = {seed: place for place, seed in enumerate(grid.seeds)}
    values = np.full((len(places), len(seeds)), np.nan)
    variable = "loss"
    for block in stored:
        if block.identity not in places or not seeds.keys() & set(block.seeds.tolist()):
            continue
        variable, means = block.scores
        for seed, mean in zip(block.seeds.tolist(), means, strict=True):
            if seed in seeds:
                values[places[block.identity], seeds[seed]] = mean
    sizes = [len(each) for each in grid.over.values()]
    coords = {axis: value_labels(values) for axis, values in grid.over.items()}
    dims = (*grid.over, "seed")
    return xarray.DataArray(values.reshape(*sizes, -1), coords | {"seed": grid.seeds}, dims, variable)


def phase_mean(records: "xarray.Dataset", phase: str) -> "xarray.DataArray":
    """The mean loss, or share misclassified, of every run over a phase; infinite where it diverged."""
    weights = phase_weights(window_lengths(records), records.task.values, phase)
    values = records[measure(records)].transpose("seed", "step")
    mean = weighted_mean(values.values, weights, records.diverged_at.values)
    return records.diverged_at.copy(data=mean)


def compare(values: "Mapping[str, xarray.DataArray] | xarray.Dataset", against: Mapping[str, str]) -> list[Comparison]:
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
        values = _by_learner(values)
    for name, given, what in (("values", values, "the records of a run, or "), ("against", against, "")):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be {what}a dict by learner, got {check.shown(given)}")
    found = []
    for learner, reference in against.items():
        check.choice("a learner in against", learner, values)
        check.choice("a reference in against", reference, values)
        a, b = paired_values(*(_by_seed(name, values[name]) for name in (learner, reference)))
        if len(a) and np.isfinite(a).all() and np.isfinite(b).all():
            difference, p = paired_difference(a, b), paired_p(a, b)
        else:
            difference, p = Paired(np.nan, np.nan, np.nan, int((a < b).sum()), len(a)), 1.0
        found.append(Comparison(learner, reference, finite_mean_interval(a), difference, p, int((a == b).sum())))
    corrected = holm(np.array([each.p for each in found]))
    return [each._replace(p=float(p), together=len(found)) for each, p in zip(found, corrected, strict=True)]


def _by_learner(records: "xarray.Dataset") -> "dict[str, xarray.DataArray]":
    """One value per seed for every learner of the records of a run."""
    dims = ("learner", "seed", "step")
    if not {*dims} <= {*records.dims}:
        raise ValueError(
            f"values must be records with the dims {', '.join(dims)}, got {', '.join(map(str, records.dims))}"
        )
    return {str(name): _run_mean(records.sel(learner=name)) for name in records.learner.values}


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


def paired_values(a: "xarray.DataArray", b: "xarray.DataArray") -> tuple[np.ndarray, np.ndarray]:
    """The values of the seeds that both have."""
    common = sorted(set(a.seed.values.tolist()) & set(b.seed.values.tolist()))
    return a.sel(seed=common).values, b.sel(seed=common).values
