"""What the claims measure in records: phases of a run, and samples that pair learners over seeds or windows."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from crossprop._support.formats import ratio
from crossprop.library.verdicts import EQUAL, Bounds, CannotDecide, Finding, Number
from crossprop.records import phase_windows, visits, window_lengths
from crossprop.statistics import paired_difference, paired_ratio

if TYPE_CHECKING:
    import xarray

SETTLED_WITHIN = 0.1
BLOCKS = 20
TINY = 1e-9  # keeps ratios finite where weights never moved

Phase = list[np.ndarray]  # indices of windows, one array for each stretch of consecutive windows


class Runs:
    """Records with what the claims measure in them.

    `whole`, `visits`, `asymptotic`, `after_switch` and `final` are phases of a run. A sample has one value per seed, so
    that learners are paired over seeds. With a single seed it has one value per block of windows, up to `BLOCKS` of
    them, which are paired as well because all learners see the same examples.
    """

    def __init__(self, records: "xarray.Dataset"):
        ordered = records.transpose("learner", "seed", "step", ...)
        self.diverged_at = ordered["diverged_at"].values
        self.curves = {
            str(name): values.values.astype(np.float64) for name, values in ordered.items() if values.ndim == 3
        }
        self.learners = [str(name) for name in records["learner"].values]
        self.seeds = records.sizes["seed"]
        self.steps = records["step"].values
        self.lengths = window_lengths(records)
        task = records["task"].values
        self.visits: Phase = visits(task)
        self.whole: Phase = phase_windows(task, "all")
        self.asymptotic: Phase = phase_windows(task, "end")
        self.after_switch: Phase = phase_windows(task, "switch")
        self.final: Phase = self.asymptotic[-1:]

    def need(self, variables: Sequence[str], learners: Sequence[str]) -> "Runs":
        """Itself; raises `CannotDecide` if a variable or a learner is missing, or if a learner diverged."""
        lacking = [name for name in learners if name not in self.learners]
        lacking += [name for name in variables if name not in self.curves]
        if lacking:
            raise CannotDecide(f"the records hold no {', '.join(lacking)}")
        diverged = [f"{name} diverged in {n} of {self.seeds} runs" for name in learners if (n := self._diverged(name))]
        if diverged:
            raise CannotDecide(", ".join(diverged))
        return self

    def having(self, learners: tuple[str, ...]) -> list[str]:
        """The learners that are in the records and did not diverge."""
        return [name for name in learners if name in self.learners and not self._diverged(name)]

    def _diverged(self, learner: str) -> int:
        return int((self.diverged_at[self.learners.index(learner)] >= 0).sum())

    def count(self, agree: np.ndarray) -> str:
        """How many of the paired values agree, as the end of a sentence."""
        return f", in {int(agree.sum())} of {agree.size} {'seeds' if self.seeds > 1 else 'windows of one run'}"

    def apart(
        self, label: str, pair: tuple[np.ndarray, np.ndarray], level: float, unit: str = "", scale: float = 1.0
    ) -> tuple[Number, str]:
        """The mean difference of paired values, and in how many pairs it has its sign."""
        a, b = pair
        number = Number.of(label, paired_difference(a, b, level), unit, scale)
        return number, self.count(a > b if number.mean >= 0 else a < b)

    def curve(self, variable: str, learner: str) -> np.ndarray:
        return self.curves[variable][self.learners.index(learner)]

    def sample(self, curve: np.ndarray, phase: Phase) -> np.ndarray:
        """The mean of a curve over a phase: one for each seed, or with a single seed one for each block of windows."""
        if self.seeds > 1:
            return np.mean([self._mean(curve, stretch) for stretch in phase], axis=0)
        each = max(1, BLOCKS // len(phase))
        blocks = [block for stretch in phase for block in np.array_split(stretch, min(each, len(stretch)))]
        return np.array([self._mean(curve, block)[0] for block in blocks])

    def _mean(self, curve: np.ndarray, windows: np.ndarray) -> np.ndarray:
        return np.average(curve[:, windows], axis=1, weights=self.lengths[windows])

    def mean(self, variable: str, learner: str, phase: Phase) -> np.ndarray:
        return self.sample(self.curve(variable, learner), phase)

    def asymptote(self, variable: str, learner: str) -> np.ndarray:
        return self.mean(variable, learner, self.asymptotic)

    def end(self, variable: str, learner: str) -> np.ndarray:
        """The value at the end of the run; with a single seed, its values in blocks of the last fifth of the last
        visit."""
        curve = self.curve(variable, learner)
        return curve[:, -1] if self.seeds > 1 else self.sample(curve, self.final)

    def settling_step(self, variable: str, learner: str) -> np.ndarray:
        """The first step from which the curve stays within a tenth of its value at the end."""
        ends = self.end(variable, learner)[:, None]
        outside = np.abs(self.curve(variable, learner) - ends) > SETTLED_WITHIN * ends
        after = np.where(outside.any(axis=1), outside.shape[1] - np.argmax(outside[:, ::-1], axis=1), 0)
        return self.steps[np.minimum(after, len(self.steps) - 1)].astype(np.float64)

    def outgoing_share(self, learner: str) -> np.ndarray:
        """W's share of the movement of all weights just after switches.

        The movement in a window is the change of the drift, a lower bound of the distance the weights travelled.
        """
        if not self.after_switch:
            raise CannotDecide("the records hold no task switch")
        moved = [
            self.sample(np.abs(np.diff(self.curve(variable, learner), prepend=0, axis=1)), self.after_switch)
            for variable in ("incoming_drift", "outgoing_drift")
        ]
        return moved[1] / np.maximum(moved[0] + moved[1], TINY)


class Quantity:
    """What learners are compared by, as a ratio: its label, its name in a sentence, and its values by learner."""

    def __init__(self, runs: Runs, label: str, noun: str, of: Callable[[str], np.ndarray]):
        self.runs, self.label, self.noun, self.of = runs, label, noun, of

    def times(self, a: str, b: str, level: float, bounds: Bounds) -> Finding:
        """The ratio of the mean of `a` to that of `b`, as `paired_ratio` has it."""
        values = [np.maximum(self.of(name), TINY) for name in (a, b)]
        number = Number.of(f"{self.label}, {a} / {b}", paired_ratio(values[0], values[1], level))
        agree = values[0] > values[1] if number.mean >= 1 else values[0] < values[1]
        return Finding(number, bounds, ratio(self.noun, a, b, number.interval, self.runs.count(agree), EQUAL))
