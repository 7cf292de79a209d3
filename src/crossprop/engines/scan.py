"""The scan engine: one example after another, any learner, any device. The other engines are judged by it."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crossprop.engines.protocol import Accumulator, Batch, Observers, Rows, Session
from crossprop.engines.segments import LoopSession, batch_width, norm
from crossprop.engines.unit_major import UnitMajorState, follow, learn, respond, to_state, to_unit_major
from crossprop.learners.base import Learner, State, UnitRule
from crossprop.network import float_type

TILE_BYTES = 2**24


def why_unsupported(learner: Learner, platform: str, observers: Observers = Observers()) -> str | None:  # noqa: B008
    """None: it runs everything."""
    return None


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side."""
    return batch_width(learner, platform, TILE_BYTES)


def start(batch: Batch, platform: str) -> Session:
    """Begins the runs of a batch."""
    learner = batch.runs[0].learner
    stride = None if platform == "cpu" else _stride(batch)
    return LoopSession(loop_for(learner, stride), batch, width(learner, platform))


def loop_for(learner: Learner, stride: int | None = None) -> "AnyLoop | UnitLoop":
    """The loop for a learner; with a stride it goes a fixed number of examples at a time."""
    return UnitLoop(stride) if isinstance(learner, UnitRule) else AnyLoop(stride)


def _stride(batch: Batch) -> int:
    """On a GPU a loop of fixed length needs no word from the host after each example."""
    even = math.gcd(batch.record_every, batch.first, batch.steps or 0, batch.segment or 0)
    return max(stride for stride in range(1, 65) if even % stride == 0)


class AnyLoop(NamedTuple):
    """Calls the learner's own `update`."""

    stride: int | None

    def enter(self, learner: Learner, state: Any) -> Any:
        return state

    def leave(self, learner: Learner, work: Any) -> Any:
        return work

    def drifts(self, learner: Learner, initial: Any, work: Any) -> dict[str, jax.Array]:
        before, now = learner.weights(initial), learner.weights(work)
        return {name: norm((_floats(now[name]) - _floats(before[name])).ravel()) for name in now}

    def advance(
        self, learner: Learner, work: Any, sums: Accumulator, rows: Rows, observers: Observers
    ) -> tuple[Any, Any]:
        x, y, at, until, start = rows

        def example(at: Any, carry: Any) -> Any:
            state, sums = carry
            state, outcome = learner.update(state, x[at], y[at])
            return state, sums.add(learner, observers, start + at, outcome, y[at])

        return lax.fori_loop(at, until if self.stride is None else at + self.stride, example, (work, sums))


def _floats(weights: jax.Array) -> jax.Array:
    return weights if jnp.issubdtype(weights.dtype, jnp.floating) else weights.astype(float_type())


class UnitLoop(NamedTuple):
    """The update of a unit rule, in the unit-major layout."""

    stride: int | None

    def enter(self, learner: UnitRule, state: State) -> UnitMajorState:
        return to_unit_major(state)

    def leave(self, learner: UnitRule, work: UnitMajorState) -> State:
        return to_state(work)

    def drifts(self, learner: UnitRule, initial: UnitMajorState, work: UnitMajorState) -> dict[str, jax.Array]:
        return unit_drifts(learner, initial, work, inputs_axis=0)

    def advance(
        self, learner: UnitRule, work: Any, sums: Accumulator, rows: Rows, observers: Observers
    ) -> tuple[Any, Any]:
        if self.stride is None:
            return self._advance_late(learner, work, sums, rows, observers)
        network, (x, y, at, _, start) = learner.network, rows

        def example(i: Any, carry: Any) -> Any:
            work, sums = carry
            work, outcome = learn(learner, network, work, network.with_constant(x[at + i]), y[at + i])
            return work, sums.add(learner, observers, start + at + i, outcome, y[at + i])

        return lax.fori_loop(0, self.stride, example, (work, sums))

    def _advance_late(
        self, learner: UnitRule, work: Any, sums: Accumulator, rows: Rows, observers: Observers
    ) -> tuple[Any, Any]:
        """On a CPU the incoming weights follow an example when the next one comes. Its coefficients, one per hidden
        unit, are then carried through the loop, where XLA would otherwise compute them again for every weight."""
        network, (x, y, at, until, start) = learner.network, rows
        inputs = lambda at: network.with_constant(x[at])

        def respond_to(work: Any, sums: Accumulator, at: Any) -> Any:
            work, credit, outcome = respond(learner, network, work, network.weigh(inputs(at), work.incoming), y[at])
            sums = sums.add(learner, observers, start + at, outcome, y[at])
            return work, credit._replace(unit_memory=None), outcome.loss, sums

        def example(at: Any, carry: Any) -> Any:
            work, credit, loss, sums = carry
            return respond_to(follow(learner, work, credit, inputs(at - 1), loss), sums, at)

        work, credit, loss, sums = lax.fori_loop(at + 1, until, example, respond_to(work, sums, at))
        return follow(learner, work, credit, inputs(until - 1), loss), sums


def unit_drifts(
    rule: UnitRule, initial: UnitMajorState, work: UnitMajorState, inputs_axis: int
) -> dict[str, jax.Array]:
    """Of the incoming and outgoing weights, without biases; inputs lie along this axis of `incoming`."""
    change = work.incoming - initial.incoming
    return {
        "incoming": norm(lax.slice_in_dim(change, 0, rule.network.inputs, axis=inputs_axis)),
        "outgoing": norm((work.outgoing - initial.outgoing)[:, : rule.network.hidden]),
    }
