"""How it is timed: everything in one process, after a warm-up, the median of several."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from crossprop.bench.floors import Ceilings, floor
from crossprop.bench.peers import PEERS, RECORD_EVERY, missing
from crossprop.bench.workloads import Case
from crossprop.execution import keys
from crossprop.learners import Learner, State
from crossprop.running import run

SEEDS = 32
"""Of more runs, the others are further settings of the same seeds."""
PATIENCE = 10.0
"""Seconds after which a timing is not repeated any more."""
REFUSALS = (ValueError, jax.errors.JaxRuntimeError)
"""What an engine or a peer says when it cannot do a case, or has not the memory for it."""


class Limit(NamedTuple):
    """What a slow contender is timed on at most; its time is then scaled up."""

    runs: float = math.inf
    steps: float = math.inf
    weights: float = math.inf
    """Of incoming weights and memories, times runs, times steps."""


LIMITS = {
    "plain jax": Limit(steps=5000, weights=2e9),
    "numpy": Limit(1, 2000, 5e8),
    "pytorch": Limit(1, 500, 5e8),
    "alberta": Limit(steps=2000, weights=2e9),
}
GPU_LIMITS = {
    "plain jax": Limit(steps=2000, weights=1e11),
    "alberta": Limit(steps=2000, weights=1e11),
    "scan": Limit(256, 1000),
    "chunked": Limit(4, 1000),
}
"""On a GPU width is cheap, and a step of a few runs slow."""


@dataclass(frozen=True)
class Row:
    """How long one contender took over one case, or why it did not do it."""

    workload: str
    case: Case
    by: str
    runs: int = 0
    steps: int = 0
    seconds: tuple[float, ...] = ()
    floor: float = 0.0
    reason: str = ""
    engine: str = ""

    @property
    def run_steps(self) -> int:
        return self.runs * self.steps * len(self.case.learners)

    @property
    def per_run_step(self) -> float:
        """Seconds a run-step, from the median."""
        return median(self.seconds) / self.run_steps

    @property
    def whole(self) -> float:
        """Seconds of the whole case; of a part that was timed, scaled up."""
        return self.per_run_step * self.case.runs * self.case.stream.steps * len(self.case.learners)

    @property
    def is_part(self) -> bool:
        return (self.runs, self.steps) != (self.case.runs, self.case.stream.steps)


def time_case(workload: str, case: Case, contenders: Sequence[str], repeats: int, ceilings: Ceilings) -> list[Row]:
    """Times engines and peers in turns, so that all have the same luck; one that cannot do the case says why."""
    rows: dict[str, Row] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for by in contenders:
        runs, steps = part(case, by)
        least = float(np.mean([floor(learner, steps, ceilings) for learner in case.learners.values()]))
        try:
            call = contender(case, by, runs, steps)
            rows[by] = Row(workload, case, by, runs, steps, floor=least, engine=_engine(call()))
            calls[by] = call
        except REFUSALS as problem:
            rows[by] = Row(workload, case, by, reason=_reason(problem, case, by))
    for _ in range(repeats):
        for by, call in calls.items():
            if sum(rows[by].seconds) < PATIENCE:
                rows[by] = replace(rows[by], seconds=(*rows[by].seconds, clock(call)))
    return list(rows.values())


def time_compilation(workload: str, case: Case, contenders: Sequence[str], repeats: int) -> list[Row]:
    """The seconds that a first call takes longer than later ones, with nothing compiled before but the stream."""
    rows = []
    for seed in range(min(case.runs, SEEDS)):
        case.stream.sample(keys(seed)[0])
    for by in contenders:
        runs, steps = part(case, by)
        try:
            call = contender(case, by, runs, steps)
            with nothing_compiled():
                first, *later = (clock(call) for _ in range(1 + repeats))
            rows.append(Row(workload, case, by, runs, steps, (max(first - median(later), 0.0),)))
        except REFUSALS as problem:
            rows.append(Row(workload, case, by, reason=_reason(problem, case, by)))
    return rows


def contender(case: Case, by: str, runs: int, steps: int) -> Callable[[], Any]:
    """What to call for `runs` runs of `steps` steps of every learner of the case, examples made."""
    stream = case.stream.cut(steps)
    if by not in PEERS:
        learners, seeds = _as_sweep(case.learners, runs)
        return lambda: run(learners, stream, seeds, RECORD_EVERY, by, progress=False)
    if why := missing(by):
        raise ValueError(why)
    lives = [stream.sample(keys(seed)[0]) for seed in range(runs)]
    x, y = np.stack([life.x for life in lives]), np.stack([life.y for life in lives])
    initial_keys = jnp.stack([keys(seed)[1] for seed in range(runs)])
    jobs = [(learner, _initial(learner, initial_keys)) for learner in case.learners.values()]
    return lambda: [PEERS[by](learner, initial, x, y) for learner, initial in jobs]


def _as_sweep(learners: dict[str, Learner], runs: int) -> tuple[dict[str, Learner], int]:
    """So many runs as they come in a sweep: a few seeds, and as many settings as it takes."""
    if runs % SEEDS:
        return learners, runs
    settings = runs // SEEDS
    return {
        f"{name}, {number}": eqx.tree_at(lambda it: it.step_size, learner, learner.step_size * (1 - number / runs))
        for name, learner in learners.items()
        for number in range(settings)
    }, SEEDS


@jax.jit
def _initial(learner: Learner, initial_keys: jax.Array) -> State:
    return jax.vmap(learner.init)(initial_keys)


def part(case: Case, by: str) -> tuple[int, int]:
    """How many runs and steps of a case a contender is timed on: all of them, unless it is slow."""
    limits = LIMITS | (GPU_LIMITS if jax.default_backend() != "cpu" else {})
    limit = limits.get(by, Limit())
    runs = int(min(case.runs, limit.runs))
    affordable = max(2 * RECORD_EVERY, limit.weights / runs / _weights(case))
    steps = min(case.stream.steps, limit.steps, affordable)
    return runs, int(steps // RECORD_EVERY) * RECORD_EVERY


def _weights(case: Case) -> int:
    network = case.network
    memories = [learner.shapes().memory or () for learner in case.learners.values()]
    matrices = max(1 + (memory[2] if len(memory) == 3 else 0) for memory in memories)
    return matrices * network.fan_in * network.hidden


def _reason(problem: Exception, case: Case, by: str) -> str:
    """Why not, without who and what, which the table says."""
    said = str(problem).partition("\n")[0]
    for name in case.learners:
        said = said.removeprefix(f"engine={by!r} cannot run learners[{name!r}]: ")
    return said


def clock(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _engine(records: Any) -> str:
    """The engine that did it, where `run` picked."""
    return records.attrs["engine"] if hasattr(records, "attrs") else ""


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Forgets compiled programs, and leaves those on disk alone, until the end of the block."""
    from jax.experimental.compilation_cache import compilation_cache

    before = jax.config.values["jax_enable_compilation_cache"]

    def switch(on: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", on)
        compilation_cache.reset_cache()

    switch(False)
    jax.clear_caches()
    try:
        yield
    finally:
        switch(before)
