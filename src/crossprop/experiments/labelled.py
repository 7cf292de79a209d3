"""Blocks as files, and joined to a labelled Dataset for every learner, with its axes as dims.

A block is a file of the same format as records, which takes a millisecond to write. Its attribute `about` holds all
that the records depend on, apart from the seeds; a hash of it and the first seed are the file's name.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop._support.array_files import HOSTILE, Contents, DamagedFile, read_arrays, write_arrays
from crossprop.descriptions import learner_info
from crossprop.experiments.blocks import Block, BlockResult, scores_of
from crossprop.experiments.grid import SCHEMA, Grid, identity, plain_value, value_label, value_labels
from crossprop.running import further_dims

if TYPE_CHECKING:
    import xarray

NOT_RUN = -2
HEADER = {"seed": "seed", "step": "step", "window": "step", "task": "step", "diverged_at": "seed"}
"""The variables of a block besides its records, with the dim of each."""
MADE_WITH = ("schema", "crossprop", "jax", "engine", "device")


# Datasets.


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


# Files.


def file_name(identity: str, seeds: Any) -> str:
    """The name of a block's file."""
    return f"{identity}-{seeds[0]}.nc"


def write_block(path: Path, block: Block, result: BlockResult) -> None:
    variables = {
        name: (("seed", "step", *further_dims(name, values.ndim - 2)), values)
        for name, values in result.records().items()
    }
    header = {name: getattr(result, "seeds" if name == "seed" else name) for name in HEADER}
    point = {name: value_label(value) for name, value in ({"learner": block.name} | block.point).items()}
    attributes = {
        "coordinates": " ".join(["window", "task", *point]),
        "about": json.dumps(block.about),
        "store": result.store,
        "seconds": float(result.seconds),
    }
    write_arrays(
        path,
        variables
        | {name: ((dim,), header[name]) for name, dim in HEADER.items()}
        | {name: ((), value if isinstance(value, str | bool) else float(value)) for name, value in point.items()},
        attributes | {name: result.made_with[name] for name in MADE_WITH},
        make_folder=False,  # the store can have been moved
    )


def read_block(path: Path) -> BlockResult:
    """The block in a file, without its records. A `DamagedFile` says what is wrong with it, an OSError that it cannot
    be read."""
    contents = read_arrays(path)
    try:
        block = _block(path, contents)
        name = file_name(block.identity, block.seeds)
    except HOSTILE as problem:
        raise DamagedFile(f"{path} is no block of schema {SCHEMA}: {problem!r}") from None
    if path.name != name:
        raise DamagedFile(f"{path} is another block than its name says, {name}")
    return block


def _block(path: Path, contents: Contents) -> BlockResult:
    values: dict[str, np.ndarray] = {}
    for name, dim in HEADER.items():
        dims, values[name] = contents.variables[name]
        if dims != (dim,) or values[name].dtype.kind != "i":
            raise TypeError(f"{name} must be integers by {dim}")
    about = json.loads(contents.attributes["about"])
    seconds, store = contents.attributes["seconds"], contents.attributes["store"]
    if not (isinstance(about["learner"], str) and isinstance(seconds, float) and isinstance(store, str)):
        raise TypeError("learner and store must be texts, and seconds a number")
    return BlockResult(
        identity=identity(about),
        about=about,
        seconds=seconds,
        store=store,
        made_with={name: contents.attributes[name] for name in MADE_WITH},
        records=partial(read_records, path),
        scores=scores_of(_records(contents), values["window"], values["task"], values["diverged_at"]),
        seeds=values.pop("seed"),
        **values,
    )


def read_records(path: Path) -> dict[str, np.ndarray]:
    return _records(read_arrays(path))


def _records(contents: Contents) -> dict[str, np.ndarray]:
    return {
        name: values
        for name, (dims, values) in contents.variables.items()
        if dims[:2] == ("seed", "step") and values.dtype.kind == "f"
    }
