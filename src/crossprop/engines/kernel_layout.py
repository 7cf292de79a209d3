"""Runs laid out for the kernel engine: in pieces and with padding, and what they share kept once.

Triton takes arrays whose sizes are powers of two: the rows of U come in such pieces (20 inputs are 16 and 4), hidden
units and outputs are padded, and what is padding stays 0 and is never seen.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines import segments
from crossprop.engines.feeding import Lives
from crossprop.learners import Learner
from crossprop.learners.base import UnitMajorState
from crossprop.network import Activation, Network, float_type

NEVER = -1e30


class Data(NamedTuple):
    """What the runs share: each distinct life and each distinct initial value once."""

    pool: Any
    """`(examples, inputs)`"""
    order: Any
    """`(lives, steps)`, rows of `pool`"""
    y: Any
    """`(lives, steps, outputs)`, padded"""
    incoming: Any
    outgoing: Any
    """Initial weights in pieces, `(initial values, rows, columns)` each"""


class Runs(NamedTuple):
    """What each run has of its own."""

    numbers: Any
    """`(runs, hyperparameters)`"""
    place: Any
    """`(runs, 3)`: which life, which initial value, and 1, or 0 for a run that only fills up the call"""


def power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def pieces(network: Network) -> list[slice]:
    """The rows of U as powers of two, the bias by itself."""
    sizes = [1 << bit for bit in reversed(range(network.inputs.bit_length())) if network.inputs >> bit & 1]
    sizes += [1] * network.bias
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


class Padded(Network):
    """A network in pieces and with padding, which stays 0."""

    units: int = eqx.field(static=True, kw_only=True)
    answers: int = eqx.field(static=True, kw_only=True)

    @classmethod
    def of(cls, network: Network) -> "Padded":
        sizes = (network.inputs, power(network.hidden), power(network.outputs))
        kind = (network.activation, network.loss, network.bias)
        return cls(*sizes, *kind, units=network.hidden, answers=network.outputs)

    def with_constant(self, values) -> Any:
        return (values, jnp.ones(1, values.dtype)) if self.bias else (values,)

    def without_constant(self, outgoing):
        return outgoing[0]

    def weigh(self, values, weights):
        parts = zip(values, weights, strict=True) if isinstance(values, tuple) else [(values, weights)]
        rows = [jnp.sum(weight * value[:, None], axis=0, keepdims=True) for value, weight in parts]
        return reduce(jnp.add, rows)[0]

    def activate(self, z):
        phi, slope = super().activate(z)
        real = lax.iota(jnp.int32, self.hidden) < self.units
        return Activation(jnp.where(real, phi, 0), jnp.where(real, slope, 0))

    def outputs_of(self, features, outgoing):
        parts = zip(features, outgoing, strict=True)
        outputs = sum(jnp.sum(weight * feature[None, :], axis=1) for feature, weight in parts)
        # A class that is padding is never likely, and no error in numbers.
        unlikely = NEVER if self.loss == "softmax" else 0
        return jnp.where(lax.iota(jnp.int32, self.outputs) < self.answers, outputs, unlikely)


def initial_weights(learner: Learner, key: jax.Array) -> tuple[Any, Any, Any]:
    """The initial U and W in pieces, and the signs."""
    state, network = learner.init(key), learner.network
    hidden, outputs = power(network.hidden) - network.hidden, power(network.outputs) - network.outputs
    incoming = jnp.pad(state.incoming, [(0, 0), (0, hidden)])
    outgoing = jnp.pad(state.outgoing.T, [(0, outputs), (0, 0)])
    weights = jnp.pad(outgoing[:, : network.hidden], [(0, 0), (0, hidden)])
    signs = state.signs
    if signs is not None:
        signs = jnp.pad(jnp.swapaxes(signs, 1, 2), [(0, power(len(signs)) - len(signs)), (0, outputs), (0, hidden)])
    constant = (outgoing[:, network.hidden :],) if network.bias else ()
    return tuple(incoming[piece] for piece in pieces(network)), (weights, *constant), signs


def first_work(learner: Learner, incoming: Any, outgoing: Any, signs: Any) -> UnitMajorState:
    """A run before its first example."""
    memory = learner.shapes().memory
    if memory is not None and len(memory) == 3:
        memory = tuple(jnp.zeros((power(memory[2]), *piece.shape), piece.dtype) for piece in incoming)
    elif memory is not None:
        memory = jnp.zeros_like(outgoing[0])
    keeps = learner.incoming_optimizer().init(incoming) if segments.moves(learner) else ()
    optimizer = (keeps, learner.outgoing_optimizer().init(outgoing))
    return UnitMajorState(incoming, outgoing, memory, signs, optimizer)


def gather(runs: Sequence[segments.Run]) -> tuple[Data, Any, Runs]:
    """What is shared, once; and what each run has of its own, filled up to a power of two."""
    learner, count = runs[0].learner, power(len(runs))
    pool, order, y, lives = Lives.of([run.life for run in runs])
    place = np.zeros((count, 3), np.int32)
    different = {id(run.learner): run.learner for run in runs}
    scales = {which: (each.network.incoming_scale, each.network.outgoing_scale) for which, each in different.items()}
    values: dict[Any, int] = {}
    initial = []
    for number, (each, _, key) in enumerate(runs):
        which = (key.tobytes(), scales[id(each)])
        if which not in values:
            values[which] = len(values)
            initial.append(number)
        place[number] = lives[number], values[which], 1
    leaves = {which: [*map(float, jax.tree.leaves(each))] for which, each in different.items()}
    numbers = np.array([leaves[id(run.learner)] for run in runs], float_type())
    numbers = np.concatenate([numbers, np.repeat(numbers[:1], count - len(runs), axis=0)])
    initial += [initial[0]] * (power(len(initial)) - len(initial))
    keys = np.array([runs[number].key for number in initial])
    incoming, outgoing, signs = _initials(learner, numbers[initial], keys)
    y = np.pad(y, [(0, 0), (0, 0), (0, power(learner.network.outputs) - learner.network.outputs)])
    return jax.device_put(Data(pool, order, y, incoming, outgoing)), signs, jax.device_put(Runs(numbers, place))


@jax.jit
def _initials(learner: Learner, numbers: jax.Array, keys: jax.Array) -> tuple[Any, Any, Any]:
    """`initial_weights` of several runs."""
    return jax.vmap(lambda own, key: initial_weights(with_numbers(learner, own), jax.random.wrap_key_data(key)))(
        numbers, keys
    )


def with_numbers(learner: Learner, numbers: Any) -> Learner:
    """The learner with the hyperparameters of a run."""
    return jax.tree.unflatten(jax.tree.structure(learner), list(numbers))


@partial(jax.jit, static_argnames="windows")
def begin(learner: Learner, data: Data, own: Runs, signs: Any, windows: int) -> segments.Progress:
    incoming, outgoing, signs = jax.tree.map(lambda leaf: leaf[own.place[:, 1]], (data.incoming, data.outgoing, signs))
    work = jax.vmap(partial(first_work, learner))(incoming, outgoing, signs)
    runs = len(own.place)
    records = {name: jnp.zeros((runs, windows)) for name in segments.record_names(learner, ())}
    return segments.Progress(work, records, jnp.full(runs, -1, jnp.int32))
