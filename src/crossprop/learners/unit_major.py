"""The update of a unit rule, on a state laid out for speed: hidden units come last, so that neighbours in memory are
treated alike.

A deep network is a stack of hidden layers. To its rule each is a network of its own, whose inputs are the layer below
and whose outputs are the layer above. An update has two halves. `respond` is all that happens above the first weights.
`follow` moves these and their memory matrices by the coefficients that the first half gave; an engine may do it later,
or for many examples at once.
"""

from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from crossprop.learners.credit import Credit, Outcome, Replaced, State, Units
from crossprop.learners.renewal import renewed
from crossprop.network import Activation, Network

MOST_WRITTEN_OUT = 200

if TYPE_CHECKING:
    from crossprop.learners.base import UnitRule


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
    """The state of a unit rule with hidden units last, from the first hidden layer up."""

    layers: tuple[Layer, ...]
    outgoing: Any
    """`(outputs, features)`; in the kernel engine a tuple of pieces"""
    optimizer: Any
    """Of the outgoing weights; of all weights if one transformation sees the whole network."""
    key: Any = None
    replacement: Replaced | None = None
    """With a tuple for its memory, one entry per hidden layer."""

    def with_first(self, first: Layer) -> "UnitMajorState":
        """Itself with another first layer."""
        return replace(self, layers=(first, *self.layers[1:]))


