"""The state of a credit rule laid out for speed: hidden units come last, so neighbours in memory are treated alike.

A deep network is a stack of hidden layers. To its rule each is a network of its own, whose inputs are the layer below
and whose outputs are the layer above.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from crossprop.learners.credit import Credit, Replaced, State
from crossprop.network import Activation, Network

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule


class Layer(eqx.Module):
    """The weights into a hidden layer and what its rule keeps, hidden units last.

    In the kernel engine inputs and rows of weights come in pieces: there `weights` and memory matrices are tuples. The
    chunked engine transposes the first layer's between blocks.
    """

    weights: Any
    """`(fan_in, hidden)`"""
    memory: Any
    """`(memories, fan_in, hidden)`, or `(outputs, hidden)` at the units, or None"""
    signs: Any
    """`(projections, outputs, hidden)`, or None"""
    optimizer: Any


class UnitMajorState(eqx.Module):
    """The state of a credit rule with hidden units last, from the first hidden layer up."""

    layers: tuple[Layer, ...]
    outgoing: Any
    """`(outputs, features)`; in the kernel engine a tuple of pieces"""
    optimizer: Any
    """The optimizer's state for the outgoing weights; for all weights if it sees the whole network."""
    key: Any = None
    replacement: Replaced | None = None
    """With a tuple for its memory, one entry per hidden layer."""

    def with_first(self, first: Layer) -> "UnitMajorState":
        """A copy with another first layer."""
        return replace(self, layers=(first, *self.layers[1:]))


@runtime_checkable
class Arithmetic(Protocol):
    """How a layout multiplies, in one layer: `Network` for whole arrays, `gpu.layout.PaddedNetwork` for padded
    pieces."""

    def with_constant(self, values: Any, /) -> Any:
        """Inputs or features, with the constant 1 appended if there are biases."""
        ...

    def without_constant(self, outgoing: Any, /) -> Array:
        """The outgoing weights of the hidden units."""
        ...

    def transposed(self, weights: Any, /) -> Any:
        """The weights into the layer above as outgoing weights of this one."""
        ...

    def weigh(self, values: Any, weights: Any, /) -> Array:
        """`sum_i values_i weights_ij`."""
        ...

    def activate(self, z: Array, /) -> Activation:
        """Hidden units and their slopes."""
        ...

    def through_norm(self, error: Array, units: Activation, /) -> Array:
        """The error at the pre-activations from that at the normalised ones."""
        ...

    def own_slope(self, units: Activation, /) -> Array | None:
        """How a unit's normalised pre-activation follows its own pre-activation, or None."""
        ...

    def outputs_of(self, features: Any, outgoing: Any, /) -> Array:
        """The linear outputs."""
        ...

    def error(self, outputs: Array, y: Array, /) -> tuple[Array, Array]:
        """The loss and `delta`."""
        ...


class Stack(NamedTuple):
    """A rule as it is to each hidden layer, and the arithmetic there; `whole` is the rule itself."""

    whole: "CreditRule"
    rules: "tuple[CreditRule, ...]"
    nets: tuple[Arithmetic, ...]
    top: Arithmetic
    """The arithmetic of the outputs."""
    whole_credit: Callable[[Credit], Credit] = lambda credit: credit
    """The first layer's credit, from that by the units of the layer above which are at hand."""

    @classmethod
    def of(cls, rule: "CreditRule") -> "Stack":
        """The stack of a rule in this layout, whose arrays are whole."""
        nets = rule.network.layers()
        return cls(rule, rule.by_layer(), nets, nets[-1] if nets else rule.network)


def to_unit_major(state: State) -> UnitMajorState:
    """A public state in this layout."""
    incoming, memory, signs, (optimizer, outgoing_optimizer) = (
        state.incoming,
        state.memory,
        state.signs,
        state.optimizer,
    )
    replaced = state.replacement
    if not isinstance(incoming, tuple):
        layers = (_layer(incoming, memory, signs, optimizer),)
        replaced = replaced and replaced._replace(memory=(replaced.memory,))
    else:
        nothing = (None,) * len(incoming)
        layers = tuple(map(_layer, incoming, memory or nothing, signs or nothing, optimizer))
    return UnitMajorState(layers, state.outgoing.T, outgoing_optimizer, state.key, replaced)


def _layer(weights: Any, memory: Any, signs: Any, optimizer: Any) -> Layer:
    memory = None if memory is None else jnp.moveaxis(memory, -1, 0)
    return Layer(weights, memory, None if signs is None else jnp.swapaxes(signs, 1, 2), optimizer)


def to_state(network: Network, work: UnitMajorState) -> State:
    """The public state."""
    layers = [
        replace(
            layer,
            memory=None if layer.memory is None else jnp.moveaxis(layer.memory, 0, -1),
            signs=None if layer.signs is None else jnp.swapaxes(layer.signs, 1, 2),
        )
        for layer in work.layers
    ]
    replaced = work.replacement
    if replaced is not None and not isinstance(network.hidden, tuple):
        replaced = replaced._replace(memory=replaced.memory[0])
    return joined(network, layers, work.outgoing.T, work.optimizer)._replace(key=work.key, replacement=replaced)


def joined(network: Network, layers: list[Layer], outgoing: Array, optimizer: Any) -> State:
    """A state from what every hidden layer has, in the public layout."""
    if not isinstance(network.hidden, tuple):
        (only,) = layers
        return State(only.weights, outgoing, only.memory, only.signs, (only.optimizer, optimizer))
    unless_empty = lambda parts: None if all(part is None for part in parts) else tuple(parts)
    return State(
        incoming=tuple(layer.weights for layer in layers),
        outgoing=outgoing,
        memory=unless_empty([layer.memory for layer in layers]),
        signs=unless_empty([layer.signs for layer in layers]),
        optimizer=(tuple(layer.optimizer for layer in layers), optimizer),
    )
