"""The kernel engine, for narrow inputs on a GPU: one program to a run, its weights and memory on chip all its life.

The program traces the learner itself, so a new rule is fast on the day it is written.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from crossprop.engines import kernel_layout, segments
from crossprop.engines.fma_rewrite import GPU, PLAIN, fma_rewritten, triton
from crossprop.engines.kernel_layout import Data, Runs
from crossprop.learners import Learner
from crossprop.learners.optimizers import OPTIMIZERS
from crossprop.network import float_type

RUNS = 4096
STEPS = 16384
NUMBERS_OF_EXAMPLES = 2**30
NUMBERS_ON_CHIP = 45_000
NUMBERS_PER_THREAD = 195


def why_unsupported(learner: Learner, platform: str, probes: segments.Probes) -> str | None:
    """Why this engine cannot do the job, or None."""
    if platform not in ("gpu", "cuda"):
        return f"the kernel engine needs a GPU, and this device is a {platform}"
    return too_much(learner, probes)


def too_much(learner: Learner, probes: segments.Probes) -> str | None:
    """Why no GPU could do the job in this way, or None."""
    if triton is None:
        return f"the kernel engine needs Pallas's Triton backend, which JAX {jax.__version__} does not have"
    if not isinstance(learner.optimizer, str):
        return f"the kernel engine needs an optimizer by name, one of {', '.join(OPTIMIZERS)}"
    if probes:
        return f"the kernel engine takes no probes, got {', '.join(name for name, _ in probes)}"
    if float_type() != np.float32:
        return f"the kernel engine works in float32, and JAX is set to {float_type()}"
    numbers = _numbers(learner)
    if numbers > NUMBERS_ON_CHIP:
        return (
            f"the kernel engine keeps a run's state on chip, at most {NUMBERS_ON_CHIP:,} numbers with their padding; "
            f"this learner has {numbers:,}"
        )
    return None


def width(learner: Learner, platform: str) -> int:
    """How many runs go in one call, at most: they do not know of each other, so it changes nothing but memory."""
    return RUNS


def live(
    runs: Sequence[segments.Run],
    platform: str,
    record_every: int,
    probes: segments.Probes = (),
    after_segment: segments.AfterSegment = segments.unheard,
    interpret: bool = False,
) -> list[segments.RunResult]:
    pools = {id(run.life.pool): run.life.pool.size for run in runs}
    if sum(pools.values()) > NUMBERS_OF_EXAMPLES and len(pools) > 1:
        first, second = runs[: len(runs) // 2], runs[len(runs) // 2 :]
        live_half = partial(live, platform=platform, record_every=record_every, interpret=interpret)
        lived = live_half(first, after_segment=lambda steps: after_segment(0))
        return lived + live_half(second, after_segment=after_segment)
    learner, steps = runs[0].learner, len(runs[0].life.y)
    data, signs, own = kernel_layout.gather(runs)
    progress = kernel_layout.begin(learner, data, own, signs, -(-steps // record_every))
    for start in range(0, steps, STEPS):
        stop = min(start + STEPS, steps)
        bounds = np.array([start, stop, record_every], np.int32)
        progress = _segment(learner, interpret, data, own, progress, bounds)
        jax.block_until_ready(progress.diverged_at)
        after_segment(stop - start)
    records, diverged_at = jax.device_get((progress.records, progress.diverged_at))
    return segments.lived(records, diverged_at, len(runs), steps, record_every)


# Sizes.


def _numbers(learner: Learner) -> int:
    """How many numbers a run keeps on chip, with padding."""
    return _numbers_of(jax.tree.structure(learner))


@cache
def _numbers_of(structure: Any) -> int:
    learner = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    work = jax.eval_shape(
        lambda: kernel_layout.first_work(learner, *kernel_layout.initial_weights(learner, jax.random.key(0)))
    )
    return sum(leaf.size for leaf in jax.tree.leaves(work))


def _warps(learner: Learner) -> int:
    """How many groups of 32 threads share a run: few wait less for each other, many have more registers."""
    threads = _numbers(learner) / NUMBERS_PER_THREAD
    return int(np.clip(kernel_layout.power(int(np.ceil(threads / 32))), 1, 16))


# The program.


@partial(jax.jit, static_argnames="interpret", donate_argnames="progress")
def _segment(
    learner: Learner, interpret: bool, data: Data, own: Runs, progress: segments.Progress, bounds: jax.Array
) -> segments.Progress:
    """Steps `bounds[0]` to `bounds[1]` of all runs."""
    assert triton is not None
    given, moving = jax.tree.leaves((data, own, bounds)), jax.tree.leaves(progress)
    structure = jax.tree.structure((data, own, bounds, progress))

    def program(*refs):
        refs_in, refs_out = refs[: len(given)], refs[-len(moving) :]
        _live_one(learner, interpret, *jax.tree.unflatten(structure, [*refs_in, *refs_out]))

    moved = pl.pallas_call(
        program,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in moving],
        grid=(len(own.place),),
        input_output_aliases={len(given) + i: i for i in range(len(moving))},
        compiler_params=triton.CompilerParams(num_warps=_warps(learner), num_stages=1),
        interpret=interpret,
        name="live",
    )(*given, *moving)
    return jax.tree.unflatten(jax.tree.structure(progress), moved)


def _live_one(
    learner: Learner, interpret: bool, data: Data, own: Runs, bounds: Any, progress: segments.Progress
) -> None:
    """The program of one run; its arguments refer to memory, which it reads and writes."""
    run = pl.program_id(0)
    network, count = learner.network, own.numbers.shape[1]
    learner = kernel_layout.with_numbers(learner, [own.numbers[run, i] for i in range(count)])
    learner = eqx.tree_at(lambda each: each.network, learner, kernel_layout.Padded.of(network))
    life, value, alive = own.place[run, 0], own.place[run, 1], own.place[run, 2]
    start, record_every = bounds[0], bounds[2]
    stop = jnp.where(alive > 0, bounds[1], start)
    final = data.order.shape[1] - 1
    rows = [piece for piece in kernel_layout.pieces(network) if piece.start < network.inputs]

    def example(step):
        row = data.order[life, step]
        y = data.y[life, step]
        pieces = (data.pool[row, pl.ds(piece.start, piece.stop - piece.start)] for piece in rows)
        return tuple(piece.astype(y.dtype) for piece in pieces), y

    def learn(step, carry):
        work, loss, error, diverged_at, (x, y) = carry
        following = example(jnp.minimum(step + 1, final))
        inputs = (*x, jnp.ones(1, y.dtype)) if network.bias else x
        work, outcome = fma_rewritten(learner.learn, PLAIN if interpret else GPU)(work, inputs, y)
        finite = jnp.abs(outcome.loss) < jnp.inf
        diverged_at = jnp.where((diverged_at < 0) & ~finite, step, diverged_at)
        if network.loss == "softmax":
            error = error + (jnp.argmax(outcome.outputs) != jnp.argmax(y)).astype(error.dtype)
        return work, loss + outcome.loss, error, diverged_at, following

    def window(number, carry):
        work, diverged_at, following = carry
        first = jnp.maximum(start, number * record_every)
        last = jnp.minimum(stop, (number + 1) * record_every)
        zero = jnp.zeros((), progress.records["loss"].dtype)
        carry = (work, zero, zero, diverged_at, following)
        work, loss, error, diverged_at, following = lax.fori_loop(first, last, learn, carry)
        records = progress.records
        records["loss"][run, number] += loss
        if "error" in records:
            records["error"][run, number] += error
        incoming = [new - old[value] for new, old in zip(work.incoming, data.incoming, strict=True)][: len(rows)]
        records["incoming_drift"][run, number] = _norm(incoming)
        records["outgoing_drift"][run, number] = _norm([work.outgoing[0] - data.outgoing[0][value]])
        return work, diverged_at, following

    work = jax.tree.map(lambda ref: ref[run], progress.work)
    carry = (work, progress.diverged_at[run], example(start))
    windows = (start // record_every, (stop + record_every - 1) // record_every)
    work, diverged_at, _ = lax.fori_loop(*windows, window, carry)
    progress.diverged_at[run] = diverged_at
    for ref, leaf in zip(jax.tree.leaves(progress.work), jax.tree.leaves(work), strict=True):
        ref[run] = leaf


def _norm(changes: list[jax.Array]) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.sum(change**2, axis=0)) for change in changes))


def traced(learner: Learner) -> Any:
    """The program, on any machine: whether it lowers for a GPU can be known where there is none."""
    network, one = learner.network, jax.ShapeDtypeStruct
    initial = jax.eval_shape(lambda: kernel_layout.initial_weights(learner, jax.random.key(0)))
    incoming, outgoing, signs = jax.tree.map(lambda leaf: one((1, *leaf.shape), leaf.dtype), initial)
    number, whole = partial(one, dtype=float_type()), partial(one, dtype=np.dtype(np.int32))
    y = number((1, 2, kernel_layout.power(network.outputs)))
    data = Data(number((2, network.inputs)), whole((1, 2)), y, incoming, outgoing)
    own = Runs(number((1, len(jax.tree.leaves(learner)))), whole((1, 3)))
    progress = jax.eval_shape(partial(kernel_layout.begin, learner, windows=1), data, own, signs)
    return _segment.trace(learner, False, data, own, progress, whole((3,)))
