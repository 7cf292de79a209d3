"""What engines are given, what they give back, and what an engine is."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.engines.feeding import Source
from crossprop.learners.base import Learner, Outcome
from crossprop.metrics import sees_after
from crossprop.network import error_of

Probe = Callable[[Any, Any], Any]
Metric = Callable[..., Any]


class Observers(NamedTuple):
    """What is recorded besides the loss. Hashable: a segment is compiled for each."""

    probes: tuple[tuple[str, Probe], ...] = ()
    """`f(initial_state, state)`, at the end of every window."""
    metrics: tuple[tuple[str, Metric], ...] = ()
    """`f(outcome, y)`, or `f(outcome, y, after)` of those that see what learning did, summed over every window."""

    @property
    def see_after(self) -> bool:
        """Whether a metric sees the outcome of an example after learning from it."""
        return any(sees_after(metric) for _, metric in self.metrics)

    def after(self, learner: Learner, outputs: Any, y: jax.Array) -> Outcome | None:
        """The outcome after learning, from a function that gives the outputs; None if no metric sees it."""
        if not self.see_after:
            return None
        made = outputs()
        return Outcome(error_of(learner.network.loss, made, y)[0], made)

    def measured(self, outcome: Outcome, y: jax.Array, after: Outcome | None) -> dict[str, Any]:
        """Every metric of one example."""
        return {
            name: metric(outcome, y, after) if sees_after(metric) else metric(outcome, y)
            for name, metric in self.metrics
        }


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
    observers: Observers = Observers()
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

    def why_unsupported(self, learner: Learner, platform: str, observers: Observers = ...) -> str | None:
        """Why this engine cannot run the learner there, or None."""
        ...

    def width(self, learner: Learner, platform: str) -> int:
        """How many runs go in one batch."""
        ...

    def start(self, batch: Batch, platform: str) -> Session:
        """Begins the runs of a batch, whose learners have one structure."""
        ...


class Sums(NamedTuple):
    """What adds up over the examples of a window, and the first step with a non-finite loss, or -1."""

    loss: jax.Array
    error: jax.Array
    metrics: dict[str, jax.Array]
    diverged_at: jax.Array

    def add(
        self,
        learner: Learner,
        observers: Observers,
        at: Any,
        outcome: Outcome,
        y: jax.Array,
        after: Outcome | None = None,
    ) -> "Sums":
        diverged = (self.diverged_at < 0) & ~jnp.isfinite(outcome.loss)
        wrong = jnp.argmax(outcome.outputs) != jnp.argmax(y) if learner.network.loss == "softmax" else 0
        metrics = {
            name: self.metrics[name] + jnp.asarray(value, self.metrics[name].dtype)
            for name, value in observers.measured(outcome, y, after).items()
        }
        diverged_at = jnp.where(diverged, at, self.diverged_at)
        return Sums(self.loss + outcome.loss, self.error + wrong, metrics, diverged_at)


class Rows(NamedTuple):
    """Rows `at` to `until` of x and y; row 0 is example `start` of the run."""

    x: jax.Array
    y: jax.Array
    at: Any
    until: Any
    start: Any


@runtime_checkable
class Accumulator(Protocol):
    """What a loop adds outcomes to: `Sums` in a run, all outcomes in `crossprop.live`."""

    def add(
        self, learner: Any, observers: Observers, at: Any, outcome: Outcome, y: Any, after: Outcome | None = None
    ) -> Any:
        """Itself with the outcome of example `at` added."""
        ...


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

    def drifts(self, learner: Any, initial: Any, work: Any, alive: Any = None) -> dict[str, jax.Array]:
        """The norm of the change of every named set of weights; anything if the run is not `alive`."""
        ...

    def advance(self, learner: Any, work: Any, sums: Any, rows: Rows, observers: Observers) -> tuple[Any, Any]:
        """Learns from the rows and adds up their outcomes."""
        ...
