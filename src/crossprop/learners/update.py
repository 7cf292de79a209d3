"""The update of a credit rule, for `learner.update` and for all engines.

After the forward pass and the credits (`stack.respond`) weights move in two halves: `learn_above` updates everything
except the first layer's weights and memory matrices, and `move_layer` updates these by the coefficients of the first
half; an engine may do it later, or for many examples at once. An optimizer that sees the whole network moves all at
once.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array

from crossprop.learners.credit import Credit, Layer, Outcome, State
from crossprop.learners.renewal import renewed
from crossprop.learners.stack import Example, Stack, answer, credit_layers, respond
from crossprop.optimizers.base import needs_of

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule

MOST_WRITTEN_OUT = 200

add = partial(jax.tree.map, jnp.add)
minus = partial(jax.tree.map, jnp.negative)


def learn(
    stack: Stack, state: State, inputs: Any, y: Array, move: Callable[..., Layer] | None = None
) -> tuple[State, Outcome]:
    """A whole update; `inputs` have their constant. An engine may replace `move_layer` for the first layer."""
    z = stack.nets[0].weigh(inputs, state.layers[0].weights) if state.layers else None
    example = respond(stack, state, inputs, z, y)
    if stack.whole.network_optimizer() is not None:
        state = move_at_once(stack, state, example)
    else:
        state = _move_above(stack, state, example)
        if state.layers:
            first = stack.rules[0], state.layers[0], first_credit(example), inputs, example.outcome.loss
            state = state.with_first((move or move_layer)(*first))
    return renewed(stack, state, tuple(units.phi for units in example.activations)), example.outcome


def learn_above(stack: Stack, state: State, z: Array, y: Array) -> tuple[State, Credit, Outcome]:
    """Updates everything except the first layer's weights and memory matrices, which the caller moves by the `Credit`;
    `z` are the first layer's pre-activations."""
    example = respond(stack, state, None, z, y)
    return _move_above(stack, state, example), first_credit(example), example.outcome


def first_credit(example: Example) -> Credit:
    """The coefficients that the first layer's weights and memory matrices still have to follow."""
    return example.credits[0]._replace(unit_memory=None, step_memory=None, error=None)


# One matrix after another, from the top down.


def _move_above(stack: Stack, state: State, example: Example) -> State:
    (loss, _), credits, layers = example.outcome, example.credits, list(state.layers)
    features = _after_credit(example.features, credits)
    direction = jax.tree.map(lambda part: example.delta[:, None] * part[None, :], features[-1])
    optimizer = stack.whole.outgoing_optimizer()
    step, kept = optimizer.update(minus(direction), state.optimizer, state.outgoing, value=loss)
    outgoing = add(state.outgoing, step)
    for at in reversed(range(len(layers))):
        layers[at] = _remember(stack, at, layers[at], credits[at], step)
        if at > 0:
            layers[at], move = _moved(stack.rules[at], layers[at], credits[at], features[at], loss)
            step = stack.nets[at - 1].transposed(move)
    return state._replace(layers=tuple(layers), outgoing=outgoing, optimizer=kept)


def _after_credit(features: list[Any], credits: list[Credit]) -> list[Any]:
    """The features, with a false dependency on the credit of a deep network's lowest layer, so that XLA updates the
    upper weights after the errors have used the old ones, in place."""
    last = credits[0].from_input if len(credits) > 1 else None
    if last is None or not isinstance(features[-1], Array):  # In the kernel, features come in pieces.
        return features
    return [features[0], *(depend_on(last, each) for each in features[1:])]


def depend_on(first: Array, values: Array) -> Array:
    """`values`, unchanged, with a dependency on `first` that XLA cannot remove: it does not know that no number is both
    infinite and NaN. From JAX 0.12 on `lax.optimization_barrier` does the same; before, XLA drops barriers too soon,
    and deep networks take up to twice as long."""
    some = first[(0,) * first.ndim]
    return jnp.where(jnp.isinf(some) & jnp.isnan(some), 0, values)


def _remember(stack: Stack, at: int, layer: Layer, credit: Credit, step: Any) -> Layer:
    """The layer with a new memory at its units; `step` is that of its outgoing weights."""
    if stack.rules[at].shapes().matrices:
        return layer
    memory = credit.unit_memory
    if memory is not None and credit.step_memory is not None:
        memory = memory + credit.step_memory * stack.nets[at].without_constant(jax.tree.map(jnp.asarray, step))
    return layer._replace(memory=memory)


