r"""The chunked engine, for wide inputs: matrix products instead of one rank-one step after another.

Within a block of examples $X$ (one per row) nothing is approximated. A step needs the big matrices only through their
products with the block's examples, $X U$ and $X H_k$, which have one row per example. An update adds multiples of $x_t$
and of $H_k$ to $U$, so it acts on those rows as it does on $U$, with $X x_t$ in the place of $x_t$: the block is run by
the same rule in a small network whose inputs are the block's examples. At its end $U$ and $H_k$ are their old values,
scaled per unit, plus $X^\top$ times the contributions of the examples. A block is cut into parts in the same way, small
ones if there are $H_k$, so that a single step touches few rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crossprop.engines.protocol import Batch, Rows
from crossprop.engines.rebuilding import Matrices, Steps, memory_matrices, product, rebuild
from crossprop.engines.scan import weight_changes
from crossprop.engines.segments import LoopSession, batch_width
from crossprop.engines.session import Session
from crossprop.learners.base import Credit, CreditRule, Learner, State
from crossprop.learners.stack import Stack, moves
from crossprop.learners.update import learn_above, move_layer_in_order
from crossprop.variables import Variable

BLOCK = 64
PART = 32
PART_WITH_MEMORY = 10
PART_OF_PROGRAM = 16
WIDE = 128
"""The fewest inputs with which blocks pay off."""
TILE_BYTES = 2**27
TILE_BYTES_OF_PROGRAMS = 2**29
"""More than `TILE_BYTES`, since padding costs GPU programs little."""
MOST_APART = 16


def why_unsupported(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
    """Why this engine cannot run the learner, or None."""
    if not isinstance(learner, CreditRule):
        return f"the chunked engine needs a credit rule, a CreditRule, got {type(learner).__name__}"
    if not learner.network.hidden:
        return "the chunked engine needs a hidden layer, got hidden=()"
    if any(variable.after for variable in observed):
        return "the chunked engine takes no metrics that see the outcome after learning"
    if learner.replacement is not None:
        return f"the chunked engine keeps all units, got replacement={learner.replacement!r}"
    if learner.network_optimizer() is not None:
        return f"the chunked engine takes no optimizer that sees the whole network, got {learner.optimizer!r}"
    if learner.optimizer.momentum is not None or not moves(learner):
        return None
    return f"the chunked engine needs an optimizer whose steps add up, 'sgd' or 'momentum', got {learner.optimizer!r}"


def width(learner: Learner, platform: str, programs: Any = None) -> int:
    """How many runs go side by side."""
    if isinstance(learner, CreditRule) and programs is not None:
        return batch_width(learner, platform, TILE_BYTES_OF_PROGRAMS / (1 + memory_matrices(learner)))
    return batch_width(learner, platform, TILE_BYTES)


def start(batch: Batch, platform: str, programs: Any = None) -> Session:
    """Begins the runs of a batch. `programs` are GPU programs in the place of XLA's loops, a `gpu.parts.Tiling`."""
    learner, block = batch.runs[0].learner, _block(batch.options.record_every)
    padded = None if programs is None else programs.block(block)
    if padded is None:
        loop = BlockLoop(block, apart=platform == "cpu")
    else:
        loop = BlockLoop(padded, apart=False, programs=programs)
    return LoopSession(loop, batch, width(learner, platform, programs), fixed_turns=padded is not None)


class BlockLoop(NamedTuple):
    """A block of examples at a time; on a CPU each memory matrix is an array of its own."""

    stride: int
    apart: bool
    programs: Any = None
    """A `gpu.parts.Tiling`: how a part becomes a GPU program, or several. Without it a part is a loop."""

    def enter(self, learner: CreditRule, state: State) -> State:
        return _apart(learner, state) if self.apart else _turned(learner, state)

    def leave(self, learner: CreditRule, work: State) -> State:
        return _turned(learner, Matrices.of(learner, work).together().put_into(work))

    def changes(
        self, learner: CreditRule, initial: State, work: State, alive: Any = None
    ) -> dict[str, tuple[jax.Array, ...]]:
        first = None
        if self.programs is not None:
            now, before = (each.layers[0].weights for each in (work, initial))
            alive = True if alive is None else alive
            first = self.programs.distances(now, before, learner.network.inputs, alive)
        return weight_changes(learner, initial, work, inputs_axis=1, first=first)

    def advance(self, learner: CreditRule, work: Any, window: Any, rows: Rows, fold: Any) -> tuple[Any, Any]:
        work, outputs, targets = _advance(self.stride, self.programs, learner, work, rows)
        return work, fold.block(window, rows.start + rows.at, rows.until - rows.at, outputs, targets)


def _turned(learner: CreditRule, work: State) -> State:
    """The state with one row per unit in the big matrices: products with few examples are then faster on a CPU."""
    return jax.tree.map(lambda matrix: jnp.swapaxes(matrix, -1, -2), Matrices.of(learner, work)).put_into(work)


def _apart(learner: CreditRule, work: State) -> State:
    """The same with each matrix of H as a separate array, which a CPU changes in place; a stack would be copied."""
    work = _turned(learner, work)
    first = work.layers[0]
    if not memory_matrices(learner) or len(first.memory) > MOST_APART:
        return work
    return work.with_first(first._replace(memory=tuple(first.memory[k] for k in range(len(first.memory)))))


