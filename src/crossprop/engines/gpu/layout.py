"""The layout of runs in GPU programs: in pieces and with padding, shared data stored once.

Triton takes arrays whose sizes are powers of two. The rows of U come in such pieces (20 inputs are 16 and 4, or 20
of one row), hidden units and outputs are padded; padding stays 0.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support.programs import program
from crossprop._support.transfers import to_device
from crossprop.engines.protocol import Run
from crossprop.engines.session import Carry
from crossprop.hyperparameters import by_structure
from crossprop.learners.base import CreditRule, State
from crossprop.learners.credit import Layer
from crossprop.learners.stack import Stack, moves
from crossprop.learners.states import state_shapes
from crossprop.network import Activation, Network, float_type
from crossprop.seeds import keys_of

NEVER = -1e30
MOST_SINGLE_ROWS = 32
"""Inputs whose rows of U can be pieces by themselves."""


class Shared(NamedTuple):
    """The shared data of runs: each distinct source of examples and each distinct initial value once."""

    pool: Any
    """`(examples, inputs)`"""
    rows: Any
    """`(sources, steps)` of a segment: rows of `pool`"""
    y: Any
    """`(sources, steps, outputs)` of a segment, padded"""
    incoming: Any
    outgoing: Any
    """Initial weights in pieces, `(initial values, rows, columns)` each; the incoming ones as a tuple of layers"""


class OfRuns(NamedTuple):
    """The data of each run."""

    numbers: Any
    """`(runs, hyperparameters)`"""
    place: Any
    """`(runs, 3)`: its source, its initial value, and 1, or 0 for padding"""


def power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def pieces(rule: CreditRule) -> list[slice]:
    """The rows of U as powers of two, or one by one; the bias by itself.

    A scalar input is broadcast to all threads, a vector goes through shared memory. But a scalar takes a register of
    every thread, so that fewer runs fit on chip, unless the rest of their state limits them already.
    """
    network = rule.network
    much = len(network.hidden) == 1 and moves(rule) and (rule.optimizer.momentum != 0 or rule.shapes().matrices > 0)
    bits = reversed(range(network.inputs.bit_length()))
    sizes = [1 << bit for bit in bits if network.inputs >> bit & 1]
    if much and network.inputs <= MOST_SINGLE_ROWS:
        sizes = [1] * network.inputs
    sizes += [1] * network.bias
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def input_pieces(rule: CreditRule) -> list[slice]:
    """`pieces` without the bias."""
    return [piece for piece in pieces(rule) if piece.start < rule.network.inputs]


class PaddedNetwork(eqx.Module):
    """The arithmetic of a hidden layer, or of its units from `begin` on, in pieces and with padding, which stays 0."""

    network: Network
    begin: Any = 0

    def with_constant(self, values: jax.Array) -> tuple[jax.Array, ...]:
        return (values, jnp.ones(1, values.dtype)) if self.network.bias else (values,)

    def without_constant(self, outgoing: tuple[jax.Array, ...]) -> jax.Array:
        return outgoing[0]

    def transposed(self, weights: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return (weights[0].T,)

    def weigh(self, values: tuple[jax.Array, ...], weights: tuple[jax.Array, ...]) -> jax.Array:
        parts = zip(values, weights, strict=True)
        rows = [jnp.sum(weight * value[:, None], axis=0, keepdims=True) for value, weight in parts]
        return reduce(jnp.add, rows)[0]

    def activate(self, z: jax.Array) -> Activation:
        network = self.network
        if network.layer_norm:
            units = network.activate_centred(self._real(z - jnp.sum(z, keepdims=True) / network.units))
        else:
            units = network.activate(z)
        return units._replace(phi=self._real(units.phi), slope=self._real(units.slope))

    def through_norm(self, error: jax.Array, units: Activation) -> jax.Array:
        return self._real(self.network.through_norm(error, units)) if self.network.layer_norm else error

    def own_slope(self, units: Activation) -> jax.Array | None:
        return self.network.own_slope(units)

    def outputs_of(self, features: tuple[jax.Array, ...], outgoing: tuple[jax.Array, ...]) -> jax.Array:
        parts = zip(features, outgoing, strict=True)
        return self.all_outputs(
            reduce(jnp.add, (jnp.sum(weight * feature[None, :], axis=1) for feature, weight in parts))
        )

    def all_outputs(self, outputs: jax.Array) -> jax.Array:
        """The outputs with values for padding: a padded class has probability 0, a padded number no error."""
        unlikely = NEVER if self.network.loss == "softmax" else 0
        return jnp.where(lax.iota(jnp.int32, len(outputs)) < self.network.outputs, outputs, unlikely)

    def error(self, outputs: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.network.error(outputs, y)

    def _real(self, values: jax.Array) -> jax.Array:
        """The values with 0 for padding."""
        return jnp.where(self.begin + lax.iota(jnp.int32, len(values)) < self.network.units, values, 0)


def padded_stack(rule: CreditRule) -> Stack:
    """The stack of a rule in pieces."""
    nets = tuple(map(PaddedNetwork, rule.network.layers()))
    return Stack(rule, rule.by_layer(), nets, nets[-1])


@by_structure
def state_numbers(rule: CreditRule) -> int:
    """The size of a run's state with padding."""
    state = jax.eval_shape(partial(in_pieces, rule), state_shapes(rule))
    return sum(leaf.size for leaf in jax.tree.leaves(state))


