"""A run as several GPU programs at once, each with some of the units: how they exchange sums, read and write.

A GPU starts programs in the order of their numbers, and those of a run follow each other. A run has at most as many as
there are multiprocessors, so the exchange cannot deadlock.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crossprop.engines.gpu.layout import PaddedNetwork
from crossprop.engines.gpu.support import pl, triton
from crossprop.learners.credit import State


class Shares(NamedTuple):
    """The sum of values over all programs of a run."""

    number: Any
    """Index of the program"""
    memory: Any
    """The shares of all programs, `(buffers, programs, values)`"""
    buffer: Any
    """Index of the buffer; it alternates, so that a slow reader is not overwritten"""
    arrived: Any
    """Counter of the shares that all programs have written since the launch"""
    earlier: Any
    """The number of exchanges before this one"""

    def total(self, own: jax.Array) -> jax.Array:
        """The sum of `own` over all programs, always in the same order; waits until all have written theirs."""
        programs = self.memory.shape[1]
        if programs == 1:
            return own
        self.memory[self.buffer, self.number] = own
        triton.debug_barrier()  # all threads have written
        arrived = triton.atomic_add(self.arrived, (0,), 1) + 1
        others = lambda _: triton.atomic_add(self.arrived, (0,), 0)
        lax.while_loop(lambda arrived: arrived < programs * (self.earlier + 1), others, arrived)
        # The cache of a multiprocessor may be stale.
        return jnp.sum(triton.load(self.memory.at[self.buffer], volatile=True), axis=0)


class Slice(PaddedNetwork):
    """The arithmetic of a program's hidden units; outputs are sums over all programs."""

    shares: Any = None

    def outputs_of(self, features: tuple[jax.Array, ...], outgoing: tuple[jax.Array, ...]) -> jax.Array:
        total = self.shares.total(jnp.sum(outgoing[0] * features[0][None, :], axis=1))
        return self.all_outputs(total + jnp.sum(outgoing[1], axis=1) if self.network.bias else total)


def axes_of_units(state: State, units: int) -> State:
    """For every array of a state the axis of the units that programs share, counted from the end: the last one, or the
    one before in the first layer's arrays; 0 if there is none."""
    axis_of = lambda axis: lambda leaf: axis if leaf.ndim >= -axis and leaf.shape[axis] == units else 0
    return jax.tree.map(axis_of(-1), state).with_first(jax.tree.map(axis_of(-2), state.layers[0]))


def read_own(axes: Any, refs: Any, own: Any) -> Any:
    """A program's slice of every array, along its axis in `axes`; the whole array where that is 0."""
    return jax.tree.map(lambda axis, ref: ref[_place(ref, axis, own)], axes, refs)


def write_own(axes: Any, refs: Any, values: Any, number: Any, own: Any) -> None:
    """Writes a program's slice of every array; the first program also writes arrays without units."""
    for axis, ref, value in zip(*map(jax.tree.leaves, (axes, refs, values)), strict=True):
        if axis:
            ref[_place(ref, axis, own)] = value
        else:

            @pl.when(number == 0)
            def _(ref: Any = ref, value: Any = value) -> None:
                ref[...] = value


def _place(ref: Any, axis: int, own: Any) -> Any:
    return tuple(own if at == ref.ndim + axis else slice(None) for at in range(ref.ndim)) if axis else ...
