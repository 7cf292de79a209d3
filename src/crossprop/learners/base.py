"""What all learners share: the state, and the one place where a credit rule's coefficients are applied.

A learner asks two questions, apart. *Who gets the credit* is its rule, `credit`, written per hidden unit: it sees the
units, their outgoing weights and the error, never the input. *How big is the step* is its optimizer.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from crossprop import _checks as check
from crossprop.learners.optimizers import Optimizer, check_optimizer, transformation
from crossprop.network import Network, weigh

Hyperparameter = float | Array


def hyperparameter(**options: Any) -> Any:
    """A field for a number: whole numbers become floats, so that 1 and 1.0 are one learner to the compiler."""
    return eqx.field(converter=lambda value: float(value) if type(value) is int else value, **options)


class State(eqx.Module):
    """Everything that a learner changes, and the fixed signs of projected crossprop."""

    incoming: Float[Array, "fan_in hidden"]
    outgoing: Float[Array, "features outputs"]
    memory: Array | None
    signs: Float[Array, "projections hidden outputs"] | None
    optimizer: tuple[optax.OptState, optax.OptState]


class Outcome(NamedTuple):
    """What happened at one example, before learning from it."""

    loss: Float[Array, ""]
    outputs: Float[Array, " outputs"]


class Units(NamedTuple):
    """What a credit rule may look at: all that lives at the hidden units."""

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]
    outgoing: Float[Array, "hidden outputs"]
    memory: Float[Array, "hidden outputs"] | None
    signs: Float[Array, "projections hidden outputs"] | None


class Credit(NamedTuple):
    r"""What a rule answers. With $H$ the memory matrices (one per output or projection, each shaped like $U$):

    $$\text{direction of } U = \sum_k H_k c_{1k} + x \otimes c_2 \qquad H_k \leftarrow H_k c_3 + x \otimes c_{4k}$$

    A rule without memory matrices leaves $c_1$, $c_3$, $c_4$ out; one with a memory at its units gives its new value;
    one that leaves $c_2$ out as well does not move $U$, whatever the optimizer.
    """

    from_input: Float[Array, " hidden"] | None = None
    from_memory: Float[Array, "hidden memories"] | None = None
    memory_keep: Float[Array, " hidden"] | None = None
    memory_input: Float[Array, "hidden memories"] | None = None
    unit_memory: Float[Array, "hidden outputs"] | None = None


class Shapes(NamedTuple):
    """What a rule keeps besides the weights; None is nothing."""

    memory: tuple[int, int, int] | tuple[int, int] | None = None
    """`(fan_in, hidden, memories)` for memory matrices, `(hidden, outputs)` for a memory at the units."""
    signs: tuple[int, int, int] | None = None
    """`(projections, hidden, outputs)` for fixed random signs."""


class Learner(eqx.Module):
    """An online learning rule with its hyperparameters: immutable, and it knows nothing of data.

    Numbers among its fields are leaves of its pytree, so `jax.vmap` can map over them.
    """

    network: eqx.AbstractVar[Network]
    step_size: eqx.AbstractVar[Hyperparameter]
    optimizer: eqx.AbstractVar[Optimizer]
    incoming_step_size: eqx.AbstractVar[Hyperparameter | None]

    @abstractmethod
    def credit(self, units: Units, delta: Float[Array, " outputs"]) -> Credit:
        """Who gets the credit for the error `delta`: the coefficients of one example."""

    @abstractmethod
    def shapes(self) -> Shapes:
        """What the rule keeps besides the weights."""

    def __check_init__(self):
        if not isinstance(self.network, Network):
            raise TypeError(f"network must be a crossprop.Network, got {self.network!r}")
        check.number("step_size", self.step_size, above=0)
        check.number("incoming_step_size", self.incoming_step_size, above=0, optional=True)
        check_optimizer(self.optimizer)

    def init(self, key: Key[Array, ""]) -> State:
        """The state before the first example; one key gives the same weights to every learner of a network."""
        weights_key, signs_key = jax.random.split(key)
        incoming, outgoing = self.network.init(weights_key)
        memory, signs = self.shapes()
        return State(
            incoming=incoming,
            outgoing=outgoing,
            memory=None if memory is None else jnp.zeros(memory, incoming.dtype),
            signs=None if signs is None else _signs(signs_key, signs, incoming.dtype),
            optimizer=(self._incoming_optimizer().init(incoming), self._outgoing_optimizer().init(outgoing)),
        )

    @jax.jit
    def predict(self, state: State, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""
        check.shape("x", x, (self.network.inputs,))
        return self._forward(state, x)[-1]

    @jax.jit
    def update(self, state: State, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[State, Outcome]:
        """Learns from one example; `y` is one-hot where the loss is softmax."""
        check.shape("x", x, (self.network.inputs,))
        check.shape("y", y, (self.network.outputs,))
        inputs, activation, features, outputs = self._forward(state, x)
        loss, delta = self.network.error(outputs, y)
        has_matrices = state.memory is not None and state.memory.ndim == 3
        unit_memory = None if has_matrices else state.memory
        weights = state.outgoing[: self.network.hidden]
        credit = self.credit(Units(*activation, weights, unit_memory, state.signs), delta)
        incoming, incoming_optimizer = state.incoming, state.optimizer[0]
        direction = _direction(credit, inputs, state.memory)
        if direction is not None:
            move, incoming_optimizer = self._incoming_optimizer().update(
                -direction, incoming_optimizer, incoming, value=loss
            )
            incoming = incoming + jnp.asarray(move)
        move, outgoing_optimizer = self._outgoing_optimizer().update(
            -jnp.outer(features, delta), state.optimizer[1], state.outgoing, value=loss
        )
        state = State(
            incoming=incoming,
            outgoing=state.outgoing + jnp.asarray(move),
            memory=_remember(credit, inputs, state.memory) if has_matrices else credit.unit_memory,
            signs=state.signs,
            optimizer=(incoming_optimizer, outgoing_optimizer),
        )
        return state, Outcome(loss, outputs)

    def _forward(self, state: State, x: Array):
        inputs = self.network.with_constant(jnp.asarray(x, state.incoming.dtype))
        activation = self.network.activate(weigh(inputs, state.incoming))
        features = self.network.with_constant(activation.phi)
        return inputs, activation, features, weigh(features, state.outgoing)

    def _incoming_optimizer(self) -> optax.GradientTransformationExtraArgs:
        return transformation(self.optimizer, first_set(self.incoming_step_size, self.step_size))

    def _outgoing_optimizer(self) -> optax.GradientTransformationExtraArgs:
        return transformation(self.optimizer, self.step_size)


def _signs(key: Array, shape: tuple[int, int, int], dtype: Any) -> Array:
    """Random signs; with one output there is nothing to project, and they are all +1."""
    return jnp.ones(shape, dtype) if shape[2] == 1 else jax.random.rademacher(key, shape, dtype)


def _direction(credit: Credit, inputs: Array, memory: Array | None) -> Array | None:
    """The direction of U, or None where the rule leaves U where it is."""
    through_input = None if credit.from_input is None else jnp.outer(inputs, credit.from_input)
    if credit.from_memory is None or memory is None:
        return through_input
    through_memory = jnp.sum(memory * credit.from_memory[None], axis=-1)
    return through_memory if through_input is None else through_memory + through_input


def _remember(credit: Credit, inputs: Array, memory: Array | None) -> Array:
    assert memory is not None and credit.memory_keep is not None and credit.memory_input is not None
    return memory * credit.memory_keep[None, :, None] + inputs[:, None, None] * credit.memory_input[None]


def first_set(*values: Hyperparameter | None) -> Hyperparameter:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