def in_pieces(rule: CreditRule, state: State, first_rows: list[slice] | None = None) -> State:
    """A state in pieces and with padding; `first_rows` are the pieces of the first layer's matrices, if not the usual
    ones."""
    first_rows, layers = first_rows or pieces(rule), []
    for at, (own, layer) in enumerate(zip(rule.by_layer(), state.layers, strict=True)):
        rows = _row_pieces(own.network) if at else first_rows
        split, memory = partial(_split_rows, rows), layer.memory
        if own.shapes().matrices:
            memory = tuple(_padded(memory[:, piece], 0, 1, 2) for piece in rows)
        elif memory is not None:
            memory = _padded(memory, 0, 1)
        signs = None if layer.signs is None else _padded(layer.signs, 0, 1, 2)
        keeps = _map_like(layer.weights, split, layer.optimizer) if at > 0 or moves(rule) else ()
        layers.append(Layer(split(layer.weights), memory, signs, keeps))
    split_outgoing = partial(_split_outgoing, rule.network)
    optimizer = _map_like(state.outgoing, split_outgoing, state.optimizer)
    return State(tuple(layers), split_outgoing(state.outgoing), optimizer)


def out_of_pieces(rule: CreditRule, state: State, first_rows: list[slice] | None = None) -> State:
    """The public state, from one in pieces."""
    first_rows, layers = first_rows or pieces(rule), []
    for at, (own, layer) in enumerate(zip(rule.by_layer(), state.layers, strict=True)):
        network, shapes = own.network, own.shapes()
        join = partial(_joined_rows, _row_pieces(network) if at else first_rows, network.units)
        weights, memory, signs = join(layer.weights), layer.memory, layer.signs
        if shapes.matrices:
            memory = jnp.stack([join(tuple(piece[k] for piece in memory)) for k in range(shapes.matrices)])
        elif memory is not None:
            memory = memory[: network.outputs, : network.units]
        if shapes.signs is not None:
            signs = signs[: shapes.signs[0], : network.outputs, : network.units]
        unmoved = own.incoming_optimizer().init(weights)
        keeps = _map_pieces(join, layer.optimizer) if at > 0 or moves(rule) else unmoved
        layers.append(Layer(weights, memory, signs, keeps))
    network = rule.network
    join_outgoing = lambda parts: jnp.concatenate([parts[0][:, : network.units], *parts[1:]], axis=1)[: network.outputs]
    return State(tuple(layers), join_outgoing(state.outgoing), _map_pieces(join_outgoing, state.optimizer))


def _row_pieces(network: Network) -> list[slice]:
    """The pieces of the weights between two hidden layers: all units of the layer below; the bias by itself."""
    return [slice(0, network.inputs), *([slice(network.inputs, network.fan_in)] if network.bias else [])]


