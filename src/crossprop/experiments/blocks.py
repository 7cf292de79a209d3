"""Blocks: some seeds of one setting of a learner, which are run, written and read together."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import jax
import numpy as np

from crossprop.arguments import checked_steps, checked_variables
from crossprop.engines.protocol import Run, RunOptions, RunResult
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import DevicePool, Executor, engine_for
from crossprop.experiments.grid import Grid, build
from crossprop.experiments.spec import SweepSpec
from crossprop.learners.base import Learner
from crossprop.records import measure, phase_weights
from crossprop.running import provenance
from crossprop.streams.base import Stream
from crossprop.variables import Variable, window_ends, window_lengths

MOST_SEEDS = 32
SECONDS = 60
"""A block has fewer seeds if it would take one core longer than this: its work is lost when it is interrupted."""


class Block(NamedTuple):
    """Runs to execute, in objects that can be sent to another process."""

    grid: Grid
    identity: str
    learner: Learner
    stream: Stream
    seeds: list[int]

    @property
    def name(self) -> str:
        """The learner's name."""
        return self.grid.name

    @property
    def point(self) -> dict[str, Any]:
        """The values of the axes."""
        return self.grid.points[self.identity]

    @property
    def about(self) -> dict[str, Any]:
        """All that the records depend on, apart from the seeds."""
        return self.grid.about(self.point)

    def steps(self, options: RunOptions) -> int:
        """The steps of each run."""
        return options.steps or self.stream.steps or 0

    def total_steps(self, options: RunOptions) -> int:
        """The steps of all runs together."""
        return len(self.seeds) * self.steps(options)


@dataclass(frozen=True)
class BlockResult:
    """The results of a block: `diverged_at (seeds,)`, what they were made with, and `records()`, here or read from a
    file: `(seeds, windows, ...)` by variable."""

    identity: str
    about: dict[str, Any]
    """All that the records depend on, apart from the seeds."""
    seeds: np.ndarray
    diverged_at: np.ndarray
    step: np.ndarray
    window: np.ndarray
    task: np.ndarray
    made_with: dict[str, Any]
    records: Callable[[], dict[str, np.ndarray]]
    scores: tuple[str, np.ndarray]
    """The measure of runs, and its mean over each run, `(seeds,)`."""
    seconds: float = 0.0
    store: str = ""
    """The number of its store."""

    def __post_init__(self):
        for name in ("step", "window", "task"):
            object.__setattr__(self, name, _shared(getattr(self, name)))

    @property
    def name(self) -> str:
        """The learner's name."""
        return self.about["learner"]

    @property
    def setting(self) -> dict[str, Any]:
        """Every field of the learner, its network and the stream."""
        return self.about["setting"]


_arrays: WeakValueDictionary[tuple[str, bytes], np.ndarray] = WeakValueDictionary()


def _shared(values: np.ndarray) -> np.ndarray:
    """One array for all blocks that have equal ones: a sweep has thousands of blocks with the same windows."""
    return _arrays.setdefault((values.dtype.str, sha256(values.tobytes()).digest()), values)


def scores_of(
    records: Mapping[str, np.ndarray], window: np.ndarray, task: np.ndarray, diverged_at: np.ndarray
) -> tuple[str, np.ndarray]:
    """The measure of runs, the share misclassified or the loss, and its mean over each run, `(seeds,)`."""
    variable = measure(records)
    return variable, weighted_mean(records[variable], phase_weights(window, task, "all"), diverged_at)


def weighted_mean(values: np.ndarray, weights: np.ndarray, diverged_at: np.ndarray) -> np.ndarray:
    """Over the windows, infinite for a run that diverged; windows without weight add nothing, whatever is in them."""
    counted = weights > 0
    if not counted.any():
        return np.full(len(values), np.nan)
    means = values[:, counted].astype(np.float64) @ (weights[counted] / weights.sum())
    return np.where(diverged_at >= 0, np.inf, means)


