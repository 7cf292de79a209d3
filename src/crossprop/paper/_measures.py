"""What the claims measure in records: the parts of a life, and samples that pair learners over seeds or windows."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

ASYMPTOTIC = 0.2
AFTER_SWITCH = 0.1
SETTLED_WITHIN = 0.1
BLOCKS = 20
TINY = 1e-9  # keeps ratios finite where weights never moved

Part = list[np.ndarray]  # indexes of the windows, an array for each stretch of life


class CannotDecide(Exception):
    """The records lack what a claim needs; the message says what."""


class Lives:
    """Records, ready to be measured: `whole`, `visits`, `asymptotic`, `after_switch` and `final` are parts of a life.

    A sample has one value per seed, so that learners are paired over seeds. Of one seed it has one value per block of
    windows, up to `BLOCKS` of them, paired as well: all learners see the same examples.
    """

    def __init__(self, records: "xarray.Dataset"):
        ordered = records.transpose("learner", "seed", "step", ...)
        self.diverged_at = ordered["diverged_at"].values
        self.curves = {
            str(name): values.values.astype(np.float64) for name, values in ordered.items() if values.ndim == 3
        }
        self.learners = [str(name) for name in records["learner"].values]
        self.runs = records.sizes["seed"]
        self.steps = records["step"].values
        self.lengths = np.diff(self.steps, prepend=0)
        task = records["task"].values
        self.whole: Part = [np.arange(len(task))]
        self.visits: Part = np.split(self.whole[0], np.flatnonzero(np.diff(task)) + 1)
        self.asymptotic: Part = [visit[-_share(visit, ASYMPTOTIC) :] for visit in self.visits]
        self.after_switch: Part = [visit[: _share(visit, AFTER_SWITCH)] for visit in self.visits[1:]]
        self.final: Part = self.asymptotic[-1:]

    def need(self, variables: tuple[str, ...], learners: tuple[str, ...]) -> None:
        lacking = [name for name in learners if name not in self.learners]
        lacking += [name for name in variables if name not in self.curves]
        if lacking:
            raise CannotDecide(f"the records hold no {', '.join(lacking)}")
        gone = [f"{name} diverged in {runs} of {self.runs} runs" for name in learners if (runs := self._gone(name))]
        if gone:
            raise CannotDecide(", ".join(gone))

    def having(self, learners: tuple[str, ...]) -> list[str]:
        """Those of the learners whose records can be shown."""
        return [name for name in learners if name in self.learners and not self._gone(name)]

    def _gone(self, learner: str) -> int:
        return int((self.diverged_at[self.learners.index(learner)] >= 0).sum())

    def curve(self, variable: str, learner: str) -> np.ndarray:
        return self.curves[variable][self.learners.index(learner)]

    def sample(self, curve: np.ndarray, part: Part) -> np.ndarray:
        """The curve's mean over the part: for each seed, or of one seed for each block of windows."""
        if self.runs > 1:
            return np.mean([self._mean(curve, stretch) for stretch in part], axis=0)
        each = max(1, BLOCKS // len(part))
        blocks = [block for stretch in part for block in np.array_split(stretch, min(each, len(stretch)))]
        return np.array([self._mean(curve, block)[0] for block in blocks])

    def _mean(self, curve: np.ndarray, windows: np.ndarray) -> np.ndarray:
        return np.average(curve[:, windows], axis=1, weights=self.lengths[windows])

    def mean(self, variable: str, learner: str, part: Part) -> np.ndarray:
        return self.sample(self.curve(variable, learner), part)

    def asymptote(self, variable: str, learner: str) -> np.ndarray:
        return self.mean(variable, learner, self.asymptotic)

    def end(self, variable: str, learner: str) -> np.ndarray:
        """The value at the end of life; of one seed, its values in the blocks of the last visit's last fifth."""
        curve = self.curve(variable, learner)
        return curve[:, -1] if self.runs > 1 else self.sample(curve, self.final)

    def settling_step(self, variable: str, learner: str) -> np.ndarray:
        """The first step from which the curve stays within a tenth of its value at the end."""
        ends = self.end(variable, learner)[:, None]
        outside = np.abs(self.curve(variable, learner) - ends) > SETTLED_WITHIN * ends
        after = np.where(outside.any(axis=1), outside.shape[1] - np.argmax(outside[:, ::-1], axis=1), 0)
        return self.steps[np.minimum(after, len(self.steps) - 1)].astype(np.float64)

    def outgoing_share(self, learner: str) -> np.ndarray:
        """W's share of the movement just after the switches, each window's movement read off the drift curves.

        The change of a distance from the start is the least way that the weights can have travelled.
        """
        if not self.after_switch:
            raise CannotDecide("the records hold no task switch")
        moved = [
            self.sample(np.abs(np.diff(self.curve(variable, learner), prepend=0, axis=1)), self.after_switch)
            for variable in ("incoming_drift", "outgoing_drift")
        ]
        return moved[1] / np.maximum(moved[0] + moved[1], TINY)


def _share(visit: np.ndarray, share: float) -> int:
    return max(1, round(share * len(visit)))
