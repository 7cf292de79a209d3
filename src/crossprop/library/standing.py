"""Where every learner of an arena stands: its rank and its difference to the reference, on each stream and overall."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop.costs import Cost
from crossprop.experiments.evaluate import Choice
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.looks import is_control
from crossprop.experiments.results import SweepResults
from crossprop.records import NONE, LearnerInfo
from crossprop.statistics import Estimate

if TYPE_CHECKING:
    import xarray

CREDIT, STEP, REPLACEMENT, SEVERAL, OTHER = "credit", "step", "replacement", "several", "other"
QUESTIONS = {CREDIT: "the credit", STEP: "the step", REPLACEMENT: "the replacement"}
"""What a learner can have other than the reference, in the order of `LearnerInfo`."""
CONTROLS = ("random",)
"""Replacements that others are compared with."""
RESAMPLES = 2000

Values = Mapping[str, "xarray.DataArray"]


class Standing(NamedTuple):
    """A stream, or all of them together, once every learner is tuned and judged."""

    title: str
    values: "dict[str, xarray.DataArray]"
    """One number per fresh seed for every learner, in the order of the list."""
    ranks: dict[str, Estimate]
    """Ranks by the mean over fresh seeds, with a bootstrap interval; overall, the mean rank."""
    versus: dict[str, Finding]
    """Every other learner against the reference."""


class Results(NamedTuple):
    """All that an arena found."""

    reference: str
    infos: dict[str, LearnerInfo]
    streams: dict[str, Standing]
    overall: Standing
    choices: dict[str, dict[str, Choice]]
    """The best settings by stream and learner, chosen on the sweep's seeds."""
    costs: dict[str, dict[str, Cost]]
    """Costs by stream and learner."""
    own: tuple[str, ...] = ()
    """The learners whose classes are not of this package."""

    def questions(self, learner: str) -> tuple[str, ...]:
        """What this learner answers other than the reference: its credit, step or replacement, or several."""
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
        return is_control(info) or info.replacement in CONTROLS

    def only(self, question: str) -> list[str]:
        """The learners that answer only this question other than the reference, without controls."""
        return [
            name
            for name in self.infos
            if name != self.reference and self.questions(name) == (question,) and not self.is_control(name)
        ]

    @property
    def random_replacement(self) -> list[str]:
        """The reference with units replaced at random, which others are compared with."""
        plain = self.infos[self.reference]
        wanted = [plain._replace(replacement=control) for control in CONTROLS]
        return [name for name, info in self.infos.items() if info in wanted]

    def best(self, stream: str, learners: Sequence[str]) -> str:
        """The best of these learners on the sweep's seeds, which had no part in its numbers on fresh seeds."""
        return min(learners, key=lambda name: self.choices[stream][name].rank)

    def best_throughout(self, learners: Sequence[str]) -> str:
        """The best of these learners on the sweep's seeds over all streams, with the reference's error as the unit of
        each."""
        unit = {name: choices[self.reference].mean or 1.0 for name, choices in self.choices.items()}

        def place(learner: str) -> tuple[int, float]:
            own = {name: choices[learner] for name, choices in self.choices.items()}
            return sum(each.diverged for each in own.values()), sum(own[name].mean / unit[name] for name in own)

        return min(learners, key=place)

    def cost(self, learner: str) -> float:
        """Microseconds per step, the geometric mean over streams."""
        return float(np.exp(np.mean([np.log(costs[learner].microseconds) for costs in self.costs.values()])))

    @property
    def ranked(self) -> list[str]:
        """The learners by their mean rank over all streams."""
        return sorted(self.infos, key=lambda name: float(self.overall.ranks[name].mean))


def results_of(
    reference: str,
    sweeps: Mapping[str, SweepResults],
    costs: Mapping[str, dict[str, Cost]],
    own: Sequence[str],
) -> Results:
    """The results from the sweeps and the costs of the streams; `own` are the learners whose classes are
    not of this package."""
    first = next(iter(sweeps.values()))
    values = {
        name: {learner: sweep.evaluation.values()[learner] for learner in first.learners}
        for name, sweep in sweeps.items()
    }
    choices = {
        name: {learner: swept.choice for learner, swept in sweep.learners.items()} for name, sweep in sweeps.items()
    }
    streams, overall = standings(reference, {name: sweep.title for name, sweep in sweeps.items()}, values)
    return Results(reference, first.infos, streams, overall, choices, {**costs}, tuple(own))


def standings(
    reference: str, titles: Mapping[str, str], values: "Mapping[str, dict[str, xarray.DataArray]]"
) -> tuple[dict[str, Standing], Standing]:
    """The standing on every stream and overall, from the values of learners by stream."""

    def standing(title: str, own: "dict[str, xarray.DataArray]", samples: Sequence[np.ndarray]) -> Standing:
        ranks = dict(zip(own, rank_estimates(samples), strict=True))
        pairs = {name: reference for name in own if name != reference}
        return Standing(title, own, ranks, {each.learner: each for each in compare(own, pairs)})

    samples = {name: np.stack([*_common(own).values()]) for name, own in values.items()}
    streams = {name: standing(titles[name], own, [samples[name]]) for name, own in values.items()}
    return streams, standing("Overall", relative_mean(values, reference), [*samples.values()])


def _common(values: Values) -> dict[str, np.ndarray]:
    """The values of the seeds that all learners have."""
    seeds = sorted(set.intersection(*({*own.seed.values.tolist()} for own in values.values())))
    return {name: own.sel(seed=seeds).values for name, own in values.items()}


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
