"""The update of a unit rule on a state laid out for speed: hidden units come last, so that neighbours in memory are
treated alike.

An update has two halves. `respond` is all that happens at the hidden units and above. `follow` moves the incoming
weights and the memory matrices by the coefficients that the first half gave; an engine may do it later, or for many
examples at once.
"""

from dataclasses import replace
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from crossprop.learners.base import Credit, Outcome, State, UnitRule, Units, first_set
from crossprop.network import Activation


class UnitMajorState(eqx.Module):
    """The state of a unit rule with hidden units last.

    In the kernel engine inputs and rows of weights come in pieces: there `incoming`, `outgoing` and memory matrices are
    tuples. The chunked engine transposes `incoming` and the memory matrices between blocks.
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


@runtime_checkable
class Arithmetic(Protocol):
    """How a layout multiplies: `Network` for whole arrays, `kernel_layout.PaddedNetwork` for padded pieces."""

    def with_constant(self, values: Any, /) -> Any:
        """Inputs or features, with the constant 1 appended if there are biases."""
        ...

    def without_constant(self, outgoing: Any, /) -> Array:
        """The outgoing weights of the hidden units."""
        ...

    def weigh(self, values: Any, weights: Any, /) -> Array:
        """`sum_i values_i weights_ij`."""
        ...

    def activate(self, z: Array, /) -> Activation:
        """Hidden units and their slopes."""
        ...

    def outputs_of(self, features: Any, outgoing: Any, /) -> Array:
        """The linear outputs."""
        ...

    def error(self, outputs: Array, y: Array, /) -> tuple[Array, Array]:
        """The loss and `delta`."""
        ...


def to_unit_major(state: State) -> UnitMajorState:
    """A public state in this layout."""
    memory = None if state.memory is None else jnp.moveaxis(state.memory, -1, 0)
    signs = None if state.signs is None else jnp.swapaxes(state.signs, 1, 2)
    return UnitMajorState(state.incoming, state.outgoing.T, memory, signs, state.optimizer)


def to_state(work: UnitMajorState) -> State:
    """The public state."""
    memory = None if work.memory is None else jnp.moveaxis(work.memory, 0, -1)
    signs = None if work.signs is None else jnp.swapaxes(work.signs, 1, 2)
    return State(work.incoming, work.outgoing.T, memory, signs, work.optimizer)


def learn(rule: UnitRule, net: Arithmetic, work: UnitMajorState, inputs: Any, y: Array) -> tuple[Any, Outcome]:
    """A whole update; `inputs` have their constant."""
    work, credit, outcome = respond(rule, net, work, net.weigh(inputs, work.incoming), y)
    return follow(rule, work, credit, inputs, outcome.loss), outcome


def respond(
    rule: UnitRule, net: Arithmetic, work: UnitMajorState, z: Array, y: Array
) -> tuple[UnitMajorState, Credit, Outcome]:
    """The first half of an update: outgoing weights and unit memory are new, the rest still has to follow `credit`."""
    activation = net.activate(z)
    features = net.with_constant(activation.phi)
    outputs = net.outputs_of(features, work.outgoing)
    loss, delta = net.error(outputs, y)
    has_matrices = rule.shapes().matrices > 0
    unit_memory = None if has_matrices else work.memory
    credit = rule.credit(Units(*activation, net.without_constant(work.outgoing), unit_memory, work.signs), delta)
    direction = jax.tree.map(lambda part: delta[:, None] * part[None, :], features)
    move, optimizer = rule.outgoing_optimizer().update(_minus(direction), work.optimizer[1], work.outgoing, value=loss)
    work = replace(
        work,
        outgoing=_add(work.outgoing, move),
        memory=work.memory if has_matrices else credit.unit_memory,
        optimizer=(work.optimizer[0], optimizer),
    )
    return work, credit, Outcome(loss, outputs)


def follow(rule: UnitRule, work: UnitMajorState, credit: Credit, inputs: Any, loss: Array) -> UnitMajorState:
    """The second half of an update: the incoming weights and the memory matrices."""
    if rule.optimizer == "sgd":  # scales the few coefficients instead of the whole direction
        credit = _scaled(credit, first_set(rule.incoming_step_size, rule.step_size))
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
    if rule.optimizer == "sgd":
        return replace(work, incoming=reduce(_add, directions, work.incoming))
    move, optimizer = rule.incoming_optimizer().update(
        _minus(reduce(_add, directions)), work.optimizer[0], work.incoming, value=loss
    )
    return replace(work, incoming=_add(work.incoming, move), optimizer=(optimizer, work.optimizer[1]))


def _scaled(credit: Credit, step_size: Any) -> Credit:
    scale = lambda part: None if part is None else step_size * part
    return credit._replace(from_input=scale(credit.from_input), from_memory=scale(credit.from_memory))


def _use_memory(credit: Credit, inputs: Any, memory: Any) -> tuple[Any, Any]:
    """The direction of U that comes from the memory matrices, and the memory after this example."""
    take, keep, new = credit.from_memory, credit.memory_keep, credit.memory_input
    assert take is not None and keep is not None and new is not None
    # The kernel's inputs come in pieces, and arrays on chip cannot be split.
    weigh = weigh_memories if isinstance(inputs, Array) else lambda h, take: jnp.sum(h * take, axis=0)
    direction = jax.tree.map(lambda h: weigh(h, take[:, None, :]), memory)
    return direction, jax.tree.map(
        lambda h, x: h * keep[None, None, :] + x[None, :, None] * new[:, None, :], memory, inputs
    )


def weigh_memories(memories: Array, weights: Array) -> Array:
    """The sum of products over the first axis, written out, since XLA is slow at sums over it on a CPU."""
    return reduce(jnp.add, (memory * weight for memory, weight in zip(memories, weights, strict=True)))


def _minus(tree: Any) -> Any:
    return jax.tree.map(jnp.negative, tree)


def _add(weights: Any, moves: Any) -> Any:
    return jax.tree.map(lambda weight, move: weight + jnp.asarray(move), weights, moves)
