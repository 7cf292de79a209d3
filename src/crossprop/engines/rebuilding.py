r"""Updates the big matrices after a block: U, its optimizer's state, and the memory matrices.

An update adds multiples of $x_t$ and of $H_k$ to $U$. So after a block $U$ and $H_k$ are their old values, scaled per
unit, plus $X^\top$ times the contributions of the examples.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crossprop.learners.base import Credit, CreditRule, State
from crossprop.learners.stack import moves
from crossprop.learners.update import depend_on, weigh_memories


class Matrices(NamedTuple):
    """The arrays with one entry per input: the first layer's weights U, their optimizer's state, and the matrices of H,
    stacked or as a tuple."""

    incoming: jax.Array
    optimizer: optax.OptState | None
    memory: jax.Array | tuple[jax.Array, ...] | None

    @classmethod
    def of(cls, learner: CreditRule, state: State) -> "Matrices":
        first = state.layers[0]
        optimizer = first.optimizer if moves(learner) else None
        return cls(first.weights, optimizer, first.memory if memory_matrices(learner) else None)

    def put_into(self, state: State) -> State:
        first = state.layers[0]
        optimizer = first.optimizer if self.optimizer is None else self.optimizer
        memory = first.memory if self.memory is None else self.memory
        return state.with_first(first._replace(weights=self.incoming, optimizer=optimizer, memory=memory))

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
        return product(lax.optimization_barrier(left.T), right)

    def by_unit(self, factor: jax.Array) -> jax.Array:
        """One number per unit, shaped to multiply a matrix."""
        return factor[:, None] if self.units_first else factor[None, :]


def memory_matrices(learner: CreditRule) -> int:
    """The number of memory matrices of the first layer."""
    return learner.by_layer()[0].shapes().matrices


def rebuild(
    learner: CreditRule, matrices: Matrices, steps: Steps, credits: Credit, count: Any, programs: Any
) -> Matrices:
    r"""The matrices after the first `count` of some steps with these coefficients.

    With $\beta$ the momentum, or 0, a direction moves U by $\alpha (1 + \beta + ... + \beta^s)$ of itself, where s more
    steps follow, and leaves $\beta^s$ of itself in the velocity. With `programs` these are GPU programs.
    """
    incoming, optimizer, memory = matrices
    if optimizer is None:
        return matrices
    velocities, structure = jax.tree.flatten(optimizer)
    step_size = learner.by_layer()[0].own_step_size()
    decay = learner.optimizer.momentum
    size = len(steps.inputs)
    count = jnp.clip(count, 0, size)
    following = count - 1 - jnp.arange(size)
    left = jnp.where(following >= 0, jnp.asarray(decay, incoming.dtype) ** jnp.maximum(following, 0), 0)
    moved = jnp.where(following >= 0, step_size * (1 - decay * left) / (1 - decay), 0)
    weights = [moved, -left][: 1 + len(velocities)]
    remaining = decay ** count.astype(incoming.dtype) if velocities else 0
    drag = step_size * decay * (1 - remaining) / (1 - decay)
    if programs is None:
        if velocities:
            incoming, velocities = incoming - drag * velocities[0], [remaining * velocities[0]]
        totals, memory = _trace_back(credits, weights, steps, [incoming, *velocities], memory)
    else:
        scales = [[1, -drag], [remaining]] if velocities else [[1]]
        bases = [*zip([[incoming, *velocities], velocities], scales, strict=False)]
        totals, memory = programs.change(credits, weights, steps, bases, memory, count)
    return Matrices(totals[0], jax.tree.unflatten(structure, totals[1:]), memory)


def step_back(weigh: Any, carry: Any, step: Any) -> tuple[Any, Any]:
    """One step of the backward pass: what the step adds to the totals and to H, and the weights of the H before it."""
    taken, fade = carry
    credit, weights = step
    new, direct = credit.memory_input, 0 if credit.from_input is None else credit.from_input
    given = [w * direct + weigh(new, later) for w, later in zip(weights, taken, strict=True)]
    before = [
        w * credit.from_memory + credit.memory_keep[None, :] * later for w, later in zip(weights, taken, strict=True)
    ]
    return (before, fade * credit.memory_keep), (given, new * fade[None, :])


def last_step(credits: Credit, totals: int) -> Any:
    """The first carry of `step_back`."""
    assert credits.from_memory is not None and credits.memory_keep is not None
    return [jnp.zeros_like(credits.from_memory[0]) for _ in range(totals)], jnp.ones_like(credits.memory_keep[0])


def _trace_back(credits: Any, weights: list, steps: Steps, totals: list, memory: Any):
    """Adds to each of `totals` the directions of all steps, weighted by its entry of `weights`; updates the memory.

    It goes backwards: the weight of a step's contribution to H is how much later steps read of it.
    """
    if memory is None:
        # The inputs are scaled rather than `given`, which is copied by the transpose: scaling it would cost more.
        weighed = [Steps(weight[:, None] * steps.inputs, steps.units_first) for weight in weights]
        return [total + of.spread(credits.from_input) for total, of in zip(totals, weighed, strict=True)], None

    apart = isinstance(memory, tuple)

    def back(carry, step) -> tuple[Any, Any]:
        carry, (given, faded) = step_back(weigh_memories, carry, step)
        return carry, (given, tuple(faded) if apart else faded)

    last = last_step(credits, len(totals))
    (taken, fade), (given, faded) = lax.scan(back, last, (credits, weights), reverse=True)
    remembered = faded if apart else jnp.moveaxis(faded, 1, 0)

    if apart:  # H changes after the totals have used it, and so in place
        for k, h in enumerate(memory):
            totals = [total + h * steps.by_unit(part[k]) for total, part in zip(totals, taken, strict=True)]
        totals = [total + steps.spread(part) for total, part in zip(totals, given, strict=True)]
        fade = reduce(lambda fade, total: depend_on(total, fade), totals, fade)
        each = zip(memory, remembered, strict=True)
        return totals, tuple(h * steps.by_unit(fade) + steps.spread(new) for h, new in each)

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


def product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
