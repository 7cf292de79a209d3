"""Ranks of the learners of an arena, and their differences to the reference, on each stream and overall."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop._support.formats import fixed, plural
from crossprop.costs import Cost
from crossprop.descriptions import nested
from crossprop.experiments import SweepSpec
from crossprop.experiments.evaluate import scores
from crossprop.experiments.experiment import Experiment
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.looks import CONTROLS
from crossprop.experiments.results import SweepResults, Values, read_results, relative_mean
from crossprop.records import NONE, LearnerInfo
from crossprop.statistics import Estimate

if TYPE_CHECKING:
    import xarray

CREDIT, STEP, REPLACEMENT, SEVERAL, OTHER = "credit", "step", "replacement", "several", "other"
QUESTIONS = {CREDIT: "the credit", STEP: "the step", REPLACEMENT: "the replacement"}
"""The parts in which a learner can differ from the reference, in the order of `LearnerInfo`."""
RANDOM = "random"
"""The replacement that others are compared with."""
RESAMPLES = 2000
UNTUNED = "untuned"
"""The folder, within that of an arena, of the division in which nothing is tuned."""
OVERALL = "overall"


class Price(NamedTuple):
    """The error of the best setting against that of two others: less than 0 is less error."""

    median: float
    """Against the median setting of the list's grid, on the seeds of the tuning, in percent: -100 if that diverged, and
    NaN if the best did."""
    default: Finding | None
    """Against the default, on fresh seeds; None if that was not run."""


Pair = tuple["xarray.DataArray", "xarray.DataArray"]
"""One value per fresh seed of the best setting, and of the default."""
Prices = Mapping[str, Mapping[str, Price]]
"""By stream, or `OVERALL` for the mean over all of them, and by learner."""


class Standing(NamedTuple):
    """A stream, or all of them together, once every learner is tuned and judged."""

    title: str
    values: "dict[str, xarray.DataArray]"
    """One number per fresh seed for every learner, in the order of the list."""
    ranks: dict[str, Estimate]
    """Ranks by the mean over fresh seeds, with a bootstrap interval; overall, the mean rank."""
    versus: dict[str, Finding]
    """Every other learner against the reference."""


@dataclass(frozen=True)
class Results:
    """All that an arena found; `own` are the learners whose classes are not of this package."""

    reference: str
    sweeps: Mapping[str, SweepResults]
    costs: Mapping[str, Mapping[str, Cost]]
    own: Sequence[str] = ()
    prices: Prices = field(default_factory=dict)
    """The gain by tuning, by stream and learner; empty in the untuned division."""
    untuned: bool = False

    @property
    def opponent(self) -> str:
        """The reference, and whether it is tuned."""
        return f"{'untuned' if self.untuned else 'tuned'} {self.reference}"

    @cached_property
    def infos(self) -> dict[str, LearnerInfo]:
        """The credit rule, optimizer and replacement of every learner, in the order of the list."""
        return next(iter(self.sweeps.values())).infos

    @cached_property
    def streams(self) -> dict[str, Standing]:
        """The ranking of the learners on each stream."""
        return {name: self._standing(each.title, self._values[name], name) for name, each in self.sweeps.items()}

    @cached_property
    def overall(self) -> Standing:
        """The ranking over all streams."""
        return self._standing("Overall", relative_mean(self._values, self.reference), *self.sweeps)

    @cached_property
    def _values(self) -> "dict[str, dict[str, xarray.DataArray]]":
        values = {name: each.evaluation.values() for name, each in self.sweeps.items()}
        return {name: {learner: own[learner] for learner in self.infos} for name, own in values.items()}

    def _standing(self, title: str, values: "dict[str, xarray.DataArray]", *streams: str) -> Standing:
        ranks = rank_estimates([np.stack([*_common(self._values[name]).values()]) for name in streams])
        found = compare(values, {name: self.reference for name in values if name != self.reference})
        return Standing(title, values, dict(zip(values, ranks, strict=True)), {each.learner: each for each in found})

    def questions(self, learner: str) -> tuple[str, ...]:
        """The parts in which this learner differs from the reference: credit, step, replacement, or several."""
        own, plain = self.infos[learner], self.infos[self.reference]
        return tuple(name for name, mine, its in zip(QUESTIONS, own, plain, strict=True) if mine != its)

    def group(self, learner: str) -> str:
        """The question that this learner answers other than the reference does, or `several`. It is `other` if the
        learner is not a credit rule, or has the reference's rule, optimizer and replacement with other settings."""
        found = self.questions(learner)
        if not found or self.infos[learner].optimizer == NONE:
            return OTHER
        return found[0] if len(found) == 1 else SEVERAL

    def is_control(self, learner: str) -> bool:
        """Whether others are compared with this learner to see what they owe to learning."""
        info = self.infos[learner]
        return info.rule in CONTROLS or info.replacement == RANDOM

    def only(self, question: str, *, controls: bool = False) -> list[str]:
        """The learners that answer only this question other than the reference: without controls, or these alone."""
        return [
            name
            for name in self.infos
            if name != self.reference and self.questions(name) == (question,) and self.is_control(name) == controls
        ]

    def diverged(self, learner: str, *streams: str) -> int:
        """On how many fresh seeds of these streams, or of all, a learner diverged."""
        return sum(int(np.isinf(self.streams[name].values[learner]).sum()) for name in streams or self.streams)

    def best(self, stream: str, learners: Sequence[str]) -> str:
        """The best of these learners on the sweep's seeds, which had no part in its numbers on fresh seeds."""
        return str(self.sweeps[stream].best_of(learners))

    def best_throughout(self, learners: Sequence[str]) -> str:
        """The best of these learners on the sweep's seeds over all streams, with the reference's error as the unit of
        each."""
        choices = [{name: own.choice for name, own in each.learners.items()} for each in self.sweeps.values()]

        def place(learner: str) -> tuple[int, float]:
            means = [own[learner].mean / (own[self.reference].mean or 1.0) for own in choices]
            return sum(own[learner].diverged for own in choices), sum(means)

        return min(learners, key=place)

    def cost(self, learner: str) -> float:
        """Microseconds per step, the geometric mean over streams."""
        return float(np.exp(np.mean([np.log(costs[learner].microseconds) for costs in self.costs.values()])))

    @property
    def ranked(self) -> list[str]:
        """The learners by their mean rank over all streams."""
        return sorted(self.infos, key=lambda name: float(self.overall.ranks[name].mean))


