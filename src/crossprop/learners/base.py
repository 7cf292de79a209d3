"""What all learners share: the state, and the one place where a credit rule's coefficients are applied.

A learner asks two questions, apart. *Who gets the credit* is its rule, `credit`, written per hidden unit: it sees the
units, their outgoing weights and the error, never the input. *How big is the step* is its optimizer.
"""

from abc import abstractmethod
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from crossprop import _checks as check
from crossprop.learners.optimizers import Optimizer, check_optimizer, transformation
from crossprop.network import Network

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


class UnitMajorState(eqx.Module):
    """A state laid out for work: hidden units come last everywhere, so that neighbours in memory are treated alike.

    Inputs and rows of weights may come in several pieces: then `incoming` and `memory` are tuples of the same length,
    and so is `outgoing`. Between examples an engine may lay it out otherwise.
    """

    incoming: Any
    """`(fan_in, hidden)`"""
    outgoing: Any
    """`(outputs, features)`"""
    memory: Any
    """`(memories, fan_in, hidden)`, or `(outputs, hidden)` at the units, or None"""
    signs: Any
    """`(projections, outputs, hidden)`, or None"""
    optimizer: tuple[optax.OptState, optax.OptState]

    @classmethod
    def of(cls, state: State) -> "UnitMajorState":
        memory = None if state.memory is None else jnp.moveaxis(state.memory, -1, 0)
        signs = None if state.signs is None else jnp.swapaxes(state.signs, 1, 2)
        return cls(state.incoming, state.outgoing.T, memory, signs, state.optimizer)

    def state(self) -> State:
        memory = None if self.memory is None else jnp.moveaxis(self.memory, 0, -1)
        signs = None if self.signs is None else jnp.swapaxes(self.signs, 1, 2)
        return State(self.incoming, self.outgoing.T, memory, signs, self.optimizer)


class Outcome(NamedTuple):
    """What happened at one example, before learning from it."""

    loss: Float[Array, ""]
    outputs: Float[Array, " outputs"]


class Units(NamedTuple):
    """What a credit rule may look at: all that lives at the hidden units, which come last in every shape."""

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]
    outgoing: Float[Array, "outputs hidden"]
    memory: Float[Array, "outputs hidden"] | None
    signs: Float[Array, "projections outputs hidden"] | None


