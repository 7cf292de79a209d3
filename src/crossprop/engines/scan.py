"""The scan engine: one example after another, any learner, any device. The other engines are judged by it."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crossprop.engines.protocol import Accumulator, Batch, Observers, Rows, Session
from crossprop.engines.segments import LoopSession, batch_width, norm
from crossprop.learners.base import Learner, State, UnitRule
from crossprop.learners.layer_update import answer, follow
from crossprop.learners.renewal import renewed
from crossprop.learners.unit_major import Stack, UnitMajorState, to_state, to_unit_major
from crossprop.learners.update import learn, respond_and_show
from crossprop.network import float_type

TILE_BYTES = 2**25


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
            after = observers.after(learner, lambda: learner.predict(state, x[at]), y[at])
            return state, sums.add(learner, observers, start + at, outcome, y[at], after)

        return lax.fori_loop(at, until if self.stride is None else at + self.stride, example, (work, sums))


def _floats(weights: jax.Array) -> jax.Array:
    return weights if jnp.issubdtype(weights.dtype, jnp.floating) else weights.astype(float_type())


class UnitLoop(NamedTuple):
    """The update of a unit rule, in the unit-major layout."""

    stride: int | None

    def enter(self, learner: UnitRule, state: State) -> UnitMajorState:
        return to_unit_major(state)

    def leave(self, learner: UnitRule, work: UnitMajorState) -> State:
        return to_state(learner.network, work)

    def drifts(self, learner: UnitRule, initial: UnitMajorState, work: UnitMajorState) -> dict[str, jax.Array]:
        return unit_drifts(learner, initial, work, inputs_axis=0)

    def advance(
        self, learner: UnitRule, work: Any, sums: Accumulator, rows: Rows, observers: Observers
    ) -> tuple[Any, Any]:
        late = self.stride is None and work.layers and not observers.see_after
        if late and learner.network_optimizer() is None:
            return self._advance_late(learner, work, sums, rows, observers)
        stack, (x, y, at, until, start) = Stack.of(learner), rows

        def example(at: Any, carry: Any) -> Any:
            work, sums = carry
            inputs = learner.network.with_constant(x[at])
            work, outcome = learn(stack, work, inputs, y[at])
            after = observers.after(learner, lambda: answer(stack, work, inputs), y[at])
            return work, sums.add(learner, observers, start + at, outcome, y[at], after)

        if self.stride is None:
            return lax.fori_loop(at, until, example, (work, sums))
        return lax.fori_loop(0, self.stride, lambda i, carry: example(at + i, carry), (work, sums))

    def _advance_late(
        self, learner: UnitRule, work: Any, sums: Accumulator, rows: Rows, observers: Observers
    ) -> tuple[Any, Any]:
        """On a CPU the first weights follow an example when the next one comes. Its coefficients, one per hidden unit,
        are then carried through the loop, where XLA would otherwise compute them again for every weight. Units are
        replaced when the weights have followed."""
        network, stack, (x, y, at, until, start) = learner.network, Stack.of(learner), rows
        inputs = lambda at: network.with_constant(x[at])

        def respond_to(work: UnitMajorState, sums: Accumulator, at: Any) -> Any:
            z = network.weigh(inputs(at), work.layers[0].weights)
            work, credit, outcome, phis = respond_and_show(stack, work, z, y[at])
            return work, (credit, outcome.loss, phis), sums.add(learner, observers, start + at, outcome, y[at])

        def follow_example(work: UnitMajorState, late: Any, at: Any) -> UnitMajorState:
            credit, loss, phis = late
            work = work.with_first(follow(stack.rules[0], work.layers[0], credit, inputs(at), loss))
            return renewed(stack, work, phis)

        def example(at: Any, carry: Any) -> Any:
            work, late, sums = carry
            return respond_to(follow_example(work, late, at - 1), sums, at)

        work, late, sums = lax.fori_loop(at + 1, until, example, respond_to(work, sums, at))
        return follow_example(work, late, until - 1), sums


def unit_drifts(
    rule: UnitRule, initial: UnitMajorState, work: UnitMajorState, inputs_axis: int
) -> dict[str, jax.Array]:
    """Of the incoming weights of all hidden layers and of the outgoing weights, without biases; inputs lie along
    `inputs_axis` of the first layer's weights."""
    network, changes = rule.network, []
    for at, (layer, now, then) in enumerate(zip(network.layers(), work.layers, initial.layers, strict=True)):
        axis = inputs_axis if at == 0 else 0
        changes.append(lax.slice_in_dim(now.weights - then.weights, 0, layer.inputs, axis=axis))
    outgoing = (work.outgoing - initial.outgoing)[:, : network.units]
    return {"incoming": norm(*changes), "outgoing": norm(outgoing)}
