"""The scan engine: one example after another, any rule, any optimizer, any device. The others are judged by it."""

import math
from collections.abc import Sequence

from jax import lax

from crossprop.engines import segments
from crossprop.learners import Learner
from crossprop.learners.base import UnitMajorState

TILE_BYTES = 2**24


def why_unsupported(learner: Learner, platform: str, probes: segments.Probes) -> str | None:
    """Why this engine cannot do the job: it can do every job."""
    return None


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side."""
    return segments.tile(learner, platform, TILE_BYTES)


def live(
    runs: Sequence[segments.Run],
    platform: str,
    record_every: int,
    probes: segments.Probes = (),
    after_segment: segments.AfterSegment = segments.unheard,
) -> list[segments.RunResult]:
    if platform == "cpu":
        method = segments.LoopSpec(_advance_late)
    else:
        # A loop whose length is known needs no word from the host after each example.
        even = math.gcd(record_every, len(runs[0].life.y))
        method = segments.LoopSpec(_advance, stride=max(stride for stride in range(1, 65) if even % stride == 0))
    return segments.live(method, runs, width(runs[0].learner, platform), record_every, probes, after_segment)


def _advance(stride, learner: Learner, work: UnitMajorState, sums: segments.Sums, x, y, at, until, start):
    def example(i, carry):
        work, sums = carry
        work, outcome = learner.learn(work, learner.network.with_constant(x[at + i]), y[at + i])
        return work, sums.add(learner.network, start + at + i, outcome, y[at + i])

    return lax.fori_loop(0, stride, example, (work, sums))


def _advance_late(stride, learner: Learner, work: UnitMajorState, sums: segments.Sums, x, y, at, until, start):
    """On a CPU the incoming weights follow an example when the next one comes. Its coefficients are then given from one
    turn of the loop to the next, one a hidden unit, where the compiler would work them out again for every weight."""
    inputs = lambda at: learner.network.with_constant(x[at])

    def respond(work, sums, at):
        z = learner.network.weigh(inputs(at), work.incoming)
        work, credit, outcome = learner.respond(work, z, y[at])
        sums = sums.add(learner.network, start + at, outcome, y[at])
        return work, credit._replace(unit_memory=None), outcome.loss, sums

    def follow(work, credit, loss, at):
        return learner.follow(work, credit, inputs(at), loss)

    def example(at, carry):
        work, credit, loss, sums = carry
        return respond(follow(work, credit, loss, at - 1), sums, at)

    work, credit, loss, sums = lax.fori_loop(at + 1, until, example, respond(work, sums, at))
    return follow(work, credit, loss, until - 1), sums