def _common(values: Values) -> dict[str, np.ndarray]:
    """The values of the seeds that all learners have."""
    seeds = sorted(set.intersection(*({*own.seed.values.tolist()} for own in values.values())))
    return {name: own.sel(seed=seeds).values for name, own in values.items()}


def rank_estimates(samples: Sequence[np.ndarray]) -> list[Estimate]:
    """The rank of every learner by its mean over seeds, averaged over `samples (learners, seeds)`, one for each stream,
    with a percentile bootstrap interval. Learners of which a seed diverged come last; equal ones share a rank."""
    generator = np.random.default_rng(0)
    drawn = []
    for values in samples:
        seeds = values.shape[1]
        shares = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
        means = (
            np.where(np.isinf(values).any(axis=1), np.inf, 0)[None]
            + shares @ np.where(np.isfinite(values), values, 0).T
        )
        drawn.append(_ranks(means))
    low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975], axis=0)
    mean = np.mean([_ranks(values.mean(axis=1)[None])[0] for values in samples], axis=0)
    return [Estimate(*each) for each in zip(mean, low, high, strict=True)]


def _ranks(means: np.ndarray) -> np.ndarray:
    """The ranks in every row, from 1 for the least."""
    from scipy.stats import rankdata

    return rankdata(means, axis=1)


def parts_of(results: Results, learner: str) -> list[str]:
    """The learners of the list that lack one of the several things that this one has other than the reference."""
    own, plain = results.infos[learner], results.infos[results.reference]
    questions = results.questions(learner)
    if len(questions) < 2:
        return []
    fields = dict(zip(QUESTIONS, LearnerInfo._fields, strict=True))
    wanted = [own._replace(**{fields[each]: getattr(plain, fields[each])}) for each in questions]
    found = {info: name for name, info in reversed(results.infos.items())}
    parts = [found[info] for info in wanted if info in found]
    return parts if len(parts) == len(wanted) else []


