"""What a learner costs: the time and the operations of a step, and the size of its state."""

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax

from crossprop._support import xla
from crossprop._support.files import read_json, write_json
from crossprop._version import __version__
from crossprop.engines.protocol import Run, RunOptions
from crossprop.execution import device_kind, engine_for, open_session
from crossprop.learners import Learner
from crossprop.learners.states import state_shapes
from crossprop.network import float_type
from crossprop.running import experiment, run
from crossprop.streams import Stream

LEAST = 1000
"""Steps; with fewer, the overhead of calls would dominate."""


class Cost(NamedTuple):
    """What a single run costs: microseconds per step (NaN if there are too few to time), numbers in the state, and the
    FLOPs and bytes of one compiled `update` by XLA's count (None if unknown)."""

    microseconds: float
    numbers: int
    flops: float | None = None
    bytes: float | None = None


def measure_costs(
    learners: Mapping[str, Learner], stream: Stream, *, steps: int, repeats: int, engine: str
) -> dict[str, Cost]:
    """Times every learner in turn, several times, so that other load on the machine slows all alike, and takes the
    shortest times: CPU time on a CPU, wall time on other devices, from the first step to the last.

    **Arguments:**

    - `steps`: how many steps a run takes, at most those that the stream has.
    - `engine`: as for `run`.
    """
    steps = min(steps, stream.steps or steps)
    run(dict(learners), stream, 1, steps, engine, steps=steps, progress=False)  # compiles all, side by side
    least = dict.fromkeys(learners, float("inf"))
    for _ in range(repeats):
        least = {name: min(least[name], _seconds(own, stream, steps, engine)) for name, own in learners.items()}
    return {
        name: Cost(1e6 * least[name] / steps, numbers_in_state(learner), *_program_cost(learner))
        for name, learner in learners.items()
    }


def _program_cost(learner: Learner) -> tuple[float | None, float | None]:
    """The FLOPs and bytes of one update."""
    example = [jax.ShapeDtypeStruct((size,), float_type()) for size in (learner.network.inputs, learner.targets)]
    step = jax.jit(lambda learner, state, x, y: learner.update(state, x, y))
    return xla.program_cost(step.lower(learner, state_shapes(learner), *example).compile())


def _seconds(learner: Learner, stream: Stream, steps: int, engine: str) -> float:
    """The duration of the steps of one run."""
    clock = time.process_time if jax.devices()[0].platform == "cpu" else time.perf_counter
    session = open_session(engine_for(engine, learner), [Run(learner, stream, 0)], RunOptions(steps, steps))
    jax.block_until_ready(session.states())
    began = clock()
    while session.step < steps:
        session.advance(session.next_count(steps))
    session.results()
    return clock() - began


def kept_costs(
    path: Path, learners: Mapping[str, Learner], stream: Stream, *, steps: int, repeats: int, engine: str = "auto"
) -> dict[str, Cost]:
    """As `measure_costs`, but measured once and kept in a JSON file. A file of other learners, settings or versions is
    replaced, and so is a damaged one, with a warning."""
    if min(steps, stream.steps or steps) < LEAST:
        return {name: Cost(float("nan"), numbers_in_state(learner)) for name, learner in learners.items()}
    about = experiment(learners, stream, [0], steps) | {"repeats": str(repeats), "engine": engine}
    about |= {"crossprop": __version__, "jax": jax.__version__, "device": device_kind()}
    if path.exists():
        try:
            kept = read_json(path)
            if kept.get("about") == about:
                return {name: Cost(*cost) for name, cost in kept["costs"].items()}
        except ValueError as problem:
            warnings.warn(f"{problem}. It is measured again", stacklevel=2)
    costs = measure_costs(learners, stream, steps=steps, repeats=repeats, engine=engine)
    write_json(path, {"about": about, "costs": costs})
    return costs


def numbers_in_state(learner: Learner) -> int:
    """How many numbers the state of a learner has."""
    return sum(leaf.size for leaf in jax.tree.leaves(state_shapes(learner)))
