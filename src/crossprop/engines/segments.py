"""Runs in compiled segments: between two of them the host shows progress, checks for Ctrl-C and saves checkpoints.

A window is the part of a run that gives one record. `scan` and `chunked` differ in their loop over the examples of a
segment; this module does the rest.
"""

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support import xla
from crossprop._support.programs import program
from crossprop._support.transfers import this_device, to_device
from crossprop.engines.feed import Feed, SharedFeed, expanded
from crossprop.engines.fold import Fold, Window
from crossprop.engines.protocol import Batch, Rows
from crossprop.engines.session import Carry, Session, whole_windows
from crossprop.hyperparameters import by_structure
from crossprop.learners.base import CreditRule, Learner
from crossprop.learners.states import state_shapes
from crossprop.network import float_type
from crossprop.seeds import keys, keys_of
from crossprop.variables import Variable, drift, probed

SECONDS_PER_SEGMENT = 1.0
LONGEST, LONGEST_BATCHED = 13, 11
"""The most steps of a segment, as powers of two: for one run, and for runs side by side."""
EXAMPLE_BYTES = 2**30
MOST_SIDE_BY_SIDE = 2**11

_making = threading.Lock()
_compiled: dict[tuple[Callable[..., Any], str], Any] = {}


def batch_width(learner: Learner, platform: str, most: float) -> int:
    """How many runs go side by side: one per core of a CPU; elsewhere a power of two, with at most `most` bytes of
    incoming weights, and `EXAMPLE_BYTES` of examples in a segment."""
    if platform == "cpu":
        return 1
    fitting = min(most / (4 * state_size(learner)), EXAMPLE_BYTES / (4 * 2**LONGEST_BATCHED * learner.network.inputs))
    return 2 ** int(np.log2(np.clip(fitting, 1, MOST_SIDE_BY_SIDE)))


def state_size(learner: Learner) -> int:
    """The number of weights into hidden layers, or of all numbers in the state of a learner that is no credit rule."""
    if isinstance(learner, CreditRule) and learner.network.hidden:
        return sum(layer.fan_in * layer.units for layer in learner.network.layers())
    return max(1, sum(leaf.size for leaf in jax.tree.leaves(state_shapes(learner))))


def seconds_per_step(learner: Learner) -> float:
    """About how long an example takes one core."""
    is_rule = isinstance(learner, CreditRule)
    return seconds_for(_rule_size(learner) if is_rule else state_size(learner))


def seconds_for(numbers: float) -> float:
    """About how long an example takes one core, by how many weights and memories it changes."""
    return 3e-6 + 2e-10 * numbers


@by_structure
def _rule_size(learner: CreditRule) -> int:
    """The weights and memories of a credit rule."""
    sizes = [(1 + rule.shapes().matrices) * rule.network.fan_in * rule.network.units for rule in learner.by_layer()]
    return sum(sizes)


def steps_per_call(learner: Learner, width: int) -> int:
    """The steps of one compiled call: a power of two, about a second's work on one core, and few enough that the
    examples of runs side by side fit."""
    examples = EXAMPLE_BYTES / 8 / (4 * learner.network.inputs)
    most = min(LONGEST if width == 1 else LONGEST_BATCHED, np.log2(examples))
    return 2 ** int(np.clip(np.log2(SECONDS_PER_SEGMENT / seconds_per_step(learner)), 4, max(4, most)))


def most_windows(segment: int, record_every: int, start: int) -> int:
    """The most windows that a segment which starts at this step can touch."""
    whole = segment % record_every == 0 and start % record_every == 0
    return segment // record_every if whole else (segment - 1) // record_every + 2


