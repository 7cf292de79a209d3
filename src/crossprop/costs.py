"""What a learner costs: the time of a step, and the numbers that it keeps."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import jax

from crossprop.learners import Learner
from crossprop.running import run
from crossprop.streams import Stream


class Cost(NamedTuple):
    """Of one run alone: microseconds per step, the least of several repeats, and the size of the state."""

    microseconds: float
    numbers: int


def measure_costs(
    learners: Mapping[str, Learner],
    stream: Stream,
    *,
    steps: int,
    repeats: int,
    engine: str = "auto",
) -> dict[str, Cost]:
    """Times every learner in turn, several times, so that other load on the machine slows all alike. Time is that of
    the processor on a CPU, which other processes do not add to, and that of the clock on other devices.

    **Arguments:**

    - `steps`: how many steps a run takes, at most those that the stream has.
    - `engine`: as for `run`.
    """
    steps = min(steps, stream.steps or steps)
    clock = time.process_time if jax.devices()[0].platform == "cpu" else time.perf_counter

    def seconds(learner: Learner) -> float:
        began = clock()
        run(learner, stream, 1, steps, engine, steps=steps, progress=False)
        return clock() - began

    run(dict(learners), stream, 1, steps, engine, steps=steps, progress=False)  # compiles all, side by side
    least = dict.fromkeys(learners, float("inf"))
    for _ in range(repeats):
        least = {name: min(least[name], seconds(learner)) for name, learner in learners.items()}
    return {name: Cost(1e6 * least[name] / steps, _numbers(learner)) for name, learner in learners.items()}


def _numbers(learner: Learner) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(learner.init, jax.random.key(0))))
