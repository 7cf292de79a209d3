"""What engines share: the runs they are given, what they give back, and how a life is cut into segments and windows.

A segment is one compiled call: between two of them the host shows progress and hears Ctrl-C. A window is the stretch of
a run that gives one record.
"""

import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.feeding import deal_here, deal_there
from crossprop.learners import Learner, State
from crossprop.learners.base import Outcome, UnitMajorState
from crossprop.network import Network, float_type
from crossprop.streams.base import Life

Probe = Callable[[State, State], Any]
Probes = tuple[tuple[str, Probe], ...]
AfterSegment = Callable[[int], None]

SECONDS_PER_SEGMENT = 1.0
SUMMED = {"loss", "error"}


_making = threading.Lock()


def unheard(steps: int) -> None:
    """For who does not listen."""


class Run(NamedTuple):
    """One learner, one life, and the data of the key for its initial weights."""

    learner: Learner
    life: Life
    key: np.ndarray


class RunResult(NamedTuple):
    """What is kept of a run: a number a window of each record, NaN after it diverged; and when it did, or -1."""

    records: dict[str, np.ndarray]
    diverged_at: int
    state: Callable[[], State] | None = None
    """Gives the last state, of a run that scan or chunked took alone."""


class Progress(NamedTuple):
    """Where a run stands, passed between segments."""

    work: UnitMajorState
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

    def add_block(self, network: Network, at: Any, outputs: jax.Array, y: jax.Array, count: Any) -> "Sums":
        """The same of several examples at once, the first `count` of them."""
        real = jnp.arange(len(y)) < count
        losses = jnp.where(real, jax.vmap(network.error)(outputs, y)[0], 0)
        diverged = ~jnp.isfinite(losses)
        wrong = real & (jnp.argmax(outputs, axis=1) != jnp.argmax(y, axis=1)) if network.loss == "softmax" else 0
        first = jnp.where((self.diverged_at < 0) & jnp.any(diverged), at + jnp.argmax(diverged), self.diverged_at)
        return Sums(self.loss + jnp.sum(losses), self.error + jnp.sum(wrong).astype(self.error.dtype), first)


class LoopSpec(NamedTuple):
    """How an engine goes through examples. Hashable: a compiled segment is made for each."""

    advance: Callable[..., tuple[UnitMajorState, Sums]]
    """`(stride, learner, work, sums, x, y, at, until, start)`: lives through rows `at` to `until` of x and y, whose
    first is example `start`; at most `stride` of them, where it has one."""
    stride: int | None = None
    """The most examples that it takes at a time; None is as many as there are."""
    enter: Callable[[Learner, UnitMajorState], UnitMajorState] = lambda learner, work: work
    leave: Callable[[Learner, UnitMajorState], UnitMajorState] = lambda learner, work: work
    """How the work is laid out for the length of a life, and back."""
    inputs_axis: int = 0
    """Along which axis of U, laid out so, its inputs lie."""


def moves(learner: Learner) -> bool:
    """Whether the rule moves U at all."""
    return _moves(jax.tree.structure(learner), float_type())


@cache
def _moves(structure: Any, dtype: Any) -> bool:
    learner = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    work = jax.eval_shape(lambda: UnitMajorState.of(learner.init(jax.random.key(0))))
    z, y = (jax.ShapeDtypeStruct((size,), dtype) for size in (learner.network.hidden, learner.network.outputs))
    credit = jax.eval_shape(learner.respond, work, z, y)[1]
    return credit.from_input is not None or credit.from_memory is not None


def record_names(learner: Learner, probes: Probes) -> list[str]:
    errors = ["error"] if learner.network.loss == "softmax" else []
    return ["loss", "incoming_drift", "outgoing_drift", *(name for name, _ in probes), *errors]


def tile(learner: Learner, platform: str, most: int) -> int:
    """How many runs go side by side: one on a core of a CPU, elsewhere a power of two, with at most so many bytes of
    incoming weights."""
    weights = learner.network.fan_in * learner.network.hidden
    return 1 if platform == "cpu" else 2 ** int(np.clip(np.log2(most / (4 * weights)), 0, 6))


def seconds_per_step(learner: Learner) -> float:
    """About how long an example takes one core."""
    memory = learner.shapes().memory or ()
    matrices = 1 + (memory[2] if len(memory) == 3 else 0)
    return 3e-6 + 2e-10 * matrices * learner.network.fan_in * learner.network.hidden


def steps_per_call(learner: Learner, width: int) -> int:
    """How many steps one compiled call takes: a power of two, about a second's work on one core; and where runs go side
    by side, few enough that their examples fit."""
    most = 13 if width == 1 else 11
    return 2 ** int(np.clip(np.log2(SECONDS_PER_SEGMENT / seconds_per_step(learner)), 4, most))