def _block(record_every: int) -> int:
    """The examples per block, such that blocks of a window are about equal and can be cut into equal parts."""
    even = -(-record_every // -(-record_every // BLOCK))
    return next(
        size for size in range(even, even + 8) if 2 * _part(size, PART_WITH_MEMORY) >= min(size, PART_WITH_MEMORY)
    )


def _part(block: int, most: int) -> int:
    """The examples per part of a block: the largest divisor of `block` that is at most `most`."""
    return max(size for size in range(1, most + 1) if block % size == 0)


def _advance(
    stride: int, programs: Any, learner: CreditRule, work: State, rows_of_run: Rows
) -> tuple[State, jax.Array, jax.Array]:
    """The state after a block, and the block's outputs and targets."""
    x, y, at, until, _ = rows_of_run
    part = _part_of(programs, stride, learner)
    inputs = jax.vmap(learner.network.with_constant)(lax.dynamic_slice_in_dim(x, at, stride))
    targets = lax.dynamic_slice_in_dim(y, at, stride)
    matrices = Matrices.of(learner, work)
    if programs is None:
        gram = product(inputs, inputs.T)
        rows = matrices.map(lambda matrix: product(inputs, matrix.T))
    else:
        rows_of = partial(programs.rows_of, inputs, count=until - at)
        flat, structure = jax.tree.flatten(matrices._replace(memory=None))
        gram, *found = rows_of([inputs, *flat])
        rows = jax.tree.unflatten(structure, found)
        if matrices.memory is not None:
            rows = rows._replace(memory=jax.vmap(lambda matrix: rows_of([matrix])[0])(matrices.memory))

    def run_part(carry, begin):
        """Runs a part of the block on the rows of its own examples, then updates the block's other rows."""
        rows, small = carry
        whole_block = programs is not None and part == stride
        cut = lambda whole, axis=0: whole if whole_block else lax.dynamic_slice_in_dim(whole, begin, part, axis)
        own_rows = rows.map(cut) if programs is None else jax.tree.map(lambda whole: cut(whole, whole.ndim - 2), rows)
        small = own_rows.together().put_into(small)
        seen = cut(gram)
        own = cut(seen, 1)
        left = until - at - begin
        if programs is None:
            small, credits, outputs = _by_scan(learner, small, own, lambda i: targets[begin + i], left)
        else:
            count = jnp.clip(left, 0, part)
            small, credits, outputs = programs.run_part(learner, small, own, cut(targets), count, until == at)
        rows = rebuild(learner, rows, Steps(seen, units_first=False), credits, left, programs)
        return (rows, small), (credits, outputs)

    small = jax.tree.map(lambda whole: whole[..., :part, :], rows).together().put_into(work)
    if programs is not None and part == stride:
        (_, small), (credits, outputs) = run_part((rows, small), 0)
    else:
        (_, small), each = lax.scan(run_part, (rows, small), jnp.arange(0, stride, part))
        credits, outputs = jax.tree.map(lambda parts: parts.reshape(stride, *parts.shape[2:]), each)
    matrices = rebuild(learner, matrices, Steps(inputs, units_first=True), credits, until - at, programs)
    return matrices.put_into(small), outputs, targets


def _part_of(programs: Any, stride: int, learner: CreditRule) -> int:
    """The examples per part of a block."""
    if programs is None:
        return _part(stride, PART_WITH_MEMORY if memory_matrices(learner) else PART)
    return min(stride, PART_OF_PROGRAM) if memory_matrices(learner) else stride


def _by_scan(
    learner: CreditRule, small: State, gram: jax.Array, target: Callable[[Any], jax.Array], count: Any
) -> tuple[State, Credit, jax.Array]:
    """The first `count` examples of a part in a loop: the state, the coefficients and the outputs."""
    stack = Stack.of(learner)

    def respond_to(before: State, i: Any) -> Any:
        work, credit, outcome = learn_above(stack, before, before.layers[0].weights[i], target(i))
        is_real = i < count
        keep = lambda new, old: new if new is old else jnp.where(is_real, new, old)
        masked = Credit(*(None if each is None else jnp.where(is_real, each, 0) for each in credit))
        if credit.memory_keep is not None:  # coefficients of padding change nothing
            masked = masked._replace(memory_keep=jnp.where(is_real, credit.memory_keep, 1))
        return jax.tree.map(keep, work, before), masked, outcome

    def example(carry, i):
        """Moves the rows by the last example before the next one; after the last one they are not needed."""
        work, credit, outcome = carry
        first = move_layer_in_order(stack.rules[0], work.layers[0], credit, gram[i - 1], outcome.loss)
        return respond_to(work.with_first(first), i), (credit, outcome.outputs)

    (small, credit, outcome), earlier = lax.scan(example, respond_to(small, 0), jnp.arange(1, len(gram)))
    append = lambda stack, last: jnp.concatenate([stack, last[None]])
    credits, outputs = jax.tree.map(append, earlier, (credit, outcome.outputs))
    return small, credits, outputs