def move_layer(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> Layer:
    """The second half of an update: a layer's weights and memory matrices."""
    return _moved(rule, layer, credit, inputs, loss)[0]


def move_layer_in_order(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> Layer:
    """`move_layer` with the memory matrices updated after the weights have used the old ones, which XLA then does in
    place."""
    moved = move_layer(rule, layer, credit, inputs, loss)
    if not rule.shapes().matrices:
        return moved
    return moved._replace(memory=move_layer(rule, layer, credit, depend_on(moved.weights, inputs), loss).memory)


def _moved(rule: "CreditRule", layer: Layer, credit: Credit, inputs: Any, loss: Array) -> tuple[Layer, Any]:
    """A layer with new weights and memory matrices, and the step of the weights."""
    if rule.optimizer.momentum == 0:  # scales the few coefficients instead of the whole direction
        scale = lambda part: None if part is None else rule.own_step_size() * part
        credit = credit._replace(from_input=scale(credit.from_input), from_memory=scale(credit.from_memory))
    layer, directions = _directions(layer, credit, inputs)
    if not directions:
        return layer, jax.tree.map(jnp.zeros_like, layer.weights)
    direction = reduce(add, directions)
    if rule.optimizer.momentum == 0:
        return layer._replace(weights=reduce(add, directions, layer.weights)), direction
    step, optimizer = rule.incoming_optimizer().update(minus(direction), layer.optimizer, layer.weights, value=loss)
    return layer._replace(weights=add(layer.weights, step), optimizer=optimizer), step


def _directions(layer: Layer, credit: Credit, inputs: Any) -> tuple[Layer, list[Any]]:
    """The layer with new memory matrices, and the terms of the direction of its weights."""
    directions, take, keep, new = [], credit.from_memory, credit.memory_keep, credit.memory_input
    if take is not None:
        assert keep is not None and new is not None
        # In GPU programs inputs come in pieces, and arrays on chip cannot be split.
        weigh = weigh_memories if isinstance(inputs, Array) else lambda h, take: jnp.sum(h * take, axis=0)
        directions.append(jax.tree.map(lambda h: weigh(h, take[:, None, :]), layer.memory))
        change = lambda h, x: h * keep[None, None, :] + x[None, :, None] * new[:, None, :]
        layer = layer._replace(memory=jax.tree.map(change, layer.memory, inputs))
    if (through_input := credit.from_input) is not None:
        directions.append(jax.tree.map(lambda x: x[:, None] * through_input[None, :], inputs))
    return layer, directions


def weigh_memories(memories: Array, weights: Array) -> Array:
    """The sum of products over the first axis, written out, since XLA is slow at such sums on a CPU."""
    if len(memories) > MOST_WRITTEN_OUT:
        return jnp.sum(memories * weights, axis=0)
    return reduce(jnp.add, (memory * weight for memory, weight in zip(memories, weights, strict=True)))


# All matrices at once, by an optimizer that sees the whole network.


def hidden_directions(state: State, example: Example) -> tuple[list[Layer], list[Any]]:
    """The hidden layers with new memory matrices, and the directions of their weights; None for those that stay."""
    moved = [_directions(*each) for each in zip(state.layers, example.credits, example.features, strict=False)]
    return [layer for layer, _ in moved], [reduce(add, parts) if parts else None for _, parts in moved]


def move_at_once(stack: Stack, state: State, example: Example, *, hidden_only: bool = False) -> State:
    """An update without replacements. With `hidden_only`, the outgoing weights and their part of the optimizer's state
    stay as they are."""
    layers, directions = hidden_directions(state, example)
    gradients: Any = [None if each is None else minus(each) for each in directions]
    gradients.append(minus(example.delta[:, None] * example.features[-1][None, :]))
    weights: Any = stack.weights(state)
    sizes: Any = stack.whole.step_sizes()
    if hidden_only:
        weights, sizes, gradients[-1] = (*weights[:-1], None), (*sizes[:-1], None), None
    key, extra = _extra_arguments(stack, state, weights, example)
    optimizer = stack.whole.network_optimizer()
    assert optimizer is not None
    transform = optimizer(sizes)
    part = _part_of(state.optimizer, jax.eval_shape(transform.init, weights)) if hidden_only else state.optimizer
    steps: Any
    steps, kept = transform.update(tuple(gradients), part, weights, value=example.outcome.loss, **extra)
    step = jnp.zeros_like(state.outgoing) if hidden_only else steps[-1]
    outgoing = state.outgoing if hidden_only else add(state.outgoing, step)
    for at in reversed(range(len(layers))):
        layers[at] = _remember(stack, at, layers[at], example.credits[at], step)
        move = jnp.zeros_like(layers[at].weights) if steps[at] is None else steps[at]
        layers[at] = layers[at] if steps[at] is None else layers[at]._replace(weights=add(layers[at].weights, move))
        step = stack.nets[at - 1].transposed(move)
    kept = _with_part(state.optimizer, kept) if hidden_only else kept
    return state._replace(layers=tuple(layers), outgoing=outgoing, optimizer=kept, key=key)


def _part_of(state: Any, like: Any) -> Any:
    """The part of an optimizer's state with the structure `like`: without the outgoing weights, which come last."""
    leaves = dict(jax.tree.leaves_with_path(state))
    return jax.tree.map_with_path(lambda path, _: leaves[path], like)


def _with_part(state: Any, part: Any) -> Any:
    """An optimizer's state for all weights with a new part."""
    leaves = dict(jax.tree.leaves_with_path(part))
    return jax.tree.map_with_path(leaves.get, state)


def _extra_arguments(
    stack: Stack, state: State, weights: tuple[Any, ...], example: Example
) -> tuple[Any, dict[str, Any]]:
    """The key for the next step, and the extra arguments of the optimizer, with None for weights that stay."""
    optimizer, network = stack.whole.network_optimizer(), stack.whole.network
    assert optimizer is not None
    at_weights = lambda every: tuple(None if own is None else each for own, each in zip(weights, every, strict=True))
    values: dict[str, Callable[[], Any]] = {
        "curvature": lambda: at_weights(_curvature(stack, state, example)),
        "hessian_product": lambda: partial(_hessian_product, stack, state, weights, example),
        "delta": lambda: example.delta,
        "fan_in": lambda: at_weights((network.inputs, *network.hidden)),
        "inputs_axis": lambda: at_weights([*(0 for _ in state.layers), 1]),
        "directions": lambda: partial(_all_directions, stack, state, example),
    }
    needs = needs_of(optimizer)
    extra, key = {name: value() for name, value in values.items() if name in needs}, state.key
    if "key" in needs:
        key, extra["key"] = jax.random.split(state.key)
    return key, extra


def _all_directions(stack: Stack, state: State, example: Example, delta: Array) -> tuple[Any, ...]:
    """The directions of all weights for an error, with None for weights that stay."""
    credits = credit_layers(stack, state, example.activations, delta)
    hidden = hidden_directions(state, example._replace(credits=credits))[1]
    return (*hidden, delta[:, None] * example.features[-1][None, :])


def _curvature(stack: Stack, state: State, example: Example) -> list[Array]:
    """The diagonal of the loss's Gauss-Newton matrix, for all weights: the sum of squares over errors that are
    backpropagated one by one and whose outer products sum up to the loss's Hessian by the outputs."""
    features, errors = example.features, stack.whole.network.hessian_root(example.outcome.outputs)
    squares = [jnp.sum(errors**2, axis=0)[:, None] * features[-1][None, :] ** 2]
    for at in reversed(range(len(state.layers))):
        net, units = stack.nets[at], example.activations[at]
        above = net.without_constant(state.outgoing if at == len(state.layers) - 1 else state.layers[at + 1].weights.T)
        send_back = lambda error: net.through_norm(net.weigh(error, above) * units.slope, units)  # noqa: B023
        # A product of matrices would keep the loop from being one function on a CPU.
        errors = jax.vmap(send_back)(errors) if len(errors) > 1 else send_back(errors[0])[None]
        squares.insert(0, features[at][:, None] ** 2 * jnp.sum(errors**2, axis=0)[None, :])
    return squares


def _hessian_product(
    stack: Stack, state: State, weights: tuple[Any, ...], example: Example, vector: tuple[Any, ...]
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
