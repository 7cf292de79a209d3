"""Blocks joined to a labelled Dataset for every learner, with its axes as dims."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.descriptions import learner_info
from crossprop.experiments.blocks import BlockResult
from crossprop.experiments.grid import Grid, plain_value, value_labels
from crossprop.experiments.netcdf import MADE_WITH
from crossprop.running import further_dims

if TYPE_CHECKING:
    import xarray

NOT_RUN = -2


def labelled(grid: Grid, stored: Sequence[BlockResult]) -> "xarray.Dataset":
    """The records of one learner, with dims of its axes, `seed` and `step`; NaN where a run is not there."""
    import xarray

    blocks = [block for block in stored if block.identity in grid.points]
    step = np.unique(np.concatenate([np.array([], int), *(block.step for block in blocks)]))
    axes, sizes = list(grid.over), [len(values) for values in grid.over.values()]
    records, diverged_at, window, task = _gathered(grid, step, blocks)
    variables = {
        name: (
            (*axes, "seed", "step", *further_dims(name, values.ndim - 3)),
            values.reshape(*sizes, *values.shape[1:]),
        )
        for name, values in records.items()
    }
    info = learner_info(grid.learner)

    def by_step(values: np.ndarray, missing: np.ndarray) -> tuple[Any, np.ndarray]:
        """A coordinate: on the dim `step` alone if all points, but for what is missing, have the same values."""
        common = values.max(axis=0)
        if ((values == common) | missing).all():
            return "step", common
        return (*axes, "step"), values.reshape(*sizes, len(step))

    not_run = (window == 0).all(axis=1)[:, None]
    return xarray.Dataset(
        variables | {"diverged_at": ((*axes, "seed"), diverged_at.reshape(*sizes, len(grid.seeds)))},
        coords={axis: value_labels(values) for axis, values in grid.over.items()}
        | {"learner": grid.name, "seed": grid.seeds, "step": step}
        | {"window": by_step(window, not_run), "task": by_step(task, task < 0)}
        | {name: value for name, value in info._asdict().items() if name not in axes},
        attrs={
            "learners": json.dumps({grid.name: grid.learner}),
            "stream": json.dumps(grid.stream),
            "seeds": json.dumps(grid.seeds),
            "record_every": json.dumps(grid.record_every),
        }
        | {name: _common([block.made_with[name] for block in blocks]) for name in MADE_WITH},
    )


def labelled_at(point: dict[str, Any], grid: Grid, stored: Sequence[BlockResult]) -> "xarray.Dataset":
    """The records at one point of a grid, with dims `seed` and `step`."""
    alone = replace(grid, over={axis: [value] for axis, value in point.items()})
    return labelled(alone, stored).squeeze(list(alone.over))


def _gathered(
    grid: Grid, step: np.ndarray, stored: Sequence[BlockResult]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The records by variable `(points, seeds, steps)`, `diverged_at (points, seeds)`, and `window` and `task`,
    `(points, steps)`; a point has a window of length 0 where others go on for longer."""
    records: dict[str, np.ndarray] = {}
    diverged_at = np.full((len(grid.points), len(grid.seeds)), NOT_RUN)
    window, task = np.zeros((len(grid.points), len(step)), int), np.full((len(grid.points), len(step)), -1)
    for block, place, rows, whose in placed(grid, stored):
        when = np.searchsorted(step, block.step)
        for name, values in block.records().items():
            if name not in records:
                records[name] = np.full((*diverged_at.shape, len(step), *values.shape[2:]), np.nan, values.dtype)
            records[name][place, whose[:, None], when[None, :]] = values[rows]
        diverged_at[place, whose] = block.diverged_at[rows]
        window[place, when], task[place, when] = block.window, block.task
    return records, diverged_at, window, task


def placed(grid: Grid, stored: Sequence[BlockResult]) -> Iterator[tuple[BlockResult, int, list[int], np.ndarray]]:
    """The blocks of a grid, with the place of their setting in it, the rows whose seeds it has, and their places."""
    places = {identity: place for place, identity in enumerate(grid.points)}
    seeds = {seed: place for place, seed in enumerate(grid.seeds)}
    for block in stored:
        if block.identity in places:
            rows = [row for row, seed in enumerate(block.seeds.tolist()) if seed in seeds]
            yield block, places[block.identity], rows, np.array([seeds[int(seed)] for seed in block.seeds[rows]], int)


def _common(values: list[Any]) -> Any:
    """The one value, or all of them in JSON where there are several."""
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else json.dumps(distinct)


def _is_plain(value: Any) -> bool:
    """Whether it can be the value of an axis."""
    return not isinstance(value, dict | list) or (isinstance(value, list) and all(type(each) is int for each in value))


def extended(grid: Grid, stored: Sequence[BlockResult]) -> Grid:
    """The grid of the last call, extended by everything else that the store holds."""
    rest = {name: value for name, value in grid.about({}).items() if name != "setting"}
    blocks = [block for block in stored if block.about == rest | {"setting": block.setting}]
    over = {}
    for field, value in grid.base.items():
        if not _is_plain(value) and field not in grid.over:
            continue
        values = grid.over.get(field, [plain_value(value)])
        stored_values = [block.setting.get(field, value) for block in blocks]
        further = {plain_value(each) for each in stored_values if _is_plain(each)}.difference(values)
        if further or field in grid.over:
            over[field] = values + sorted(further, key=lambda each: (each is None, isinstance(each, tuple), each))
    seeds = {seed for block in blocks for seed in block.seeds.tolist()}.difference(grid.evaluation)
    order = [*grid.over, *(axis for axis in over if axis not in grid.over)]
    return replace(
        grid, over={axis: over[axis] for axis in order}, seeds=grid.seeds + sorted(seeds.difference(grid.seeds))
    )
