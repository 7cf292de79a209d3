"""A batch of runs, executed in segments: its records so far, and its snapshots for checkpoints."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support.transfers import to_device
from crossprop.engines.protocol import Batch, RunResult
from crossprop.variables import of_examples, window_ends, window_lengths


class Carry(NamedTuple):
    """The state of a batch between two segments."""

    work: Any
    diverged_at: jax.Array


class Session(ABC):
    """A batch under way, one segment after another.

    If segments are `overlapping`, the records of one are fetched while the next is computed, so that the device does
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
        self.unfetched: tuple[dict[str, jax.Array], int] | None = None
        self.recorded = options.first
        self.records: dict[str, list[np.ndarray]] = {}
        """Sums and values of the windows up to the step `recorded`, in parts `(runs, windows, ...)`."""

    @abstractmethod
    def examples(self, count: int) -> Any:
        """The next `count` examples of all runs."""

    @abstractmethod
    def execute(self, examples: Any, count: int) -> dict[str, jax.Array]:
        """Learns from the examples, and returns the records `(runs, windows, ...)`."""

    @abstractmethod
    def states(self) -> list[Any]:
        """The present state of every run."""

    def advance(self, count: int) -> None:
        """Runs the next `count` steps, at most a segment."""
        examples, every = self.examples(count), self.batch.options.record_every
        if self.step % every or self.recorded % every:
            self._fetch()
        records = self.execute(examples, count)
        self._fetch()
        self.unfetched = records, count
        if not self.overlapping:
            self._fetch()
        self.step += count

    def next_count(self, stop: int) -> int:
        """The steps of the next segment. Segments end at multiples of their length, also when a run is resumed."""
        return min(self.segment - self.step % self.segment, stop - self.step)

    def _fetch(self) -> None:
        """Waits for the records of the last segment. Their first window replaces one that was open."""
        if self.unfetched is None:
            return
        (records, count), self.unfetched, every = self.unfetched, None, self.batch.options.record_every
        windows = (self.recorded + count - 1) // every - self.recorded // every + 1
        for name, values in jax.device_get(records).items():
            parts = self.records.setdefault(name, [])
            if self._is_open:
                parts[-1] = parts[-1][:, :-1]
            parts.append(np.array(values[:, :windows]))
        self.recorded += count

    @property
    def _is_open(self) -> bool:
        return self.recorded > self.batch.options.first and self.recorded % self.batch.options.record_every != 0

    def open_sums(self, runs: int, dtype: np.dtype) -> dict[str, np.ndarray]:
        """The sums `(runs,)` of the window that the last segment left open; 0 if there is none."""
        names = [variable.name for variable in self.examined]
        return {name: self.records[name][-1][:, -1] if self._is_open else np.zeros(runs, dtype) for name in names}

    def results(self) -> list[RunResult]:
        """The records so far of every run, NaN after a divergence, and its state if the options ask for states."""
        self._fetch()
        options, runs = self.batch.options, len(self.batch.runs)
        ends = window_ends(self.recorded, options.record_every, options.first)
        lengths, averaged = window_lengths(ends, options.first), {variable.name for variable in self.examined}
        diverged_at = np.atleast_1d(jax.device_get(self.progress.diverged_at))[:runs]
        gone, rows = (diverged_at[:, None] >= 0) & (ends > diverged_at[:, None]), {}
        for name, parts in self.records.items():
            values = np.concatenate(parts, axis=1)[:runs]
            values = values / lengths.astype(values.dtype) if name in averaged else values
            missing = gone.reshape(*gone.shape, *[1] * (values.ndim - 2))
            rows[name] = np.where(missing, np.nan, values).astype(values.dtype) if gone.any() else values
        states = self.states() if options.return_states else [None] * runs
        return [
            RunResult({name: values[i] for name, values in rows.items()}, int(at), self.recorded, states[i])
            for i, at in enumerate(diverged_at.tolist())
        ]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that `restore` needs, as arrays."""
        self._fetch()
        leaves = jax.tree.leaves(self.progress)
        saved = {f"leaf {i}": np.asarray(plain_numbers(leaf)) for i, leaf in enumerate(leaves)}
        return saved | {f"record {name}": np.concatenate(parts, axis=1) for name, parts in self.records.items()}

    def restore(self, snapshot: dict[str, np.ndarray], step: int) -> None:
        """Continues from a snapshot of the same batch, made after `step` examples."""
        leaves, structure = jax.tree.flatten(self.progress)
        restored = [_like(leaf, snapshot[f"leaf {i}"]) for i, leaf in enumerate(leaves)]
        self.progress = jax.tree.unflatten(structure, jax.block_until_ready(restored))
        records = [name for name in snapshot if name.startswith("record ")]
        self.records = {name.removeprefix("record "): [snapshot[name]] for name in records}
        self.step, self.recorded, self.unfetched = step, step, None


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
