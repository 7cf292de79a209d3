r"""The chunked engine, for wide inputs: matrix products instead of one rank-one step after another.

Within a block of examples $X$ (one per row) nothing is approximated. A step needs the big matrices only through their
products with the block's own examples, $X U$ and $X H_k$, which have as many rows as the block has examples. An update
adds multiples of $x_t$ and of $H_k$ to $U$, so it acts on those rows as it does on $U$, with $X x_t$ in the place of
$x_t$: the block is run in a small network whose inputs are the block's examples, by the same rule. At its end $U$ and
$H_k$ are what they were, scaled per unit, plus $X^\top$ times what each example has contributed. A block is cut into
parts in the same way, small ones if there are $H_k$, so that a single step touches few rows.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crossprop.engines.protocol import Batch, Observers, Rows, Session, Sums
from crossprop.engines.scan import unit_drifts
from crossprop.engines.segments import LoopSession, batch_width
from crossprop.learners.base import Credit, Learner, Outcome, State, UnitRule
from crossprop.learners.layer_update import follow, weigh_memories
from crossprop.learners.optimizers import MOMENTUM
from crossprop.learners.unit_major import Stack, UnitMajorState, to_state, to_unit_major
from crossprop.learners.update import respond
from crossprop.network import float_type

BLOCK = 64
PART = 32
PART_WITH_MEMORY = 10
WIDE = 128
TILE_BYTES = 2**27
MOST_APART = 16


class Matrices(NamedTuple):
    """What has a number for every input: the first layer's weights U, their optimizer's state, and the matrices of H,
    stacked or as a tuple."""

    incoming: jax.Array
    optimizer: optax.OptState | None
    memory: jax.Array | tuple[jax.Array, ...] | None

    @classmethod
    def of(cls, learner: UnitRule, work: UnitMajorState) -> "Matrices":
        first = work.layers[0]
        optimizer = first.optimizer if moves(learner) else None
        return cls(first.weights, optimizer, first.memory if _matrices(learner) else None)

    def put_into(self, work: UnitMajorState) -> UnitMajorState:
        first = work.layers[0]
        optimizer = first.optimizer if self.optimizer is None else self.optimizer
        memory = first.memory if self.memory is None else self.memory
        return work.with_first(replace(first, weights=self.incoming, optimizer=optimizer, memory=memory))

    def map(self, change: Callable[[jax.Array], jax.Array]) -> "Matrices":
        """`change` applied to each matrix."""
        flat = jax.tree.map(change, self._replace(memory=None))
        if self.memory is None:
            return flat
        return flat._replace(memory=_one_by_one(lambda _, h, k: (None, change(h)), None, self.memory)[1])

    def together(self) -> "Matrices":
        return self._replace(memory=jnp.stack(self.memory)) if isinstance(self.memory, tuple) else self


class Steps(NamedTuple):
    """The inputs of some steps, `(steps, inputs)`, and the layout of the matrices that they change."""

    inputs: jax.Array
    units_first: bool

    def spread(self, given: jax.Array) -> jax.Array:
        """The sum over the steps of the outer products of their inputs and `given (steps, hidden)`."""
        left, right = (given, self.inputs) if self.units_first else (self.inputs, given)
        # On a CPU a product that folds in the transpose is slower.
        return _product(lax.optimization_barrier(left.T), right)

    def by_unit(self, factor: jax.Array) -> jax.Array:
        """One number per unit, shaped to multiply a matrix."""
        return factor[:, None] if self.units_first else factor[None, :]


def why_unsupported(learner: Learner, platform: str, observers: Observers = Observers()) -> str | None:  # noqa: B008
    """Why this engine cannot run the learner, or None."""
    if not isinstance(learner, UnitRule):
        return f"the chunked engine needs a credit rule, a UnitRule, got {type(learner).__name__}"
    if not learner.network.sizes:
        return "the chunked engine needs a hidden layer, got hidden=()"
    if observers.see_after:
        return "the chunked engine takes no metrics that see the outcome after learning"
    if learner.replacement is not None:
        return f"the chunked engine keeps all units, got replacement={learner.replacement!r}"
    if learner.network_optimizer() is not None:
        return f"the chunked engine takes no optimizer that sees the whole network, got {learner.optimizer!r}"
    if learner.optimizer in ("sgd", "momentum") or not moves(learner):
        return None
    return f"the chunked engine needs optimizer 'sgd' or 'momentum', whose steps add up, got {learner.optimizer!r}"


def is_worthwhile(learner: Learner) -> bool:
    """Whether there are enough inputs for blocks to pay off."""
    return isinstance(learner, UnitRule) and learner.network.fan_in >= WIDE


def width(learner: Learner, platform: str) -> int:
    """How many runs go side by side."""
    return batch_width(learner, platform, TILE_BYTES)


def start(batch: Batch, platform: str) -> Session:
    """Begins the runs of a batch."""
    loop = BlockLoop(_block(batch.record_every), apart=platform == "cpu")
    return LoopSession(loop, batch, width(batch.runs[0].learner, platform))


class BlockLoop(NamedTuple):
    """A block of examples at a time; on a CPU each memory matrix is an array of its own."""

    stride: int
    apart: bool

    def enter(self, learner: UnitRule, state: State) -> UnitMajorState:
        work = to_unit_major(state)
        return _apart(learner, work) if self.apart else _turned(learner, work)

    def leave(self, learner: UnitRule, work: UnitMajorState) -> State:
        return to_state(learner.network, _turned(learner, Matrices.of(learner, work).together().put_into(work)))

    def drifts(self, learner: UnitRule, initial: UnitMajorState, work: UnitMajorState) -> dict[str, jax.Array]:
        return unit_drifts(learner, initial, work, inputs_axis=1)

    def advance(self, learner: UnitRule, work: Any, sums: Sums, rows: Rows, observers: Observers) -> tuple[Any, Sums]:
        work, outputs, targets = _advance(self.stride, learner, work, rows)
        return work, _add_block(sums, learner, observers, rows, outputs, targets)


def moves(learner: UnitRule) -> bool:
    """Whether the rule moves the first layer's weights at all."""
    return _moves(jax.tree.structure(learner), float_type())