# The price of tuning: what the best setting of a learner gains over its median setting, and over its default.


def prices_of(arena: Experiment, sweeps: Mapping[str, SweepResults], untuned: Path) -> Prices:
    """The gains by tuning in an arena; `untuned` has the sweeps with default settings, if they were run."""
    medians = {name: _against_median(arena.stages[name].spec, sweep) for name, sweep in sweeps.items()}
    pairs = {name: _pairs(sweep, untuned / name) for name, sweep in sweeps.items()}
    everywhere = set.intersection(*(set(each) for each in pairs.values()))
    learners = next(iter(sweeps.values())).learners
    medians[OVERALL] = {name: float(np.mean([each[name] for each in medians.values()])) for name in learners}
    pairs[OVERALL] = {
        name: _together([each[name] for each in pairs.values()]) for name in learners if name in everywhere
    }
    defaults = {name: _against_default(each) for name, each in pairs.items()}
    return {
        name: {learner: Price(median, defaults[name].get(learner)) for learner, median in own.items()}
        for name, own in medians.items()
    }


def _against_median(spec: SweepSpec, sweep: SweepResults) -> dict[str, float]:
    """The best setting against the median of those that the list names, of an even number the better one in the middle,
    in percent, by learner."""
    found = {}
    for grid in spec.grids:
        values, choice = scores(grid, sweep.blocks), sweep.learners[grid.name].choice
        means = np.sort(values.values.reshape(-1, values.sizes["seed"]).mean(axis=1))
        median = float(means[(len(means) - 1) // 2])
        known = median > 0 and not choice.diverged
        found[grid.name] = 100 * (choice.mean / median - 1) if known else math.nan
    return found


def _pairs(sweep: SweepResults, store: Path) -> dict[str, Pair]:
    """The learners that were run with their defaults on the same stream, in the same network."""
    if not (store / "store.json").is_file():
        return {}
    untuned = read_results(store)
    best, default = sweep.evaluation.values(), untuned.evaluation.values()
    both = [name for name in best if name in default and _where(sweep, name) == _where(untuned, name)]
    return {name: (best[name], default[name]) for name in both}


def _where(sweep: SweepResults, name: str) -> tuple[object, ...]:
    """The settings that two runs must share to be compared."""
    grid = sweep.learners[name].grid
    return grid.stream, [*nested(grid.learner)][-1]["network"], grid.common["steps"], grid.record_every


def _together(pairs: Sequence[Pair]) -> Pair:
    """The mean over streams, with the mean error of the default there as the unit."""
    units = [float(default.mean()) for _, default in pairs]
    best, default = (sum(pair[at] / unit for pair, unit in zip(pairs, units, strict=True)) for at in (0, 1))
    return best, default  # pyright: ignore[reportReturnType]


def _against_default(pairs: Mapping[str, Pair]) -> dict[str, Finding]:
    values = {name: best for name, (best, _) in pairs.items()}
    values |= {f"{name} by default": default for name, (_, default) in pairs.items()}
    return {each.learner: each for each in compare(values, {name: f"{name} by default" for name in pairs})}


def gains(overall: Mapping[str, Price]) -> list[str]:
    """The mean gain by tuning over learners and streams, in sentences."""
    medians = {name: price.median for name, price in overall.items()}
    defaults = {name: price.default.percent.mean for name, price in overall.items() if price.default}
    return [
        *_gain("the median setting of its grid, on the seeds of the tuning", medians),
        *_gain("the default, on fresh seeds", defaults),
    ]


def _gain(over: str, percents: Mapping[str, float]) -> list[str]:
    known = {name: -percent for name, percent in percents.items() if math.isfinite(percent)}
    if not known:
        return []
    least, most = min(known, key=lambda name: known[name]), max(known, key=lambda name: known[name])
    return [
        f"Of {plural(len(known), 'learner')}, the best setting has {fixed(float(np.mean([*known.values()])), 0)}% less "
        f"error than {over}: from {fixed(known[least], 0)}% ({least}) to {fixed(known[most], 0)}% ({most})."
    ]
