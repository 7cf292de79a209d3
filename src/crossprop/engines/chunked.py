r"""The chunked engine, for wide inputs: matrix products instead of one rank-one step after another.

Within a block of examples $X$ (a row each) nothing is approximated. All that a step asks of the big matrices is how
they weigh the block's own examples: $X U$ and $X H_k$, with as many rows as the block has examples. An update adds
multiples of $x_t$ and of $H_k$ to $U$, so it acts on those rows as it does on $U$, with $X x_t$ in the place of $x_t$:
the block is lived in a network whose inputs are the block's examples, by the very same rule. At its end, $U$ and $H_k$
are what they were, scaled by column, plus $X^\top$ times what each example has contributed. Where there are $H_k$, a
block is lived in parts the same way, so that a single step touches few rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crossprop.engines import base
from crossprop.learners import Learner
from crossprop.learners.base import Credit, Work, first_set
from crossprop.learners.optimizers import MOMENTUM

BLOCK = 64
PARTS = (8, 7, 9, 6, 10, 5)
WIDE = 128
TILE_BYTES = 2**25
MOST_APART = 16


class Matrices(NamedTuple):
    """What has a row for every input: U, what its optimizer keeps, and the matrices of H, together or apart."""

    incoming: jax.Array
    optimizer: optax.OptState | None
    memory: jax.Array | tuple[jax.Array, ...] | None

    @classmethod
    def of(cls, learner: Learner, work: Work) -> "Matrices":
        optimizer = work.optimizer[0] if base.moves(learner) else None
        return cls(work.incoming, optimizer, work.memory if learner.has_matrices else None)

    def put_into(self, work: Work) -> Work:
        optimizer = work.optimizer[0] if self.optimizer is None else self.optimizer
        memory = work.memory if self.memory is None else self.memory
        return replace(work, incoming=self.incoming, optimizer=(optimizer, work.optimizer[1]), memory=memory)

    def map_rows(self, change: Callable[[jax.Array], jax.Array]) -> "Matrices":
        """Each matrix changed."""
        flat = jax.tree.map(change, self._replace(memory=None))
        if self.memory is None:
            return flat
        return flat._replace(memory=_one_by_one(lambda _, h: (None, change(h)), None, self.memory, ())[1])

    def together(self) -> "Matrices":
        return self._replace(memory=jnp.stack(self.memory)) if isinstance(self.memory, tuple) else self


def unfit(learner: Learner, platform: str, probes: base.Probes) -> str | None:
    """Why this engine cannot do the job, or None."""
    if learner.optimizer in ("sgd", "momentum") or not base.moves(learner):
        return None
    return f"the chunked engine needs optimizer 'sgd' or 'momentum', whose steps add up, got {learner.optimizer!r}"


def pays(learner: Learner) -> bool:
    """Whether the inputs are so many that blocks are worth their trouble."""
    return learner.network.fan_in >= WIDE


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side."""
    return base.tile(learner, platform, TILE_BYTES)


def live(
    runs: Sequence[base.Run],
    platform: str,
    record_every: int,
    probes: base.Probes = (),
    after_segment: base.AfterSegment = base.unheard,
) -> list[base.Lived]:
    method = base.Method(_advance, _block(record_every), *((_apart, _together) if platform == "cpu" else ()))
    return base.live(method, runs, width(runs[0].learner, platform), record_every, probes, after_segment)


def _apart(learner: Learner, work: Work) -> Work:
    """On a CPU each matrix of H stands alone and is changed in place; a loop over all of them would copy them."""
    if not learner.has_matrices or len(work.memory) > MOST_APART:
        return work
    return replace(work, memory=tuple(work.memory[k] for k in range(len(work.memory))))


def _together(learner: Learner, work: Work) -> Work:
    return Matrices.of(learner, work).together().put_into(work)


def _block(record_every: int) -> int:
    """The examples of a block: windows end with one, so they are cut into even blocks."""
    even = -(-record_every // -(-record_every // BLOCK))
    return next(size for size in range(even, even + 8) if size < 12 or _parts(size) < size)


def _parts(block: int) -> int:
    """The examples of each part of a block."""
    return next((part for part in PARTS if block % part == 0), block)


def _advance(stride, learner: Learner, work: Work, sums: base.Sums, x, y, at, until, start):
    part = _parts(stride) if learner.has_matrices else stride
    inputs = jax.vmap(learner.network.with_constant)(lax.dynamic_slice_in_dim(x, at, stride))
    targets = lax.dynamic_slice_in_dim(y, at, stride)
    gram = _product(inputs, inputs.T)
    matrices = Matrices.of(learner, work)
    rows = matrices.map_rows(lambda matrix: _product(inputs, matrix))

    def live_part(carry, begin):
        """A part of the block, on the rows of its own examples; then the block's other rows catch up."""
        rows, small = carry
        own_rows = rows.map_rows(lambda whole: lax.dynamic_slice_in_dim(whole, begin, part))
        small = own_rows.together().put_into(small)
        columns = lax.dynamic_slice_in_dim(gram, begin, part, axis=1)
        own = lax.dynamic_slice_in_dim(columns, begin, part)

        def respond(before, i):
            work, credit, outcome = learner.respond(before, before.incoming[i], targets[begin + i])
            there_is_one = at + begin + i < until
            keep = lambda new, old: new if new is old else jnp.where(there_is_one, new, old)
            work, credit = jax.tree.map(keep, work, before), _masked(credit, there_is_one)
            return (work, credit, outcome.loss), (credit, outcome.outputs)

        def example(carry, i):
            """As in `scan`, the rows follow an example when the next one comes: the last of a part, nobody asks for."""
            work, credit, loss = carry
            return respond(learner.follow(work, credit, own[:, i - 1], loss), i)

        carry, first = respond(small, 0)
        (small, *_), others = lax.scan(example, carry, jnp.arange(1, part))
        credits, outputs = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, others)
        return (_rebuild(learner, rows, columns, credits, until - at - begin), small), (credits, outputs)

    small = rows.map_rows(lambda whole: whole[:part]).together().put_into(work)
    (_, small), each = lax.scan(live_part, (rows, small), jnp.arange(0, stride, part))
    credits, outputs = jax.tree.map(lambda parts: parts.reshape(stride, *parts.shape[2:]), each)
    # A product folds a transpose in, and is slower for it on a CPU.
    columns = lax.optimization_barrier(inputs.T)
    work = _rebuild(learner, matrices, columns, credits, until - at).put_into(small)
    return work, sums.add_block(learner.network, start + at, outputs, targets, until - at)


