"""Blocks: some seeds of one learner's setting, which are run, written and read together."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop.engines.recorder import window_ends
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import Cell, CellResult, DevicePool, Executor, Plan, engine_for
from crossprop.learners import Learner
from crossprop.running import provenance
from crossprop.streams.base import Stream
from crossprop.sweeps.grid import Grid, build

MOST_SEEDS = 32
SECONDS = 60
"""A block has fewer seeds where it would take one core longer than this: its work is lost when it is interrupted."""


class Block(NamedTuple):
    """What there is to run, in objects that can be sent to another process."""

    name: str
    identity: str
    point: dict[str, Any]
    setting: dict[str, Any]
    learner: Learner
    stream: Stream
    seeds: list[int]


class BlockResult(NamedTuple):
    """What came of a block: `records (seeds, windows)`, `diverged_at (seeds,)`, and what they were made with."""

    records: dict[str, np.ndarray]
    diverged_at: np.ndarray
    step: np.ndarray
    task: np.ndarray
    made_with: dict[str, Any]


class StoredBlock(NamedTuple):
    """A block that is done. Its records may be on disk: they are read when they are asked for."""

    name: str
    identity: str
    setting: dict[str, Any]
    seeds: np.ndarray
    diverged_at: np.ndarray
    step: np.ndarray
    task: np.ndarray
    made_with: dict[str, Any]
    seconds: float
    records: Callable[[], dict[str, np.ndarray]]


def keep(
    block: Block, finished: BlockResult, seconds: float, records: Callable[[], dict[str, np.ndarray]]
) -> StoredBlock:
    return StoredBlock(
        block.name, block.identity, block.setting, np.array(block.seeds), *finished[1:], seconds, records
    )


def build_blocks(grids: list[Grid], learners: Mapping[str, Learner], stream: Stream, engine: str) -> list[Block]:
    """A block for every setting of every learner, with all of its seeds: built and checked, every one of them."""
    made: dict[Any, Any] = {}
    blocks = []
    for grid in grids:
        for identity, point in grid.points.items():
            built = build(point, grid.name, learners[grid.name], stream, made)
            blocks.append(Block(grid.name, identity, point, grid.base | point, *built, grid.seeds))
    engines_of(blocks, engine)
    return blocks


def missing(blocks: list[Block], kept: Iterable[StoredBlock]) -> list[Block]:
    """Of the blocks, the seeds that are not done, a few to a block. First come the first few of every setting; those on
    the same stream stand together, for its lives are kept from the first block that needs them to the last."""
    done: dict[str, set[int]] = {}
    for block in kept:
        done.setdefault(block.identity, set()).update(block.seeds.tolist())
    places: dict[int, int] = {}
    parts: list[tuple[int, int, Block]] = []
    for block, steps in zip(blocks, lengths(blocks), strict=True):
        left = [seed for seed in block.seeds if seed not in done.get(block.identity, ())]
        seconds = steps * seconds_per_step(block.learner)
        size = int(np.clip(SECONDS / seconds, 1, MOST_SEEDS))
        place = places.setdefault(id(block.stream), len(places))
        parts += [(at, place, block._replace(seeds=left[at : at + size])) for at in range(0, len(left), size)]
    return [block for *_, block in sorted(parts, key=lambda part: part[:2])]


def lengths(blocks: Sequence[Block]) -> list[int]:
    """The steps that a run of each block has."""
    return [block.stream.steps or 0 for block in blocks]


def _streams(blocks: Iterable[Block]) -> dict[int, Stream]:
    return {id(block.stream): block.stream for block in blocks}


def live(
    blocks: Sequence[Block],
    record_every: int,
    engine: str,
    hear: Callable[[int], None] = lambda steps: None,
    slots: DevicePool | None = None,
) -> Generator[tuple[int, BlockResult], None, None]:
    """Runs the blocks here, all together, and yields each one's number and what came of it, as they get done."""
    engines = engines_of(blocks, engine)
    of_cell = [number for number, block in enumerate(blocks) for _ in block.seeds]
    cells = [Cell(block.learner, block.stream, seed) for block in blocks for seed in block.seeds]
    made_with = {name: provenance({"": name}) for name in engines}
    ends = {which: _ends(stream, record_every) for which, stream in _streams(blocks).items()}
    waiting: dict[int, dict[int, CellResult]] = {}
    each = [engines[number] for number in of_cell]
    tell = lambda cell, steps, seconds: hear(steps)
    lived = Executor(cells, each, Plan(record_every), on_progress=tell, pool=slots).results()
    with closing(lived):
        for cell, result in lived:
            number = of_cell[cell]
            runs = waiting.setdefault(number, {})
            runs[cell] = result
            if len(runs) == len(blocks[number].seeds):
                together = [runs[cell] for cell in sorted(waiting.pop(number))]
                records = {name: np.stack([each.run.records[name] for each in together]) for name in result.run.records}
                diverged_at = np.array([each.run.diverged_at for each in together])
                step, task = ends[id(blocks[number].stream)]
                yield number, BlockResult(records, diverged_at, step, task, made_with[engines[number]])


def _ends(stream: Stream, record_every: int) -> tuple[np.ndarray, np.ndarray]:
    """The windows' ends, and the task at each."""
    assert stream.steps is not None
    step = window_ends(stream.steps, record_every)
    return step, stream.task(step - 1)


def engines_of(blocks: Sequence[Block], engine: str) -> list[str]:
    """The engine of every block; those of one structure have the same."""
    chosen: dict[Any, str] = {}
    for block in blocks:
        structure = jax.tree.structure(block.learner)
        if structure not in chosen:
            chosen[structure] = engine_for(engine, block.learner, what=f"learners[{block.name!r}]")
    return [chosen[jax.tree.structure(block.learner)] for block in blocks]