def build_blocks(spec: SweepSpec, engine: str) -> list[Block]:
    """A block for every setting of every learner, with all of its seeds: each of them built and checked."""
    blocks = []
    for grid in spec.grids:
        for identity, point in grid.points.items():
            learner, stream = build(point, grid.name, spec.learners[grid.name], spec.stream, spec.made)
            try:
                checked_steps(spec.steps, stream)
            except ValueError as problem:
                raise ValueError(f"over has {point}: {problem}") from None
            blocks.append(Block(grid, identity, learner, stream, grid.seeds))
    names = {variable.name for variable in spec.observed}
    if clash := sorted(names & {axis for grid in spec.grids for axis in grid.over}):
        raise ValueError(f"probes and metrics must not be named as an axis of over, got {clash[0]!r}")
    distinct = {jax.tree.structure(block.learner): block for block in blocks}
    named = {f"{block.name}, {block.point}": block.learner for block in distinct.values()}
    checked_variables(spec.probes, spec.metrics, named)
    engines_of(blocks, engine, spec.observed)
    return blocks


def missing(blocks: list[Block], stored: Iterable[BlockResult], options: RunOptions) -> list[Block]:
    """The seeds of the blocks that are not done, a few to a block.

    The first few of every setting come first; those on the same stream stand together, since its examples are kept from
    the first block that needs them to the last.
    """
    done: dict[str, set[int]] = {}
    for block in stored:
        done.setdefault(block.identity, set()).update(block.seeds.tolist())
    places: dict[int, int] = {}
    parts: list[tuple[int, int, Block]] = []
    for block in blocks:
        left = [seed for seed in block.seeds if seed not in done.get(block.identity, ())]
        seconds = block.steps(options) * seconds_per_step(block.learner)
        size = int(np.clip(SECONDS / seconds, 1, MOST_SEEDS))
        place = places.setdefault(id(block.stream), len(places))
        parts += [(at, place, block._replace(seeds=left[at : at + size])) for at in range(0, len(left), size)]
    return [block for *_, block in sorted(parts, key=lambda part: part[:2])]


def run_blocks(
    blocks: Sequence[Block],
    options: RunOptions,
    engine: str,
    on_steps: Callable[[int], None] = lambda steps: None,
    pool: DevicePool | None = None,
) -> Generator[tuple[int, BlockResult], None, None]:
    """Runs the blocks here, all together, and yields each one's number and result, as they get done."""
    engines = engines_of(blocks, engine, options.observed)
    of_run = [number for number, block in enumerate(blocks) for _ in block.seeds]
    runs = [Run(block.learner, block.stream, seed) for block in blocks for seed in block.seeds]
    made_with = {name: provenance({"": name}) for name in engines}
    waiting: dict[int, dict[int, RunResult]] = {}
    engine_of_run = [engines[number] for number in of_run]
    tell = lambda run, steps, seconds: on_steps(steps)
    with closing(Executor(runs, engine_of_run, options, on_progress=tell, pool=pool).results()) as results:
        for run, result in results:
            number = of_run[run]
            of_block = waiting.setdefault(number, {})
            of_block[run] = result
            if len(of_block) == len(blocks[number].seeds):
                together = [of_block[run] for run in sorted(waiting.pop(number))]
                records = {name: np.stack([each.records[name] for each in together]) for name in result.records}
                diverged_at, block = np.array([each.diverged_at for each in together]), blocks[number]
                step = window_ends(block.steps(options), options.record_every)
                window, task = window_lengths(step), np.asarray(block.stream.task(step - 1))
                yield (
                    number,
                    BlockResult(
                        identity=block.identity,
                        about=block.about,
                        seeds=np.array(block.seeds),
                        diverged_at=diverged_at,
                        step=step,
                        window=window,
                        task=task,
                        made_with=made_with[engines[number]],
                        records=partial(dict, records),
                        scores=scores_of(records, window, task, diverged_at),
                    ),
                )


def engines_of(blocks: Sequence[Block], engine: str, observed: tuple[Variable, ...]) -> list[str]:
    """The engine of every block; those of one structure have the same."""
    chosen: dict[Any, str] = {}
    for block in blocks:
        structure = jax.tree.structure(block.learner)
        if structure not in chosen:
            chosen[structure] = engine_for(engine, block.learner, observed, f"learners[{block.name!r}]")
    return [chosen[jax.tree.structure(block.learner)] for block in blocks]
