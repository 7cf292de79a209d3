"""The numbers behind the plots of a sweep: what is reached along one axis, or two, at the best of the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.figures import TITLES
from crossprop.statistics import mean_interval
from crossprop.sweeps.evaluate import Choice, Evaluation, choose, evaluated, scores
from crossprop.sweeps.grid import Grid
from crossprop.sweeps.labelled import labelled
from crossprop.sweeps.store import Folder, read_asked

if TYPE_CHECKING:
    import xarray

ALONG, LINES = "step_size", "eta"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TALLEST = 4
"""What is worse than so many times the best goes out of a plot at its top: most of it is on the way to diverging."""


class Profile(NamedTuple):
    """The mean and its interval at every value of the axes kept, NaN where all of the rest diverged."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    diverged: np.ndarray


class Swept(NamedTuple):
    """One learner of a sweep: its grid, its numbers by axes and seed, and its best setting."""

    grid: Grid
    scores: "xarray.DataArray"
    choice: Choice

    @property
    def axes(self) -> list[str]:
        """The axes with several values, `step_size` first."""
        several = [axis for axis, values in self.grid.over.items() if len(values) > 1]
        return sorted(several, key=lambda axis: (axis != ALONG, axis != LINES))

    def values(self, axis: str) -> list[Any]:
        """Of an axis, in order: None and names come first."""
        return sorted(
            self.grid.over[axis],
            key=lambda value: (isinstance(value, int | float), value if isinstance(value, int | float) else 0),
        )

    def profile(self, keep: Sequence[str]) -> Profile:
        """What is reached at every value of `keep`, where the other axes have their best values there."""
        order = [[self.grid.over[axis].index(value) for value in self.values(axis)] for axis in keep]
        kept = self.scores.isel(dict(zip(keep, order, strict=True))).transpose(*keep, ..., "seed")
        sizes = [len(places) for places in order]
        values = kept.values.reshape(*sizes, -1, kept.sizes["seed"])
        ranks = np.where(np.isnan(values).any(axis=-1), np.inf, values.mean(axis=-1))
        best = np.take_along_axis(values, ranks.argmin(axis=-1)[..., None, None], axis=-2)[..., 0, :]
        diverged = np.asarray(np.isinf(best).any(axis=-1))
        mean, low, high = mean_interval(np.where(np.isfinite(best), best, np.nan), axis=-1)
        return Profile(mean, low, high, diverged)


class Sweep(NamedTuple):
    """All that is plotted of a store."""

    learners: dict[str, Swept]
    evaluation: Evaluation
    best: "xarray.Dataset"
    """The records of the best settings: on fresh seeds where all have them, else on the sweep's."""
    fresh: bool
    measure: str
    seconds: float
    """What all runs in the store took."""


def read(store: Path) -> Sweep:
    asked, kept = read_asked(store), Folder(store).blocks
    learners = {}
    for grid in asked.grids:
        if (choice := choose(grid, kept)) is not None:
            learners[grid.name] = Swept(grid, scores(grid, kept), choice)
    if not learners:
        raise ValueError(f"{str(store)!r} must hold runs to plot, got a sweep of which none is done")
    evaluation = evaluated([swept.grid for swept in learners.values()], asked.record_every, kept)
    fresh = evaluation.records.keys() == learners.keys()
    own = [_alone(swept, asked.record_every, kept) for swept in learners.values()]
    best = _together(list(evaluation.records.values()) if fresh else own)
    error = next(iter(learners.values())).scores.name == "error"
    seconds = sum(block.seconds for block in kept)
    return Sweep(learners, evaluation, best, fresh, TITLES["error" if error else "squared"], seconds)


def _alone(swept: Swept, record_every: int, kept: Any) -> "xarray.Dataset":
    alone = replace(swept.grid, over={axis: [value] for axis, value in swept.choice.point.items()})
    return labelled(alone, record_every, kept).squeeze(list(alone.over))


def _together(records: "list[xarray.Dataset]") -> "xarray.Dataset":
    """One Dataset with the dim `learner`, as `run` gives, of the seeds and steps that all have."""
    import xarray

    names = ("loss", "error", "incoming_drift", "outgoing_drift", "diverged_at")
    bare = [each[[name for name in names if name in each]] for each in records]
    bare = [each.drop_vars([name for name in each.coords if name not in ("learner", "seed", "step")]) for each in bare]
    together = xarray.concat(bare, "learner", join="inner", combine_attrs="drop")
    task = records[0].task.sel(step=together.step.values).values
    return together.assign_coords(task=("step", task))


def groups(sweep: Sweep) -> dict[str, list[str]]:
    """The learners that stand in one panel: all, or where they are many, those with the same optimizer."""
    optimizers: dict[str, list[str]] = {}
    for name, swept in sweep.learners.items():
        optimizers.setdefault(str(swept.grid.learner["optimizer"]), []).append(name)
    return optimizers if len(sweep.learners) > 8 and len(optimizers) > 1 else {"": list(sweep.learners)}


def text(value: Any) -> str:
    """A value of an axis: a power of 2 as such, None as what it means."""
    if value is None:
        return "as step_size"
    if isinstance(value, float) and 0 < value < 0.2 and (power := float(np.log2(value))).is_integer():
        return "2" + f"{power:.0f}".translate(RAISED)
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(swept: Swept, edge: str = "") -> str:
    """The best setting in words, as far as it was chosen, with `edge` behind what stands at the edge of its grid."""
    point, edges = swept.choice.point, swept.choice.edges
    return ", ".join(f"{axis}={text(point[axis])}{edge * (axis in edges)}" for axis in swept.axes)
