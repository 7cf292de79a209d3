"""A run as several GPU programs at once, for the scan engine: wide networks with optimizers whose steps do not add up,
as adam.

Each program has a slice of the hidden units and keeps on chip their incoming weights, optimizer state, outgoing weights
and memory. Of the other units it needs the share of the outputs. So for every example each program writes its own share
to memory, waits until all programs of the run have done so, and adds the shares up, always in the same order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.gpu import support
from crossprop.engines.gpu.fma_rewrite import GPU, PLAIN, fma_rewritten
from crossprop.engines.gpu.layout import in_pieces, input_pieces, out_of_pieces, power, state_numbers, with_numbers
from crossprop.engines.gpu.shares import Shares, Slice, axes_of_units, read_own, write_own
from crossprop.engines.gpu.support import pl, triton
from crossprop.engines.protocol import Rows
from crossprop.learners.base import CreditRule, Learner, State
from crossprop.learners.stack import Stack, moves
from crossprop.learners.update import learn
from crossprop.network import float_type
from crossprop.variables import Variable

NUMBERS_PER_PROGRAM, MOST_PER_PROGRAM = 24_000, 40_000
"""The registers of a multiprocessor hold two programs of the one size, or one of the other."""
NUMBERS_PER_THREAD = 190
FEWEST_INPUTS = 128


def programs_for(learner: Learner, platform: str, observed: tuple[Variable, ...]) -> int | None:
    """How many programs share a run, or None if it is not split. It depends on device, sizes and rule alone."""
    if not support.for_wide_networks(platform) or not support.may_wait():
        return None
    if float_type() != np.float32 or any(variable.after for variable in observed):
        return None
    if not isinstance(learner, CreditRule) or learner.replacement is not None:
        return None
    optimizer = learner.optimizer
    if not optimizer.elementwise or optimizer.momentum is not None or not moves(learner):
        return None
    network = learner.network
    if len(network.hidden) != 1 or network.layer_norm or network.inputs < FEWEST_INPUTS:
        return None
    numbers, most = state_numbers(learner), min(support.multiprocessors(), power(network.units))
    fitting = (power(-(-numbers // each)) for each in (NUMBERS_PER_PROGRAM, MOST_PER_PROGRAM))
    return next((programs for programs in fitting if programs <= most), None)


def loop_for(
    learner: Learner, platform: str, observed: tuple[Variable, ...] = ()
) -> "Callable[[int], SlicedLoop] | None":
    """The loop by its stride, or None if a run is not split."""
    programs = programs_for(learner, platform, observed)
    return None if programs is None else lambda stride: SlicedLoop(stride, programs)


def _warps(learner: CreditRule, programs: int) -> int:
    return min(power(-(-state_numbers(learner) // (32 * NUMBERS_PER_THREAD * programs))), 16)


class SlicedLoop(NamedTuple):
    """One launch for `stride` examples, of so many programs for each run."""

    stride: int
    programs: int
    interpret: bool = False

    def enter(self, learner: CreditRule, state: State) -> State:
        return _turned(in_pieces(learner, state))

    def leave(self, learner: CreditRule, state: State) -> State:
        return out_of_pieces(learner, _turned(state))

    def changes(
        self, learner: CreditRule, initial: State, state: State, alive: Any = None
    ) -> dict[str, tuple[jax.Array, ...]]:
        rows = len(input_pieces(learner))
        now, before = (each.layers[0].weights[:rows] for each in (state, initial))
        incoming = tuple(after - start for after, start in zip(now, before, strict=True))
        return {"incoming": incoming, "outgoing": (state.outgoing[0] - initial.outgoing[0],)}

    def advance(self, learner: CreditRule, state: State, window: Any, rows: Rows, fold: Any) -> tuple[State, Any]:
        x, y, at, until, start = rows
        outputs = learner.network.outputs
        targets = jnp.pad(y, ((0, 0), (0, power(outputs) - outputs)))
        state, made = _launch(self, learner, x, targets, at, until > at, state)
        own_targets = lax.dynamic_slice_in_dim(y, at, self.stride)
        return state, fold.block(window, start + at, until - at, made[:, :outputs], own_targets)


# The program.


def _launch(
    loop: SlicedLoop, learner: CreditRule, x: jax.Array, y: jax.Array, at: Any, alive: Any, state: State
) -> tuple[State, jax.Array]:
    """Learns from `stride` examples; the state and the outputs, each from before learning."""
    numbers = jnp.stack([jnp.asarray(leaf, x.dtype) for leaf in jax.tree.leaves(learner)])
    bounds = jnp.stack([jnp.asarray(at, jnp.int32), jnp.asarray(alive, jnp.int32)])
    given, (leaves, structure) = (bounds, numbers, x, y), jax.tree.flatten(state)
    arrived = jnp.zeros(1, jnp.int32)
    made = jax.ShapeDtypeStruct((loop.stride, y.shape[1]), y.dtype)
    shares = jax.ShapeDtypeStruct((2, loop.programs, y.shape[1]), y.dtype)

    def program(*refs: Any) -> None:
        refs_in, refs_out = refs[: len(given)], refs[-len(leaves) - 3 :]
        after, (arrived, made, shares) = jax.tree.unflatten(structure, refs_out[:-3]), refs_out[-3:]
        number = pl.program_id(0)

        @pl.when(refs_in[0][1] > 0)
        def _() -> None:
            _program(loop, learner, number, refs_in, after, made, shares, arrived)

    found = pl.pallas_call(
        program,
        out_shape=[*(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (*leaves, arrived)), made, shares],
        grid=(loop.programs,),
        input_output_aliases={len(given) + i: i for i in range(len(leaves) + 1)},
        compiler_params=triton.CompilerParams(num_warps=_warps(learner, loop.programs), num_stages=1),
        interpret=loop.interpret,
        name="slices",
    )(*given, *leaves, arrived)
    return jax.tree.unflatten(structure, found[: len(leaves)]), found[-2]


def _program(
    loop: SlicedLoop,
    learner: CreditRule,
    number: Any,
    given: Any,
    memory: State,
    made: Any,
    shares: Any,
    arrived: Any,
) -> None:
    """The program of a slice of units; its arguments refer to memory, which it reads and writes."""
    bounds, numbers, x, y = given
    hidden = power(learner.network.units)
    units = hidden // loop.programs
    own, first = pl.ds(number * units, units), bounds[0]
    rule = with_numbers(learner, [numbers[i] for i in range(numbers.shape[0])])
    network, use = rule.network, PLAIN if loop.interpret else GPU
    axes = axes_of_units(memory, hidden)

    def example(at: Any) -> tuple[Any, jax.Array]:
        step = jnp.minimum(first + at, x.shape[0] - 1)
        parts = [x[step, pl.ds(piece.start, piece.stop - piece.start)] for piece in input_pieces(rule)]
        return tuple(parts), y[step]

    def one_step(at: Any, carry: Any) -> Any:
        state, (parts, target) = carry
        following = example(at + 1)
        net = Slice(network, number * units, Shares(number, shares, lax.rem(at, 2), arrived, at))
        inputs = (*parts, jnp.ones(1, target.dtype)) if network.bias else parts
        state, outcome = fma_rewritten(partial(learn, Stack(rule, rule.by_layer(), (net,), net)), use)(
            state, inputs, target
        )

        @pl.when(number == 0)
        def _() -> None:
            made[at] = outcome.outputs

        return state, following

    state = _turned(read_own(axes, memory, own))
    state, _ = lax.fori_loop(0, loop.stride, one_step, (state, example(0)))
    write_own(axes, memory, _turned(state), number, own)


def _turned(state: State) -> State:
    """The state with the first layer's arrays transposed."""
    turn = lambda leaf: jnp.swapaxes(leaf, -1, -2) if leaf.ndim > 1 else leaf
    return state.with_first(jax.tree.map(turn, state.layers[0]))
