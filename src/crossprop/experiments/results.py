"""The results in the store of a sweep: the best setting of every learner, what it reached, and how that compares."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop import records as schema
from crossprop._support.locks import lock_holder
from crossprop.descriptions import backprop_at, learner_info
from crossprop.experiments.blocks import BlockResult
from crossprop.experiments.charts import Chart, band, curves
from crossprop.experiments.evaluate import Choice, Evaluation, choose, evaluated, scores
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.grid import Grid, value_label
from crossprop.experiments.labelled import labelled_at
from crossprop.experiments.store import read_header, read_store
from crossprop.records import NONE, PHASES, LearnerInfo
from crossprop.variables import VARIABLES

if TYPE_CHECKING:
    import xarray

BACKPROP, FROZEN = "backprop", "frozen"
"""The credit rules that others are compared with."""
FIRST_AXES = ("step_size", "eta")
"""The axes that are shown before others."""
RAISED = str.maketrans("-.0123456789", "⁻·⁰¹²³⁴⁵⁶⁷⁸⁹")

Values = Mapping[str, "xarray.DataArray"]


class TunedLearner(NamedTuple):
    """One learner of a sweep: its grid, its scores by axes and seed, and its best setting."""

    grid: Grid
    scores: "xarray.DataArray"
    choice: Choice

    @property
    def info(self) -> LearnerInfo:
        """The credit rule, optimizer and replacement of its best setting."""
        return learner_info(self.grid.learner | self.choice.point)

    @property
    def backprop_at(self) -> str | None:
        """The hyperparameter whose best value makes this rule backprop."""
        return backprop_at(self.grid.learner | self.choice.point)

    @property
    def tried(self) -> int:
        """How many settings were run."""
        return int((~np.isnan(self.scores.values)).any(axis=-1).sum())

    @property
    def axes(self) -> list[str]:
        """The axes with several values, `step_size` first."""
        several = [axis for axis, values in self.grid.over.items() if len(values) > 1]
        return sorted(several, key=lambda axis: FIRST_AXES.index(axis) if axis in FIRST_AXES else len(FIRST_AXES))

    @property
    def best_scores(self) -> "xarray.DataArray":
        """The scores of the best setting by seed, without those that are not there yet."""
        place = [*self.grid.points.values()].index(self.choice.point)
        row = self.scores.values.reshape(-1, self.scores.sizes["seed"])[place]
        alone = self.scores.isel(dict.fromkeys(self.grid.over, 0), drop=True).copy(data=row)
        return alone.isel(seed=np.flatnonzero(~np.isnan(row)))

    def values(self, axis: str) -> list[Any]:
        """The values of an axis in order, None and names first."""
        return sorted(
            self.grid.over[axis],
            key=lambda value: (isinstance(value, int | float), value if isinstance(value, int | float) else 0),
        )

    def setting(self, edge: str = "") -> str:
        """The best values of the axes as text, with `edge` behind each value that is at the edge of its grid."""
        point, edges = self.choice.point, self.choice.edges
        return ", ".join(f"{axis}={value_text(point[axis])}{edge * (axis in edges)}" for axis in self.axes)

    def profile(self, keep: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The mean score with its interval at every value of the axes `keep`, with all other axes at their best values
        there, and whether all settings there diverged."""
        order = [[self.grid.over[axis].index(value) for value in self.values(axis)] for axis in keep]
        ordered = self.scores.isel(dict(zip(keep, order, strict=True))).transpose(*keep, ..., "seed")
        sizes = [len(places) for places in order]
        values = ordered.values.reshape(*sizes, -1, ordered.sizes["seed"])
        ranks = np.where(np.isnan(values).any(axis=-1), np.inf, values.mean(axis=-1))
        best = np.take_along_axis(values, ranks.argmin(axis=-1)[..., None, None], axis=-2)[..., 0, :]
        diverged = np.asarray(np.isinf(best).any(axis=-1))
        mean, low, high = band(np.moveaxis(np.where(np.isfinite(best), best, np.nan), -1, 0))
        return mean, low, high, diverged


def joined(grid: Grid, found: "Sequence[xarray.DataArray]") -> TunedLearner:
    """A learner whose setting is chosen by its scores on several streams."""
    import xarray

    together = xarray.concat(found, "seed")
    choice = choose(grid, together)
    assert choice is not None
    return TunedLearner(grid, together, choice)


