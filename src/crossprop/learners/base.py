"""The two tiers of learners: any online learner, and credit rules on one hidden layer.

A credit rule answers one question, who gets the credit, in `credit`, written per hidden unit: it sees the units, their
outgoing weights and the error, never the input. How big the step is, is the optimizer's answer.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from crossprop import _checks as check
from crossprop.learners.calling import compiled_method
from crossprop.learners.optimizers import Optimizer, check_optimizer, transformation
from crossprop.network import Network

Hyperparameter = float | Array


def hyperparameter(**options: Any) -> Any:
    """A field for a number: integers become floats, so that 1 and 1.0 are the same learner to the compiler."""
    return eqx.field(converter=lambda value: float(value) if type(value) is int else value, **options)


class Outcome(NamedTuple):
    """What happened at one example, before learning from it."""

    loss: Float[Array, ""]
    outputs: Float[Array, " outputs"]


class Learner(eqx.Module):
    """An online learning rule with its hyperparameters. It is immutable and knows nothing about data.

    Subclasses have a `network` (any object with `inputs`, `outputs` and `loss`, "squared" or "softmax") and the four
    methods below. The state is any pytree; a learner that needs randomness keeps a key in it. Numbers among the fields
    are leaves of the learner's pytree, so that one compiled program serves all their values and `jax.vmap` can map
    over them; other fields are `eqx.field(static=True)`.
    """

    network: eqx.AbstractVar[Any]

    @abstractmethod
    def init(self, key: Key[Array, ""]) -> Any:
        """The state before the first example."""

    @abstractmethod
    def update(self, state: Any, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[Any, Outcome]:
        """Learns from one example; `y` is one-hot if the loss is softmax. The outcome is from before learning."""

    @abstractmethod
    def predict(self, state: Any, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""

    @abstractmethod
    def weights(self, state: Any) -> dict[str, Array]:
        """The weights whose drift is recorded, by name; an empty dict records none."""


class State(NamedTuple):
    """Everything that a unit rule changes, and the fixed signs of projected crossprop."""

    incoming: Float[Array, "fan_in hidden"]
    outgoing: Float[Array, "features outputs"]
    memory: Array | None
    signs: Float[Array, "projections hidden outputs"] | None
    optimizer: tuple[optax.OptState, optax.OptState]
    """Of the incoming weights, and of the outgoing weights transposed."""


class Units(NamedTuple):
    """What a credit rule may look at. Hidden units come last in every shape."""

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]
    outgoing: Float[Array, "outputs hidden"]
    memory: Float[Array, "outputs hidden"] | None
    signs: Float[Array, "projections outputs hidden"] | None


class Credit(NamedTuple):
    r"""The answer of a credit rule. With $H_k$ its memory matrices (one per output or projection, shaped like $U$):

    $$\text{direction of } U = \sum_k H_k c_{1k} + x \otimes c_2 \qquad H_k \leftarrow H_k c_3 + x \otimes c_{4k}$$

    A rule without memory matrices leaves out $c_1$, $c_3$ and $c_4$; one with a memory at its units gives its new
    value in `unit_memory`; one that also leaves out $c_2$ does not move $U$, whatever the optimizer.
    """

    from_input: Float[Array, " hidden"] | None = None
    from_memory: Float[Array, "memories hidden"] | None = None
    memory_keep: Float[Array, " hidden"] | None = None
    memory_input: Float[Array, "memories hidden"] | None = None
    unit_memory: Float[Array, "outputs hidden"] | None = None

    @property
    def moves(self) -> bool:
        """Whether the incoming weights move at all."""
        return self.from_input is not None or self.from_memory is not None


class Shapes(NamedTuple):
    """What a rule keeps besides the weights; None is nothing."""

    memory: tuple[int, int, int] | tuple[int, int] | None = None
    """`(fan_in, hidden, memories)` for memory matrices, `(hidden, outputs)` for a memory at the units."""
    signs: tuple[int, int, int] | None = None
    """`(projections, hidden, outputs)` for fixed random signs."""

    @property
    def matrices(self) -> int:
        """The number of memory matrices, each shaped like U."""
        return self.memory[2] if self.memory is not None and len(self.memory) == 3 else 0


class UnitRule(Learner):
    """A credit rule on one hidden layer. Every engine runs it."""

    network: eqx.AbstractVar[Network]
    step_size: eqx.AbstractVar[Hyperparameter]
    optimizer: eqx.AbstractVar[Optimizer]
    incoming_step_size: eqx.AbstractVar[Hyperparameter | None]

    @abstractmethod
    def credit(self, units: Units, delta: Float[Array, " outputs"]) -> Credit:
        """Who gets the credit for the error `delta`: the coefficients for one example."""

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
        """The state before the first example; one key gives every learner of a network the same weights."""
        weights_key, signs_key = jax.random.split(key)
        incoming, outgoing = self.network.init(weights_key)
        memory, signs = self.shapes()
        return State(
            incoming=incoming,
            outgoing=outgoing,
            memory=None if memory is None else jnp.zeros(memory, incoming.dtype),
            signs=None if signs is None else _signs(signs_key, signs, incoming.dtype),
            optimizer=(self.incoming_optimizer().init(incoming), self.outgoing_optimizer().init(outgoing.T)),
        )

    @compiled_method
    def predict(self, state: State, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""
        network = self.network
        inputs = network.with_constant(x.astype(state.incoming.dtype))
        phi = network.activate(network.weigh(inputs, state.incoming)).phi
        return network.outputs_of(network.with_constant(phi), state.outgoing.T)

    @compiled_method
    def update(self, state: State, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[State, Outcome]:
        """Learns from one example. Lists will do for arrays, and the number of a class for a one-hot `y`."""
        network, (incoming, outgoing, memory, signs, optimizer) = self.network, state
        matrices = self.shapes().matrices
        inputs = network.with_constant(x.astype(incoming.dtype))
        phi, slope = network.activate(network.weigh(inputs, incoming))
        features = network.with_constant(phi)
        outputs = network.outputs_of(features, outgoing.T)
        loss, delta = network.error(outputs, y.astype(outputs.dtype))
        unit_memory = None if matrices or memory is None else memory.T
        by_unit = None if signs is None else jnp.swapaxes(signs, 1, 2)
        units = Units(phi, slope, network.without_constant(outgoing.T), unit_memory, by_unit)
        credit = self.credit(units, delta)
        move, outgoing_state = self.outgoing_optimizer().update(
            -delta[:, None] * features[None, :], optimizer[1], outgoing.T, value=loss
        )
        incoming_state = optimizer[0]
        if credit.moves:
            incoming_move, incoming_state = self.incoming_optimizer().update(
                -self._direction(credit, inputs, memory), incoming_state, incoming, value=loss
            )
            incoming = incoming + jnp.asarray(incoming_move)
        if matrices:
            assert memory is not None and credit.memory_keep is not None and credit.memory_input is not None
            memory = memory * credit.memory_keep[None, :, None] + inputs[:, None, None] * credit.memory_input.T[None]
        elif credit.unit_memory is not None:
            memory = credit.unit_memory.T
        state = State(incoming, outgoing + jnp.asarray(move).T, memory, signs, (incoming_state, outgoing_state))
        return state, Outcome(loss, outputs)

    def _direction(self, credit: Credit, inputs: Array, memory: Array | None) -> Array:
        """The direction in which the incoming weights are to move."""
        direction = jnp.zeros((), inputs.dtype)
        if credit.from_input is not None:
            direction = inputs[:, None] * credit.from_input[None, :]
        if credit.from_memory is not None:
            assert memory is not None
            direction = direction + jnp.sum(memory * credit.from_memory.T[None], axis=2)
        return direction

    def weights(self, state: State) -> dict[str, Array]:
        """The incoming and outgoing weights, without biases."""
        network = self.network
        return {"incoming": state.incoming[: network.inputs], "outgoing": state.outgoing[: network.hidden]}

    def incoming_optimizer(self) -> optax.GradientTransformationExtraArgs:
        """Of the incoming weights."""
        return transformation(self.optimizer, first_set(self.incoming_step_size, self.step_size))

    def outgoing_optimizer(self) -> optax.GradientTransformationExtraArgs:
        """Of the outgoing weights, which it sees transposed, `(outputs, features)`."""
        return transformation(self.optimizer, self.step_size)


def _signs(key: Array, shape: tuple[int, int, int], dtype: Any) -> Array:
    """Random signs; with one output there is nothing to project, and they are all +1."""
    return jnp.ones(shape, dtype) if shape[2] == 1 else jax.random.rademacher(key, shape, dtype)


def first_set(*values: Hyperparameter | None) -> Hyperparameter:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