def most_turns(stride: int, segment: int, record_every: int, windows: int) -> int:
    """The most turns of a segment; one ends after `stride` examples, at the end of its window, and of the segment."""
    return min(windows * -(-min(record_every, segment) // stride), segment // stride + windows)


class SegmentConfig(NamedTuple):
    """The static arguments of a segment's program."""

    loop: Any
    examined: tuple[Variable, ...]
    probes: tuple[Variable, ...]
    single: bool
    """Whether there is one run, without an axis for runs."""
    windows: int
    """The most windows that a segment touches."""
    turns: int | None
    """How often the loop is called in a segment; None is until all examples are done."""


class SegmentInputs(NamedTuple):
    """The examples of a segment, from number `start` on; those after the first `steps` are padding."""

    x: Any
    y: Any
    sums: Any
    """The sums so far of the open window."""
    start: Any
    steps: Any
    record_every: Any
    alive: Any
    """For runs side by side: True for runs, False for padding."""


class LoopSession(Session):
    """A batch under way in scan or chunked: `width` runs side by side, padded with copies of the first, so that a run's
    numbers do not depend on how many there are.

    Data-dependent loop counts force a sync of device and host. With `fixed_turns` the loop is called as often as a
    segment could need; once no examples are left, it must take no time."""

    def __init__(self, loop: Any, batch: Batch, width: int, fixed_turns: bool = False):
        self.loop, self.width, self.single, self.fixed_turns = loop, width, width == 1, fixed_turns
        self.platform = this_device().platform
        runs = batch.runs
        learner, most = runs[0].learner, steps_per_call(runs[0].learner, width)
        if fixed_turns:  # whole windows need the fewest turns
            most = whole_windows(most, batch.options.record_every)
        else:
            most = max(most // (loop.stride or 1), 1) * (loop.stride or 1)
        super().__init__(batch, most, overlapping=not self.single)
        together = [*runs, *[runs[0]] * (width - len(runs))]
        self.alive = None if self.single else np.arange(width) < len(runs)
        start = runs[0].start
        if self.single:
            self.learners, initial_keys = learner, keys(runs[0].seed)[1]
        else:
            stacked = lambda *leaves: np.array(leaves, float_type())
            self.learners = to_device(jax.tree.map(stacked, *(run.learner for run in together)))
            initial_keys = to_device(keys_of([run.seed for run in together])[1])
            if start is not None:
                start = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(run.start for run in together))
        # The `init` of a user's learner need not be traceable in its hyperparameters.
        initial = None if isinstance(learner, CreditRule) or not self.single else learner.init(initial_keys)
        self.initial, self.progress = _begun(loop, self.single, self.learners, initial_keys, initial, start)
        self.probes = tuple(variable for variable in batch.options.observed if variable.reads == "state")
        self.feed, self.length = batch.feed or Feed.of(runs), self.segment + (loop.stride or 0)
        if not self.single:
            self.place = to_device(np.resize(self.feed.place, width))
            self.shared = SharedFeed(self.feed, self.segment, self.length, learner.targets, batch.stop)

    def examples(self, count: int) -> tuple[Any, Any]:
        if not self.single:
            return expanded(self.shared.take(self.step, count), self.place)
        x, y = self.feed.take(self.step, count, self.segment, self.length)
        return (x[0], y[0]) if self.platform == "cpu" else to_device((x[0], y[0]))

    def execute(self, examples: tuple[Any, Any], count: int) -> dict[str, jax.Array]:
        (x, y), every = examples, self.batch.options.record_every
        sums = self.open_sums(self.width, y.dtype)
        sums = {name: values[0] for name, values in sums.items()} if self.single else sums
        windows, stride = most_windows(self.segment, every, self.step), self.loop.stride
        turns = most_turns(stride, self.segment, every, windows) if self.fixed_turns and stride else None
        config = SegmentConfig(self.loop, self.examined, self.probes, self.single, windows, turns)
        given = SegmentInputs(x, y, sums, self.step, count, every, self.alive)
        run_segment = _compiled_segment(self.platform)
        self.progress, records = run_segment(config, self.learners, self.initial, self.progress, given)
        return records

    def states(self) -> list[Any]:
        states = _left(self.loop, self.single, self.learners, self.progress.work)
        if self.single:
            return [states]
        return [jax.tree.map(lambda leaf: leaf[i], states) for i in range(len(self.batch.runs))]  # noqa: B023


@partial(program, static_argnums=(0, 1))
def _begun(
    loop: Any, single: bool, learners: Learner, initial_keys: jax.Array, initial: Any, start: Any
) -> tuple[Any, Carry]:
    """The initial states in the loop's layout, and copies of them, or of `start`, to donate to the first segment."""
    each = (lambda function: function) if single else jax.vmap
    if initial is None:
        initial = each(lambda learner, key: learner.init(key))(learners, initial_keys)
    initial = each(loop.enter)(learners, initial)
    work = initial if start is None else each(loop.enter)(learners, start)
    return initial, Carry(jax.tree.map(jnp.copy, work), jnp.full(initial_keys.shape, -1, int))


@partial(program, static_argnums=(0, 1))
def _left(loop: Any, single: bool, learners: Learner, work: Any) -> Any:
    return loop.leave(learners, work) if single else jax.vmap(loop.leave)(learners, work)


@cache
def compiler_options(platform: str) -> dict[str, bool | int]:
    """Options for programs whose numbers must be the same in every process."""
    if platform == "cpu":
        return xla.known_options({"xla_cpu_prefer_vector_width": 512}) if xla.has_wide_vectors() else {}
    # A GPU's compiler would time several ways to multiply and keep the quickest, which is not the same in every
    # process. Products of its own take longer to compile and to run than those of the library.
    return xla.known_options({"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False})


def compiled(function: Callable[..., Any], platform: str, **options: Any) -> Any:
    """A function as a program for a platform: one for all threads, so that it is compiled once."""
    with _making:
        which = function, platform
        if which not in _compiled:
            _compiled[which] = program(function, compiler_options=compiler_options(platform), **options)
        return _compiled[which]


def _compiled_segment(platform: str) -> Any:
    return compiled(_segment, platform, static_argnames="config", donate_argnames="progress")


def _segment(
    config: SegmentConfig, learner: Any, initial: Any, progress: Carry, given: SegmentInputs
) -> tuple[Carry, dict[str, jax.Array]]:
    """The progress after a segment, and its records, `(runs, windows)` each."""
    each = partial(_one_segment, config)
    if config.single:
        progress, records = each(learner, initial, progress, given)
        return progress, jax.tree.map(lambda values: values[None], records)
    several = jax.vmap(each, in_axes=(0, 0, 0, SegmentInputs(0, 0, 0, None, None, None, 0)))
    return several(learner, initial, progress, given)


def _one_segment(
    config: SegmentConfig, learner: Any, initial: Any, progress: Carry, given: SegmentInputs
) -> tuple[Carry, dict[str, jax.Array]]:
    (loop, examined, probes, _, windows, turns), (x, y, sums, start, steps, record_every, alive) = config, given
    fold = Fold(learner.network.loss, examined)

    def measure(initial: Any, work: Any, closes: Any = True) -> dict[str, jax.Array]:
        """The drifts and probes at the end of a window."""
        changes = loop.changes(learner, initial, work, closes if alive is None else alive & closes)
        values = {drift(name).name: drift(name).of(*arrays) for name, arrays in changes.items()}
        if probes:
            states = loop.leave(learner, initial), loop.leave(learner, work)
            values |= {probe.name: jnp.asarray(probed(probe.of, *states, learner), x.dtype) for probe in probes}
        return values

    def measured_if(closes: Any, work: Any, kept: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Measures at the end of a window; otherwise keeps the previous values."""
        if turns is None or probes:  # probes may take long
            return lax.cond(closes, measure, lambda *_: kept, initial, work) if kept else kept
        return {name: jnp.where(closes, value, kept[name]) for name, value in measure(initial, work, closes).items()}

    def turn(carry: Any) -> Any:
        """Goes to the end of the window or of the segment, or as far as one call of the loop does."""
        done, (work, diverged_at), records = carry
        window = (start + done) // record_every
        end = (window + 1) * record_every - start
        window = window - start // record_every
        until = jnp.minimum(steps, end)
        if loop.stride is not None:
            until = jnp.minimum(until, done + loop.stride)
        zero = jnp.zeros((), x.dtype)
        part = Window({variable.name: zero for variable in examined}, diverged_at)
        run_until = until if alive is None else jnp.where(alive, until, done)
        work, part = loop.advance(learner, work, part, Rows(x, y, done, run_until, start), fold)
        summed = {name: records[name].at[window].add(part.sums[name]) for name in sums}
        kept = {name: records[name][window] for name in measured}
        values = measured_if((until == end) | (until == steps), work, kept)
        records = summed | {name: records[name].at[window].set(value) for name, value in values.items()}
        return until, Carry(work, part.diverged_at), records

    measured = jax.eval_shape(measure, initial, progress.work)
    records = {name: jnp.zeros(windows, x.dtype).at[0].set(value) for name, value in sums.items()}
    records |= {name: jnp.zeros((windows, *value.shape), value.dtype) for name, value in measured.items()}
    begin = (jnp.zeros((), jnp.int32), progress, records)
    if turns is None:
        _, progress, records = lax.while_loop(lambda carry: carry[0] < steps, turn, begin)
    else:
        _, progress, records = lax.fori_loop(0, turns, lambda _, carry: turn(carry), begin)
    return progress, records