@dataclass(frozen=True)
class SweepResults:
    """All that is said and drawn of a store, by learner."""

    learners: dict[str, TunedLearner]
    evaluation: Evaluation
    blocks: Sequence[BlockResult]
    title: str = ""

    @property
    def fresh(self) -> bool:
        """Whether the best settings of all learners were run on fresh seeds; else all is on the sweep's own, where the
        best of many settings looks better than it is."""
        return self.evaluation.records.keys() == self.learners.keys()

    @property
    def measure(self) -> str:
        """The title of what is compared: the loss, or the error where there are classes."""
        return VARIABLES[str(next(iter(self.learners.values())).scores.name)].title

    @cached_property
    def values(self) -> "dict[str, xarray.DataArray]":
        """One value per seed for the best setting of every learner."""
        if self.fresh:
            return self.evaluation.values()
        return {name: learner.best_scores for name, learner in self.learners.items()}

    @cached_property
    def best(self) -> "xarray.Dataset":
        """The records of the best settings."""
        if self.fresh:
            records = [*self.evaluation.records.values()]
        else:
            settings = [(each.choice.point, each.grid) for each in self.learners.values()]
            records = [labelled_at(point, grid, self.blocks) for point, grid in settings]
        return _joined(records).assign_coords(schema.info_coordinates(self.infos))

    @cached_property
    def learning_curves(self) -> list[Chart]:
        """The curves of the best settings."""
        return curves(self.best)

    @property
    def infos(self) -> dict[str, LearnerInfo]:
        """The credit rule, optimizer and replacement of every learner."""
        return {name: learner.info for name, learner in self.learners.items()}

    @cached_property
    def comparisons(self) -> dict[str, Finding]:
        """The best settings compared with those of the learners that `reference_of` chooses."""
        against = {name: reference for name in self.learners if (reference := reference_of(name, self.infos))}
        seeds = {name: {*values.seed.values.tolist()} for name, values in self.values.items()}
        paired = {name: reference for name, reference in against.items() if seeds[name] & seeds[reference]}
        return {each.learner: each for each in compare(self.values, paired)}

    @cached_property
    def by_phase(self) -> "dict[str, dict[str, xarray.DataArray]]":
        """One value per fresh seed for every learner, by phase; a stream without a switch has no phase after one."""
        values = {phase: self.evaluation.values(phase) for phase in PHASES}
        return {phase: own for phase, own in values.items() if not all(np.isnan(each).all() for each in own.values())}

    @cached_property
    def versus(self) -> dict[str, dict[str, dict[str, Finding]]]:
        """By reference, phase and learner: every learner on fresh seeds against the reference's rule with the same
        optimizer. p-values have Holm's correction for all learners with the same reference and phase."""
        return {rule: self._against(rule) for rule in (BACKPROP, FROZEN)}

    def _against(self, rule: str) -> dict[str, dict[str, Finding]]:
        infos = {name: self.infos[name] for name in self.evaluation.records}
        others = {info.optimizer: name for name, info in reversed(infos.items()) if info.rule == rule}
        against = {
            name: others[info.optimizer]
            for name, info in infos.items()
            if info.rule != rule and info.optimizer in others
        }
        by_phase = {phase: compare(values, against) for phase, values in self.by_phase.items()}
        return {phase: {each.learner: each for each in found} for phase, found in by_phase.items()}

    def findings(self, pairs: Mapping[str, str], phase: str = "all") -> list[Finding]:
        """Learners compared with others on fresh seeds: those of `versus`, and the rest together."""
        known = [own.get(phase, {}).get(learner) for learner in pairs for own in self.versus.values()]
        found = {each.learner: each for each in known if each and each.reference == pairs[each.learner]}
        further = {learner: reference for learner, reference in pairs.items() if learner not in found}
        found |= {each.learner: each for each in compare(self.evaluation.values(phase), further)}
        return [found[learner] for learner in pairs]

    def best_of(self, names: Iterable[str]) -> str | None:
        """The best of these learners on the sweep's seeds, which have no part in what fresh seeds say."""
        return min(names, key=lambda name: self.learners[name].choice.rank, default=None)

    def diverged_at(self, name: str) -> list[int]:
        """The steps at which runs of a learner diverged, at any setting."""
        mine = [block for block in self.blocks if block.identity in self.learners[name].grid.points]
        return [at for block in mine for at in block.diverged_at.tolist() if at >= 0]


