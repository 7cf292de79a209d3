"""Records of runs, put together from those of compiled segments."""

from collections.abc import Sequence

import numpy as np

from crossprop.engines.protocol import RunResult


class Recorder:
    """The records of a batch, put together from those of its segments."""

    def __init__(self, record_every: int, first: int, averaged: Sequence[str]):
        self.every, self.first, self.step, self.averaged = record_every, first, first, averaged
        self.parts: dict[str, list[np.ndarray]] = {}

    def open_sums(self, runs: int, dtype: np.dtype) -> dict[str, np.ndarray]:
        """The sums `(runs,)` of the window that the last segment left open; 0 if there is none."""
        if not self._is_open:
            return {name: np.zeros(runs, dtype) for name in self.averaged}
        return {name: self.parts[name][-1][:, -1] for name in self.averaged}

    def add(self, records: dict[str, np.ndarray], count: int) -> None:
        """The records `(runs, windows, ...)` of the next `count` steps. A window that was open is replaced."""
        windows = (self.step + count - 1) // self.every - self.step // self.every + 1
        for name, values in records.items():
            parts = self.parts.setdefault(name, [])
            if self._is_open:
                parts[-1] = parts[-1][:, :-1]
            parts.append(np.array(values[:, :windows]))
        self.step += count

    @property
    def _is_open(self) -> bool:
        return self.step > self.first and self.step % self.every != 0

    def arrays(self) -> dict[str, np.ndarray]:
        """The sums and values so far, `(runs, windows, ...)`."""
        return {name: np.concatenate(parts, axis=1) for name, parts in self.parts.items()}

    def restore(self, arrays: dict[str, np.ndarray], step: int) -> None:
        """Takes up the `arrays` of another recorder after `step` examples."""
        self.parts, self.step = {name: [values] for name, values in arrays.items()}, step

    def results(self, diverged_at: np.ndarray, runs: int) -> list[RunResult]:
        """The records of the first `runs` runs: means over windows of what is averaged, NaN after a divergence."""
        ends = window_ends(self.step, self.every, self.first)
        lengths = window_lengths(ends, self.first)
        gone = (diverged_at[:runs, None] >= 0) & (ends > diverged_at[:runs, None])
        rows = {}
        for name, values in self.arrays().items():
            values, missing = values[:runs], gone.reshape(*gone.shape, *[1] * (values.ndim - 2))
            values = values / lengths.astype(values.dtype) if name in self.averaged else values
            rows[name] = np.where(missing, np.nan, values).astype(values.dtype) if gone.any() else values
        return [
            RunResult({name: values[i] for name, values in rows.items()}, int(at), self.step)
            for i, at in enumerate(diverged_at[:runs].tolist())
        ]


def window_ends(steps: int, record_every: int, first: int = 0) -> np.ndarray:
    """The coordinate `step` of the records: how many examples were learned from at each window's end."""
    return np.append(np.arange((first // record_every + 1) * record_every, steps, record_every), steps)


def window_lengths(ends: np.ndarray, first: int = 0) -> np.ndarray:
    """The coordinate `window` of the records: the number of examples in each window."""
    return np.diff(ends, prepend=first)
