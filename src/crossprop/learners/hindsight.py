"""Hindsight, which credits every example once more some steps later, and its control, backprop with replay."""

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
    """How many examples came so far."""

    @property
    def incoming(self) -> tuple[Any, ...]:
        """The weights into every hidden layer."""
        return self.backprop.incoming

    @property
    def outgoing(self) -> Any:
        """The weights into the outputs."""
        return self.backprop.outgoing

    @property
    def slot(self) -> Array:
        """Index of the oldest example, which the next one replaces."""
        return self.seen % len(self.inputs)

    def after(self, learned: State, again: State, x: Array, kept: Array) -> "LateState":
        """The next state: `learned`, or `again` once the ring is full, with an example put into the ring."""
        full = self.seen >= len(self.inputs)
        replaced, learned, again = learned.replacement, *(each._replace(replacement=None) for each in (learned, again))
        backprop: State = jax.tree.map(lambda late, now: jnp.where(full, late, now), again, learned)
        ring = self.inputs.at[self.slot].set(x), self.kept.at[self.slot].set(kept)
        return LateState(backprop._replace(replacement=replaced), *ring, self.seen + 1)


class _Late(NetworkLearner):
    """What learns from every example twice: when it comes, and `delay` examples later."""

    delay: int = hyperparameter(
        default=100, whole=True, low=1, high=2**31 - 1, help="After how many examples one is learned from again"
    )

    def _backprop(self) -> Backprop:
        return Backprop(
            self.network,
            self.step_size,
            optimizer=self.optimizer,
            incoming_step_size=self.incoming_step_size,
            replacement=self.replacement,
        )

    def init(self, key: Key[Array, ""]) -> LateState:
        """The state before the first example; one key gives every learner of a network the same weights."""
        plain, sizes = self._backprop().init(key), (self.network.inputs, self.network.outputs)
        inputs, kept = (jnp.zeros((self.delay, size), plain.outgoing.dtype) for size in sizes)
        return LateState(plain, inputs, kept, jnp.zeros((), jnp.int32))

    @compiled_method
    def predict(self, state: LateState, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""
        return self._backprop().predict(state.backprop, x)

    def weights(self, state: LateState) -> dict[str, Array]:
        """The incoming weights of all hidden layers and the outgoing weights, without biases."""
        return self._backprop().weights(state.backprop)

    def features(self, state: LateState, x: Float[Array, " inputs"]) -> tuple[Array, ...] | None:
        """The hidden units of every layer; None without hidden layers."""
        return self._backprop().features(state.backprop, x)


class Hindsight(_Late):
    r"""Backprop that credits every example once more, `delay` examples later, with its old error and the new weights.

    After the step of backprop for example $t$, with $s = t - T$:

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k(s) w_{jk} \phi'_j x_i(s)$$

    Weights and slopes are those of now; only the error is the old one. The outgoing weights learn from every example
    once, and an optimizer of `crossprop.optimizers` does not see them at the second step. It sees every example twice;
    `BackpropReplay` is the control for that.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`, and

    - `delay`: how many examples to wait ($T$), at least 1. The state keeps that many inputs and errors.

    ```python
    learner = Hindsight(Network(inputs=784, hidden=(64, 64), outputs=10, loss="softmax"), step_size=1e-2, delay=100)
    ```

    New here.
    """

    @compiled_method
    def update(
        self, state: LateState, x: Float[Array, " inputs"], y: Float[Array, " outputs"]
    ) -> tuple[LateState, Outcome]:
        """Learns from one example, and once more from the one `delay` examples ago."""
        x, y = x.astype(state.inputs.dtype), y.astype(state.inputs.dtype)
        learned, outcome = self._backprop().update(state.backprop, x, y)
        credited = _credited(self._backprop(), learned, state.inputs[state.slot], state.kept[state.slot])
        return state.after(learned, credited, x, self.network.error(outcome.outputs, y)[1]), outcome


def _credited(rule: Backprop, state: State, x: Array, delta: Array) -> State:
    """The state with incoming weights that have followed `delta`, an error at the outputs; the outgoing ones stay."""
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

    It is the control for `Hindsight`: it sees the same examples at the same times, but learns from both as backprop
    does.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`, and

    - `delay`: how many examples later one is replayed, at least 1. The state keeps that many inputs and targets.

    ```python
    learner = BackpropReplay(Network(inputs=784, hidden=(64, 64), outputs=10, loss="softmax"), step_size=1e-2)
    ```
    """

    @compiled_method
    def update(
        self, state: LateState, x: Float[Array, " inputs"], y: Float[Array, " outputs"]
    ) -> tuple[LateState, Outcome]:
        """Learns from one example, and again from the one `delay` examples ago."""
        x, y = x.astype(state.inputs.dtype), y.astype(state.inputs.dtype)
        learned, outcome = self._backprop().update(state.backprop, x, y)
        once = replace(self._backprop(), replacement=None)  # units grow older by one with every new example
        again, _ = once.update(learned._replace(replacement=None), state.inputs[state.slot], state.kept[state.slot])
        return state.after(learned, again, x, y), outcome
