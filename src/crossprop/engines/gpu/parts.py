"""A part of a block as one GPU program for each run, or a few, for the chunked engine.

A part is run in a network whose inputs are its own examples. The program keeps on chip everything above the first
layer, and a few rows of the first layer at a time: those of the next `rows` examples. When it loads such a group of
rows, it applies the changes of all earlier examples of the part, from the coefficients that these wrote to memory;
from then on it updates the group after each example. So a row is read once, and a row of coefficients once per group.

If the weights between two hidden layers do not fit into one program, several share the run. Each has some units of the
second layer, with the weights into and out of them, and all repeat the state of the first layer. For every example they
exchange their shares of the outputs, and of the first layer's credit.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.gpu import products, support
from crossprop.engines.gpu.fma_rewrite import GPU, PLAIN, fma_rewritten
from crossprop.engines.gpu.layout import PaddedNetwork, in_pieces, out_of_pieces, padded_stack, power, with_numbers
from crossprop.engines.gpu.shares import Shares, Slice, axes_of_units, read_own, write_own
from crossprop.engines.gpu.support import pl, triton
from crossprop.engines.rebuilding import Steps, last_step, step_back
from crossprop.hyperparameters import by_structure
from crossprop.learners.base import Credit, CreditRule, Learner, State, credit_adds_up
from crossprop.learners.credit import Layer
from crossprop.learners.stack import Stack, moves
from crossprop.learners.states import state_shapes
from crossprop.learners.update import learn_above, move_layer
from crossprop.network import float_type
from crossprop.variables import Variable

MOST_ROWS = 8
MOST_WARPS = 8
MOST_NUMBERS_OF_ROWS = 2**14
MOST_NUMBERS = 2**17
"""More than fit into registers, but few enough for the L1 cache."""
NUMBERS_PER_PROGRAM = 40_000
"""Several programs share a run with more numbers than this, about as many as a multiprocessor has registers for."""
FEWEST_UNITS = 8
"""Units of the second layer that a program gets at least."""
MOST_EXCHANGED = 2**16
"""The numbers that each program reads of all shares for every example. With that many, an XLA loop was nearly as fast;
more is untested."""
NUMBERS_PER_THREAD = 250
UNITS_PER_THREAD = 4
"""Or more, so that all rows of a unit are in the same thread."""
TRACED_UNITS = 128


class Tiling(NamedTuple):
    """Sizes of a part's program: `rows` examples are kept up to date at a time, by `warps` groups of 32 threads."""

    rows: int
    warps: int
    programs: int = 1
    """The number of programs that share a run."""
    interpret: bool = False

    def block(self, examples: int) -> int | None:
        """The size of a block for so many examples, or None if they are too few for products."""
        return None if examples < products.FEWEST_EXAMPLES else power(examples)

    def rows_of(self, inputs: jax.Array, matrices: list[jax.Array], count: Any) -> list[jax.Array]:
        return products.rows_of(inputs, matrices, count, self.interpret)

    def distances(self, now: jax.Array, before: jax.Array, width: int, alive: Any) -> jax.Array:
        return products.distances(now, before, width, alive, self.interpret)

    def run_part(
        self, learner: CreditRule, state: State, gram: jax.Array, y: jax.Array, count: Any, idle: Any
    ) -> tuple[State, Credit, jax.Array]:
        """The first `count` examples of a part, whose first layer has a row for each example.

        The state above the first layer's matrices, the coefficients, and the outputs. After the first `count` examples
        the coefficients change nothing; if the run is `idle`, they can be anything.
        """
        size, network = len(y), learner.network
        first_rows = [slice(0, size)]
        rows, above = _apart(learner, in_pieces(learner, state, first_rows))
        numbers = jnp.stack([jnp.asarray(leaf, y.dtype) for leaf in jax.tree.leaves(learner)])
        targets = jnp.pad(y, ((0, 0), (0, power(network.outputs) - network.outputs)))
        size_or_none = jnp.where(idle, 0, size).astype(jnp.int32)
        given = (numbers, jnp.asarray(count, jnp.int32), size_or_none, gram, targets, rows, above)
        units = power(network.hidden[0])
        stack, z = padded_stack(learner), jax.ShapeDtypeStruct((units,), y.dtype)
        _, credit, outcome = jax.eval_shape(partial(learn_above, stack), above, z, targets[0])
        array = lambda *shape: jax.ShapeDtypeStruct(shape, y.dtype)
        credits = jax.tree.map(lambda leaf: array(self.programs, size, *leaf.shape), credit)
        shares = [array(1, self.programs, len(targets[0])), array(1, self.programs, units)]
        arrived = jnp.zeros(1, jnp.int32)
        leaves = jax.tree.leaves((*given, arrived))
        made = (arrived, above, credits, array(size, *outcome.outputs.shape), shares)
        shapes, made_structure = jax.tree.flatten(made)

        def program(*refs: Any) -> None:
            (*refs_in, _), refs_out = refs[: len(leaves)], refs[len(leaves) :]
            _program(
                self,
                learner,
                jax.tree.unflatten(jax.tree.structure(given), refs_in),
                jax.tree.unflatten(made_structure, refs_out),
            )

        found = pl.pallas_call(
            program,
            out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in shapes],
            grid=(self.programs,),
            input_output_aliases={len(leaves) - 1: 0},
            compiler_params=triton.CompilerParams(num_warps=self.warps, num_stages=1),
            interpret=self.interpret,
            name="part",
        )(*leaves)
        _, above, credits, outputs, _ = jax.tree.unflatten(made_structure, found)
        after = out_of_pieces(learner, _together(learner, rows, above), first_rows)
        first = state.layers[0]._replace(memory=after.layers[0].memory)
        credits = jax.tree.map(lambda of_programs: of_programs[0], credits)
        return after.with_first(first), credits, outputs[:, : network.outputs]

    def change(
        self, credits: Credit, weights: list, steps: Steps, bases: list[tuple[list, list]], memory: Any, count: Any
    ) -> tuple[list[jax.Array], Any]:
        """Like `rebuilding._trace_back`, where inputs are padded and the big matrices change by programs. Each total is
        a sum of matrices, each times a number."""
        units = bases[0][0][0].shape[0 if steps.units_first else 1]
        real = lambda values: values if values.shape[-1] == units else values[..., :units]
        fill = lambda scale: jnp.full(units, scale, steps.inputs.dtype)

        def changed(change: products.Change) -> jax.Array:
            if steps.units_first:
                return products.changed(change, steps.inputs, count, self.interpret)
            spread = Steps(change.weights[:, None] * steps.inputs, steps.units_first).spread(change.given)
            for matrix, scale in zip(change.matrices, change.scales, strict=True):
                scaled = matrix * scale[..., None, :]
                spread += scaled if matrix.ndim == spread.ndim else jnp.sum(scaled, axis=0)
            return spread

        if memory is None:
            given = real(credits.from_input)
            return [
                changed(products.Change(matrices, [*map(fill, scales)], given, weight))
                for (matrices, scales), weight in zip(bases, weights, strict=True)
            ], None
        last = last_step(credits, len(bases))
        found = trace_back(self.interpret, partial(step_back, _summed), last, credits, weights, count)
        (taken, fade), (given, faded) = jax.tree.map(real, found)
        ones = jnp.ones_like(weights[0])
        totals = [
            changed(products.Change([*matrices, memory], [*map(fill, scales), own[: len(memory)]], each, ones))
            for (matrices, scales), own, each in zip(bases, taken, given, strict=True)
        ]
        keep = lambda h, new: changed(products.Change([h], [fade], new, ones))
        return totals, jax.vmap(keep, in_axes=(0, 1))(memory, faded[:, : len(memory)])


