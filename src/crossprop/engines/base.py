"""What engines share: the runs they are given, what they give back, and how a life is cut into segments and windows.

A segment is one compiled call: between two of them the host shows progress and hears Ctrl-C. A window is the stretch of
a run that gives one record.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.learners import Learner, State
from crossprop.learners.base import Outcome, Work
from crossprop.network import Network, float_type
from crossprop.streams.base import Life

Probe = Callable[[State, State], Any]
Probes = tuple[tuple[str, Probe], ...]
AfterSegment = Callable[[int], None]

SECONDS_PER_SEGMENT = 0.25


def unheard(steps: int) -> None:
    """For who does not listen."""


class Run(NamedTuple):
    """One learner, one life, and the data of the key for its initial weights."""

    learner: Learner
    life: Life
    key: np.ndarray


class Lived(NamedTuple):
    """What is kept of a run: a number a window of each record (loss and error summed over it), when it diverged."""

    records: dict[str, np.ndarray]
    diverged_at: int
    state: State | None = None
    """The last state, of a run that an engine took alone."""


class Progress(NamedTuple):
    """Where a run stands, passed between segments."""

    work: Work
    records: dict[str, jax.Array]
    diverged_at: jax.Array


class Sums(NamedTuple):
    """What adds up over the examples of a window, and the first step with a non-finite loss, or -1."""

    loss: jax.Array
    error: jax.Array
    diverged_at: jax.Array

    def add(self, network: Network, at: Any, outcome: Outcome, y: jax.Array) -> "Sums":
        diverged = (self.diverged_at < 0) & ~jnp.isfinite(outcome.loss)
        wrong = jnp.argmax(outcome.outputs) != jnp.argmax(y) if network.loss == "softmax" else 0
        return Sums(self.loss + outcome.loss, self.error + wrong, jnp.where(diverged, at, self.diverged_at))


class Method(NamedTuple):
    """How an engine goes through examples. Hashable: a compiled segment is made for each."""

    advance: Callable[..., tuple[Work, Sums]]
    """`(stride, learner, work, sums, x, y, at, until, start)`: lives through rows `at` to `until` of x and y, whose
    first is example `start`; at most `stride` of them, where it has one."""
    stride: int | None = None
    """The most examples that it takes at a time; None is as many as there are."""


def record_names(learner: Learner, probes: Probes) -> list[str]:
    errors = ["error"] if learner.network.loss == "softmax" else []
    return ["loss", "incoming_drift", "outgoing_drift", *(name for name, _ in probes), *errors]


def steps_per_call(learner: Learner) -> int:
    """How many steps one compiled call takes: a power of two, about a quarter of a second's work on one core."""
    memory = learner.shapes().memory or ()
    matrices = 1 + (memory[2] if len(memory) == 3 else 0)
    seconds_per_step = 3e-6 + 2e-10 * matrices * learner.network.fan_in * learner.network.hidden
    return 2 ** int(np.clip(np.log2(SECONDS_PER_SEGMENT / seconds_per_step), 4, 13))


def live(
    method: Method, runs: Sequence[Run], record_every: int, probes: Probes, after_segment: AfterSegment
) -> list[Lived]:
    """Whole runs, side by side where there are several: their learners have one structure, their lives one length.

    `after_segment` hears how many steps went by, and may raise to end them there.
    """
    learner, life = runs[0].learner, runs[0].life
    steps, windows, single = len(life.y), -(-len(life.y) // record_every), len(runs) == 1
    nothing = {name: jnp.zeros(windows) for name in record_names(learner, probes)}
    progress = [
        Progress(Work.of(run.learner.init(jax.random.wrap_key_data(jnp.asarray(run.key)))), nothing, jnp.array(-1))
        for run in runs
    ]
    learners, progress = (
        trees[0] if single else jax.tree.map(lambda *leaves: jnp.stack([*map(jnp.asarray, leaves)]), *trees)
        for trees in ([run.learner for run in runs], progress)
    )
    progress = jax.tree.map(jnp.array, progress)
    initial = jax.tree.map(jnp.copy, progress.work)
    size = min(max(steps_per_call(learner) // (method.stride or 1), 1) * (method.stride or 1), steps)
    x = np.zeros((len(runs), size + (method.stride or 0), life.pool.shape[1]), float_type())
    y = np.zeros((len(runs), size + (method.stride or 0), life.y.shape[1]), float_type())
    for start in range(0, steps, size):
        count = min(size, steps - start)
        for i, (_, life, _) in enumerate(runs):
            x[i, :count] = life.pool[life.order[start : start + count]]
            y[i, :count] = life.y[start : start + count]
        examples = (x[0], y[0]) if single else (x, y)
        progress = _segment(method, probes, single, learners, initial, progress, *examples, start, count, record_every)
        jax.block_until_ready(progress)
        after_segment(count)
    records, diverged_at = jax.device_get((progress.records, progress.diverged_at))
    if single:
        return [Lived(records, int(diverged_at), progress.work.state())]
    return [Lived({name: values[i] for name, values in records.items()}, int(diverged_at[i])) for i in range(len(runs))]


# A GPU's compiler times several ways to multiply and keeps the quickest, which is not the same in every process.
@partial(
    jax.jit,
    static_argnames=("method", "probes", "single"),
    donate_argnames="progress",
    compiler_options={"xla_gpu_autotune_level": 0},
)
def _segment(
    method: Method,
    probes: Probes,
    single: bool,
    learner: Learner,
    initial: Work,
    progress: Progress,
    x: jax.Array,
    y: jax.Array,
    start: int,
    steps: int,
    record_every: int,
) -> Progress:
    """Lives through the first `steps` rows of x and y, which are the runs' examples from number `start` on."""
    each = partial(_one_segment, method, probes)
    each = each if single else jax.vmap(each, in_axes=(0, 0, 0, 0, 0, None, None, None))
    return each(learner, initial, progress, x, y, start, steps, record_every)


def _one_segment(method, probes, learner, initial, progress, x, y, start, steps, record_every) -> Progress:
    rows, columns = learner.network.inputs, learner.network.hidden
    measures = {
        "incoming_drift": lambda initial, work: _norm((work.incoming - initial.incoming)[:rows]),
        "outgoing_drift": lambda initial, work: _norm((work.outgoing - initial.outgoing)[:, :columns]),
    } | {name: lambda initial, work, probe=probe: probe(initial.state(), work.state()) for name, probe in probes}

    def stretch(carry):
        """To the end of the window that is open, or of the segment, or as far as the method goes at a time."""
        done, work, records, diverged_at = carry
        window = (start + done) // record_every
        end = (window + 1) * record_every - start
        until = jnp.minimum(steps, end)
        if method.stride is not None:
            until = jnp.minimum(until, done + method.stride)
        zero = jnp.zeros((), x.dtype)
        sums = Sums(zero, zero, diverged_at)
        work, sums = method.advance(method.stride, learner, work, sums, x, y, done, until, start)
        closes = (until == end) | (until == steps)
        records = {
            name: values.at[window].add(getattr(sums, name))
            if name in ("loss", "error")
            else values.at[window].set(
                lax.cond(closes, measures[name], lambda *_, kept=values[window]: kept, initial, work)
            )
            for name, values in records.items()
        }
        return until, work, records, sums.diverged_at

    done = jnp.zeros((), jnp.int32)
    carry = (done, progress.work, progress.records, progress.diverged_at)
    _, work, records, diverged_at = lax.while_loop(lambda carry: carry[0] < steps, stretch, carry)
    return Progress(work, records, diverged_at)


def _norm(change: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.vdot(change, change, precision=lax.Precision.HIGHEST))