def _split_rows(rows: list[slice], weights: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(_padded(weights[piece], 0, 1) for piece in rows)


def _joined_rows(rows: list[slice], columns: int, parts: tuple[jax.Array, ...]) -> jax.Array:
    real = [part[: piece.stop - piece.start] for part, piece in zip(parts, rows, strict=True)]
    return jnp.concatenate(real)[:, :columns]


def _split_outgoing(network: Network, outgoing: jax.Array) -> tuple[jax.Array, ...]:
    weights, constant = outgoing[:, : network.units], outgoing[:, network.units :]
    return (_padded(weights, 0, 1), *((_padded(constant, 0),) if network.bias else ()))


def _padded(values: jax.Array, *axes: int) -> jax.Array:
    """Padded with zeros to powers of two along these axes."""
    return jnp.pad(values, [(0, power(size) - size if axis in axes else 0) for axis, size in enumerate(values.shape)])


def _map_like(weights: jax.Array, change: Any, optimizer: Any) -> Any:
    """An optimizer's state with all arrays shaped like the weights changed like these."""
    return jax.tree.map(lambda leaf: change(leaf) if leaf.shape == weights.shape else leaf, optimizer)


def _map_pieces(join: Any, optimizer: Any) -> Any:
    is_pieces = lambda node: type(node) is tuple and bool(node) and all(getattr(each, "ndim", 0) == 2 for each in node)
    return jax.tree.map(lambda node: join(node) if is_pieces(node) else node, optimizer, is_leaf=is_pieces)


@program
def entered(rule: CreditRule, numbers: jax.Array, states: State) -> State:
    """States of several runs in pieces."""
    return jax.vmap(lambda own, state: in_pieces(with_numbers(rule, own), state))(numbers, states)


@program
def left(rule: CreditRule, numbers: jax.Array, state: State) -> State:
    """The public states of several runs."""
    return jax.vmap(lambda own, one: out_of_pieces(with_numbers(rule, own), one))(numbers, state)


def gather(runs: Sequence[Run], sources: np.ndarray) -> tuple[State, OfRuns]:
    """The distinct initial states, and the data of each run, padded to a power of two."""
    rule, count = runs[0].learner, power(len(runs))
    assert isinstance(rule, CreditRule)
    place = np.zeros((count, 3), np.int32)
    different = {id(run.learner): run.learner for run in runs}
    scales = {which: (each.network.incoming_scale, each.network.outgoing_scale) for which, each in different.items()}
    values: dict[Any, int] = {}
    initial = []
    for number, run in enumerate(runs):
        which = (run.seed, scales[id(run.learner)])
        if which not in values:
            values[which] = len(values)
            initial.append(number)
        place[number] = sources[number], values[which], 1
    leaves = {which: [*map(float, jax.tree.leaves(each))] for which, each in different.items()}
    numbers = np.array([leaves[id(run.learner)] for run in runs], float_type())
    numbers = np.concatenate([numbers, np.repeat(numbers[:1], count - len(runs), axis=0)])
    initial += [initial[0]] * (power(len(initial)) - len(initial))
    initial_keys = keys_of([runs[number].seed for number in initial])[1]
    return _initials(rule, *to_device((numbers[initial], initial_keys))), to_device(OfRuns(numbers, place))


@program
def _initials(rule: CreditRule, numbers: jax.Array, keys: jax.Array) -> State:
    """The states of several runs before their first example."""

    def one(own: jax.Array, key: jax.Array) -> State:
        mine = with_numbers(rule, own)
        return in_pieces(mine, mine.init(key))

    return jax.vmap(one)(numbers, keys)


def with_numbers(rule: CreditRule, numbers: Any) -> CreditRule:
    """The rule with the hyperparameters of a run."""
    return jax.tree.unflatten(jax.tree.structure(rule), list(numbers))


@program
def begin(initial: State, own: OfRuns) -> Carry:
    """All runs before their first example."""
    state = jax.tree.map(lambda leaf: leaf[own.place[:, 1]], initial)
    return Carry(state, jnp.full(len(own.place), -1, jnp.int32))