def live(
    method: LoopSpec, runs: Sequence[Run], width: int, record_every: int, probes: Probes, after_segment: AfterSegment
) -> list[RunResult]:
    """Whole runs, `width` of them side by side, filled up with copies of the first: a run's numbers do not depend on
    how many there are. Their learners have one structure, their lives one length.

    `after_segment` hears how many steps went by, and may raise to end them there.
    """
    learner, life = runs[0].learner, runs[0].life
    steps, windows, single = len(life.y), -(-len(life.y) // record_every), width == 1
    together = [*runs, *[runs[0]] * (width - len(runs))]
    if single:
        learners, work = learner, _first_work(method, learner, jnp.asarray(runs[0].key))
    else:
        learners = jax.tree.map(lambda *leaves: np.array(leaves, float_type()), *(run.learner for run in together))
        work = _first_works(method, learners, np.stack([run.key for run in together]))
    shape = (windows,) if single else (width, windows)
    records = {name: jnp.zeros(shape) for name in record_names(learner, probes)}
    initial, progress = work, jax.tree.map(jnp.array, Progress(work, records, jnp.full(shape[:-1], -1, int)))
    stride = method.stride or 1
    size = min(max(steps_per_call(learner, width) // stride, 1) * stride, steps)
    deal = (deal_here if single else deal_there)([run.life for run in together], size, method.stride or 0)
    for start in range(0, steps, size):
        count = min(size, steps - start)
        progress = _compiled_segment()(
            method, probes, single, learners, initial, progress, *deal(start, count), start, count, record_every
        )
        jax.block_until_ready(progress)
        after_segment(count)
    records, diverged_at = jax.device_get((progress.records, progress.diverged_at))
    if single:
        records, diverged_at = {name: values[None] for name, values in records.items()}, diverged_at[None]
    each = lived(records, diverged_at, len(runs), steps, record_every)
    if len(runs) == 1:
        first = lambda: progress.work if single else jax.tree.map(lambda leaf: leaf[0], progress.work)
        each = [each[0]._replace(state=lambda: _state(method, learner, first()))]
    return each


def lived(
    records: dict[str, np.ndarray], diverged_at: np.ndarray, count: int, steps: int, record_every: int
) -> list[RunResult]:
    """What is kept of each of the first `count` of some runs: sums over windows become means, and records after a
    divergence NaN."""
    records, diverged_at = {name: values[:count] for name, values in records.items()}, diverged_at[:count]
    ends = window_ends(steps, record_every)
    lengths = np.diff(ends, prepend=0)
    gone = (diverged_at[:, None] >= 0) & (ends > diverged_at[:, None])
    rows: dict[str, np.ndarray] = {}
    for name, values in records.items():
        means = values / lengths.astype(values.dtype) if name in SUMMED else values
        rows[name] = np.where(gone, np.nan, means).astype(values.dtype) if gone.any() else means
    return [
        RunResult({name: values[i] for name, values in rows.items()}, int(at))
        for i, at in enumerate(diverged_at.tolist())
    ]


def window_ends(steps: int, record_every: int) -> np.ndarray:
    """The coordinate `step` of the records: how many examples were learned from at each window's end."""
    return np.append(np.arange(record_every, steps, record_every), steps)


def _first_work(method: LoopSpec, learner: Learner, key: jax.Array) -> UnitMajorState:
    return method.enter(learner, UnitMajorState.of(learner.init(jax.random.wrap_key_data(key))))


@partial(jax.jit, static_argnames="method")
def _first_works(method: LoopSpec, learners: Learner, keys: jax.Array) -> UnitMajorState:
    return jax.vmap(partial(_first_work, method))(learners, keys)


@partial(jax.jit, static_argnames="method")
def _state(method: LoopSpec, learner: Learner, work: UnitMajorState) -> State:
    return method.leave(learner, work).state()


def known_options(options: dict[str, bool | int]) -> dict[str, bool | int]:
    """Of some options of the compiler, which come and go with its versions, those that this one knows."""

    def is_known(name: str) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options={name: options[name]}).lower().compile()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return {name: value for name, value in options.items() if is_known(name)}


def _compiled_segment() -> Any:
    """One for all threads, so that a program is compiled once."""
    with _making:
        return _make_segment()


@cache
def _make_segment() -> Any:
    # A GPU's compiler would time several ways to multiply and keep the quickest, which is not the same in every
    # process. Products of its own take longer to compile and to run than those of the library.
    same_everywhere = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
    # A CPU's would copy, at every turn of a loop, matrices that can be changed in place.
    quicker = known_options({"xla_cpu_copy_insertion_use_region_analysis": True})
    return jax.jit(
        _segment,
        static_argnames=("method", "probes", "single"),
        donate_argnames="progress",
        compiler_options=same_everywhere | quicker,
    )


def _segment(
    method: LoopSpec,
    probes: Probes,
    single: bool,
    learner: Learner,
    initial: UnitMajorState,
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
    inputs, hidden = learner.network.inputs, learner.network.hidden
    measures = {
        "incoming_drift": lambda initial, work: _norm(
            lax.slice_in_dim(work.incoming - initial.incoming, 0, inputs, axis=method.inputs_axis)
        ),
        "outgoing_drift": lambda initial, work: _norm((work.outgoing - initial.outgoing)[:, :hidden]),
    }
    state = partial(_state, method, learner)
    for name, probe in probes:
        measures[name] = lambda initial, work, probe=probe: probe(state(initial), state(work))

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
            if name in SUMMED
            else values.at[window].set(
                lax.cond(closes, measures[name], lambda *_, kept=values[window]: kept, initial, work)
            )
            for name, values in records.items()
        }
        return until, work, records, sums.diverged_at

    done = jnp.zeros((), jnp.int32)
    _, *reached = lax.while_loop(lambda carry: carry[0] < steps, stretch, (done, *progress))
    return Progress(*reached)


def _norm(change: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.vdot(change, change, precision=lax.Precision.HIGHEST))
