"""What engines are given, what they give back, and what an engine is."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from crossprop.engines.feeding import Source
from crossprop.learners.base import Learner
from crossprop.variables import Variable

Probe = Callable[[Any, Any], Any]
Metric = Callable[..., Any]


class Run(NamedTuple):
    """One learner, its examples, the data of the key for its initial weights, and the state to start from, if any."""

    learner: Learner
    source: Source
    key: np.ndarray
    start: Any = None


class Batch(NamedTuple):
    """Runs of one structure that an engine executes together."""

    runs: Sequence[Run]
    record_every: int
    first: int = 0
    """The step to begin with."""
    steps: int | None = None
    """The step to stop at, if it is known."""
    observed: tuple[Variable, ...] = ()
    """What is recorded besides the loss, the error and the drifts."""
    segment: int | None = None
    """Steps per segment; None leaves it to the engine."""


class RunResult(NamedTuple):
    """Records of a run, one value per window for each variable, NaN after it diverged; and when it did, or -1."""

    records: dict[str, np.ndarray]
    diverged_at: int


@runtime_checkable
class Session(Protocol):
    """A batch under way."""

    step: int
    """The examples that were learned from."""
    segment: int
    """The steps of a whole segment."""

    def advance(self, count: int) -> None:
        """Runs the next `count` steps, at most a segment."""
        ...

    def results(self) -> list[RunResult]:
        """The records so far, of every run."""
        ...

    def states(self) -> list[Any]:
        """The present state of every run."""
        ...

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that `restore` needs, as arrays."""
        ...

    def restore(self, snapshot: dict[str, np.ndarray], step: int) -> None:
        """Takes up a snapshot of the same batch, made after `step` examples."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A way to execute runs. Engines differ in speed, never in meaning."""

    def why_unsupported(self, learner: Learner, platform: str, observed: tuple[Variable, ...] = ()) -> str | None:
        """Why this engine cannot run the learner there, or None."""
        ...

    def width(self, learner: Learner, platform: str) -> int:
        """How many runs go in one batch."""
        ...

    def start(self, batch: Batch, platform: str) -> Session:
        """Begins the runs of a batch, whose learners have one structure."""
        ...


class Rows(NamedTuple):
    """Rows `at` to `until` of x and y; row 0 is example `start` of the run."""

    x: jax.Array
    y: jax.Array
    at: Any
    until: Any
    start: Any


@runtime_checkable
class Loop(Protocol):
    """How an engine goes through examples. Hashable: a segment is compiled for each."""

    @property
    def stride(self) -> int | None:
        """The most examples it takes at a time; None is any number."""
        ...

    def enter(self, learner: Any, state: Any) -> Any:
        """The engine's layout of a state, kept for the length of a run."""
        ...

    def leave(self, learner: Any, work: Any) -> Any:
        """The public state."""
        ...

    def changes(self, learner: Any, initial: Any, work: Any, alive: Any = None) -> dict[str, tuple[jax.Array, ...]]:
        """How every named set of weights has changed, as arrays without biases; undefined for a run that is not
        `alive`."""
        ...

    def advance(self, learner: Any, work: Any, window: Any, rows: Rows, fold: Any) -> tuple[Any, Any]:
        """Learns from the rows, and adds their outcomes to the window by `fold.example` or `fold.block`."""
        ...
