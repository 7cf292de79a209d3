"""The scan engine: one example after another, any rule, any optimizer, any device. The others are judged by it."""

import math
from collections.abc import Sequence

import numpy as np
from jax import lax

from crossprop.engines import base
from crossprop.learners import Learner
from crossprop.learners.base import Work

TILE_BYTES = 2**23


def unfit(learner: Learner, platform: str, probes: base.Probes) -> str | None:
    """Why this engine cannot do the job: it can do every job."""
    return None


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side: one to a core of a CPU; on other devices always as many, short of that padded, so
    that a run's numbers do not depend on how many others there are."""
    weights = learner.network.fan_in * learner.network.hidden
    return 1 if platform == "cpu" else 2 ** int(np.clip(np.log2(TILE_BYTES / (4 * weights)), 0, 6))


def live(
    runs: Sequence[base.Run],
    platform: str,
    record_every: int,
    probes: base.Probes = (),
    after_segment: base.AfterSegment = base.unheard,
) -> list[base.Lived]:
    method = base.Method(_advance)
    if platform != "cpu":
        # A loop whose length is known needs no word from the host after each example.
        even = math.gcd(record_every, len(runs[0].life.y))
        method = base.Method(_advance, stride=max(stride for stride in range(1, 65) if even % stride == 0))
    padded = [*runs, *[runs[0]] * (width(runs[0].learner, platform) - len(runs))]
    return base.live(method, padded, record_every, probes, after_segment)[: len(runs)]


def _advance(stride, learner: Learner, work: Work, sums: base.Sums, x, y, at, until, start):
    def example(at, carry):
        work, sums = carry
        work, outcome = learner.learn(work, learner.network.with_constant(x[at]), y[at])
        return work, sums.add(learner.network, start + at, outcome, y[at])

    if stride is None:
        return lax.fori_loop(at, until, example, (work, sums))
    return lax.fori_loop(0, stride, lambda i, carry: example(at + i, carry), (work, sums))