class Credit(NamedTuple):
    r"""What a rule answers. With $H$ the memory matrices (one per output or projection, each shaped like $U$):

    $$\text{direction of } U = \sum_k H_k c_{1k} + x \otimes c_2 \qquad H_k \leftarrow H_k c_3 + x \otimes c_{4k}$$

    A rule without memory matrices leaves $c_1$, $c_3$, $c_4$ out; one with a memory at its units gives its new value;
    one that leaves $c_2$ out as well does not move $U$, whatever the optimizer.
    """

    from_input: Float[Array, " hidden"] | None = None
    from_memory: Float[Array, "memories hidden"] | None = None
    memory_keep: Float[Array, " hidden"] | None = None
    memory_input: Float[Array, "memories hidden"] | None = None
    unit_memory: Float[Array, "outputs hidden"] | None = None

    def scaled(self, step_size: Hyperparameter) -> "Credit":
        """With the direction of U multiplied by a step size."""
        scale = lambda part: None if part is None else step_size * part
        return self._replace(from_input=scale(self.from_input), from_memory=scale(self.from_memory))


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
            optimizer=(self.incoming_optimizer().init(incoming), self.outgoing_optimizer().init(outgoing.T)),
        )

    @jax.jit
    def predict(self, state: State, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""
        check.shape("x", x, (self.network.inputs,))
        activation = self.network.activate(self.network.weigh(self._inputs(state, x), state.incoming))
        return self.network.outputs_of(self.network.with_constant(activation.phi), state.outgoing.T)

    @jax.jit
    def update(self, state: State, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[State, Outcome]:
        """Learns from one example; `y` is one-hot where the loss is softmax."""
        check.shape("x", x, (self.network.inputs,))
        check.shape("y", y, (self.network.outputs,))
        work, outcome = self.learn(UnitMajorState.of(state), self._inputs(state, x), y)
        return work.state(), outcome

    def learn(self, work: UnitMajorState, inputs: Any, y: Array) -> tuple[UnitMajorState, Outcome]:
        """`update` on a state laid out for work, and inputs that have their constant."""
        work, credit, outcome = self.respond(work, self.network.weigh(inputs, work.incoming), y)
        return self.follow(work, credit, inputs, outcome.loss), outcome

    def respond(self, work: UnitMajorState, z: Array, y: Array) -> tuple[UnitMajorState, Credit, Outcome]:
        """All of an update that happens at the hidden units and after them: the outgoing weights and the memory at the
        units are new in what it returns; the incoming weights and the memory matrices are still to follow the
        credit."""
        activation = self.network.activate(z)
        features = self.network.with_constant(activation.phi)
        outputs = self.network.outputs_of(features, work.outgoing)
        loss, delta = self.network.error(outputs, y)
        weights = self.network.without_constant(work.outgoing)
        unit_memory = None if self.has_matrices else work.memory
        credit = self.credit(Units(*activation, weights, unit_memory, work.signs), delta)
        direction = jax.tree.map(lambda part: delta[:, None] * part[None, :], features)
        move, optimizer = self.outgoing_optimizer().update(
            _minus(direction), work.optimizer[1], work.outgoing, value=loss
        )
        work = replace(
            work,
            outgoing=_add(work.outgoing, move),
            memory=work.memory if self.has_matrices else credit.unit_memory,
            optimizer=(work.optimizer[0], optimizer),
        )
        return work, credit, Outcome(loss, outputs)

    def follow(self, work: UnitMajorState, credit: Credit, inputs: Any, loss: Array) -> UnitMajorState:
        """The rest of an update: the incoming weights and the memory matrices follow the credit."""
        if self.optimizer == "sgd":  # scales the few coefficients instead of the whole direction
            credit = credit.scaled(first_set(self.incoming_step_size, self.step_size))
        directions = []
        if credit.from_memory is not None:
            through_memory, memory = _use_memory(credit, inputs, work.memory)
            directions.append(through_memory)
            work = replace(work, memory=memory)
        if credit.from_input is not None:
            through_input = credit.from_input
            directions.append(jax.tree.map(lambda x: x[:, None] * through_input[None, :], inputs))
        if not directions:
            return work
        if self.optimizer == "sgd":
            return replace(work, incoming=reduce(_add, directions, work.incoming))
        move, optimizer = self.incoming_optimizer().update(
            _minus(reduce(_add, directions)), work.optimizer[0], work.incoming, value=loss
        )
        return replace(work, incoming=_add(work.incoming, move), optimizer=(optimizer, work.optimizer[1]))

    @property
    def has_matrices(self) -> bool:
        """Whether the rule keeps memory matrices, shaped like U."""
        return len(self.shapes().memory or ()) == 3

    def _inputs(self, state: State, x: Array) -> Array:
        return self.network.with_constant(jnp.asarray(x, state.incoming.dtype))

    def incoming_optimizer(self) -> optax.GradientTransformationExtraArgs:
        return transformation(self.optimizer, first_set(self.incoming_step_size, self.step_size))

    def outgoing_optimizer(self) -> optax.GradientTransformationExtraArgs:
        return transformation(self.optimizer, self.step_size)


def _signs(key: Array, shape: tuple[int, int, int], dtype: Any) -> Array:
    """Random signs; with one output there is nothing to project, and they are all +1."""
    return jnp.ones(shape, dtype) if shape[2] == 1 else jax.random.rademacher(key, shape, dtype)


def _use_memory(credit: Credit, inputs: Any, memory: Any) -> tuple[Any, Any]:
    """The direction of U that comes from the memory matrices, and the memory after this example."""
    take, keep, new = credit.from_memory, credit.memory_keep, credit.memory_input
    assert take is not None and keep is not None and new is not None
    # The kernel's inputs come in pieces, and what is on chip cannot be taken apart.
    weigh = weigh_memories if isinstance(inputs, Array) else lambda h, take: jnp.sum(h * take, axis=0)
    direction = jax.tree.map(lambda h: weigh(h, take[:, None, :]), memory)
    return direction, jax.tree.map(
        lambda h, x: h * keep[None, None, :] + x[None, :, None] * new[:, None, :], memory, inputs
    )


def weigh_memories(memories: Array, weights: Array) -> Array:
    """The sum of products over the first axis, written out, since a CPU's compiler is slow at sums over it."""
    return reduce(jnp.add, (memory * weight for memory, weight in zip(memories, weights, strict=True)))


def _minus(tree: Any) -> Any:
    return jax.tree.map(jnp.negative, tree)


def _add(weights: Any, moves: Any) -> Any:
    return jax.tree.map(lambda weight, move: weight + jnp.asarray(move), weights, moves)


def first_set(*values: Hyperparameter | None) -> Hyperparameter:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
