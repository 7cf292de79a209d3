"""The kernel engine, for narrow inputs on a GPU: one program per run, which keeps weights and memory on chip.

The program is traced from the learner's own code, so a new rule needs no kernel.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support.programs import program
from crossprop.engines.feed import Feed, SharedFeed
from crossprop.engines.fold import Fold, Window
from crossprop.engines.gpu import layout
from crossprop.engines.gpu.fma_rewrite import GPU, PLAIN, fma_rewritten
from crossprop.engines.gpu.layout import OfRuns, Shared, padded_stack, state_numbers
from crossprop.engines.gpu.support import multiprocessors, pl, triton, why_no_programs
from crossprop.engines.protocol import Batch
from crossprop.engines.segments import most_windows
from crossprop.engines.session import Carry, Session, whole_windows
from crossprop.learners.base import CreditRule, Learner, State
from crossprop.learners.update import learn
from crossprop.network import float_type
from crossprop.variables import INCOMING, OUTGOING, Variable, of_examples

RUNS = 4096
WARPS_PER_MULTIPROCESSOR = 16
"""In one call, about twice as many as fit at a time, so that the host prepares the next call while one runs. Programs
of one warp are small, and many more of them fit."""
STEPS = 16384
NUMBERS_ON_CHIP = 45_000
NUMBERS_PER_THREAD = 195
NUMBERS_PER_THREAD_DEEP = 48


def why_unsupported(learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
    """Why this engine cannot run the learner there, or None."""
    lacks = why_no_programs(platform)
    if lacks is not None:
        return f"the kernel engine needs {lacks}"
    if not isinstance(learner, CreditRule):
        return f"the kernel engine needs a credit rule, a CreditRule, got {type(learner).__name__}"
    if not learner.network.hidden:
        return "the kernel engine needs a hidden layer, got hidden=()"
    if learner.replacement is not None:
        return f"the kernel engine keeps all units, got replacement={learner.replacement!r}"
    if not learner.optimizer.elementwise:
        return f"the kernel engine needs an elementwise optimizer, such as 'sgd' or 'adam', got {learner.optimizer!r}"
    if observed:
        names = ", ".join(variable.name for variable in observed)
        return f"the kernel engine takes no probes or metrics, got {names}"
    if float_type() != np.float32:
        return f"the kernel engine works in float32, and JAX is set to {float_type()}"
    numbers = state_numbers(learner)
    if numbers > NUMBERS_ON_CHIP:
        return (
            f"the kernel engine keeps a run's state on chip, at most {NUMBERS_ON_CHIP:,} numbers with their padding; "
            f"this learner has {numbers:,}"
        )
    return None


def width(learner: Learner, platform: str) -> int:
    """The most runs in one call."""
    assert isinstance(learner, CreditRule)
    warps, places = _warps(learner), multiprocessors() * WARPS_PER_MULTIPROCESSOR
    return min(RUNS, places // warps) if warps > 1 and places else RUNS


def start(batch: Batch, platform: str, interpret: bool = False) -> Session:
    """Begins the runs of a batch."""
    return KernelSession(batch, interpret)


class KernelSession(Session):
    """A batch under way, a program for each run."""

    def __init__(self, batch: Batch, interpret: bool):
        super().__init__(batch, whole_windows(STEPS, batch.options.record_every))
        self.interpret, rule = interpret, batch.runs[0].learner
        assert isinstance(rule, CreditRule)
        self.rule, outputs = rule, layout.power(rule.network.outputs)
        feed = batch.feed or Feed.of(batch.runs)
        self.feed = SharedFeed(feed, self.segment, self.segment, outputs, batch.stop)
        self.initial, self.own = layout.gather(batch.runs, feed.place)
        self.progress = layout.begin(self.initial, self.own)
        if batch.runs[0].start is not None:
            states = [run.start for run in batch.runs]
            states += [states[0]] * (len(self.own.place) - len(states))
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
            self.progress = self.progress._replace(work=layout.entered(rule, self.own.numbers, stacked))

    def examples(self, count: int) -> Shared:
        """The shared data of the runs for the next `count` steps, on the device."""
        return Shared(*self.feed.take(self.step, count), *initial_weights(self.initial))

    def execute(self, examples: Shared, count: int) -> dict[str, jax.Array]:
        every = self.batch.options.record_every
        windows = most_windows(self.segment, every, self.step)
        bounds = np.array([self.step, self.step + count, every], np.int32)
        sums = self.open_sums(len(self.own.place), np.dtype(np.float32))
        self.progress, records = _segment(
            self.rule, self.interpret, windows, examples, self.own, self.progress, sums, bounds
        )
        return records

    def states(self) -> list[State]:
        states = layout.left(self.rule, self.own.numbers, self.progress.work)
        return [jax.tree.map(lambda leaf: leaf[i], states) for i in range(len(self.batch.runs))]  # noqa: B023


def initial_weights(initial: State) -> tuple[Any, Any]:
    """The incoming weights of every hidden layer, and the outgoing weights."""
    return tuple(layer.weights for layer in initial.layers), initial.outgoing


# Sizes.


def _warps(rule: CreditRule) -> int:
    """The warps of a run: few wait less for each other, many have more registers, which a deep network needs for both
    layers at once."""
    threads = state_numbers(rule) / (NUMBERS_PER_THREAD if len(rule.network.hidden) == 1 else NUMBERS_PER_THREAD_DEEP)
    return int(np.clip(layout.power(int(np.ceil(threads / 32))), 1, 16))


# The program.


@partial(program, static_argnames=("interpret", "windows"), donate_argnames="progress")
def _segment(
    rule: CreditRule,
    interpret: bool,
    windows: int,
    shared: Shared,
    own: OfRuns,
    progress: Carry,
    sums: dict[str, jax.Array],
    bounds: jax.Array,
) -> tuple[Carry, dict[str, jax.Array]]:
    """Steps `bounds[0]` to `bounds[1]` of all runs, with a record every `bounds[2]`."""
    names = (*sums, INCOMING.name, OUTGOING.name)
    records = {name: jnp.zeros((len(own.place), windows), shared.y.dtype) for name in names}
    records |= {name: records[name].at[:, 0].set(value) for name, value in sums.items()}
    given, moving = jax.tree.leaves((shared, own, bounds)), jax.tree.leaves((progress, records))
    structure = jax.tree.structure((shared, own, bounds, progress, records))

    def program(*refs: Any) -> None:
        refs_in, refs_out = refs[: len(given)], refs[-len(moving) :]
        _run_one(rule, interpret, *jax.tree.unflatten(structure, [*refs_in, *refs_out]))

    moved = pl.pallas_call(
        program,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in moving],
        grid=(len(own.place),),
        input_output_aliases={len(given) + i: i for i in range(len(moving))},
        compiler_params=triton.CompilerParams(num_warps=_warps(rule), num_stages=1),
        interpret=interpret,
        name="live",
    )(*given, *moving)
    return jax.tree.unflatten(jax.tree.structure((progress, records)), moved)


def _run_one(
    rule: CreditRule, interpret: bool, shared: Shared, own: OfRuns, bounds: Any, progress: Carry, records: Any
) -> None:
    """The program of one run; its arguments refer to memory, which it reads and writes."""
    run = pl.program_id(0)
    network, count = rule.network, own.numbers.shape[1]
    rule = layout.with_numbers(rule, [own.numbers[run, i] for i in range(count)])
    update = fma_rewritten(partial(learn, padded_stack(rule)), PLAIN if interpret else GPU)
    source, value, alive = own.place[run, 0], own.place[run, 1], own.place[run, 2]
    start, record_every = bounds[0], bounds[2]
    stop = jnp.where(alive > 0, bounds[1], start)
    first_window = start // record_every
    final = shared.rows.shape[1] - 1
    rows, fold = layout.input_pieces(rule), Fold(network.loss, of_examples(network.loss))

    def example(at: Any) -> Any:
        row, y = shared.rows[source, at], shared.y[source, at]
        pieces = (shared.pool[row, pl.ds(piece.start, piece.stop - piece.start)] for piece in rows)
        return tuple(piece.astype(y.dtype) for piece in pieces), y

    def one_step(step: Any, carry: Any) -> Any:
        work, sums, diverged_at, (x, y) = carry
        following = example(jnp.minimum(step + 1 - start, final))
        inputs = (*x, jnp.ones(1, y.dtype)) if network.bias else x
        work, outcome = update(work, inputs, y)
        return work, *fold.example(Window(sums, diverged_at), step, outcome, y, lambda: None), following

    def window(number: Any, carry: Any) -> Any:
        work, diverged_at, following = carry
        first = jnp.maximum(start, number * record_every)
        last = jnp.minimum(stop, (number + 1) * record_every)
        zero = jnp.zeros((), records["loss"].dtype)
        sums = {variable.name: zero for variable in fold.variables}
        carry = (work, sums, diverged_at, following)
        work, sums, diverged_at, following = lax.fori_loop(first, last, one_step, carry)
        at = number - first_window
        for name, total in sums.items():
            records[name][run, at] += total
        incoming = []
        for depth, (layer, old) in enumerate(zip(work.layers, shared.incoming, strict=True)):
            changes = [after - before[value] for after, before in zip(layer.weights, old, strict=True)]
            incoming += changes[: 1 if depth else len(rows)]
        records[INCOMING.name][run, at] = _norm(incoming)
        records[OUTGOING.name][run, at] = _norm([work.outgoing[0] - shared.outgoing[0][value]])
        return work, diverged_at, following

    work = jax.tree.map(lambda ref: ref[run], progress.work)
    carry = (work, progress.diverged_at[run], example(0))
    windows = (first_window, (stop + record_every - 1) // record_every)
    work, diverged_at, _ = lax.fori_loop(*windows, window, carry)
    progress.diverged_at[run] = diverged_at
    for ref, leaf in zip(jax.tree.leaves(progress.work), jax.tree.leaves(work), strict=True):
        ref[run] = leaf


def _norm(changes: list[jax.Array]) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.sum(change**2, axis=0)) for change in changes))
