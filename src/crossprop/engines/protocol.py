"""The inputs and results of engines."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop.learners.base import Learner
from crossprop.streams.base import Stream
from crossprop.variables import Variable

Probe = Callable[[Any, Any], Any]
Metric = Callable[..., Any]


class Run(NamedTuple):
    """One learner on one stream with one seed."""

    learner: Learner
    stream: Stream
    seed: int
    start: Any = None
    """The state to start from; None is the learner's initial one."""


class RunOptions(NamedTuple):
    """The options of a call, for all of its runs."""

    record_every: int
    steps: int | None = None
    """The step to stop at; None is the end of each run's stream."""
    first: int = 0
    """The step to begin with."""
    observed: tuple[Variable, ...] = ()
    """Probes and metrics."""
    return_states: bool = False

    def stop(self, stream: Stream) -> int | None:
        """The step to stop at, if it is known."""
        return stream.steps if self.steps is None else self.steps


class Batch(NamedTuple):
    """Runs of one structure that an engine executes together."""

    runs: Sequence[Run]
    options: RunOptions
    feed: Any = None
    """The runs' examples, a `feed.Feed`; None is `Feed.of` the runs."""
    segment: int | None = None
    """Steps per segment; None is the engine's choice."""

    @property
    def stop(self) -> int | None:
        """The step to stop at, if it is known."""
        return self.options.stop(self.runs[0].stream)


class RunResult(NamedTuple):
    """Records of a run, one value per window for each variable, NaN after it diverged; the step at which it did, or -1;
    its number of steps; and its last state if the options ask for states."""

    records: dict[str, np.ndarray]
    diverged_at: int
    steps: int
    state: Any = None


class Rows(NamedTuple):
    """Rows `at` to `until` of x and y; row 0 is example `start` of the run."""

    x: jax.Array
    y: jax.Array
    at: Any
    until: Any
    start: Any
