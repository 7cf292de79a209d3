"""A batch of runs that goes in segments, and what a checkpoint saves of it."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support.transfers import to_device
from crossprop.engines.protocol import Batch, RunResult
from crossprop.engines.recorder import Recorder
from crossprop.variables import of_examples


class Carry(NamedTuple):
    """What a segment passes to the next one."""

    work: Any
    diverged_at: jax.Array


class Session(ABC):
    """A batch under way, one segment after another.

    If segments are `overlapping`, the records of one are fetched while the next is computed, so that the device need
    not wait for the host. If a window spans two segments, its partial sums are fetched before the second starts.
    """

    progress: Carry

    def __init__(self, batch: Batch, most: int, overlapping: bool = True):
        options = batch.options
        self.batch, self.overlapping, self.step = batch, overlapping, options.first
        self.segment = batch.segment or min(most, batch.stop or most)
        learner = batch.runs[0].learner
        self.examined = of_examples(learner.network.loss, learner.predicts)
        self.examined += tuple(variable for variable in options.observed if variable.reads == "example")
        self.recorder = Recorder(options.record_every, options.first, [variable.name for variable in self.examined])
        self.unfetched: tuple[dict[str, jax.Array], int] | None = None

    @abstractmethod
    def examples(self, count: int) -> Any:
        """The next `count` examples of all runs."""

    @abstractmethod
    def execute(self, examples: Any, count: int) -> dict[str, jax.Array]:
        """Learns from them, and returns the records `(runs, windows, ...)`."""

    @abstractmethod
    def states(self) -> list[Any]:
        """The present state of every run."""

    def advance(self, count: int) -> None:
        """Runs the next `count` steps, at most a segment."""
        examples, every = self.examples(count), self.batch.options.record_every
        if self.step % every or self.recorder.step % every:
            self._fetch()
        records = self.execute(examples, count)
        self._fetch()
        self.unfetched = records, count
        if not self.overlapping:
            self._fetch()
        self.step += count

    def _fetch(self) -> None:
        """Waits for the records of the last segment."""
        if self.unfetched is not None:
            records, count = self.unfetched
            self.recorder.add(jax.device_get(records), count)
            self.unfetched = None

    def results(self) -> list[RunResult]:
        """The records so far, of every run, and its state if the options ask for states."""
        self._fetch()
        diverged_at = np.atleast_1d(jax.device_get(self.progress.diverged_at))
        results = self.recorder.results(diverged_at, len(self.batch.runs))
        if not self.batch.options.return_states:
            return results
        return [result._replace(state=state) for result, state in zip(results, self.states(), strict=True)]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that `restore` needs, as arrays."""
        self._fetch()
        leaves = jax.tree.leaves(self.progress)
        saved = {f"leaf {i}": np.asarray(plain_numbers(leaf)) for i, leaf in enumerate(leaves)}
        return saved | {f"record {name}": values for name, values in self.recorder.arrays().items()}

    def restore(self, snapshot: dict[str, np.ndarray], step: int) -> None:
        """Takes up a snapshot of the same batch, made after `step` examples."""
        leaves, structure = jax.tree.flatten(self.progress)
        restored = [_like(leaf, snapshot[f"leaf {i}"]) for i, leaf in enumerate(leaves)]
        self.progress = jax.tree.unflatten(structure, jax.block_until_ready(restored))
        records = {
            name.removeprefix("record "): array for name, array in snapshot.items() if name.startswith("record ")
        }
        self.recorder.restore(records, step)
        self.step, self.unfetched = step, None


def whole_windows(most: int, record_every: int) -> int:
    """The steps of as many windows as fit into `most`; `most` if none does."""
    return most // record_every * record_every or most


def plain_numbers(leaf: Any) -> Any:
    """An array as it is, a key as its data."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _like(leaf: jax.Array, value: np.ndarray) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(to_device(value), impl=jax.random.key_impl(leaf))
    return jnp.asarray(value.view(leaf.dtype) if value.dtype.kind == "V" else value)  # NumPy knows no bfloat16
