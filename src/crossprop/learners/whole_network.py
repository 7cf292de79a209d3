"""The update by an optimizer that sees the whole network: all directions first, then one transformation of them."""

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from crossprop.learners.credit import Credit, Layer, Outcome, State, Units
from crossprop.learners.layer_update import add, answer, credit_layers, directions_of, forward, minus, remember
from crossprop.learners.stack import Arithmetic, Stack
from crossprop.network import Activation

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule


def all_weights(stack: Stack, state: State) -> tuple[Any, ...]:
    """What the network's optimizer sees: the incoming weights of every layer, or None if its rule does not move them,
    and the outgoing weights transposed."""
    moving = [_moves(rule, layer) for rule, layer in zip(stack.rules, state.layers, strict=True)]
    return (
        *(layer.weights if moves else None for layer, moves in zip(state.layers, moving, strict=True)),
        state.outgoing,
    )


def _moves(rule: "CreditRule", layer: Layer) -> bool:
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


def learn_at_once(
    stack: Stack, state: State, inputs: Any, y: Array, *, hidden_only: bool = False
) -> tuple[State, Outcome, tuple[Array, ...]]:
    """A whole update but for replacements, and the units of every hidden layer. With `hidden_only`, the outgoing
    weights and what the optimizer keeps for them stay as they are."""
    activations, features = [], [inputs]
    if state.layers:
        activations, above = forward(stack, state, stack.nets[0].weigh(inputs, state.layers[0].weights))
        features += above
    outputs = stack.top.outputs_of(features[-1], state.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = credit_layers(stack, state, activations, delta)
    layers, gradients = list(state.layers), []
    for at, credit in enumerate(credits):
        layers[at], directions = directions_of(layers[at], credit, features[at])
        gradients.append(minus(reduce(add, directions)) if directions else None)
    gradients.append(minus(delta[:, None] * features[-1][None, :]))
    weights: Any = all_weights(stack, state)
    sizes: Any = stack.whole.step_sizes()
    if hidden_only:
        weights, sizes, gradients[-1] = (*weights[:-1], None), (*sizes[:-1], None), None
    key, extra = _extra_arguments(stack, state, weights, _Example(features, activations, outputs, delta, y))
    optimizer = stack.whole.network_optimizer()
    assert optimizer is not None
    transform = optimizer(sizes)
    part = _part_of(state.optimizer, jax.eval_shape(transform.init, weights)) if hidden_only else state.optimizer
    steps: Any
    steps, kept = transform.update(tuple(gradients), part, weights, value=loss, **extra)
    step = jnp.zeros_like(state.outgoing) if hidden_only else steps[-1]
    outgoing = state.outgoing if hidden_only else add(state.outgoing, step)
    for at in reversed(range(len(layers))):
        layers[at] = remember(stack.rules[at], stack.nets[at], layers[at], credits[at], step)
        move = jnp.zeros_like(layers[at].weights) if steps[at] is None else steps[at]
        layers[at] = layers[at] if steps[at] is None else layers[at]._replace(weights=add(layers[at].weights, move))
        step = stack.nets[at - 1].transposed(move)
    kept = _with_part(state.optimizer, kept) if hidden_only else kept
    state = state._replace(layers=tuple(layers), outgoing=outgoing, optimizer=kept, key=key)
    return state, Outcome(loss, outputs), tuple(units.phi for units in activations)


def _part_of(state: Any, like: Any) -> Any:
    """An optimizer's state without the outgoing weights, which come last, from the one for all weights."""
    leaves = dict(jax.tree.leaves_with_path(state))
    return jax.tree.map_with_path(lambda path, _: leaves[path], like)


def _with_part(state: Any, part: Any) -> Any:
    """An optimizer's state for all weights with a new part."""
    leaves = dict(jax.tree.leaves_with_path(part))
    return jax.tree.map_with_path(leaves.get, state)


def _extra_arguments(
    stack: Stack, state: State, weights: tuple[Any, ...], example: _Example
) -> tuple[Any, dict[str, Any]]:
    """The key for the next step, and what the network's optimizer needs; None in the place of weights that stay."""
    optimizer = stack.whole.network_optimizer()
    assert optimizer is not None
    at_weights = lambda every: tuple(None if own is None else each for own, each in zip(weights, every, strict=True))
    found, key = {}, state.key
    if "key" in optimizer.needs:
        key, found["key"] = jax.random.split(state.key)
    if "curvature" in optimizer.needs:
        found["curvature"] = at_weights(_curvature(stack, state, example))
    if "hessian_product" in optimizer.needs:
        found["hessian_product"] = partial(_hessian_product, stack, state, weights, example)
    if "delta" in optimizer.needs:
        found["delta"] = example.delta
    if "fan_in" in optimizer.needs:
        widths = (stack.whole.network.inputs, *stack.whole.network.hidden)
        found["fan_in"] = at_weights(widths)
    if "inputs_axis" in optimizer.needs:
        found["inputs_axis"] = at_weights([*(0 for _ in state.layers), 1])
    if "directions" in optimizer.needs:
        found["directions"] = partial(_directions, stack, state, example)
    return key, found


def _directions(stack: Stack, state: State, example: _Example, delta: Array) -> tuple[Any, ...]:
    """The directions of all weights for an error; None in the place of weights that stay."""
    credits = credit_layers(stack, state, example.activations, delta)
    parts = [
        directions_of(layer, credit, seen)[1]
        for layer, credit, seen in zip(state.layers, credits, example.features, strict=False)
    ]
    hidden = (reduce(add, each) if each else None for each in parts)
    return (*hidden, delta[:, None] * example.features[-1][None, :])


def _curvature(stack: Stack, state: State, example: _Example) -> list[Array]:
    """The diagonal of the loss's Gauss-Newton matrix, for all weights: the squares of errors that are sent back one by
    one, whose outer products sum up to the loss's Hessian by the outputs."""
    features, errors = example.features, stack.whole.network.hessian_root(example.outputs)
    squares = [jnp.sum(errors**2, axis=0)[:, None] * features[-1][None, :] ** 2]
    for at in reversed(range(len(state.layers))):
        above = state.outgoing if at == len(state.layers) - 1 else state.layers[at + 1].weights.T
        errors = jax.vmap(partial(_sent_back, stack.nets[at], example.activations[at], above))(errors)
        squares.insert(0, features[at][:, None] ** 2 * jnp.sum(errors**2, axis=0)[None, :])
    return squares


def _hessian_product(
    stack: Stack, state: State, weights: tuple[Any, ...], example: _Example, vector: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The Hessian of the loss (squared: of half of it) by the weights that move, times `vector`."""

    def loss_of(weights: tuple[Any, ...]) -> Array:
        *incoming, outgoing = weights
        layers = [
            layer if own is None else layer._replace(weights=own)
            for layer, own in zip(state.layers, incoming, strict=True)
        ]
        outgoing = state.outgoing if outgoing is None else outgoing
        outputs = answer(stack, state._replace(layers=tuple(layers), outgoing=outgoing), example.features[0])
        loss, _ = stack.top.error(outputs, example.y)
        return loss / 2 if stack.whole.network.loss == "squared" else loss

    return jax.jvp(jax.grad(loss_of), (weights,), (vector,))[1]


def _sent_back(net: Arithmetic, units: Activation, above: Array, error: Array) -> Array:
    """An error at the layer above as one at the pre-activations of this layer."""
    return net.through_norm(net.weigh(error, net.without_constant(above)) * units.slope, units)
