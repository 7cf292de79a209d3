"""The parts of an update: the pass upwards, the credit of every hidden layer, what is remembered, and how weights
move."""

from functools import reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array

from crossprop.learners.credit import Credit, Layer, State, Units
from crossprop.learners.stack import Arithmetic, Stack
from crossprop.network import Activation

MOST_WRITTEN_OUT = 200

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule


def answer(stack: Stack, state: State, inputs: Any) -> Array:
    """The linear outputs; `inputs` have their constant."""
    for net, layer in zip(stack.nets, state.layers, strict=True):
        inputs = net.with_constant(net.activate(net.weigh(inputs, layer.weights)).phi)
    return stack.top.outputs_of(inputs, state.outgoing)


def forward(stack: Stack, state: State, z: Array) -> tuple[list[Activation], list[Any]]:
    """The units of every hidden layer, and the features that the layer above sees; `z` are the first layer's
    pre-activations."""
    activations, features = [], []
    for net, above in zip(stack.nets, [*state.layers[1:], None], strict=True):
        activations.append(net.activate(z))
        features.append(net.with_constant(activations[-1].phi))
        z = z if above is None else net.weigh(features[-1], above.weights)
    return activations, features


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


def credited(features: list[Any], credits: list[Credit]) -> list[Any]:
    """The features, made to depend on the credit of a deep network's lowest layer. Upper weights change by them, so XLA
    changes these weights only after the errors have used the old ones, and can do it in place instead of copying."""
    last = credits[0].from_input if len(credits) > 1 else None
    if last is None or not isinstance(features[0], Array):  # In the kernel, features come in pieces.
        return features
    return [depend_on(last, each) for each in features]


def depend_on(first: Array, values: Array) -> Array:
    """`values`, to be computed after `first`: a data dependency that XLA cannot remove, since it does not know that no
    number is both infinite and NaN. It changes no number. From JAX 0.12 on `lax.optimization_barrier` does the same;
    before, XLA drops barriers too soon, and deep networks take up to twice as long."""
    some = first[(0,) * first.ndim]
    return jnp.where(jnp.isinf(some) & jnp.isnan(some), 0, values)


def _at_preactivations(net: Arithmetic, credit: Credit, units: Activation) -> Credit:
    """The coefficients for the weights, from those for normalised pre-activations."""
    own = net.own_slope(units)
    if own is None:
        return credit
    direct, memory = credit.from_input, credit.memory_input
    return credit._replace(
        from_input=None if direct is None else net.through_norm(direct, units),
        memory_input=None if memory is None else memory * own[None, :],
    )


def move_outgoing(stack: Stack, state: State, delta: Array, features: Any, loss: Array) -> tuple[State, Any]:
    """The state with new outgoing weights, and their step."""
    direction = jax.tree.map(lambda part: delta[:, None] * part[None, :], features)
    optimizer = stack.whole.outgoing_optimizer()
    step, kept = optimizer.update(minus(direction), state.optimizer, state.outgoing, value=loss)
    return state._replace(outgoing=add(state.outgoing, step), optimizer=kept), step


def remember(rule: "CreditRule", net: Arithmetic, layer: Layer, credit: Credit, step: Any) -> Layer:
    """The layer with a new memory at its units; `step` is that of its outgoing weights."""
    if rule.shapes().matrices:
        return layer
    memory = credit.unit_memory
    if memory is not None and credit.step_memory is not None:
        memory = memory + credit.step_memory * net.without_constant(jax.tree.map(jnp.asarray, step))
    return layer._replace(memory=memory)


def move_layer(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> Layer:
    """The second half of an update: a layer's weights and memory matrices."""
    return moved(rule, layer, credit, inputs, loss)[0]


def move_layer_in_order(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> Layer:
    """`move_layer`, whose memory matrices change after the weights have used the old ones: XLA can then change them in
    place instead of copying."""
    moved = move_layer(rule, layer, credit, inputs, loss)
    if not rule.shapes().matrices:
        return moved
    return moved._replace(memory=move_layer(rule, layer, credit, depend_on(moved.weights, inputs), loss).memory)


def moved(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> tuple[Layer, Any]:
    """A layer with new weights and memory matrices, and the step of the weights."""
    if rule.optimizer.momentum == 0:  # scales the few coefficients instead of the whole direction
        credit = _scaled(credit, rule.own_step_size())
    layer, directions = directions_of(layer, credit, inputs)
    if not directions:
        return layer, jax.tree.map(jnp.zeros_like, layer.weights)
    direction = reduce(add, directions)
    if rule.optimizer.momentum == 0:
        return layer._replace(weights=reduce(add, directions, layer.weights)), direction
    step, optimizer = rule.incoming_optimizer().update(minus(direction), layer.optimizer, layer.weights, value=loss)
    return layer._replace(weights=add(layer.weights, step), optimizer=optimizer), step


def directions_of(layer: Layer, credit: Credit, inputs: Any) -> tuple[Layer, list[Any]]:
    """A layer with new memory matrices, and the parts of the direction of its weights."""
    directions = []
    if credit.from_memory is not None:
        through_memory, memory = _use_memory(credit, inputs, layer.memory)
        directions.append(through_memory)
        layer = layer._replace(memory=memory)
    if credit.from_input is not None:
        through_input = credit.from_input
        directions.append(jax.tree.map(lambda x: x[:, None] * through_input[None, :], inputs))
    return layer, directions


def _scaled(credit: Credit, step_size: Any) -> Credit:
    scale = lambda part: None if part is None else step_size * part
    return credit._replace(from_input=scale(credit.from_input), from_memory=scale(credit.from_memory))


def _use_memory(credit: Credit, inputs: Any, memory: Any) -> tuple[Any, Any]:
    """The direction of the weights that comes from the memory matrices, and the memory after this example."""
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
    if len(memories) > MOST_WRITTEN_OUT:
        return jnp.sum(memories * weights, axis=0)
    return reduce(jnp.add, (memory * weight for memory, weight in zip(memories, weights, strict=True)))


def minus(tree: Any) -> Any:
    return jax.tree.map(jnp.negative, tree)


def add(weights: Any, steps: Any) -> Any:
    return jax.tree.map(lambda weight, step: weight + jnp.asarray(step), weights, steps)
