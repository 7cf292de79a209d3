"""The layout of runs in the kernel engine: in pieces and with padding, what runs share kept once.

Triton takes arrays whose sizes are powers of two. The rows of U come in such pieces (20 inputs are 16 and 4), hidden
units and outputs are padded; padding stays 0 and is never seen.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.chunked import moves
from crossprop.engines.protocol import Run
from crossprop.engines.segments import Progress
from crossprop.engines.unit_major import UnitMajorState
from crossprop.learners.base import State, UnitRule
from crossprop.network import Activation, Network, float_type

NEVER = -1e30


class Shared(NamedTuple):
    """What runs share: each distinct source of examples and each distinct initial value once."""

    pool: Any
    """`(examples, inputs)`"""
    rows: Any
    """`(sources, steps)` of a segment: rows of `pool`"""
    y: Any
    """`(sources, steps, outputs)` of a segment, padded"""
    incoming: Any
    outgoing: Any
    """Initial weights in pieces, `(initial values, rows, columns)` each"""


class OfRuns(NamedTuple):
    """What each run has of its own."""

    numbers: Any
    """`(runs, hyperparameters)`"""
    place: Any
    """`(runs, 3)`: its source, its initial value, and 1, or 0 for a run that only fills up the call"""


def power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def pieces(network: Network) -> list[slice]:
    """The rows of U as powers of two, the bias by itself."""
    sizes = [1 << bit for bit in reversed(range(network.inputs.bit_length())) if network.inputs >> bit & 1]
    sizes += [1] * network.bias
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


class PaddedNetwork(eqx.Module):
    """The arithmetic of a network in pieces and with padding, which stays 0."""

    network: Network

    def with_constant(self, values: jax.Array) -> tuple[jax.Array, ...]:
        return (values, jnp.ones(1, values.dtype)) if self.network.bias else (values,)

    def without_constant(self, outgoing: tuple[jax.Array, ...]) -> jax.Array:
        return outgoing[0]

    def weigh(self, values: tuple[jax.Array, ...], weights: tuple[jax.Array, ...]) -> jax.Array:
        parts = zip(values, weights, strict=True)
        rows = [jnp.sum(weight * value[:, None], axis=0, keepdims=True) for value, weight in parts]
        return reduce(jnp.add, rows)[0]

    def activate(self, z: jax.Array) -> Activation:
        phi, slope = self.network.activate(z)
        real = lax.iota(jnp.int32, len(z)) < self.network.hidden
        return Activation(jnp.where(real, phi, 0), jnp.where(real, slope, 0))

    def outputs_of(self, features: tuple[jax.Array, ...], outgoing: tuple[jax.Array, ...]) -> jax.Array:
        parts = zip(features, outgoing, strict=True)
        outputs = reduce(jnp.add, (jnp.sum(weight * feature[None, :], axis=1) for feature, weight in parts))
        # A padded class has probability 0, a padded number no error.
        unlikely = NEVER if self.network.loss == "softmax" else 0
        return jnp.where(lax.iota(jnp.int32, len(outputs)) < self.network.outputs, outputs, unlikely)

    def error(self, outputs: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.network.error(outputs, y)


def in_pieces(rule: UnitRule, state: State) -> UnitMajorState:
    """A state in the kernel's layout."""
    split_incoming, split_outgoing = partial(_split_incoming, rule.network), partial(_split_outgoing, rule.network)
    signs = None if state.signs is None else _padded(jnp.swapaxes(state.signs, 1, 2), 0, 1, 2)
    work = first_work(rule, split_incoming(state.incoming), split_outgoing(state.outgoing.T), signs)
    memory = state.memory
    if memory is not None:
        by_memory = jnp.moveaxis(memory, -1, 0)
        memory = (
            tuple(_padded(by_memory[:, piece], 0, 2) for piece in pieces(rule.network))
            if rule.shapes().matrices
            else _padded(by_memory, 0, 1)
        )
    keeps = _map_like(state.incoming, split_incoming, state.optimizer[0]) if moves(rule) else ()
    optimizer = (keeps, _map_like(state.outgoing.T, split_outgoing, state.optimizer[1]))
    return replace(work, memory=memory, optimizer=optimizer)


def out_of_pieces(rule: UnitRule, work: UnitMajorState) -> State:
    """The public state of a run in the kernel's layout."""
    network, shapes = rule.network, rule.shapes()
    join_incoming = lambda parts: jnp.concatenate(parts)[:, : network.hidden]
    join_outgoing = lambda parts: jnp.concatenate([parts[0][:, : network.hidden], *parts[1:]], axis=1)[
        : network.outputs
    ]
    incoming, outgoing = join_incoming(work.incoming), join_outgoing(work.outgoing)
    memory, signs = work.memory, work.signs
    if shapes.matrices:
        memory = jnp.moveaxis(jnp.concatenate(memory, axis=1)[: shapes.matrices, :, : network.hidden], 0, -1)
    elif memory is not None:
        memory = memory[: network.outputs, : network.hidden].T
    if shapes.signs is not None:
        signs = jnp.swapaxes(signs[: shapes.signs[0], : network.outputs, : network.hidden], 1, 2)
    unmoved = rule.incoming_optimizer().init(incoming)
    keeps = _map_pieces(join_incoming, work.optimizer[0]) if moves(rule) else unmoved
    return State(incoming, outgoing.T, memory, signs, (keeps, _map_pieces(join_outgoing, work.optimizer[1])))


