"""The numbers in the plots of a sweep: scores along one or two axes, at the best values of all others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop import records as schema
from crossprop.learners import Learner
from crossprop.records import LearnerInfo, learner_info
from crossprop.statistics import mean_interval
from crossprop.sweeps.blocks import StoredBlock
from crossprop.sweeps.evaluate import Choice, Evaluation, choose, evaluated, scores
from crossprop.sweeps.grid import Grid, build, value_label
from crossprop.sweeps.labelled import labelled_at
from crossprop.sweeps.spec import SweepSpec
from crossprop.sweeps.store import read_header, read_store

if TYPE_CHECKING:
    import xarray

ALONG, LINES = "step_size", "eta"
RAISED = str.maketrans("-.0123456789", "⁻·⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_TICKS = 6


class Profile(NamedTuple):
    """The mean and its interval at every value of the axes kept; NaN where all settings diverged."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    diverged: np.ndarray


class Swept(NamedTuple):
    """One learner of a sweep: its grid, its scores by axes and seed, and its best setting."""

    grid: Grid
    scores: "xarray.DataArray"
    choice: Choice

    @property
    def info(self) -> LearnerInfo:
        """The credit rule and the optimizer of its best setting."""
        return learner_info(self.grid.learner | self.choice.point)

    @property
    def tried(self) -> int:
        """How many settings were run."""
        return int((~np.isnan(self.scores.values)).any(axis=-1).sum())

    @property
    def axes(self) -> list[str]:
        """The axes with several values, `step_size` first."""
        several = [axis for axis, values in self.grid.over.items() if len(values) > 1]
        return sorted(several, key=lambda axis: (axis != ALONG, axis != LINES))

    def values(self, axis: str) -> list[Any]:
        """The values of an axis in order, None and names first."""
        return sorted(
            self.grid.over[axis],
            key=lambda value: (isinstance(value, int | float), value if isinstance(value, int | float) else 0),
        )

    def profile(self, keep: Sequence[str]) -> Profile:
        """The scores at every value of the axes `keep`, with all other axes at their best values there."""
        order = [[self.grid.over[axis].index(value) for value in self.values(axis)] for axis in keep]
        ordered = self.scores.isel(dict(zip(keep, order, strict=True))).transpose(*keep, ..., "seed")
        sizes = [len(places) for places in order]
        values = ordered.values.reshape(*sizes, -1, ordered.sizes["seed"])
        ranks = np.where(np.isnan(values).any(axis=-1), np.inf, values.mean(axis=-1))
        best = np.take_along_axis(values, ranks.argmin(axis=-1)[..., None, None], axis=-2)[..., 0, :]
        diverged = np.asarray(np.isinf(best).any(axis=-1))
        mean, low, high = mean_interval(np.where(np.isfinite(best), best, np.nan), axis=-1)
        return Profile(mean, low, high, diverged)


class Sweep(NamedTuple):
    """Everything that is plotted from a store."""

    learners: dict[str, Swept]
    evaluation: Evaluation
    best: "xarray.Dataset"
    """The records of the best settings: on fresh seeds if all learners have them, else on the sweep's seeds."""
    fresh: bool
    measure: str
    seconds: float
    """The time of all runs in the store."""
    record_every: int


def read(store: Path, blocks: Sequence[StoredBlock] | None = None) -> Sweep:
    """Reads everything that is plotted from a store, whose blocks may be given."""
    header, blocks = read_store(store) if blocks is None else (read_header(store), blocks)
    learners = {}
    for grid in header.grids:
        if (choice := choose(grid, blocks)) is not None:
            learners[grid.name] = Swept(grid, scores(grid, blocks), choice)
    if not learners:
        raise ValueError(f"{str(store)!r} must hold runs to plot, got a sweep of which none is done")
    evaluation = evaluated([swept.grid for swept in learners.values()], header.record_every, blocks)
    fresh = evaluation.records.keys() == learners.keys()
    own = [labelled_at(each.choice.point, each.grid, header.record_every, blocks) for each in learners.values()]
    best = _joined(list(evaluation.records.values()) if fresh else own)
    best = best.assign_coords(schema.info_coordinates({name: swept.info for name, swept in learners.items()}))
    measure = schema.VARIABLES[str(next(iter(learners.values())).scores.name)].title
    return Sweep(
        learners, evaluation, best, fresh, measure, sum(block.seconds for block in blocks), header.record_every
    )


def best_learners(spec: SweepSpec, learners: Mapping[str, Swept]) -> dict[str, Learner]:
    """These learners of a sweep at their best settings."""
    return {
        name: build(swept.choice.point, name, spec.learners[name], spec.stream, {})[0]
        for name, swept in learners.items()
    }


def _joined(records: "list[xarray.Dataset]") -> "xarray.Dataset":
    """One Dataset with the dim `learner`, as `run` returns, with the seeds and steps that all have in common."""
    import xarray

    bare = [each[[str(name) for name, own in each.items() if {*own.dims} <= {"seed", "step"}]] for each in records]
    bare = [each.drop_vars([name for name in each.coords if name not in ("learner", "seed", "step")]) for each in bare]
    joined = xarray.concat(bare, "learner", join="inner", combine_attrs="drop")
    first = records[0].sel(step=joined.step.values)
    return joined.assign_coords({name: ("step", first[name].values) for name in ("window", "task")})


def groups(sweep: Sweep) -> dict[str, list[str]]:
    """The learners that share a panel: all of them, or with many learners those that have the same optimizer."""
    optimizers: dict[str, list[str]] = {}
    for name, swept in sweep.learners.items():
        optimizers.setdefault(swept.info.optimizer, []).append(name)
    return optimizers if len(sweep.learners) > 8 and len(optimizers) > 1 else {"": list(sweep.learners)}


def infos(sweep: Sweep, names: Sequence[str]) -> dict[str, LearnerInfo]:
    """The credit rules and optimizers of these learners."""
    return {name: sweep.learners[name].info for name in names}


def is_log(values: Sequence[float]) -> bool:
    """Whether numbers are better shown on a logarithmic axis."""
    return min(values) > 0 and max(values) / min(values) > 3


def color_limits(profiles: Sequence[Profile]) -> tuple[float, float]:
    """The range of the colours of heat maps: from the best score to the 90th percentile."""
    finite = np.concatenate([np.ones(0), *(profile.mean[np.isfinite(profile.mean)] for profile in profiles)])
    return (float(finite.min()), float(np.quantile(finite, 0.9))) if len(finite) else (0.0, 1.0)


def value_text(value: Any) -> str:
    """The value of an axis as text: small powers of 2, also by quarters, as such; None as what it stands for."""
    if value is None:
        return "as step_size"
    if isinstance(value, tuple):
        return str(value_label(value))
    if isinstance(value, float) and 0 < value < 0.2:
        power = round(4 * float(np.log2(value))) / 4
        if np.isclose(value, 2**power, rtol=1e-9, atol=0):
            return "2" + f"{power:g}".translate(RAISED)
    return f"{value:g}" if isinstance(value, float) else str(value)


def thinned(ticks: Mapping[float, str]) -> dict[float, str]:
    """The ticks of an axis. If there are many, those between whole powers of 2 have no label."""
    many = len(ticks) > MOST_TICKS
    return {place: "" if many and "·" in label else label for place, label in sorted(ticks.items())}


def setting(swept: Swept, edge: str = "") -> str:
    """The best values of the axes as text, with `edge` behind each value that is at the edge of its grid."""
    point, edges = swept.choice.point, swept.choice.edges
    return ", ".join(f"{axis}={value_text(point[axis])}{edge * (axis in edges)}" for axis in swept.axes)