@runtime_checkable
class Arithmetic(Protocol):
    """How a layout multiplies, in one layer: `Network` for whole arrays, `kernel_layout.PaddedNetwork` for padded
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

    whole: "UnitRule"
    rules: "tuple[UnitRule, ...]"
    nets: tuple[Arithmetic, ...]
    top: Arithmetic
    """Of the outputs."""

    @classmethod
    def of(cls, rule: "UnitRule") -> "Stack":
        """In whole arrays."""
        nets = rule.network.layers()
        return cls(rule, rule.by_layer(), nets, nets[-1] if nets else rule.network)


# Layouts.


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


# The update.


def learn(stack: Stack, work: UnitMajorState, inputs: Any, y: Array) -> tuple[UnitMajorState, Outcome]:
    """A whole update; `inputs` have their constant."""
    if stack.whole.network_optimizer() is not None:
        return _learn_at_once(stack, work, inputs, y)
    if not work.layers:
        return _learn_linear(stack, work, inputs, y)
    z = stack.nets[0].weigh(inputs, work.layers[0].weights)
    work, credit, outcome, phis = respond_and_show(stack, work, z, y)
    work = work.with_first(follow(stack.rules[0], work.layers[0], credit, inputs, outcome.loss))
    return renewed(stack, work, phis), outcome


def answer(stack: Stack, work: UnitMajorState, inputs: Any) -> Array:
    """The linear outputs; `inputs` have their constant."""
    for net, layer in zip(stack.nets, work.layers, strict=True):
        inputs = net.with_constant(net.activate(net.weigh(inputs, layer.weights)).phi)
    return stack.top.outputs_of(inputs, work.outgoing)


def _learn_linear(stack: Stack, work: UnitMajorState, inputs: Any, y: Array) -> tuple[UnitMajorState, Outcome]:
    outputs = stack.top.outputs_of(inputs, work.outgoing)
    loss, delta = stack.top.error(outputs, y)
    return _move_outgoing(stack, work, delta, inputs, loss)[0], Outcome(loss, outputs)


def respond(stack: Stack, work: UnitMajorState, z: Array, y: Array) -> tuple[UnitMajorState, Credit, Outcome]:
    """The first half of an update: all is new but the first layer's weights and memory matrices, which still have to
    follow `credit`."""
    return respond_and_show(stack, work, z, y)[:3]


def respond_and_show(
    stack: Stack, work: UnitMajorState, z: Array, y: Array
) -> tuple[UnitMajorState, Credit, Outcome, tuple[Array, ...]]:
    """`respond`, and the units of every hidden layer where units are replaced."""
    activations, features = [], []
    for net, above in zip(stack.nets, [*work.layers[1:], None], strict=True):
        activations.append(net.activate(z))
        features.append(net.with_constant(activations[-1].phi))
        z = z if above is None else net.weigh(features[-1], above.weights)
    outputs = stack.top.outputs_of(features[-1], work.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = _credits(stack, work, activations, delta)
    work, step = _move_outgoing(stack, work, delta, features[-1], loss)
    layers = list(work.layers)
    for at in reversed(range(len(layers))):
        layers[at] = _remember(stack.rules[at], stack.nets[at], layers[at], credits[at], step)
        if at > 0:
            layers[at], move = _moved(stack.rules[at], layers[at], credits[at], features[at - 1], loss)
            step = stack.nets[at - 1].transposed(move)
    still_to_follow = credits[0]._replace(unit_memory=None, step_memory=None, error=None)
    phis = () if work.replacement is None else tuple(units.phi for units in activations)
    return replace(work, layers=tuple(layers)), still_to_follow, Outcome(loss, outputs), phis


# An optimizer that sees the whole network: all directions first, then one transformation of them.


def all_weights(stack: Stack, work: UnitMajorState) -> tuple[Any, ...]:
    """What the network's optimizer sees: the incoming weights of every layer, or None if its rule does not move them,
    and the outgoing weights transposed."""
    moving = [_moves(rule, layer) for rule, layer in zip(stack.rules, work.layers, strict=True)]
    return (
        *(layer.weights if moves else None for layer, moves in zip(work.layers, moving, strict=True)),
        work.outgoing,
    )


def _moves(rule: "UnitRule", layer: Layer) -> bool:
    """Whether a rule moves the incoming weights of its layer at all."""
    memory = None if rule.shapes().matrices else layer.memory

    def credit() -> Credit:
        phi = layer.weights[0]
        delta = jnp.zeros(rule.network.outputs, phi.dtype)
        return rule.credit(Units(phi, phi, delta[:, None] * phi[None, :], memory, layer.signs), delta)

    return jax.eval_shape(credit).moves


class _Example(NamedTuple):
    """What happened at one example."""

    features: list[Array]
    """What every layer sees, the output layer last, with its constant."""
    activations: list[Activation]
    outputs: Array
    delta: Array
    y: Array


def _learn_at_once(stack: Stack, work: UnitMajorState, inputs: Any, y: Array) -> tuple[UnitMajorState, Outcome]:
    activations, features = [], [inputs]
    for net, layer in zip(stack.nets, work.layers, strict=True):
        activations.append(net.activate(net.weigh(features[-1], layer.weights)))
        features.append(net.with_constant(activations[-1].phi))
    outputs = stack.top.outputs_of(features[-1], work.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = _credits(stack, work, activations, delta)
    layers, gradients = list(work.layers), []
    for at, credit in enumerate(credits):
        layers[at], directions = _directions(layers[at], credit, features[at])
        gradients.append(_minus(reduce(_add, directions)) if directions else None)
    gradients.append(_minus(delta[:, None] * features[-1][None, :]))
    weights = all_weights(stack, work)
    key, extra = _extra_arguments(stack, work, weights, _Example(features, activations, outputs, delta, y))
    optimizer = stack.whole.network_optimizer()
    assert optimizer is not None
    transform = optimizer(stack.whole.step_sizes())
    steps: Any
    steps, kept = transform.update(tuple(gradients), work.optimizer, weights, value=loss, **extra)
    step = steps[-1]
    for at in reversed(range(len(layers))):
        layers[at] = _remember(stack.rules[at], stack.nets[at], layers[at], credits[at], step)
        move = jnp.zeros_like(layers[at].weights) if steps[at] is None else steps[at]
        layers[at] = layers[at] if steps[at] is None else replace(layers[at], weights=_add(layers[at].weights, move))
        step = stack.nets[at - 1].transposed(move)
    outgoing = _add(work.outgoing, steps[-1])
    work = replace(work, layers=tuple(layers), outgoing=outgoing, optimizer=kept, key=key)
    return renewed(stack, work, tuple(units.phi for units in activations)), Outcome(loss, outputs)


def _extra_arguments(
    stack: Stack, work: UnitMajorState, weights: tuple[Any, ...], example: _Example
) -> tuple[Any, dict[str, Any]]:
    """The key for the next step, and what the network's optimizer needs; None in the place of weights that stay."""
    optimizer = stack.whole.network_optimizer()
    assert optimizer is not None
    at_weights = lambda every: tuple(None if own is None else each for own, each in zip(weights, every, strict=True))
    found, key = {}, work.key
    if "key" in optimizer.needs:
        key, found["key"] = jax.random.split(work.key)
    if "curvature" in optimizer.needs:
        found["curvature"] = at_weights(_curvature(stack, work, example))
    if "hessian_product" in optimizer.needs:
        found["hessian_product"] = partial(_hessian_product, stack, work, weights, example)
    if "delta" in optimizer.needs:
        found["delta"] = example.delta
    if "fan_in" in optimizer.needs:
        widths = (stack.whole.network.inputs, *stack.whole.network.sizes)
        found["fan_in"] = at_weights(widths)
    if "inputs_axis" in optimizer.needs:
        found["inputs_axis"] = at_weights([*(0 for _ in work.layers), 1])
    return key, found


def _curvature(stack: Stack, work: UnitMajorState, example: _Example) -> list[Array]:
    """The diagonal of the loss's Gauss-Newton matrix, for all weights: the squares of errors that are sent back one by
    one, whose outer products sum up to the loss's Hessian by the outputs."""
    features, errors = example.features, stack.whole.network.hessian_root(example.outputs)
    squares = [jnp.sum(errors**2, axis=0)[:, None] * features[-1][None, :] ** 2]
    for at in reversed(range(len(work.layers))):
        above = work.outgoing if at == len(work.layers) - 1 else work.layers[at + 1].weights.T
        errors = jax.vmap(partial(_sent_back, stack.nets[at], example.activations[at], above))(errors)
        squares.insert(0, features[at][:, None] ** 2 * jnp.sum(errors**2, axis=0)[None, :])
    return squares