@lru_cache(256)
def _moves(structure: Any, dtype: Any) -> bool:
    rule = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    work = jax.eval_shape(lambda: to_unit_major(rule.init(jax.random.key(0))))
    z, y = (jax.ShapeDtypeStruct((size,), dtype) for size in (rule.network.sizes[0], rule.network.outputs))
    return jax.eval_shape(lambda work, z, y: respond(Stack.of(rule), work, z, y)[1], work, z, y).moves


def _matrices(learner: UnitRule) -> int:
    """The number of memory matrices of the first layer."""
    return learner.by_layer()[0].shapes().matrices


def _add_block(sums: Sums, rule: UnitRule, observers: Observers, rows: Rows, outputs: jax.Array, y: jax.Array) -> Sums:
    """`Sums.add` for a block of examples, of which the last ones may be padding."""
    network, at, real = rule.network, rows.start + rows.at, jnp.arange(len(y)) < rows.until - rows.at
    losses = jnp.where(real, jax.vmap(network.error)(outputs, y)[0], 0)
    diverged = ~jnp.isfinite(losses)
    wrong = real & (jnp.argmax(outputs, axis=1) != jnp.argmax(y, axis=1)) if network.loss == "softmax" else 0
    first = jnp.where((sums.diverged_at < 0) & jnp.any(diverged), at + jnp.argmax(diverged), sums.diverged_at)
    metrics = {
        name: sums.metrics[name] + jnp.sum(jnp.where(real, jax.vmap(metric)(Outcome(losses, outputs), y), 0))
        for name, metric in observers.metrics
    }
    error = sums.error + jnp.sum(wrong).astype(sums.error.dtype)
    return Sums(sums.loss + jnp.sum(losses), error, metrics, first)


def _turned(learner: UnitRule, work: UnitMajorState) -> UnitMajorState:
    """Between blocks the matrices have a row per unit, with which products with few examples are faster on a CPU."""
    return jax.tree.map(lambda matrix: jnp.swapaxes(matrix, -1, -2), Matrices.of(learner, work)).put_into(work)


def _apart(learner: UnitRule, work: UnitMajorState) -> UnitMajorState:
    """On a CPU each matrix of H is an array of its own, changed in place; a loop over a stack would copy it."""
    work = _turned(learner, work)
    first = work.layers[0]
    if not _matrices(learner) or len(first.memory) > MOST_APART:
        return work
    return work.with_first(replace(first, memory=tuple(first.memory[k] for k in range(len(first.memory)))))


