"""What a rule costs beside backprop: the time of a step, and the numbers that it keeps."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from crossprop.learners import Learner
from crossprop.running import run
from crossprop.streams import Geoff, LabelShift

STEPS = 4000
REPEATS = 5


class Cost(NamedTuple):
    """Of one run alone: microseconds per step, the least of several repeats, and the size of the state."""

    microseconds: float
    numbers: int


def measure_costs(learners: Mapping[str, Learner], stream: Any, engine: str, *, quick: bool) -> dict[str, Cost]:
    """Times every learner in turn, several times, so that other load on the machine slows all alike."""
    steps, repeats = (60, 1) if quick else (STEPS, REPEATS)
    if isinstance(stream, Geoff):
        stream = replace(stream, examples=max(stream.examples, -(-steps // len(stream.tasks))))
    elif isinstance(stream, LabelShift):
        stream = replace(stream, examples=None)

    def seconds(learner: Learner) -> float:
        began = time.perf_counter()
        run(learner, stream, seeds=1, steps=steps, record_every=steps, engine=engine, progress=False)
        return time.perf_counter() - began

    least = dict.fromkeys(learners, float("inf"))
    for _ in range(1 + repeats):  # the first time they are compiled
        least = {name: min(least[name], seconds(learner)) for name, learner in learners.items()}
    return {name: Cost(1e6 * least[name] / steps, _numbers(learner)) for name, learner in learners.items()}


def _numbers(learner: Learner) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(learner.init, jax.random.key(0))))
