"""Resets the units that a replacement chooses: their weights, memory and optimizer state."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from crossprop.learners.credit import Layer, Replaced, State
from crossprop.learners.stack import Stack
from crossprop.optimizers.base import PartStates
from crossprop.replacements import Watched

BLOCKS = 16
WIDTH = 32
"""Blocks of rows or columns that are summed at a time, and the least columns of one."""


def renewed(stack: Stack, state: State, phis: tuple[Array, ...]) -> State:
    """The state after an example's replacements; `phis` are the units of every hidden layer."""
    if state.replacement is None:
        return state
    method: Any = stack.whole.replacement
    key, memories = state.replacement
    memories = [method.update(memory, _watched(stack, state, at, phis[at])) for at, memory in enumerate(memories)]
    for at in range(len(memories)):
        state, key, memories[at] = _renewed_layer(stack, state, key, memories[at], at)
    return state._replace(replacement=Replaced(key, tuple(memories)))


def _watched(stack: Stack, state: State, at: int, phi: Array) -> Watched:
    network = stack.rules[at].network
    incoming = state.layers[at].weights[: network.inputs]
    if at == len(state.layers) - 1:
        outgoing = state.outgoing[:, : network.units]
        return Watched(phi, incoming, outgoing, _mean_of_columns(incoming), _mean_of_columns(outgoing))
    above = state.layers[at + 1].weights[: network.units]
    return Watched(phi, incoming, above.T, _mean_of_columns(incoming), _mean_of_rows(above))


# XLA is slow at sums over an axis on a CPU, but not at sums of a few blocks, nor at products with few numbers.


def _mean_of_columns(weights: Array) -> Array:
    """The mean absolute value of every column."""
    rows, blocks = len(weights), min(len(weights), BLOCKS)
    size = rows // blocks
    block = reduce(jnp.add, [jnp.abs(weights[at * size : (at + 1) * size]) for at in range(blocks)])
    rest = [jnp.abs(weights[at]) for at in range(blocks * size, rows)]
    ones = jnp.ones(size, weights.dtype)
    total = block[0] if size == 1 else jnp.matmul(ones, block, precision=lax.Precision.HIGHEST)
    return reduce(jnp.add, [total, *rest]) / rows