def read_results(store: str | Path, blocks: Sequence[BlockResult] | None = None, title: str = "") -> SweepResults:
    """The results in a store, whose blocks may be given."""
    grids, blocks = read_store(Path(store)) if blocks is None else (read_header(Path(store))[1], blocks)
    found = {grid.name: (grid, scores(grid, blocks)) for grid in grids}
    learners = {name: TunedLearner(*each, choice) for name, each in found.items() if (choice := choose(*each))}
    if not learners:
        raise ValueError(f"{str(store)!r} must hold runs to plot, got a sweep of which none is done")
    evaluation = evaluated([(each.grid, each.choice) for each in learners.values()], blocks)
    return SweepResults(learners, evaluation, blocks, title)


def reference_of(name: str, infos: Mapping[str, LearnerInfo]) -> str | None:
    """The reference of a learner: backprop with its optimizer and its replacement, else with its optimizer, else
    any backprop, else the first learner; backprop that replaces units, with backprop that does not. None for that
    learner itself, and for backprop."""
    own = infos[name]
    backprop = [each for each, info in infos.items() if info.rule == BACKPROP]
    if name in backprop:
        backprop = [each for each in backprop if infos[each].replacement == NONE != own.replacement]
        if not backprop:
            return None
    same = [each for each in backprop if infos[each].optimizer == own.optimizer]
    alike = [each for each in same if infos[each].replacement == own.replacement]
    reference = next(iter([*alike, *same, *backprop, *infos]))
    return None if reference == name else reference


def relative_mean(streams: Mapping[str, Values], reference: str) -> "dict[str, xarray.DataArray]":
    """One number per seed for every learner: the mean over streams of its error, with the reference's mean there as the
    unit. They are NaN if there is no such unit, as where the reference diverged."""
    total: dict[str, xarray.DataArray] = {}
    for values in streams.values():
        mean = float(values[reference].mean())
        unit = mean * len(streams) if 0 < mean < np.inf else np.nan
        for name, own in values.items():
            total[name] = total[name] + own / unit if name in total else own / unit
    return total


def value_text(value: Any, below: float = 0.2) -> str:
    """The value of an axis as text: powers of 2 `below` a number, also by quarters, as such; None as what it stands
    for."""
    if value is None:
        return "as step_size"
    if isinstance(value, tuple):
        return str(value_label(value))
    if isinstance(value, float) and 0 < value < below:
        power = round(4 * float(np.log2(value))) / 4
        if np.isclose(value, 2**power, rtol=1e-9, atol=0):
            return "2" + f"{power:g}".translate(RAISED)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _joined(records: "list[xarray.Dataset]") -> "xarray.Dataset":
    """One Dataset with the dim `learner`, as `run` returns, with the seeds and steps that all have in common."""
    import xarray

    bare = [each[[str(name) for name, own in each.items() if {*own.dims} <= {"seed", "step"}]] for each in records]
    bare = [each.drop_vars([name for name in each.coords if name not in ("learner", "seed", "step")]) for each in bare]
    joined = xarray.concat(bare, "learner", join="inner", combine_attrs="drop")
    first = records[0].sel(step=joined.step.values)
    return joined.assign_coords({name: ("step", first[name].values) for name in ("window", "task")})


class LearnerStatus(NamedTuple):
    """The runs of one learner; the time left is None while it is unknown."""

    learner: str
    done: int
    missing: int
    diverged: int
    seconds_left: float | None


def status(store: str | Path) -> tuple[list[LearnerStatus], str | None]:
    """Progress of the last call's sweep: blocks done and missing, with an estimate of the time left; and the process
    that writes to the store now, if any. If the sweep had an evaluation, the fresh seeds of the best settings count
    too."""
    grids, stored = read_store(Path(store))
    learners = []
    for grid in grids:
        tuning, fresh = {*grid.seeds}, {*grid.evaluation}
        mine = [block for block in stored if block.name == grid.name]
        ours = [block for block in mine if block.identity in grid.points]
        runs = [run for each in ours for run in zip(each.seeds.tolist(), each.diverged_at.tolist(), strict=True)]
        of_fresh = [at for seed, at in runs if seed in fresh][: len(fresh)]
        diverged_at = [at for seed, at in runs if seed in tuning] + of_fresh
        missing = len(grid.points) * len(tuning) + len(fresh) - len(diverged_at)
        known = mine or stored
        seconds = sum(block.seconds for block in known) / sum(len(block.seeds) for block in known) if known else None
        left = 0.0 if not missing else seconds and missing * seconds
        learners.append(LearnerStatus(grid.name, len(diverged_at), missing, sum(at >= 0 for at in diverged_at), left))
    return learners, lock_holder(Path(store) / "lock")
