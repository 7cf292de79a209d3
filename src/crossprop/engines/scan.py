"""The scan engine: one example after another, any learner, any device. On a CPU it is the reference for the others."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crossprop.engines.one_function import as_one_function, as_own_function
from crossprop.engines.protocol import Batch, Rows
from crossprop.engines.segments import LoopSession, batch_width
from crossprop.engines.session import Session
from crossprop.learners.base import CreditRule, Learner, State
from crossprop.learners.credit import Credit, Layer
from crossprop.learners.stack import Stack
from crossprop.learners.stack import answer as stack_answer
from crossprop.learners.update import learn, move_layer, move_layer_in_order
from crossprop.network import float_type
from crossprop.variables import Variable

TILE_BYTES = 2**25


def why_unsupported(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
    """None: it runs everything."""
    return None


def width(learner: Learner, platform: str, programs: Any = None) -> int:
    """How many runs go side by side."""
    return batch_width(learner, platform, TILE_BYTES)


def start(batch: Batch, platform: str, programs: Callable[[int], Any] | None = None) -> Session:
    """Begins the runs of a batch. `programs` makes a loop of GPU programs from its stride, in the place of XLA's."""
    learner, on_cpu = batch.runs[0].learner, platform == "cpu"
    if programs is not None:
        return LoopSession(programs(_stride(batch)), batch, width(learner, platform), fixed_turns=True)
    loop = ExampleLoop(None if on_cpu else _stride(batch), whole=on_cpu)
    return LoopSession(loop, batch, width(learner, platform))


def _stride(batch: Batch) -> int:
    """The examples per call of a loop on a GPU: with a fixed length it needs no sync with the host."""
    even = math.gcd(batch.options.record_every, batch.options.first, batch.stop or 0, batch.segment or 0)
    return max(stride for stride in range(1, 65) if even % stride == 0)


class ExampleLoop(NamedTuple):
    """One example after another. `whole`, for one run on a CPU, makes it one compiled function where possible.

    `chunked.BlockLoop` and `gpu.sliced.SlicedLoop` have the same methods. Loops are hashable: a segment is compiled for
    each."""

    stride: int | None = None
    """The most examples per call; None is any number."""
    whole: bool = False

    def enter(self, learner: Learner, state: Any) -> Any:
        """A state in the engine's layout."""
        return state

    def leave(self, learner: Learner, work: Any) -> Any:
        """The public state."""
        return work

    def changes(self, learner: Learner, initial: Any, work: Any, alive: Any = None) -> dict[str, tuple[jax.Array, ...]]:
        """The changes of all named weights, as arrays without biases; undefined for a run that is not `alive`."""
        if isinstance(learner, CreditRule):
            return weight_changes(learner, initial, work, inputs_axis=0)
        before, now = learner.weights(initial), learner.weights(work)
        return {name: ((_floats(now[name]) - _floats(before[name])).ravel(),) for name in now}

    def advance(self, learner: Learner, work: Any, window: Any, rows: Rows, fold: Any) -> tuple[Any, Any]:
        """Learns from the rows, and adds their outcomes to the window by `fold.example` or `fold.block`."""
        x, y, at, until, start = rows
        update, answer = learner.update, learner.predict
        if isinstance(learner, CreditRule):
            stack, move = Stack.of(learner), move_layer_apart if self.whole else move_layer
            update = lambda work, x, y: learn(stack, work, learner.network.with_constant(x), y, move)
            answer = lambda work, x: stack_answer(stack, work, learner.network.with_constant(x))

        def example(at: Any, carry: Any) -> Any:
            work, window = carry
            work, outcome = update(work, x[at], y[at])
            return work, fold.example(window, start + at, outcome, y[at], lambda: answer(work, x[at]))

        if self.stride is not None:
            return lax.fori_loop(0, self.stride, lambda i, carry: example(at + i, carry), (work, window))
        loop = lambda at, until, carry: lax.fori_loop(at, until, example, carry)
        return as_one_function(loop, at, until, (work, window)) if self.whole else loop(at, until, (work, window))


def _floats(weights: jax.Array) -> jax.Array:
    return weights if jnp.issubdtype(weights.dtype, jnp.floating) else weights.astype(float_type())


def move_layer_apart(rule: CreditRule, layer: Layer, credit: Credit, inputs: jax.Array, loss: jax.Array) -> Layer:
    """`move_layer` as a separate function, so that XLA computes the coefficients once per hidden unit, not again for
    every weight."""
    matrices = rule.shapes().matrices
    # What does not change would be copied.
    given = layer._replace(memory=layer.memory if matrices else None, signs=None)
    moved = as_own_function(partial(move_layer_in_order, rule), given, credit, inputs, loss)
    return moved._replace(memory=moved.memory if matrices else layer.memory, signs=layer.signs)


def weight_changes(
    rule: CreditRule, initial: State, work: State, inputs_axis: int, first: jax.Array | None = None
) -> dict[str, tuple[jax.Array, ...]]:
    """The changes of the incoming weights of all hidden layers and of the outgoing weights, without biases.
    `inputs_axis` is that of the first layer's weights; `first`, of the same norm, may stand for their change."""
    network, changes = rule.network, []
    for at, (layer, now, then) in enumerate(zip(network.layers(), work.layers, initial.layers, strict=True)):
        if at == 0 and first is not None:
            changes.append(first)
            continue
        axis = inputs_axis if at == 0 else 0
        changes.append(lax.slice_in_dim(now.weights - then.weights, 0, layer.inputs, axis=axis))
    outgoing = (work.outgoing - initial.outgoing)[:, : network.units]
    return {"incoming": tuple(changes), "outgoing": (outgoing,)}