def programs_for(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> Tiling | None:
    """How parts become programs on this kind of device; None where they are loops."""
    return tiling_for(learner) if support.for_wide_networks(platform) else None


def tiling_for(learner: Learner, interpret: bool = False) -> Tiling | None:
    """How a GPU runs the learner's parts as programs, or None if it cannot. It depends on device, sizes and rule."""
    if float_type() != np.float32 or not isinstance(learner, CreditRule):
        return None
    if not learner.optimizer.elementwise:
        return None
    row, rest = _numbers(learner)
    programs = 1 if interpret else _programs(learner, rest)
    rest /= programs
    if row + rest > MOST_NUMBERS:
        return None
    rows = next((rows for rows in (8, 4, 2) if rows <= MOST_ROWS and rows * row <= MOST_NUMBERS_OF_ROWS), 1)
    threads = max((rows * row + rest) / NUMBERS_PER_THREAD, power(learner.network.hidden[0]) / UNITS_PER_THREAD)
    return Tiling(rows, min(power(int(np.ceil(threads / 32))), MOST_WARPS), programs, interpret)


def _programs(learner: CreditRule, numbers: int) -> int:
    """The number of programs that share a run, by the size of its state above the first layer's rows."""
    network = learner.network
    if len(network.hidden) != 2 or network.layer_norm or not support.may_wait():
        return 1
    if not all(map(credit_adds_up, learner.by_layer())):
        return 1
    most = min(support.multiprocessors(), power(network.hidden[1]) // FEWEST_UNITS)
    programs = min(power(-(-numbers // NUMBERS_PER_PROGRAM)), 1 << max(most.bit_length() - 1, 0))
    return programs if programs * power(network.hidden[0]) <= MOST_EXCHANGED else 1


@by_structure
def _numbers(rule: CreditRule) -> tuple[int, int]:
    """The size of a program's state with padding: of each row, and of the rest."""
    state = jax.eval_shape(lambda state: in_pieces(rule, state, [slice(0, 1)]), state_shapes(rule))
    size = lambda part: sum(leaf.size for leaf in jax.tree.leaves(part))
    rows, above = _apart(rule, state)
    return size(rows), size(above)


def _program(tiling: Tiling, learner: CreditRule, given: Any, made: Any) -> None:
    """A program of one run; its arguments refer to memory, which it reads and writes."""
    numbers, count, filled, gram, targets, rows, above = given
    arrived, above_after, credits, outputs, shares = made
    group = min(tiling.rows, gram.shape[0])
    rule = with_numbers(learner, [numbers[i] for i in range(numbers.shape[0])])
    use = PLAIN if tiling.interpret else GPU
    no_loss = jnp.zeros((), targets.dtype)
    move = lambda layer, credit, inputs: move_layer(rule.by_layer()[0], layer, credit, inputs, no_loss)
    moved = fma_rewritten(move, use)
    end = count[...]
    number = pl.program_id(0) if tiling.programs > 1 else 0
    units = power(rule.network.hidden[-1]) // tiling.programs
    own_units, axes = pl.ds(number * units, units), axes_of_units(above, units * tiling.programs)

    def stack_at(step: Any) -> Stack:
        if tiling.programs == 1:
            return padded_stack(rule)
        exchanges = (Shares(number, each, 0, arrived, 2 * step + at) for at, each in enumerate(shares))
        return stack_of_units(rule, number * units, *exchanges)

    def write_step(step: Any, credit: Credit, values: jax.Array) -> None:
        """Each program writes and reads its own copy of the coefficients."""
        _write(jax.tree.map(lambda ref: ref.at[number, step], credits), credit)

        @pl.when(number == 0)
        def _() -> None:
            outputs[step] = values

    def one_group(number_of_group: Any, above: State) -> State:
        begin = number_of_group * group
        own = jax.tree.map(lambda ref: ref[..., pl.ds(begin, group), :], rows)

        def earlier(step: Any, own: Layer) -> Layer:
            credit = jax.tree.map(lambda ref: ref[number, step], credits)
            return moved(own, credit, (gram[step, pl.ds(begin, group)],))

        def example(step: Any, carry: Any) -> Any:
            above, own = carry
            # Loaded before the coefficients are stored: the compiler may not move a load before a store.
            target, inputs = targets[step], (gram[step, pl.ds(begin, group)],)
            is_next = lax.broadcasted_iota(jnp.int32, (group, 1), 0) == step - begin
            z = jnp.sum(jnp.where(is_next, own.weights[0], 0), axis=0)
            above, credit, outcome = fma_rewritten(partial(learn_above, stack_at(step)), use)(above, z, target)
            write_step(step, credit, outcome.outputs)
            return above, moved(own, credit, inputs) if credit.moves else own

        own = lax.fori_loop(0, begin, earlier, own) if moves(learner) else own
        above, _ = lax.fori_loop(begin, jnp.minimum(begin + group, end), example, (above, own))
        if not tiling.interpret:  # the next group reads what other threads wrote
            triton.debug_barrier()
        return above

    def nothing(step: Any, carry: Any) -> Any:
        still = jax.tree.map(lambda ref: jnp.zeros(ref.shape[2:], ref.dtype), credits)
        if still.memory_keep is not None:
            still = still._replace(memory_keep=jnp.ones_like(still.memory_keep))
        write_step(step, still, jnp.zeros(outputs.shape[1:], outputs.dtype))
        return carry

    state = lax.fori_loop(0, (end + group - 1) // group, one_group, read_own(axes, above, own_units))
    lax.fori_loop(end, filled[...], nothing, 0)
    write_own(axes, above_after, state, number, own_units)


def stack_of_units(rule: CreditRule, begin: Any, of_outputs: Any, of_credit: Any) -> Stack:
    """The arithmetic of a program that has some of the second layer's units, from `begin` on."""
    below, above = rule.network.layers()
    net = Slice(above, begin, of_outputs)
    add_up = lambda credit: credit._replace(from_input=of_credit.total(credit.from_input))
    return Stack(rule, rule.by_layer(), (PaddedNetwork(below), net), net, add_up)


def _write(refs: Any, values: Any) -> None:
    for ref, value in zip(jax.tree.leaves(refs), jax.tree.leaves(values), strict=True):
        ref[...] = value


def _apart(rule: CreditRule, state: State) -> tuple[Layer, State]:
    """The matrices that have a row for each example, and the rest."""
    first, has_matrices = state.layers[0], rule.by_layer()[0].shapes().matrices > 0
    rows = Layer(first.weights, first.memory if has_matrices else None, None, first.optimizer)
    rest = Layer(None, None if has_matrices else first.memory, first.signs, ())
    return rows, state.with_first(rest)


def _together(rule: CreditRule, rows: Layer, above: State) -> State:
    rest = above.layers[0]
    memory = rows.memory if rule.by_layer()[0].shapes().matrices else rest.memory
    return above.with_first(rows._replace(memory=memory, signs=rest.signs))


def trace_back(
    interpret: bool, back: Any, carry: Any, credits: Credit, weights: list[jax.Array], count: Any
) -> tuple[Any, Any]:
    """`lax.scan(back, carry, (credits, weights), reverse=True)`, where units do not depend on each other; they are the
    last axis of the carry, of the coefficients and of the results. Undefined if `count` is 0."""
    assert credits.memory_keep is not None
    steps, units = credits.memory_keep.shape
    tile = min(units, TRACED_UNITS)
    (carry_shape, found_shape) = jax.eval_shape(
        back, carry, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (credits, weights))
    )
    found_shape = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((steps, *leaf.shape), leaf.dtype), found_shape)
    given, structure = jax.tree.flatten((jnp.asarray(count, jnp.int32), carry, credits, weights))
    made, made_structure = jax.tree.flatten((carry_shape, found_shape))

    def spec(leaf: Any) -> Any:
        if leaf.shape in ((), (steps,)):
            return pl.BlockSpec(leaf.shape, lambda i: (0,) * leaf.ndim)
        return pl.BlockSpec((*leaf.shape[:-1], tile), lambda i: (*(0,) * (leaf.ndim - 1), i))

    def program(*refs: Any) -> None:
        count, carry, credits, weights = jax.tree.unflatten(structure, refs[: len(given)])
        carry_after, found = jax.tree.unflatten(made_structure, refs[len(given) :])

        def step(number: Any, carry: Any) -> Any:
            at = steps - 1 - number
            carry, each = back(carry, jax.tree.map(lambda ref: ref[at], (credits, weights)))
            _write(jax.tree.map(lambda ref: ref.at[at], found), each)
            return carry

        carry = jax.tree.map(lambda ref: ref[...], carry)
        _write(carry_after, lax.fori_loop(0, (count[...] > 0).astype(jnp.int32) * steps, step, carry))

    found = pl.pallas_call(
        program,
        out_shape=made,
        grid=(units // tile,),
        in_specs=[*map(spec, given)],
        out_specs=[*map(spec, made)],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="trace_back",
    )(*given)
    return jax.tree.unflatten(made_structure, found)


def _summed(memories: jax.Array, weights: jax.Array) -> jax.Array:
    """As `weigh_memories`, for arrays on chip, which cannot be split."""
    return jnp.sum(memories * weights, axis=0)
