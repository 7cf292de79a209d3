"""The answer of a sweep: the best setting of every learner, what it reached, and how that compares with backprop."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.records import NONE, LearnerInfo, learner_info
from crossprop.statistics import Estimate, finite_mean_interval
from crossprop.sweeps.blocks import StoredBlock
from crossprop.sweeps.evaluate import Choice, Comparison, choose, compare, evaluated, scores
from crossprop.sweeps.grid import Grid
from crossprop.sweeps.store import read_store

if TYPE_CHECKING:
    import xarray

BACKPROP_AT = {"Crossprop": ("eta", 1), "CrosspropApprox": ("eta", 1), "Foresight": ("ahead", 0)}
"""The hyperparameter, and its value, that turns a rule into backprop, by the class of the rule."""


class LearnerAnswer(NamedTuple):
    """What a sweep says about one learner."""

    learner: str
    choice: Choice
    axes: tuple[str, ...]
    """The axes with several values."""
    estimate: Estimate
    """The mean over all steps and seeds of the best setting; infinite if one of them diverged."""
    seeds: int
    is_backprop: str | None
    """The hyperparameter whose best value makes this rule backprop."""
    comparison: Comparison | None
    """The comparison with the learner that `reference_of` chooses."""
    diverged: int
    """Runs of all settings that diverged."""
    diverged_at: int
    """The earliest step of those."""


class SweepAnswer(NamedTuple):
    """What a sweep says about all learners that have runs; `fresh` tells whether on the seeds of an evaluation."""

    learners: list[LearnerAnswer]
    measure: str
    """The variable that is compared: `loss`, or `error` where there are classes."""
    fresh: bool


def answer_of(store: str | Path) -> SweepAnswer:
    """The best settings in a store: on fresh seeds if all learners have been evaluated, else on the sweep's own, where
    the best of many settings looks better than it is."""
    header, blocks = read_store(Path(store))
    found = {grid.name: (grid, choice) for grid in header.grids if (choice := choose(grid, blocks)) is not None}
    grids = [grid for grid, _ in found.values()]
    evaluation = evaluated(grids, header.record_every, blocks)
    fresh = bool(found) and evaluation.records.keys() == found.keys()
    own = {name: _at_best(grid, choice, blocks) for name, (grid, choice) in found.items()}
    values = evaluation.values() if fresh else own
    infos = {name: learner_info(grid.learner | choice.point) for name, (grid, choice) in found.items()}
    references = {
        name: reference
        for name in infos
        if (reference := reference_of(name, infos)) and {*values[name].seed.values} & {*values[reference].seed.values}
    }
    compared = {each.learner: each for each in compare(values, references)}
    answers = [
        _answer(grid, choice, values[name].values, compared.get(name), blocks) for name, (grid, choice) in found.items()
    ]
    measure = str(next(iter(own.values())).name) if own else "loss"
    return SweepAnswer(answers, measure, fresh)


def reference_of(name: str, infos: dict[str, LearnerInfo]) -> str | None:
    """What a learner is compared with: backprop with its optimizer and its replacement, else with its optimizer, else
    any backprop, else the first learner; backprop that replaces units, with backprop that does not. None for that
    learner itself, and for backprop."""
    own = infos[name]
    backprop = [each for each, info in infos.items() if info.rule == "backprop"]
    if name in backprop:
        backprop = [each for each in backprop if infos[each].replacement == NONE != own.replacement]
        if not backprop:
            return None
    same = [each for each in backprop if infos[each].optimizer == own.optimizer]
    alike = [each for each in same if infos[each].replacement == own.replacement]
    reference = next(iter([*alike, *same, *backprop, *infos]))
    return None if reference == name else reference


def backprop_at(configuration: dict[str, Any]) -> str | None:
    """The hyperparameter that makes a learner with this configuration backprop, or None."""
    name, value = BACKPROP_AT.get(configuration.get("type", ""), ("", None))
    return name if name and configuration.get(name) == value else None


def _at_best(grid: Grid, choice: Choice, blocks: Sequence[StoredBlock]) -> "xarray.DataArray":
    """The scores of the best setting by seed, without those that are not there yet."""
    all_scores = scores(grid, blocks)
    place = list(grid.points.values()).index(choice.point)
    row = all_scores.values.reshape(-1, all_scores.sizes["seed"])[place]
    alone = all_scores.isel(dict.fromkeys(grid.over, 0), drop=True).copy(data=row)
    return alone.isel(seed=np.flatnonzero(~np.isnan(row)))


def _answer(
    grid: Grid, choice: Choice, values: np.ndarray, comparison: Comparison | None, blocks: Sequence[StoredBlock]
) -> LearnerAnswer:
    diverged_at = [
        at for block in blocks if block.identity in grid.points for at in block.diverged_at.tolist() if at >= 0
    ]
    return LearnerAnswer(
        grid.name,
        choice,
        tuple(axis for axis, each in grid.over.items() if len(each) > 1),
        finite_mean_interval(values),
        len(values),
        backprop_at(grid.learner | choice.point),
        comparison,
        len(diverged_at),
        min(diverged_at, default=-1),
    )