def _rebuild(learner: Learner, matrices: Matrices, columns: jax.Array, credits: Credit, count: Any) -> Matrices:
    r"""The matrices after the first `count` of some steps: `columns` holds, one beside the other, what those steps had
    for an input, and `credits` their coefficients.

    With $\beta$ the momentum, or 0, a direction moves U by $\alpha (1 + \beta + ... + \beta^s)$ of itself, where s more
    steps follow, and leaves $\beta^s$ of itself in the velocity.
    """
    incoming, optimizer, memory = matrices
    if optimizer is None:
        return matrices
    velocities, structure = jax.tree.flatten(optimizer)
    step_size = first_set(learner.incoming_step_size, learner.step_size)
    decay = MOMENTUM if velocities else 0.0
    steps = columns.shape[1]
    count = jnp.clip(count, 0, steps)
    following = count - 1 - jnp.arange(steps)
    left = jnp.where(following >= 0, jnp.asarray(decay, incoming.dtype) ** jnp.maximum(following, 0), 0)
    moved = jnp.where(following >= 0, step_size * (1 - decay * left) / (1 - decay), 0)
    if velocities:
        (velocity,), remaining = velocities, decay ** count.astype(incoming.dtype)
        incoming = incoming - step_size * decay * (1 - remaining) / (1 - decay) * velocity
        velocities = [remaining * velocity]
    totals, weights = [incoming, *velocities], [moved, -left][: 1 + len(velocities)]
    totals, memory = _trace_back(credits, weights, columns, totals, memory)
    return Matrices(totals[0], jax.tree.unflatten(structure, totals[1:]), memory)


def _trace_back(credits: Any, weights: list, columns: jax.Array, totals: list, memory: Any):
    """Adds to each of `totals` the directions of all steps, weighed by its own of `weights`; and moves the memory on.

    Backwards from the last step, what is put into H comes out as all that the later steps take of it, while it fades.
    """
    given = [jnp.zeros(()) if credits.from_input is None else w[:, None] * credits.from_input for w in weights]
    if memory is None:
        return [total + _product(columns, part) for total, part in zip(totals, given, strict=True)], None

    def back(carry, step):
        taken, fade = carry
        credit, weights = step
        before = [w * credit.from_memory + credit.memory_keep[None, :] * q for w, q in zip(weights, taken, strict=True)]
        return (before, fade * credit.memory_keep), (taken, fade)

    nothing = [jnp.zeros_like(credits.from_memory[0]) for _ in totals], jnp.ones_like(credits.memory_keep[0])
    (taken, fade), (taken_later, fades) = lax.scan(back, nothing, (credits, weights), reverse=True)

    def one(totals, h, taken, taken_later, new):
        given = [new * later for later in taken_later]
        totals = [(total + h * q[None], g + part) for (total, g), q, part in zip(totals, taken, given, strict=True)]
        return totals, h * fade[None] + _product(columns, new * fades)

    given = [jnp.broadcast_to(part, fades.shape) for part in given]
    by_memory = [jnp.moveaxis(later, 1, 0) for later in taken_later]
    of_each = (taken, by_memory, jnp.moveaxis(credits.memory_input, 1, 0))
    totals, memory = _one_by_one(one, [*zip(totals, given, strict=True)], memory, of_each)
    return [total + _product(columns, part) for total, part in totals], memory


def _one_by_one(change, carry, memory, of_each):
    """`carry, h = change(carry, h, *its own of of_each)` for one matrix of H after the other."""
    if not isinstance(memory, tuple) and len(memory) > 1:
        return lax.scan(lambda carry, each: change(carry, *each), carry, (memory, *of_each))
    changed = []
    for k, h in enumerate(memory):
        carry, h = change(carry, h, *jax.tree.map(lambda leaf, k=k: leaf[k], of_each))
        changed.append(h)
    return carry, tuple(changed) if isinstance(memory, tuple) else jnp.stack(changed)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)


def _masked(credit: Credit, there_is_one: jax.Array) -> Credit:
    """The coefficients of an example, or of none: those change nothing."""
    keep = credit.memory_keep
    return Credit(
        *(None if c is None else jnp.where(there_is_one, c, 0) for c in credit._replace(unit_memory=None))
    )._replace(memory_keep=None if keep is None else jnp.where(there_is_one, keep, 1))
