"""A deep network as a stack of hidden layers: one example's forward pass, and the credit of units, from the top down.

Each layer has a credit rule, for the network from the layer below to the layer above.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from crossprop.hyperparameters import by_structure
from crossprop.learners.credit import Credit, Outcome, State, Units
from crossprop.network import Activation, float_type

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule


class Stack(NamedTuple):
    """The rule and the arithmetic of each hidden layer; `whole` is the rule of the network.

    The arithmetic of whole arrays is a `Network`, that of padded pieces a `gpu.layout.PaddedNetwork`.
    """

    whole: "CreditRule"
    rules: "tuple[CreditRule, ...]"
    nets: tuple[Any, ...]
    top: Any
    """The arithmetic of the outputs."""
    whole_credit: Callable[[Credit], Credit] = lambda credit: credit
    """Completes the first layer's credit, from the share of a program's own units of the layer above."""

    @classmethod
    def of(cls, rule: "CreditRule") -> "Stack":
        """The stack of a rule for whole arrays."""
        nets = rule.network.layers()
        return cls(rule, rule.by_layer(), nets, nets[-1] if nets else rule.network)

    def weights(self, state: State) -> tuple[Any, ...]:
        """All weights, for an optimizer of the whole network; None for incoming weights that the rule does not move."""
        moving = zip(self.rules, state.layers, strict=True)
        return (*(layer.weights if moves(rule) else None for rule, layer in moving), state.outgoing)


@by_structure
def moves(rule: "CreditRule") -> bool:
    """Whether a rule ever moves the weights into its first hidden layer."""
    rule, zeros = rule.by_layer()[0], lambda *shape: jnp.zeros(shape, float_type())
    network, shapes = rule.network, rule.shapes()

    def credit() -> Credit:
        phi, delta = zeros(network.units), zeros(network.outputs)
        memory = None if shapes.memory is None or shapes.matrices else zeros(*shapes.memory)
        signs = None if shapes.signs is None else zeros(*shapes.signs)
        return rule.credit(Units(phi, phi, zeros(network.outputs, network.units), memory, signs), delta)

    return jax.eval_shape(credit).moves


class Example(NamedTuple):
    """The forward pass and the credits at one example, before learning from it."""

    y: Array
    features: list[Any]
    """The inputs of every layer, the output layer last, with their constant."""
    activations: list[Activation]
    outcome: Outcome
    delta: Array
    credits: list[Credit]
    """The coefficients for every hidden layer."""


def answer(stack: Stack, state: State, inputs: Any) -> Array:
    """The linear outputs; `inputs` have their constant."""
    for net, layer in zip(stack.nets, state.layers, strict=True):
        inputs = net.with_constant(net.activate(net.weigh(inputs, layer.weights)).phi)
    return stack.top.outputs_of(inputs, state.outgoing)


def respond(stack: Stack, state: State, inputs: Any, z: Any, y: Array) -> Example:
    """The forward pass and the credits. `z` are the first layer's pre-activations; `inputs` may be None unless weights
    follow them."""
    activations, features = [], [inputs]
    for net, above in zip(stack.nets, [*state.layers[1:], None][: len(stack.nets)], strict=True):
        activations.append(net.activate(z))
        features.append(net.with_constant(activations[-1].phi))
        z = z if above is None else net.weigh(features[-1], above.weights)
    outputs = stack.top.outputs_of(features[-1], state.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = credit_layers(stack, state, activations, delta)
    return Example(y, features, activations, Outcome(loss, outputs), delta, credits)


def credit_layers(stack: Stack, state: State, activations: list[Activation], delta: Array) -> list[Credit]:
    """The coefficients for every hidden layer, from the top down."""
    credits: list[Credit] = []
    for at in reversed(range(len(state.layers))):
        rule, net, layer, units = stack.rules[at], stack.nets[at], state.layers[at], activations[at]
        top = at == len(state.layers) - 1
        outgoing = net.without_constant(state.outgoing if top else net.transposed(state.layers[at + 1].weights))
        memory = None if rule.shapes().matrices else layer.memory
        credit = rule.credit(Units(units.phi, units.slope, outgoing, memory, layer.signs), delta)
        if at > 0:
            error = rule.network.weigh(delta, outgoing) if credit.error is None else credit.error
            delta = net.through_norm(error * units.slope, units)
        else:
            credit = stack.whole_credit(credit)
        credits.append(_at_preactivations(net, credit, units))
    return credits[::-1]


def _at_preactivations(net: Any, credit: Credit, units: Activation) -> Credit:
    """The coefficients for the weights, from those for normalised pre-activations."""
    own = net.own_slope(units)
    if own is None:
        return credit
    direct, memory = credit.from_input, credit.memory_input
    return credit._replace(
        from_input=None if direct is None else net.through_norm(direct, units),
        memory_input=None if memory is None else memory * own[None, :],
    )
