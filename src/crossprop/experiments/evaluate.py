"""Evaluation: a setting is chosen on the sweep's seeds and judged on fresh ones, which had no part in the choice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.descriptions import facts
from crossprop.experiments.blocks import Block, BlockResult
from crossprop.experiments.findings import phase_mean
from crossprop.experiments.grid import Grid, value_labels
from crossprop.experiments.labelled import NOT_RUN, labelled_at, placed
from crossprop.experiments.store import read_store

if TYPE_CHECKING:
    import xarray


class Choice(NamedTuple):
    """The best setting of a learner: its mean over the sweep's seeds, how many of them diverged, and the axes on which
    it stands at the edge of the grid."""

    point: dict[str, Any]
    mean: float
    diverged: int
    edges: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key of learners: one with a diverged seed comes after all without."""
        return self.diverged, self.mean


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


def open_evaluation(store: str | Path) -> Evaluation:
    """The evaluations that `sweep` has put into a store. Learners whose best setting has no fresh seeds are not there.

    ```python
    evaluation = open_evaluation("geoff-sweep")
    compare(evaluation.values(), {"crossprop": "backprop"})
    ```
    """
    grids, blocks = read_store(Path(store))
    chosen = [(grid, choice) for grid in grids if (choice := choose(grid, scores(grid, blocks)))]
    evaluation = evaluated(chosen, blocks)
    if not evaluation.records:
        raise ValueError(f"{str(store)!r} must hold an evaluation: run the same sweep with --evaluate 60")
    return evaluation


def evaluated(choices: Iterable[tuple[Grid, Choice]], stored: Sequence[BlockResult]) -> Evaluation:
    """The evaluation of these best settings, as far as it is in the store."""
    chosen, records = {}, {}
    for grid, choice in choices:
        fresh = labelled_at(choice.point, replace(grid, seeds=grid.evaluation), stored)
        fresh = fresh.isel(seed=np.flatnonzero(fresh.diverged_at.values != NOT_RUN))
        if fresh.sizes["seed"]:
            chosen[grid.name], records[grid.name] = choice, fresh
    return Evaluation(chosen, records)


def evaluation_blocks(grids: Sequence[Grid], blocks: Sequence[Block], stored: Sequence[BlockResult]) -> list[Block]:
    """The blocks of the best settings, with the seeds that are set aside."""
    seeds = {}
    for grid in grids:
        choice = choose(grid, scores(grid, stored))
        assert choice is not None
        seeds[next(name for name, point in grid.points.items() if point == choice.point)] = grid.evaluation
    return [block._replace(seeds=seeds[block.identity]) for block in blocks if block.identity in seeds]


def choose(grid: Grid, found: "xarray.DataArray") -> Choice | None:
    """The setting with the least mean over steps and seeds, by its `scores`; one with a diverged seed comes after all
    without. None where no setting has been run."""
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


def scores(grid: Grid, stored: Sequence[BlockResult]) -> "xarray.DataArray":
    """A number for every setting and seed, with dims of the axes and `seed`: the mean over the run, infinite where it
    diverged, NaN where it is not there."""
    import xarray

    values, variable = np.full((len(grid.points), len(grid.seeds)), np.nan), "loss"
    for block, place, rows, whose in placed(grid, stored):
        if rows:
            variable, means = block.scores
            values[place, whose] = means[rows]
    sizes = [len(each) for each in grid.over.values()]
    coords = {axis: value_labels(values) for axis, values in grid.over.items()}
    dims = (*grid.over, "seed")
    return xarray.DataArray(values.reshape(*sizes, -1), coords | {"seed": grid.seeds}, dims, variable)
