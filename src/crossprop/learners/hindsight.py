"""Hindsight, which credits every example again some steps later, and its control, backprop with replay."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from crossprop.hyperparameters import hyperparameter
from crossprop.learners.backprop import Backprop
from crossprop.learners.base import CreditRule, NetworkLearner, Outcome, State
from crossprop.learners.calling import compiled_method
from crossprop.learners.credit import Layer
from crossprop.learners.stack import Stack, answer, respond
from crossprop.learners.update import move_at_once


class LateState(NamedTuple):
    """The state of backprop, and the last examples in a ring buffer."""

    backprop: State
    inputs: Float[Array, "delay inputs"]
    kept: Float[Array, "delay outputs"]
    """Errors (`Hindsight`) or targets (`BackpropReplay`)."""
    seen: Int[Array, ""]
    """The number of examples so far."""

    @property
    def incoming(self) -> tuple[Any, ...]:
        return self.backprop.incoming

    @property
    def outgoing(self) -> Any:
        return self.backprop.outgoing


class _Late(NetworkLearner):
    """A learner that learns from every example twice: when it comes, and `delay` examples later."""

    delay: int = hyperparameter(
        default=100, whole=True, low=1, high=2**31 - 1, help="Examples until one is learned from again"
    )

    @abstractmethod
    def _again(self, backprop: Backprop, state: State, x: Array, kept: Array) -> State:
        """The state of backprop after learning from an old example."""

    @abstractmethod
    def _kept(self, outputs: Array, y: Array) -> Array:
        """What is kept of an example besides its input."""

    def _backprop(self) -> Backprop:
        return Backprop(
            self.network,
            self.step_size,
            optimizer=self.optimizer,
            incoming_step_size=self.incoming_step_size,
            replacement=self.replacement,
        )

    def init(self, key: Key[Array, ""]) -> LateState:
        """One key gives every learner of a network the same weights."""
        plain, sizes = self._backprop().init(key), (self.network.inputs, self.network.outputs)
        inputs, kept = (jnp.zeros((self.delay, size), plain.outgoing.dtype) for size in sizes)
        return LateState(plain, inputs, kept, jnp.zeros((), jnp.int32))

    @compiled_method
    def predict(self, state: LateState, x: Array) -> Array:
        return self._backprop().predict(state.backprop, x)

    @compiled_method
    def update(self, state: LateState, x: Array, y: Array) -> tuple[LateState, Outcome]:
        inputs, kept, backprop = state.inputs, state.kept, self._backprop()
        x, y = x.astype(inputs.dtype), y.astype(inputs.dtype)
        oldest, is_full = state.seen % self.delay, state.seen >= self.delay
        learned, outcome = backprop.update(state.backprop, x, y)
        now = learned._replace(replacement=None)
        again = self._again(backprop, now, inputs[oldest], kept[oldest])
        after: State = jax.tree.map(lambda late, now: jnp.where(is_full, late, now), again, now)
        after = after._replace(replacement=learned.replacement)
        ring = inputs.at[oldest].set(x), kept.at[oldest].set(self._kept(outcome.outputs, y))
        return LateState(after, *ring, state.seen + 1), outcome

    def weights(self, state: LateState) -> dict[str, Array]:
        return self._backprop().weights(state.backprop)

    def features(self, state: LateState, x: Array) -> tuple[Array, ...] | None:
        return self._backprop().features(state.backprop, x)


class Hindsight(_Late):
    r"""Backprop that credits every example once more, `delay` examples later, by its old error and the new weights.

    After the step of backprop for example $t$, with $s = t - T$:

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k(s) w_{jk} \phi'_j x_i(s)$$

    Weights and slopes are the present ones, the error is the old one. The outgoing weights learn from every example
    once; an optimizer of `crossprop.optimizers` does not see them at the second step. `BackpropReplay` is the control:
    it, too, learns from every example twice.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`, and

    - `delay`: how many examples to wait ($T$), at least 1. The state keeps that many inputs and errors.

    ```python
    learner = Hindsight(Network(inputs=784, hidden=(64, 64), outputs=10, loss="softmax"), step_size=1e-2, delay=100)
    ```

    New here.
    """

    def _again(self, backprop: Backprop, state: State, x: Array, kept: Array) -> State:
        return _credited(backprop, state, x, kept)

    def _kept(self, outputs: Array, y: Array) -> Array:
        return self.network.error(outputs, y)[1]


def _credited(rule: Backprop, state: State, x: Array, delta: Array) -> State:
    """The state after a step of the incoming weights alone for the error `delta` at the outputs."""
    stack, inputs = Stack.of(rule), rule.network.with_constant(x)

    def outputs(incoming: tuple[Array, ...]) -> Array:
        layers = [layer._replace(weights=weights) for layer, weights in zip(state.layers, incoming, strict=True)]
        return answer(stack, state._replace(layers=tuple(layers)), inputs)

    if rule.network_optimizer() is not None and rule.network.hidden:
        target = delta - rule.network.error(outputs(state.incoming), jnp.zeros_like(delta))[1]  # its error is delta now
        z = stack.nets[0].weigh(inputs, state.layers[0].weights)
        return move_at_once(stack, state, respond(stack, state, inputs, z, target), hidden_only=True)
    (directions,) = jax.vjp(outputs, state.incoming)[1](delta)
    return state._replace(layers=tuple(map(_stepped, rule.by_layer(), state.layers, directions)))


def _stepped(rule: CreditRule, layer: Layer, direction: Array) -> Layer:
    step, optimizer = rule.incoming_optimizer().update(-direction, layer.optimizer, layer.weights)
    return layer._replace(weights=layer.weights + jnp.asarray(step), optimizer=optimizer)


class BackpropReplay(_Late):
    """Backprop on every example, then backprop on the one `delay` examples ago, with a fresh error.

    It is the control for `Hindsight`: it gets the same examples at the same times, and learns from both by backprop.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`, and

    - `delay`: how many examples later one is replayed, at least 1. The state keeps that many inputs and targets.

    ```python
    learner = BackpropReplay(Network(inputs=784, hidden=(64, 64), outputs=10, loss="softmax"), step_size=1e-2)
    ```
    """

    def _again(self, backprop: Backprop, state: State, x: Array, kept: Array) -> State:
        return replace(backprop, replacement=None).update(state, x, kept)[0]  # a replay does not age the units

    def _kept(self, outputs: Array, y: Array) -> Array:
        return y