def _block(record_every: int) -> int:
    """The examples per block: windows are cut into blocks of about equal size, which can be cut into equal parts."""
    even = -(-record_every // -(-record_every // BLOCK))
    return next(
        size for size in range(even, even + 8) if 2 * _part(size, PART_WITH_MEMORY) >= min(size, PART_WITH_MEMORY)
    )


def _part(block: int, most: int) -> int:
    """The examples per part of a block: the largest divisor of `block` that is at most `most`."""
    return max(size for size in range(1, most + 1) if block % size == 0)


def _advance(
    stride: int, learner: UnitRule, work: UnitMajorState, rows_of_run: Rows
) -> tuple[UnitMajorState, jax.Array, jax.Array]:
    """The state after a block, and the block's outputs and targets."""
    x, y, at, until, _ = rows_of_run
    stack = Stack.of(learner)
    part = _part(stride, PART_WITH_MEMORY if _matrices(learner) else PART)
    inputs = jax.vmap(learner.network.with_constant)(lax.dynamic_slice_in_dim(x, at, stride))
    targets = lax.dynamic_slice_in_dim(y, at, stride)
    gram = _product(inputs, inputs.T)
    matrices = Matrices.of(learner, work)
    rows = matrices.map(lambda matrix: _product(inputs, matrix.T))

    def run_part(carry, begin):
        """Runs a part of the block on the rows of its own examples, then updates the block's other rows."""
        rows, small = carry
        own_rows = rows.map(lambda whole: lax.dynamic_slice_in_dim(whole, begin, part))
        small = own_rows.together().put_into(small)
        seen = lax.dynamic_slice_in_dim(gram, begin, part)
        own = lax.dynamic_slice_in_dim(seen, begin, part, axis=1)

        def respond_to(before: UnitMajorState, i: Any) -> Any:
            work, credit, outcome = respond(stack, before, before.layers[0].weights[i], targets[begin + i])
            is_real = at + begin + i < until
            keep = lambda new, old: new if new is old else jnp.where(is_real, new, old)
            return jax.tree.map(keep, work, before), _masked(credit, is_real), outcome

        def example(carry, i):
            """As in `scan`, the rows follow an example when the next one comes; after the last they are not needed."""
            work, credit, outcome = carry
            first = follow(stack.rules[0], work.layers[0], credit, own[i - 1], outcome.loss)
            return respond_to(work.with_first(first), i), (credit, outcome.outputs)

        (small, credit, outcome), earlier = lax.scan(example, respond_to(small, 0), jnp.arange(1, part))
        append = lambda stack, last: jnp.concatenate([stack, last[None]])
        credits, outputs = jax.tree.map(append, earlier, (credit, outcome.outputs))
        rows = _rebuild(learner, rows, Steps(seen, units_first=False), credits, until - at - begin)
        return (rows, small), (credits, outputs)

    small = rows.map(lambda whole: whole[:part]).together().put_into(work)
    (_, small), each = lax.scan(run_part, (rows, small), jnp.arange(0, stride, part))
    credits, outputs = jax.tree.map(lambda parts: parts.reshape(stride, *parts.shape[2:]), each)
    matrices = _rebuild(learner, matrices, Steps(inputs, units_first=True), credits, until - at)
    return matrices.put_into(small), outputs, targets


def _rebuild(learner: UnitRule, matrices: Matrices, steps: Steps, credits: Credit, count: Any) -> Matrices:
    r"""The matrices after the first `count` of some steps with these coefficients.

    With $\beta$ the momentum, or 0, a direction moves U by $\alpha (1 + \beta + ... + \beta^s)$ of itself, where s more
    steps follow, and leaves $\beta^s$ of itself in the velocity.
    """
    incoming, optimizer, memory = matrices
    if optimizer is None:
        return matrices
    velocities, structure = jax.tree.flatten(optimizer)
    step_size = learner.by_layer()[0].own_step_size()
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
    """Adds to each of `totals` the directions of all steps, weighted by its own entry of `weights`; updates the memory.

    It goes backwards from the last step: what a step puts into H counts as much as later steps take out of it.
    """
    if memory is None:
        # The inputs are scaled rather than `given`, which is copied by the transpose: scaling it would cost more.
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
    """`carry, h = change(carry, h, k)` for each matrix of H in turn."""
    if not isinstance(memory, tuple) and len(memory) > 1:
        return lax.scan(lambda carry, each: change(carry, *each), carry, (memory, jnp.arange(len(memory))))
    changed = []
    for k, h in enumerate(memory):
        carry, h = change(carry, h, k)
        changed.append(h)
    return carry, tuple(changed) if isinstance(memory, tuple) else jnp.stack(changed)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)


def _masked(credit: Credit, is_real: jax.Array) -> Credit:
    """The coefficients of an example, or for padding ones that change nothing."""
    keep = credit.memory_keep
    return Credit(*(None if c is None else jnp.where(is_real, c, 0) for c in credit))._replace(
        memory_keep=None if keep is None else jnp.where(is_real, keep, 1)
    )
