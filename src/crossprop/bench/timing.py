"""Timing: every contender in one process, after a warm-up, the median of several repeats."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from crossprop.bench.floors import Ceilings, floor
from crossprop.bench.peers import RECORD_EVERY, Limit
from crossprop.bench.workloads import SEEDS, Case
from crossprop.costs import numbers_in_state
from crossprop.execution import keys
from crossprop.learners import Learner
from crossprop.progress import bar
from crossprop.running import run

Clock = Callable[[], float]
SECONDS_PER_CONTENDER = 10.0
"""A contender that has taken this long is not repeated."""
REFUSALS = (ValueError, jax.errors.JaxRuntimeError)
"""Raised by an engine or a peer that cannot run a case, or lacks the memory for it."""
GPU_ENGINE_LIMITS = {"scan": Limit(256, 1000), "chunked": Limit(4, 1000)}
"""On a GPU, a step of these engines takes about as long for few runs as for many."""


@dataclass(frozen=True)
class Row:
    """The seconds that one contender, an engine or a peer, took for one case; or the reason why it did not run."""

    workload: str
    case: Case
    contender: str
    runs: int = 0
    steps: int = 0
    seconds: tuple[float, ...] = ()
    floor: float | None = None
    """The least seconds per run-step on this machine, if known."""
    reason: str = ""
    engine: str = ""
    """The engine that `auto` chose."""

    @property
    def is_peer(self) -> bool:
        return self.contender in self.case.peers

    @property
    def seconds_per_run_step(self) -> float:
        """Seconds per step of one run, from the median timing."""
        return median(self.seconds) / (self.runs * self.steps * len(self.case.learners))

    @property
    def case_seconds(self) -> float:
        """Seconds of the whole case; scaled up if a part was timed."""
        return self.seconds_per_run_step * self.case.runs * self.case.stream.steps * len(self.case.learners)

    @property
    def percent_of_floor(self) -> float | None:
        return None if self.floor is None else 100 * self.floor / self.seconds_per_run_step

    @property
    def is_part(self) -> bool:
        return (self.runs, self.steps) != (self.case.runs, self.case.stream.steps)


def time_workload(
    workload: str,
    cases: Sequence[Case],
    engines: Sequence[str],
    repeats: int,
    ceilings: Ceilings,
    clock: Clock = time.perf_counter,
) -> list[Row]:
    """Times the engines and each case's peers on all cases, with a progress bar."""
    rows: list[Row] = []
    with bar(workload, len(cases), unit="cases") as advance:
        for case in cases:
            rows += time_case(workload, case, engines, repeats, ceilings, clock)
            advance(1)
    return rows


def time_case(
    workload: str,
    case: Case,
    engines: Sequence[str],
    repeats: int,
    ceilings: Ceilings,
    clock: Clock = time.perf_counter,
) -> list[Row]:
    """Times engines and peers in turns, so that other load on the machine slows all of them alike."""
    rows: dict[str, Row] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for name in (*engines, *case.peers):
        runs, steps = part(case, name)
        try:
            calls[name] = prepare(case, name, runs, steps)
            row = Row(workload, case, name, runs, steps, floor=_floor(case, steps, ceilings))
            rows[name] = replace(row, engine=_chosen_engine(calls[name]()))
        except REFUSALS as problem:
            calls.pop(name, None)
            rows[name] = Row(workload, case, name, reason=refusal(problem))
    for _ in range(repeats):
        for name, call in calls.items():
            if sum(rows[name].seconds) < SECONDS_PER_CONTENDER:
                rows[name] = replace(rows[name], seconds=(*rows[name].seconds, measure_seconds(call, clock)))
    return list(rows.values())


def part(case: Case, contender: str) -> tuple[int, int]:
    """How many runs and steps of a case a contender is timed on: all of them, unless it is slow."""
    limit = _limit(case, contender)
    runs = int(min(case.runs, limit.runs))
    affordable = max(2 * RECORD_EVERY, limit.updates / runs / max(map(numbers_in_state, case.learners.values())))
    steps = min(case.stream.steps, limit.steps, affordable)
    return runs, int(steps // RECORD_EVERY) * RECORD_EVERY


def _limit(case: Case, contender: str) -> Limit:
    gpu = jax.default_backend() != "cpu"
    if contender in case.peers:
        peer = case.peers[contender]
        return (gpu and peer.gpu_limit) or peer.limit
    return GPU_ENGINE_LIMITS.get(contender, Limit()) if gpu else Limit()


def prepare(case: Case, contender: str, runs: int, steps: int) -> Callable[[], Any]:
    """The call to time: `runs` runs of `steps` steps of every learner of the case, with the examples made before."""
    stream = case.stream.shortened(steps)
    if contender not in case.peers:
        learners, seeds = _as_sweep(case.learners, runs)
        return lambda: run(learners, stream, seeds, RECORD_EVERY, contender, progress=False)
    x, y = stream.examples(runs)
    initial_keys = jnp.stack([keys(seed)[1] for seed in range(runs)])
    jobs = [(learner, jax.vmap(learner.init)(initial_keys)) for learner in case.learners.values()]
    return lambda: [case.peers[contender].run(learner, initial, x, y) for learner, initial in jobs]


def _as_sweep(learners: dict[str, Learner], runs: int) -> tuple[dict[str, Learner], int]:
    """Learners and seeds that make `runs` runs: with many, several step sizes of each learner share the seeds."""
    if runs % SEEDS:
        return learners, runs
    slower = lambda learner, share: eqx.tree_at(lambda it: it.step_size, learner, learner.step_size * share)
    return {
        f"{name}, {number}": slower(learner, 1 - number / runs)
        for name, learner in learners.items()
        for number in range(runs // SEEDS)
    }, SEEDS


def _floor(case: Case, steps: int, ceilings: Ceilings) -> float | None:
    """The mean of the learners' floors; None if one of them has none."""
    floors = [floor(learner, steps, ceilings) for learner in case.learners.values()]
    known = [seconds for seconds in floors if seconds is not None]
    return float(np.mean(known)) if len(known) == len(floors) else None


def refusal(problem: Exception) -> str:
    """The first line of the error, without the engine and the learner, which the table shows."""
    return re.sub(r"^engine=.*? cannot run .*?: ", "", str(problem).partition("\n")[0])


def _chosen_engine(result: Any) -> str:
    """The engine named in the records that `run` returned, such as `kernel`, or `chunked (5), scan (2)` for seven
    learners; empty for a peer, which returns a list."""
    if isinstance(result, list):
        return ""
    engine = result.attrs["engine"]
    if not engine.startswith("{"):
        return engine
    return ", ".join(f"{name} ({count})" for name, count in Counter(json.loads(engine).values()).items())


def measure_seconds(call: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    began = clock()
    call()
    return clock() - began
