"""The scan engine: one example after another, any rule, any optimizer, any device. The others are judged by it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.learners import Learner, State
from crossprop.network import float_type
from crossprop.streams.base import Life

Probe = Callable[[State, State], Any]
Probes = tuple[tuple[str, Probe], ...]

SECONDS_PER_SEGMENT = 0.25


class Progress(NamedTuple):
    """Where a run stands, passed between segments: its state, its records so far, when it diverged."""

    state: State
    records: dict[str, jax.Array]
    diverged_at: jax.Array


def live(
    learner: Learner,
    life: Life,
    key: jax.Array,
    record_every: int,
    probes: Probes = (),
    after_segment: Callable[[int], None] = lambda steps: None,
) -> Progress:
    """One whole run. `after_segment` hears how many steps went by, and may raise to end it there."""
    steps, windows = len(life.y), -(-len(life.y) // record_every)
    initial = learner.init(key)
    names = ["loss", "incoming_drift", "outgoing_drift", *(name for name, _ in probes)]
    names += ["error"] if learner.network.loss == "softmax" else []
    records = {name: jnp.zeros(windows) for name in names}
    progress = Progress(jax.tree.map(jnp.copy, initial), records, jnp.array(-1))
    size = min(segment_size(learner), steps)
    for start in range(0, steps, size):
        count = min(size, steps - start)
        x = np.zeros((size, life.pool.shape[1]), float_type())
        y = np.zeros((size, life.y.shape[1]), float_type())
        x[:count] = life.pool[life.order[start : start + count]]
        y[:count] = life.y[start : start + count]
        progress = _segment(learner, initial, progress, x, y, start, count, record_every, probes)
        jax.block_until_ready(progress)
        after_segment(count)
    return progress


def segment_size(learner: Learner) -> int:
    """How many steps one compiled call takes: a power of two, about a quarter of a second's work on one core."""
    memory = learner.shapes().memory or ()
    matrices = 1 + (memory[2] if len(memory) == 3 else 0)
    seconds_per_step = 3e-6 + 2e-10 * matrices * learner.network.fan_in * learner.network.hidden
    return 2 ** int(np.clip(np.log2(SECONDS_PER_SEGMENT / seconds_per_step), 4, 13))


# A GPU's compiler times several ways to multiply and keeps the quickest, which is not the same in every process.
@partial(jax.jit, static_argnames="probes", donate_argnames="progress", compiler_options={"xla_gpu_autotune_level": 0})
def _segment(
    learner: Learner,
    initial: State,
    progress: Progress,
    x: jax.Array,
    y: jax.Array,
    start: int,
    steps: int,
    record_every: int,
    probes: Probes,
) -> Progress:
    """Lives through the first `steps` rows of x and y, which are the run's examples from number `start` on."""

    def stretch(carry):
        """To the end of the window that is open, or of the segment."""
        done, state, records, diverged_at = carry
        window = (start + done) // record_every
        until = jnp.minimum(steps, (window + 1) * record_every - start)

        def example(at, carry):
            state, diverged_at, loss, error = carry
            state, outcome = learner.update(state, x[at], y[at])
            diverged_at = jnp.where((diverged_at < 0) & ~jnp.isfinite(outcome.loss), start + at, diverged_at)
            wrong = jnp.argmax(outcome.outputs) != jnp.argmax(y[at])
            return state, diverged_at, loss + outcome.loss, error + wrong

        zero = jnp.zeros((), x.dtype)
        state, diverged_at, loss, error = lax.fori_loop(done, until, example, (state, diverged_at, zero, zero))
        records = {
            name: values.at[window].add({"loss": loss, "error": error}[name])
            if name in ("loss", "error")
            else values.at[window].set(measures[name](initial, state))
            for name, values in records.items()
        }
        return until, state, records, diverged_at

    rows, columns = learner.network.inputs, learner.network.hidden
    measures = dict(probes) | {
        "incoming_drift": lambda initial, state: jnp.linalg.norm((state.incoming - initial.incoming)[:rows]),
        "outgoing_drift": lambda initial, state: jnp.linalg.norm((state.outgoing - initial.outgoing)[:columns]),
    }
    done = jnp.zeros((), jnp.int32)
    carry = (done, progress.state, progress.records, progress.diverged_at)
    _, state, records, diverged_at = lax.while_loop(lambda carry: carry[0] < steps, stretch, carry)
    return Progress(state, records, diverged_at)