def _mean_of_rows(weights: Array) -> Array:
    """The mean absolute value of every row."""
    columns = weights.shape[1]
    size = min(columns, max(WIDTH, -(-columns // BLOCKS)))
    blocks = columns // size
    total = reduce(jnp.add, [jnp.abs(weights[:, at * size : (at + 1) * size]) for at in range(blocks)])
    rest = jnp.abs(weights[:, blocks * size :])
    sums = [
        jnp.matmul(part, jnp.ones(part.shape[1], part.dtype), precision=lax.Precision.HIGHEST) for part in (total, rest)
    ]
    return (sums[0] + sums[1] if rest.shape[1] else sums[0]) / columns


def _renewed_layer(stack: Stack, state: State, key: Array, memory: Any, at: int) -> Any:
    """The state, the key and the layer's memory after the replacements that are due."""
    method: Any = stack.whole.replacement
    blank = method.init(stack.rules[at].network)

    def renew_one(carry: Any) -> Any:
        state, key, memory = carry
        key, choice_key, weights_key = jax.random.split(key, 3)
        unit, memory, mean = method.choose(memory, choice_key)
        incoming = stack.whole.network.fresh_unit(weights_key, at, method.redraw)
        state = _restarted(stack, state, at, unit, mean, incoming.astype(state.outgoing.dtype))
        return state, key, _from_blank(memory, blank, stack.rules[at].network.units, unit)

    return lax.while_loop(lambda carry: method.due(carry[2]), renew_one, (state, key, memory))


def _restarted(stack: Stack, state: State, at: int, unit: Array, mean: Any, incoming: Array) -> Any:
    """The state with one unit of a layer reset."""
    top, biased, layers = at == len(state.layers) - 1, stack.whole.network.bias, list(state.layers)
    layers[at] = _with_new_part(layers[at], stack.rules[at], unit, incoming, axis=-1)
    if at > 0:
        layers[at - 1] = _without_unit_above(layers[at - 1], stack.rules[at - 1], unit)
    outgoing = state.outgoing
    if top:
        column = lax.dynamic_index_in_dim(outgoing, unit, axis=1, keepdims=False)
        if biased:
            outgoing = _with_added(outgoing, column * mean, axis=1)
        outgoing = _with_part(outgoing, jnp.zeros_like(column), unit, axis=-1)
    else:
        above = layers[at + 1]
        row = lax.dynamic_index_in_dim(above.weights, unit, keepdims=False)
        if biased:
            above = above._replace(weights=_with_added(above.weights, row * mean, axis=0))
        layers[at + 1] = _with_new_part(above, stack.rules[at + 1], unit, jnp.zeros_like(row), axis=-2)
    state = state._replace(layers=tuple(layers), outgoing=outgoing)
    return _with_fresh_optimizers(stack, state, unit, {at: -1, at + 1: -1 if top else -2})


def _with_added(weights: Array, values: Array, axis: int) -> Array:
    """Weights with values added to the biases, the last along an axis."""
    last = weights.shape[axis] - 1
    biases = lax.index_in_dim(weights, last, axis, keepdims=False)
    return _with_part(weights, biases + values, jnp.asarray(last), axis)


def _with_new_part(layer: Layer, rule: Any, unit: Array, values: Array, axis: int) -> Layer:
    """A layer with new weights into a unit (`axis=-1`) or from one of the layer below (`axis=-2`), and their memory
    reset."""
    weights, memory = _with_part(layer.weights, values, unit, axis), layer.memory
    if memory is not None and (rule.shapes().matrices or axis == -1):
        memory = _with_part(memory, jnp.zeros((), memory.dtype), unit, axis)
    return layer._replace(weights=weights, memory=memory)


def _without_unit_above(layer: Layer, rule: Any, unit: Array) -> Layer:
    """A layer with the memory of its weights into a unit of the layer above reset. Projected memories mix all units
    there and stay as they are, unless there is only one."""
    memory, above = layer.memory, rule.network.outputs
    if memory is None or (rule.shapes().signs is not None and above > 1):
        return layer
    return layer._replace(memory=jnp.zeros_like(memory) if above == 1 else memory.at[unit].set(0))


def _with_fresh_optimizers(stack: Stack, state: State, unit: Array, axes: dict[int, int]) -> Any:
    """The state with optimizers reset for the weights of `unit`, along one axis of each matrix in `axes`; matrices are
    counted from the first layer's to the outgoing one."""
    if (whole := stack.whole.network_optimizer()) is not None:
        weights = stack.weights(state)
        fresh = whole(stack.whole.step_sizes()).init(weights)
        return state._replace(optimizer=_restarted_parts(state.optimizer, fresh, weights, unit, axes))
    layers, top = list(state.layers), state.optimizer
    for at, axis in axes.items():
        restart = lambda now, fresh, axis=axis: _from_part(now, fresh, unit, axis)
        if at == len(layers):
            top = _fresh(stack.whole.outgoing_optimizer(), top, state.outgoing, restart)
        else:
            optimizer, layer = stack.rules[at].incoming_optimizer(), layers[at]
            layers[at] = layer._replace(optimizer=_fresh(optimizer, layer.optimizer, layer.weights, restart))
    return state._replace(layers=tuple(layers), optimizer=top)


def _restarted_parts(kept: Any, fresh: Any, weights: tuple[Any, ...], unit: Array, axes: dict[int, int]) -> Any:
    """The state of an optimizer of the whole network, reset for the weights of a unit."""

    def restart(now: tuple[Any, ...], fresh: tuple[Any, ...]) -> tuple[Any, ...]:
        change = lambda now, fresh, own, axis: _restarted_like(
            own, lambda now, fresh: _from_part(now, fresh, unit, axis), now, fresh
        )
        return tuple(
            change(one, other, own, axes[at]) if at in axes and own is not None else one
            for at, (one, other, own) in enumerate(zip(now, fresh, weights, strict=True))
        )

    # A user's optimizer may give its base one step size for all weights, which are then one part.
    is_parts = lambda part: isinstance(part, PartStates) and len(part.of_parts) == len(weights)
    split = lambda now, fresh: PartStates(restart(now.of_parts, fresh.of_parts)) if is_parts(now) else now
    kept = jax.tree.map(split, kept, fresh, is_leaf=is_parts)
    return _restarted_like(weights, restart, kept, fresh)


def _fresh(optimizer: Any, kept: Any, weights: Any, restart: Callable[[Any, Any], Any]) -> Any:
    """An optimizer's state with `restart(now, fresh)` for every part that is shaped like the weights."""
    return _restarted_like(weights, restart, kept, optimizer.init(weights))


def _restarted_like(weights: Any, restart: Callable[[Any, Any], Any], kept: Any, fresh: Any) -> Any:
    shape_of = lambda tree: (jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)])
    is_like = lambda part: shape_of(part) == shape_of(weights)
    change = lambda now, fresh: restart(now, fresh) if is_like(now) else now
    return jax.tree.map(change, kept, fresh, is_leaf=is_like)


def _from_blank(memory: Any, blank: Any, units: int, unit: Array) -> Any:
    """A replacement's memory, reset for a unit."""
    same = lambda kept, fresh: _from_part(kept, fresh, unit, -1) if kept.shape[-1:] == (units,) else kept
    return jax.tree.map(same, memory, blank)


def _from_part(kept: Array, fresh: Array, at: Array, axis: int) -> Array:
    fresh = jnp.asarray(fresh, kept.dtype)
    return lax.dynamic_update_slice_in_dim(kept, lax.dynamic_slice_in_dim(fresh, at, 1, axis), at, axis)


def _with_part(array: Array, values: Array, at: Array, axis: int) -> Array:
    """`array` with `values` at one index of an axis."""
    shape = list(array.shape)
    shape[axis] = 1
    part = jnp.expand_dims(values, axis) if values.ndim else values
    return lax.dynamic_update_slice_in_dim(array, jnp.broadcast_to(part, shape), at, axis % array.ndim)
