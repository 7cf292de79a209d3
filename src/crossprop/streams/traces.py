"""Predictions of what follows a cue some time later: trace conditioning and trace patterning; and traces of inputs."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop._support.programs import program
from crossprop.hyperparameters import LONGEST, check_parameters, parameter
from crossprop.network import float_type
from crossprop.streams.base import Simulated, Stream, set_fields
from crossprop.streams.drawing import by_number
from crossprop.streams.iterator import Iterator

UNSEEN = 1e-8
"""Outcomes that enter a return with less weight than this are left out."""
MOST_PATTERNS = 100_000
"""The most patterns of cues."""


class TrialPlace(NamedTuple):
    """The position in the stream: the number of the next example, its trial, and its place in that; then keys."""

    step: Any
    trial: Any
    offset: Any
    trials: Any
    examples: Any


class Trials(NamedTuple):
    """Trials one after another: the cue's pattern, steps from the cue to its outcome, steps of the trial, and whether
    there is an outcome."""

    pattern: Array
    wait: Array
    length: Array
    followed: Array


@dataclass(frozen=True)
class TracePatterning(Simulated):
    r"""Trace patterning: which pattern of cues is followed by the outcome, some time after the cues have gone?

    A trial begins with one step in which `on` of the `cues` are 1. Half of all such patterns, drawn for every run, are
    followed by the outcome, an input that is 1 for one step, `wait` steps later. Then nothing happens for `pause`
    steps. The cumulant is the outcome; the return is exact, with what comes in later trials. In between, learners need
    memory, such as `Traced` gives. Input $k$ of the distractors is 1 with probability $1 / (10 k)$ at every step.

    **Arguments:**

    - `cues`, `on`: how many cues there are, and how many of them are 1 at a time.
    - `wait`, `pause`: the least and the most steps from cues to outcome, and from there to the next trial.
    - `distractors`: how many inputs mean nothing.
    - `discount`: of the return.
    - `steps`: the number of examples; None is endless.

    The inputs are the cues, the outcome and the distractors.

    Rafiee, Abbas, Ghiassian, Kumaraswamy, Sutton, Ludvig and White (2023), "From eye-blinks to state construction:
    Diagnostic benchmarks for online representation learning". Sizes and discount as in Javed, Shah, Sutton and White
    (2023), "Scalable Real-Time Recurrent Learning Using Columnar-Constructive Networks".
    """

    cues: int = parameter(6, whole=True, low=1)
    on: int = parameter(3, whole=True, low=1)
    wait: Sequence[int] = (24, 36)
    pause: Sequence[int] = (80, 120)
    distractors: int = parameter(5, whole=True, low=0)
    discount: float = parameter(0.9, low=0, high=0.999)
    steps: int | None = parameter(None, whole=True, low=1)

    outputs = 3
    predicts = True

    def __post_init__(self):
        check_parameters(self)
        cues, on = self.cues, check.integer("on", self.on, low=1, high=self.cues)
        if math.comb(cues, on) > MOST_PATTERNS:
            raise ValueError(f"cues and on must have at most {MOST_PATTERNS:,} patterns, got cues={cues}, on={on}")
        set_fields(self, wait=_span("wait", self.wait), pause=_span("pause", self.pause))
        set_fields(self, inputs=cues + 1 + self.distractors)

    @property
    def _patterns(self) -> np.ndarray:
        chosen = itertools.combinations(range(self.cues), self.on)
        return np.array([[float(cue in which) for cue in range(self.cues)] for which in chosen])

    def begin(self, key: Key[Array, ""]) -> TrialPlace:
        zero = jnp.zeros((), int)
        return TrialPlace(zero, zero, zero, *jax.random.split(key))

    def _deal(self, place: TrialPlace, count: int) -> tuple[dict[str, Array], Array, Array]:
        shortest = self.wait[0] + self.pause[0]
        further = math.ceil(math.log(UNSEEN) / (shortest * math.log(max(self.discount, 1e-3))))
        touched = count // shortest + 2
        trials = self._trials(place.trials, place.trial + jnp.arange(touched + further + 1))
        power = lambda exponent: jnp.power(jnp.asarray(self.discount, float_type()), exponent)
        own, fade = trials.followed * power(trials.wait), power(trials.length)
        before = jnp.zeros(touched + 1, float_type())  # the return at the last step before each trial
        sums = lambda at, later: (
            lax.dynamic_slice_in_dim(own, at, touched + 1) + later * lax.dynamic_slice_in_dim(fade, at, touched + 1)
        )
        before = lax.fori_loop(0, further, lambda step, later: sums(further - 1 - step, later), before)
        ends = jnp.cumsum(trials.length[:touched])
        at = place.offset + jnp.arange(count + 1)
        which = jnp.searchsorted(ends, at, side="right")
        offset = at - jnp.where(which > 0, ends[which - 1], 0)
        trial, (which, now) = place.trial + which[-1], (which[:-1], offset[:-1])
        wait, followed = trials.wait[which], trials.followed[which]
        outcome = followed * (now == wait)
        returns = jnp.where(now < wait, followed * power(jnp.maximum(wait - now - 1, 0)), 0)
        returns = returns + power(trials.length[which] - now - 1) * before[which + 1]
        patterns = jnp.asarray(self._patterns, float_type())
        cues = jnp.where((now == 0)[:, None], patterns[trials.pattern[which]], 0)
        draw = partial(jax.random.uniform, shape=(self.distractors,))
        draws = by_number(place.examples, place.step + jnp.arange(count), draw)
        noise = draws < 1 / (10 * (1 + jnp.arange(self.distractors)))[None, :]
        x = jnp.concatenate([cues, outcome[:, None], noise], axis=1)
        y = jnp.stack([outcome, jnp.full_like(outcome, self.discount), returns], axis=1)
        return {"trial": trial, "offset": offset[-1]}, x.astype(float_type()), y.astype(float_type())

    def _trials(self, key: Key[Array, ""], numbers: Array) -> Trials:
        patterns = len(self._patterns)
        order_key, key = jax.random.split(key)
        followed = jax.random.permutation(order_key, patterns) < max(1, patterns // 2)

        def draw(key: Any) -> Trials:
            pattern_key, wait_key, pause_key = jax.random.split(key, 3)
            pattern = jax.random.randint(pattern_key, (), 0, patterns)
            wait, pause = (
                jax.random.randint(own, (), low, high + 1)
                for own, (low, high) in ((wait_key, self.wait), (pause_key, self.pause))
            )
            return Trials(pattern, wait, wait + pause, followed[pattern].astype(float_type()))

        return by_number(key, numbers, draw)


@dataclass(frozen=True)
class TraceConditioning(TracePatterning):
    """Trace conditioning: one cue, which is always followed by the outcome some time later; when?

    **Arguments:** as `TracePatterning`. The three problems of the paper wait for 7 to 13, 14 to 26 and 21 to 39 steps,
    with a discount of 1 less 1 by the mean wait.

    Rafiee, Abbas, Ghiassian, Kumaraswamy, Sutton, Ludvig and White (2023), "From eye-blinks to state construction:
    Diagnostic benchmarks for online representation learning".
    """

    cues: int = parameter(1, whole=True, low=1)
    on: int = parameter(1, whole=True, low=1)
    wait: Sequence[int] = (7, 13)


class TracedPlace(NamedTuple):
    """The position in the stream inside, and the traces `(decays, inputs)`."""

    inner: Any
    traces: Any


@dataclass(frozen=True)
class Traced(Stream):
    r"""A stream whose inputs come with memory traces of themselves: $e \leftarrow d e + (1 - d) x$ for each decay $d$.

    **Arguments:**

    - `stream`: any stream but an `Iterator`.
    - `decays`: of the traces, each from 0 to below 1.

    ```python
    stream = Traced(TraceConditioning(), decays=(0.9, 0.97, 0.99))  # four times the inputs
    ```
    """

    stream: Any
    decays: Sequence[float] = (0.9, 0.97, 0.99)

    def __post_init__(self):
        if not isinstance(self.stream, Stream) or isinstance(self.stream, Iterator):
            raise TypeError(f"stream must be a crossprop.Stream, and no Iterator, got {check.shown(self.stream)}")
        if not isinstance(self.decays, list | tuple) or not self.decays:
            raise TypeError(f"decays must be numbers, at least one, got {check.shown(self.decays)}")
        decays = [check.scalar(f"decays[{at}]", decay, low=0, high=LONGEST) for at, decay in enumerate(self.decays)]
        same = {name: getattr(self.stream, name) for name in ("outputs", "one_hot", "predicts", "steps")}
        set_fields(self, decays=tuple(decays), inputs=self.stream.inputs * (1 + len(decays)), **same)

    def task(self, steps: np.ndarray) -> np.ndarray:
        return self.stream.task(steps)

    def begin(self, key: Key[Array, ""]) -> TracedPlace:
        return TracedPlace(self.stream.begin(key), jnp.zeros((len(self.decays), self.stream.inputs), float_type()))

    def deal(self, place: TracedPlace, count: int) -> tuple[TracedPlace, Any, Any]:
        inner, x, y = self.stream.deal(place.inner, count)
        traces, x = self._traced(place.traces, jnp.asarray(x, float_type()))
        return TracedPlace(inner, traces), x, y

    @partial(program, static_argnums=0)
    def _traced(self, traces: Array, x: Array) -> tuple[Array, Array]:
        decays = jnp.array(self.decays, float_type())[:, None]

        def step(traces: Array, x: Array) -> tuple[Array, Array]:
            traces = decays * traces + (1 - decays) * x[None, :]
            return traces, jnp.concatenate([x, traces.ravel()])

        return lax.scan(step, traces, x)


def _span(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name} must be the least and the most steps, such as (24, 36), got {check.shown(value)}")
    low = check.integer(f"{name}[0]", value[0], low=1)
    return low, check.integer(f"{name}[1]", value[1], low=low)