def _split_incoming(network: Network, incoming: jax.Array) -> tuple[jax.Array, ...]:
    padded = _padded(incoming, 1)
    return tuple(padded[piece] for piece in pieces(network))


def _split_outgoing(network: Network, outgoing: jax.Array) -> tuple[jax.Array, ...]:
    weights, constant = outgoing[:, : network.hidden], outgoing[:, network.hidden :]
    return (_padded(weights, 0, 1), *((_padded(constant, 0),) if network.bias else ()))


def _padded(values: jax.Array, *axes: int) -> jax.Array:
    """Padded with zeros to powers of two along these axes."""
    return jnp.pad(values, [(0, power(size) - size if axis in axes else 0) for axis, size in enumerate(values.shape)])


def _map_like(weights: jax.Array, change: Any, optimizer: Any) -> Any:
    """An optimizer's state with everything shaped like the weights changed as they are."""
    return jax.tree.map(lambda leaf: change(leaf) if leaf.shape == weights.shape else leaf, optimizer)


def _map_pieces(join: Any, optimizer: Any) -> Any:
    is_pieces = lambda node: type(node) is tuple and bool(node) and all(getattr(each, "ndim", 0) == 2 for each in node)
    return jax.tree.map(lambda node: join(node) if is_pieces(node) else node, optimizer, is_leaf=is_pieces)


@jax.jit
def entered(rule: UnitRule, numbers: jax.Array, states: State) -> UnitMajorState:
    """States of several runs in the kernel's layout."""
    return jax.vmap(lambda own, state: in_pieces(with_numbers(rule, own), state))(numbers, states)


@jax.jit
def left(rule: UnitRule, numbers: jax.Array, work: UnitMajorState) -> State:
    """The public states of several runs."""
    return jax.vmap(lambda own, one: out_of_pieces(with_numbers(rule, own), one))(numbers, work)


def first_work(rule: UnitRule, incoming: Any, outgoing: Any, signs: Any) -> UnitMajorState:
    """A run before its first example, with these weights."""
    shapes = rule.shapes()
    memory = None
    if shapes.matrices:
        memory = tuple(jnp.zeros((power(shapes.matrices), *piece.shape), piece.dtype) for piece in incoming)
    elif shapes.memory is not None:
        memory = jnp.zeros_like(outgoing[0])
    keeps = rule.incoming_optimizer().init(incoming) if moves(rule) else ()
    optimizer = (keeps, rule.outgoing_optimizer().init(outgoing))
    return UnitMajorState(incoming, outgoing, memory, signs, optimizer)


def gather(runs: Sequence[Run], sources: np.ndarray) -> tuple[tuple[Any, Any, Any], OfRuns]:
    """The distinct initial weights and signs; and what each run has of its own, filled up to a power of two."""
    rule, count = runs[0].learner, power(len(runs))
    assert isinstance(rule, UnitRule)
    place = np.zeros((count, 3), np.int32)
    different = {id(run.learner): run.learner for run in runs}
    scales = {which: (each.network.incoming_scale, each.network.outgoing_scale) for which, each in different.items()}
    values: dict[Any, int] = {}
    initial = []
    for number, run in enumerate(runs):
        which = (run.key.tobytes(), scales[id(run.learner)])
        if which not in values:
            values[which] = len(values)
            initial.append(number)
        place[number] = sources[number], values[which], 1
    leaves = {which: [*map(float, jax.tree.leaves(each))] for which, each in different.items()}
    numbers = np.array([leaves[id(run.learner)] for run in runs], float_type())
    numbers = np.concatenate([numbers, np.repeat(numbers[:1], count - len(runs), axis=0)])
    initial += [initial[0]] * (power(len(initial)) - len(initial))
    keys = np.array([runs[number].key for number in initial])
    return _initials(rule, numbers[initial], keys), jax.device_put(OfRuns(numbers, place))


@jax.jit
def _initials(rule: UnitRule, numbers: jax.Array, keys: jax.Array) -> tuple[Any, Any, Any]:
    """Initial weights in pieces, and signs, of several runs."""

    def one(own: jax.Array, key: jax.Array) -> tuple[Any, Any, Any]:
        mine = with_numbers(rule, own)
        work = in_pieces(mine, mine.init(jax.random.wrap_key_data(key, impl="threefry2x32")))
        return work.incoming, work.outgoing, work.signs

    return jax.vmap(one)(numbers, keys)


def with_numbers(rule: UnitRule, numbers: Any) -> UnitRule:
    """The rule with the hyperparameters of a run."""
    return jax.tree.unflatten(jax.tree.structure(rule), list(numbers))


@jax.jit
def begin(rule: UnitRule, initial: tuple[Any, Any, Any], own: OfRuns) -> Progress:
    """All runs before their first example."""
    incoming, outgoing, signs = jax.tree.map(lambda leaf: leaf[own.place[:, 1]], initial)
    work = jax.vmap(partial(first_work, rule))(incoming, outgoing, signs)
    return Progress(work, jnp.full(len(own.place), -1, jnp.int32))