def _hessian_product(
    stack: Stack, work: UnitMajorState, weights: tuple[Any, ...], example: _Example, vector: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The Hessian of the loss (squared: of half of it) by the weights that move, times `vector`."""

    def loss_of(weights: tuple[Any, ...]) -> Array:
        *incoming, outgoing = weights
        layers = [
            layer if own is None else replace(layer, weights=own)
            for layer, own in zip(work.layers, incoming, strict=True)
        ]
        outputs = answer(stack, replace(work, layers=tuple(layers), outgoing=outgoing), example.features[0])
        loss, _ = stack.top.error(outputs, example.y)
        return loss / 2 if stack.whole.network.loss == "squared" else loss

    return jax.jvp(jax.grad(loss_of), (weights,), (vector,))[1]


def _sent_back(net: Arithmetic, units: Activation, above: Array, error: Array) -> Array:
    """An error at the layer above as one at the pre-activations of this layer."""
    return net.through_norm(net.weigh(error, net.without_constant(above)) * units.slope, units)


def _credits(stack: Stack, work: UnitMajorState, activations: list[Activation], delta: Array) -> list[Credit]:
    """The coefficients for every hidden layer, from the top down."""
    credits: list[Credit] = []
    for at in reversed(range(len(work.layers))):
        rule, net, layer, units = stack.rules[at], stack.nets[at], work.layers[at], activations[at]
        top = at == len(work.layers) - 1
        outgoing = net.without_constant(work.outgoing if top else net.transposed(work.layers[at + 1].weights))
        memory = None if rule.shapes().matrices else layer.memory
        credit = rule.credit(Units(units.phi, units.slope, outgoing, memory, layer.signs), delta)
        if at > 0:
            error = rule.network.weigh(delta, outgoing) if credit.error is None else credit.error
            delta = net.through_norm(error * units.slope, units)
        credits.append(_at_preactivations(net, credit, units))
    return credits[::-1]


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


def _move_outgoing(
    stack: Stack, work: UnitMajorState, delta: Array, features: Any, loss: Array
) -> tuple[UnitMajorState, Any]:
    """The state with new outgoing weights, and their step."""
    direction = jax.tree.map(lambda part: delta[:, None] * part[None, :], features)
    optimizer = stack.whole.outgoing_optimizer()
    step, kept = optimizer.update(_minus(direction), work.optimizer, work.outgoing, value=loss)
    return replace(work, outgoing=_add(work.outgoing, step), optimizer=kept), step


def _remember(rule: "UnitRule", net: Arithmetic, layer: Layer, credit: Credit, step: Any) -> Layer:
    """The layer with a new memory at its units; `step` is that of its outgoing weights."""
    if rule.shapes().matrices:
        return layer
    memory = credit.unit_memory
    if memory is not None and credit.step_memory is not None:
        memory = memory + credit.step_memory * net.without_constant(jax.tree.map(jnp.asarray, step))
    return replace(layer, memory=memory)


def follow(rule: "UnitRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> Layer:
    """The second half of an update: a layer's weights and memory matrices."""
    return _moved(rule, layer, credit, inputs, loss)[0]


def _moved(rule: "UnitRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> tuple[Layer, Any]:
    """A layer with new weights and memory matrices, and the step of the weights."""
    if rule.optimizer == "sgd":  # scales the few coefficients instead of the whole direction
        credit = _scaled(credit, rule.own_step_size())
    layer, directions = _directions(layer, credit, inputs)
    if not directions:
        return layer, jax.tree.map(jnp.zeros_like, layer.weights)
    direction = reduce(_add, directions)
    if rule.optimizer == "sgd":
        return replace(layer, weights=reduce(_add, directions, layer.weights)), direction
    step, optimizer = rule.incoming_optimizer().update(_minus(direction), layer.optimizer, layer.weights, value=loss)
    return replace(layer, weights=_add(layer.weights, step), optimizer=optimizer), step


def _directions(layer: Layer, credit: Credit, inputs: Any) -> tuple[Layer, list[Any]]:
    """A layer with new memory matrices, and the parts of the direction of its weights."""
    directions = []
    if credit.from_memory is not None:
        through_memory, memory = _use_memory(credit, inputs, layer.memory)
        directions.append(through_memory)
        layer = replace(layer, memory=memory)
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


def _minus(tree: Any) -> Any:
    return jax.tree.map(jnp.negative, tree)


def _add(weights: Any, steps: Any) -> Any:
    return jax.tree.map(lambda weight, step: weight + jnp.asarray(step), weights, steps)
