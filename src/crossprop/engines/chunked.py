r"""The chunked engine, for wide inputs: matrix products instead of one rank-one step after another.

Within a block of examples $X$ (a row each) nothing is approximated. All that a step asks of the big matrices is how
they weigh the block's own examples: $X U$ and $X H_k$, with as many rows as the block has examples. An update adds
multiples of $x_t$ and of $H_k$ to $U$, so it acts on those rows as it does on $U$, with $X x_t$ in the place of $x_t$:
the block is lived in a network whose inputs are the block's examples, by the very same rule. At its end, $U$ and $H_k$
are what they were, scaled by unit, plus $X^\top$ times what each example has contributed. A block is lived in parts
the same way, small ones where there are $H_k$, so that a single step touches few rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crossprop.engines import segments
from crossprop.learners import Learner
from crossprop.learners.base import Credit, UnitMajorState, first_set, weigh_memories
from crossprop.learners.optimizers import MOMENTUM

BLOCK = 64
PART = 32
PART_WITH_MEMORY = 10
WIDE = 128
TILE_BYTES = 2**25
MOST_APART = 16


class Matrices(NamedTuple):
    """What has numbers for every input: U, what its optimizer keeps, and the matrices of H, together or apart."""

    incoming: jax.Array
    optimizer: optax.OptState | None
    memory: jax.Array | tuple[jax.Array, ...] | None

    @classmethod
    def of(cls, learner: Learner, work: UnitMajorState) -> "Matrices":
        optimizer = work.optimizer[0] if segments.moves(learner) else None
        return cls(work.incoming, optimizer, work.memory if learner.has_matrices else None)

    def put_into(self, work: UnitMajorState) -> UnitMajorState:
        optimizer = work.optimizer[0] if self.optimizer is None else self.optimizer
        memory = work.memory if self.memory is None else self.memory
        return replace(work, incoming=self.incoming, optimizer=(optimizer, work.optimizer[1]), memory=memory)

    def map(self, change: Callable[[jax.Array], jax.Array]) -> "Matrices":
        """Each matrix changed."""
        flat = jax.tree.map(change, self._replace(memory=None))
        if self.memory is None:
            return flat
        return flat._replace(memory=_one_by_one(lambda _, h, k: (None, change(h)), None, self.memory)[1])

    def together(self) -> "Matrices":
        return self._replace(memory=jnp.stack(self.memory)) if isinstance(self.memory, tuple) else self


class Steps(NamedTuple):
    """What some steps had for an input, `(steps, inputs)`, and how the matrices lie that they changed."""

    inputs: jax.Array
    units_first: bool

    def spread(self, given: jax.Array) -> jax.Array:
        """The sum over all steps of their inputs times what is given to each, `(steps, hidden)`."""
        left, right = (given, self.inputs) if self.units_first else (self.inputs, given)
        # A product that folds the transpose in is slower for it on a CPU.
        return _product(lax.optimization_barrier(left.T), right)

    def by_unit(self, factor: jax.Array) -> jax.Array:
        """What multiplies a matrix by a number a unit."""
        return factor[:, None] if self.units_first else factor[None, :]


def why_unsupported(learner: Learner, platform: str, probes: segments.Probes) -> str | None:
    """Why this engine cannot do the job, or None."""
    if learner.optimizer in ("sgd", "momentum") or not segments.moves(learner):
        return None
    return f"the chunked engine needs optimizer 'sgd' or 'momentum', whose steps add up, got {learner.optimizer!r}"


def is_worthwhile(learner: Learner) -> bool:
    """Whether the inputs are so many that blocks are worth their trouble."""
    return learner.network.fan_in >= WIDE


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side."""
    return segments.tile(learner, platform, TILE_BYTES)


def live(
    runs: Sequence[segments.Run],
    platform: str,
    record_every: int,
    probes: segments.Probes = (),
    after_segment: segments.AfterSegment = segments.unheard,
) -> list[segments.RunResult]:
    enter = _apart if platform == "cpu" else _turned
    method = segments.LoopSpec(_advance, _block(record_every), enter, _together, inputs_axis=1)
    return segments.live(method, runs, width(runs[0].learner, platform), record_every, probes, after_segment)


