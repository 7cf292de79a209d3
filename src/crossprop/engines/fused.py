"""One GPU program per example, for the scan engine: wide networks with optimizers whose steps do not add up, as adam.

The program of a few hidden units has all that belongs to them: their incoming weights, what the optimizer keeps for
these, their outgoing weights and memory. All that it needs of other units are the outputs, and for these each program
leaves its own share of the sum. So one launch per example is enough: a program adds up the shares that the last launch
left, learns from the example, and leaves its share of the outputs for the next one. Every number in the state is read
and written once per example; in memory the first layer's matrices have a row per unit, so that a program's numbers lie
side by side. Programs of runs that only fill up a batch end at once.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from crossprop.engines import gpu_programs
from crossprop.engines.fma_rewrite import GPU, PLAIN, fma_rewritten
from crossprop.engines.gpu_programs import triton
from crossprop.engines.kernel_layout import PaddedNetwork, in_pieces, out_of_pieces, pieces, power, with_numbers
from crossprop.engines.protocol import Observers, Rows, Sums
from crossprop.engines.segments import add_block, moves, norm
from crossprop.learners.base import Learner, State, UnitRule
from crossprop.learners.layer_update import move_layer
from crossprop.learners.unit_major import Stack, UnitMajorState
from crossprop.learners.update import respond
from crossprop.network import Network, float_type

NUMBERS_PER_PROGRAM = 2**15
"""At most: the registers of a multiprocessor hold twice as many."""
MOST_UNITS = 8
WARPS = 8
LAUNCHES = 10
"""Written out in a turn of the loop over examples."""
FEWEST_INPUTS = 128


def units_for(learner: Learner, platform: str, observers: Observers) -> int | None:
    """How many hidden units each program has, or None where examples are no programs: by device, sizes and rule."""
    if not gpu_programs.FOR_WIDE_NETWORKS or gpu_programs.why_no_programs(platform) is not None:
        return None
    if float_type() != np.float32 or observers.see_after:
        return None
    if not isinstance(learner, UnitRule) or learner.replacement is not None:
        return None
    if learner.optimizer not in ("adam", "rmsprop") or not moves(learner):
        return None
    network = learner.network
    if len(network.sizes) != 1 or network.layer_norm or network.inputs < FEWEST_INPUTS:
        return None
    return _units(jax.tree.structure(learner))


@lru_cache(256)
def _units(structure: Any) -> int | None:
    rule = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    work = jax.eval_shape(lambda: in_pieces(rule, rule.init(jax.random.key(0))))
    hidden = power(rule.network.units)
    per_unit = sum(leaf.size for leaf in jax.tree.leaves(work)) / hidden
    fitting = [units for units in (8, 4, 2, 1) if units <= MOST_UNITS and units * per_unit <= NUMBERS_PER_PROGRAM]
    return min(fitting[0], hidden) if fitting else None


class FusedLoop(NamedTuple):
    """One launch for each example, `stride` at a time; each program has a few units."""

    stride: int
    units: int
    interpret: bool = False

    def enter(self, learner: UnitRule, state: State) -> UnitMajorState:
        return _turned(in_pieces(learner, state))

    def leave(self, learner: UnitRule, work: UnitMajorState) -> State:
        return out_of_pieces(learner, _turned(work))

    def drifts(
        self, learner: UnitRule, initial: UnitMajorState, work: UnitMajorState, alive: Any = None
    ) -> dict[str, jax.Array]:
        rows = len(_input_pieces(learner.network))
        now, before = (each.layers[0].weights[:rows] for each in (work, initial))
        incoming = norm(*(after - start for after, start in zip(now, before, strict=True)))
        return {"incoming": incoming, "outgoing": norm(work.outgoing[0] - initial.outgoing[0])}

    def advance(
        self, learner: UnitRule, work: UnitMajorState, sums: Sums, rows: Rows, observers: Observers
    ) -> tuple[UnitMajorState, Sums]:
        x, y, at, until, _ = rows
        outputs = learner.network.outputs
        targets = jnp.pad(y, ((0, 0), (0, power(outputs) - outputs)))
        launch = jax.jit(partial(_launch, self, learner, x, targets, until > at))  # traced once for all examples
        begun, _ = launch(Carry(work, None, None, jnp.asarray(at, jnp.int32)))
        launches = next(number for number in range(min(LAUNCHES, self.stride), 0, -1) if self.stride % number == 0)

        def turn(carry: Carry, _: Any) -> Any:
            made = []
            for _ in range(launches):
                carry, each = launch(carry)
                made.append(each)
            return carry, jnp.stack(made)

        carry, made = lax.scan(turn, begun, length=self.stride // launches)
        made = made.reshape(self.stride, -1)[:, :outputs]
        own_targets = lax.dynamic_slice_in_dim(y, at, self.stride)
        return carry.work, add_block(sums, learner, observers, rows, made, own_targets)


# The program.


class Carry(NamedTuple):
    """What a launch hands on to the next."""

    work: UnitMajorState
    """In the kernel's layout, the first layer's arrays with a row per unit"""
    z: Any
    """`(hidden,)`, of the example that comes next; None if nothing is prepared"""
    shares: Any
    """`(2, programs, outputs)`, of its outputs, in one half; the other is written"""
    step: Any


class KnownOutputs(eqx.Module):
    """The arithmetic of outputs that are known already."""

    network: Network
    outputs: jax.Array

    def outputs_of(self, features: Any, outgoing: Any) -> jax.Array:
        return self.outputs

    def error(self, outputs: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.network.error(outputs, y)


def _launch(
    loop: FusedLoop, learner: UnitRule, x: jax.Array, y: jax.Array, alive: Any, before: Carry
) -> tuple[Carry, jax.Array]:
    """Learns from an example and prepares for the next, or prepares for the first; and the outputs, from before
    learning."""
    assert triton is not None
    begins, hidden = before.z is None, power(learner.network.units)
    programs = hidden // loop.units
    if begins:
        shares = jnp.zeros((2, programs, y.shape[1]), x.dtype)
        before = before._replace(z=jnp.zeros(hidden, x.dtype), shares=shares)
    numbers = jnp.stack([jnp.asarray(leaf, x.dtype) for leaf in jax.tree.leaves(learner)])
    shared, (leaves, structure) = (numbers, x, y), jax.tree.flatten(before)

    def program(alive: Any, *refs: Any) -> None:
        given, refs_in, refs_out = refs[:3], refs[3 : 3 + len(leaves)], refs[3 + len(leaves) :]
        carry, after = (jax.tree.unflatten(structure, each) for each in (refs_in, refs_out[:-1]))
        number = pl.program_id(0)

        @pl.when(alive[...] > 0)
        def _() -> None:
            _program(loop, learner, number, given, carry, after, None if begins else refs_out[-1])

    # What all programs read must not change while some have not read it.
    in_place = [i for i, axis in enumerate(jax.tree.leaves(_axes(before.work, hidden))) if axis]
    in_place.append(next(i for i, leaf in enumerate(leaves) if leaf is before.shares))
    made = pl.pallas_call(
        program,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (*leaves, y[0])],
        grid=(programs,),
        input_output_aliases={4 + i: i for i in in_place},
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=loop.interpret,
        name="example",
    )(jnp.asarray(alive, jnp.int32), *shared, *leaves)
    return jax.tree.unflatten(structure, made[:-1]), made[-1]


def _program(
    loop: FusedLoop, learner: UnitRule, number: Any, given: Any, before: Carry, after: Carry, made: Any
) -> None:
    """The program of some hidden units; its arguments refer to memory, which it reads and writes."""
    numbers, x, y = given
    use, hidden = PLAIN if loop.interpret else GPU, before.z.shape[0]
    own = pl.ds(number * loop.units, loop.units)
    rule = with_numbers(learner, [numbers[i] for i in range(numbers.shape[0])])
    network, net = rule.network, PaddedNetwork(rule.network, number * loop.units)

    def inputs_at(step: Any) -> tuple[jax.Array, ...]:
        parts = [x[step, pl.ds(piece.start, piece.stop - piece.start)] for piece in _input_pieces(network)]
        return (*parts, jnp.ones(1, y.dtype)) if network.bias else tuple(parts)

    def learned(work: UnitMajorState, z: jax.Array, known: jax.Array, y: jax.Array, inputs: Any) -> UnitMajorState:
        stack = Stack(rule, rule.by_layer(), (net,), KnownOutputs(network, known))  # pyright: ignore[reportArgumentType]
        work, credit, outcome = respond(stack, work, z, y)
        return work.with_first(move_layer(stack.rules[0], work.layers[0], credit, inputs, outcome.loss))

    def prepared(work: UnitMajorState, inputs: Any) -> tuple[jax.Array, jax.Array]:
        z = net.weigh(inputs, work.layers[0].weights)
        return z, jnp.sum(work.outgoing[0] * net.activate(z).phi[None, :], axis=1)

    step = before.step[...]
    half, following, known = lax.rem(step, 2), step, jnp.zeros(y.shape[1], y.dtype)
    axes = _axes(before.work, hidden)
    work = _turned(jax.tree.map(lambda axis, ref: ref[_place(ref, axis, own)], axes, before.work))
    if made is not None:
        total = jnp.sum(before.shares[half], axis=0)
        known = net.all_outputs(total + jnp.sum(work.outgoing[1], axis=1) if network.bias else total)
        work = fma_rewritten(learned, use)(work, before.z[own], known, y[step], inputs_at(step))
        half, following = 1 - half, jnp.minimum(step + 1, x.shape[0] - 1)
    after.z[own], after.shares[half, number] = fma_rewritten(prepared, use)(work, inputs_at(following))
    written = [*zip(*map(jax.tree.leaves, (axes, after.work, _turned(work))), strict=True)]
    for axis, ref, value in written if made is not None else ():
        if axis:
            ref[_place(ref, axis, own)] = value

    @pl.when(number == 0)
    def _() -> None:
        after.step[...] = step + (made is not None)
        for axis, ref, value in written:
            if not axis:
                ref[...] = value
        if made is not None:
            made[...] = known


def _input_pieces(network: Network) -> list[slice]:
    return [piece for piece in pieces(network) if piece.start < network.inputs]


def _turned(work: UnitMajorState) -> UnitMajorState:
    """The state with the first layer's arrays transposed."""
    turn = lambda leaf: jnp.swapaxes(leaf, -1, -2) if leaf.ndim > 1 else leaf
    return work.with_first(jax.tree.map(turn, work.layers[0]))


def _axes(work: UnitMajorState, hidden: int) -> UnitMajorState:
    """For every array of a state in memory the axis of the hidden units, or 0 if it has none."""
    axis_of = lambda axis: lambda leaf: axis if leaf.ndim >= -axis and leaf.shape[axis] == hidden else 0
    return jax.tree.map(axis_of(-1), work).with_first(jax.tree.map(axis_of(-2), work.layers[0]))


def _place(ref: Any, axis: int, own: Any) -> Any:
    """The index of some units."""
    return tuple(own if at == ref.ndim + axis else slice(None) for at in range(ref.ndim)) if axis else ...