def _turned(learner: Learner, work: UnitMajorState) -> UnitMajorState:
    """Between blocks the matrices have a row for every unit: a product with few examples is quicker so on a CPU."""
    return jax.tree.map(lambda matrix: jnp.swapaxes(matrix, -1, -2), Matrices.of(learner, work)).put_into(work)


def _apart(learner: Learner, work: UnitMajorState) -> UnitMajorState:
    """On a CPU each matrix of H stands alone as well, and is changed in place; a loop over all would copy them."""
    work = _turned(learner, work)
    if not learner.has_matrices or len(work.memory) > MOST_APART:
        return work
    return replace(work, memory=tuple(work.memory[k] for k in range(len(work.memory))))


def _together(learner: Learner, work: UnitMajorState) -> UnitMajorState:
    return _turned(learner, Matrices.of(learner, work).together().put_into(work))


def _block(record_every: int) -> int:
    """The examples of a block: windows end with one, so they are cut into even blocks, of a size with even parts."""
    even = -(-record_every // -(-record_every // BLOCK))
    return next(
        size for size in range(even, even + 8) if 2 * _part(size, PART_WITH_MEMORY) >= min(size, PART_WITH_MEMORY)
    )


def _part(block: int, most: int) -> int:
    """The examples of each part of a block: as many as divide it evenly, and `most` at most."""
    return max(size for size in range(1, most + 1) if block % size == 0)


def _advance(stride, learner: Learner, work: UnitMajorState, sums: segments.Sums, x, y, at, until, start):
    part = _part(stride, PART_WITH_MEMORY if learner.has_matrices else PART)
    inputs = jax.vmap(learner.network.with_constant)(lax.dynamic_slice_in_dim(x, at, stride))
    targets = lax.dynamic_slice_in_dim(y, at, stride)
    gram = _product(inputs, inputs.T)
    matrices = Matrices.of(learner, work)
    rows = matrices.map(lambda matrix: _product(inputs, matrix.T))

    def live_part(carry, begin):
        """A part of the block, on the rows of its own examples; then the block's other rows catch up."""
        rows, small = carry
        own_rows = rows.map(lambda whole: lax.dynamic_slice_in_dim(whole, begin, part))
        small = own_rows.together().put_into(small)
        seen = lax.dynamic_slice_in_dim(gram, begin, part)
        own = lax.dynamic_slice_in_dim(seen, begin, part, axis=1)

        def respond(before, i):
            work, credit, outcome = learner.respond(before, before.incoming[i], targets[begin + i])
            there_is_one = at + begin + i < until
            keep = lambda new, old: new if new is old else jnp.where(there_is_one, new, old)
            return jax.tree.map(keep, work, before), _masked(credit, there_is_one), outcome

        def example(carry, i):
            """As in `scan`, the rows follow an example when the next one comes: the last of a part, nobody asks for."""
            work, credit, outcome = carry
            return respond(learner.follow(work, credit, own[i - 1], outcome.loss), i), (credit, outcome.outputs)

        (small, credit, outcome), earlier = lax.scan(example, respond(small, 0), jnp.arange(1, part))
        append = lambda stack, last: jnp.concatenate([stack, last[None]])
        credits, outputs = jax.tree.map(append, earlier, (credit, outcome.outputs))
        rows = _rebuild(learner, rows, Steps(seen, units_first=False), credits, until - at - begin)
        return (rows, small), (credits, outputs)

    small = rows.map(lambda whole: whole[:part]).together().put_into(work)
    (_, small), each = lax.scan(live_part, (rows, small), jnp.arange(0, stride, part))
    credits, outputs = jax.tree.map(lambda parts: parts.reshape(stride, *parts.shape[2:]), each)
    matrices = _rebuild(learner, matrices, Steps(inputs, units_first=True), credits, until - at)
    return matrices.put_into(small), sums.add_block(learner.network, start + at, outputs, targets, until - at)


def _rebuild(learner: Learner, matrices: Matrices, steps: Steps, credits: Credit, count: Any) -> Matrices:
    r"""The matrices after the first `count` of some steps with these coefficients.

    With $\beta$ the momentum, or 0, a direction moves U by $\alpha (1 + \beta + ... + \beta^s)$ of itself, where s more
    steps follow, and leaves $\beta^s$ of itself in the velocity.
    """
    incoming, optimizer, memory = matrices
    if optimizer is None:
        return matrices
    velocities, structure = jax.tree.flatten(optimizer)
    step_size = first_set(learner.incoming_step_size, learner.step_size)
    decay = MOMENTUM if velocities else 0.0
    size = len(steps.inputs)
    count = jnp.clip(count, 0, size)
    following = count - 1 - jnp.arange(size)
    left = jnp.where(following >= 0, jnp.asarray(decay, incoming.dtype) ** jnp.maximum(following, 0), 0)
    moved = jnp.where(following >= 0, step_size * (1 - decay * left) / (1 - decay), 0)
    if velocities:
        (velocity,), remaining = velocities, decay ** count.astype(incoming.dtype)
        incoming = incoming - step_size * decay * (1 - remaining) / (1 - decay) * velocity
        velocities = [remaining * velocity]
    totals, weights = [incoming, *velocities], [moved, -left][: 1 + len(velocities)]
    totals, memory = _trace_back(credits, weights, steps, totals, memory)
    return Matrices(totals[0], jax.tree.unflatten(structure, totals[1:]), memory)


def _trace_back(credits: Any, weights: list, steps: Steps, totals: list, memory: Any):
    """Adds to each of `totals` the directions of all steps, weighed by its own of `weights`; and moves the memory on.

    Backwards from the last step, what is put into H comes out as all that the later steps take of it, while it fades.
    """
    if memory is None:
        # The inputs are weighed, since what is given has to be copied to lie right, and a copy should be all it is.
        weighed = [Steps(weight[:, None] * steps.inputs, steps.units_first) for weight in weights]
        return [total + of.spread(credits.from_input) for total, of in zip(totals, weighed, strict=True)], None

    apart = isinstance(memory, tuple)

    def back(carry, step) -> tuple[Any, Any]:
        taken, fade = carry
        credit, weights = step
        new, direct = credit.memory_input, 0 if credit.from_input is None else credit.from_input
        given = [w * direct + weigh_memories(new, later) for w, later in zip(weights, taken, strict=True)]
        before = [
            w * credit.from_memory + credit.memory_keep[None, :] * later
            for w, later in zip(weights, taken, strict=True)
        ]
        faded = new * fade[None, :]
        return (before, fade * credit.memory_keep), (given, tuple(faded) if apart else faded)

    nothing = [jnp.zeros_like(credits.from_memory[0]) for _ in totals], jnp.ones_like(credits.memory_keep[0])
    (taken, fade), (given, faded) = lax.scan(back, nothing, (credits, weights), reverse=True)
    remembered = faded if apart else jnp.moveaxis(faded, 1, 0)

    def one(totals, h, k):
        totals = [total + h * steps.by_unit(part[k]) for total, part in zip(totals, taken, strict=True)]
        return totals, h * steps.by_unit(fade) + steps.spread(remembered[k])

    totals, memory = _one_by_one(one, totals, memory)
    return [total + steps.spread(part) for total, part in zip(totals, given, strict=True)], memory


def _one_by_one(change, carry, memory):
    """`carry, h = change(carry, h, k)` for one matrix of H after the other."""
    if not isinstance(memory, tuple) and len(memory) > 1:
        return lax.scan(lambda carry, each: change(carry, *each), carry, (memory, jnp.arange(len(memory))))
    changed = []
    for k, h in enumerate(memory):
        carry, h = change(carry, h, k)
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
