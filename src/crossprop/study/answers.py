"""What a study finds: every tuned learner against tuned backprop and tuned frozen with the same optimizer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop._support.formats import listed, upper_first
from crossprop.costs import Cost
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.questions import Answer, common_verdict
from crossprop.experiments.results import SweepResults, TunedLearner
from crossprop.experiments.words import sentence_list
from crossprop.records import PHASES, LearnerInfo
from crossprop.statistics import Estimate, finite_mean_interval

if TYPE_CHECKING:
    import xarray

BACKPROP, FROZEN, FORESIGHT, HINDSIGHT, REPLAY = "backprop", "frozen", "foresight", "hindsight", "backprop-replay"
RELU, SHALLOW, ONE_TASK = "relu", "shallow", "one-task"
"""Stages with questions of their own, besides the first."""
WITH_MATRICES = ("crossprop", "crossprop-projected", "crossprop-sum")
EFFECTS = {"yes": "helps with", "no": "hurts with", "no difference shown": "makes no difference that shows with"}
QUOTED = ("best", "learning-features")
"""How the ids of the answers begin that the conclusion quotes."""


class Row(NamedTuple):
    """A tuned learner on fresh seeds: by phase, its mean and its comparisons, with backprop and with frozen."""

    learner: str
    rule: str
    optimizer: str
    swept: TunedLearner
    estimates: dict[str, Estimate]
    versus: dict[str, dict[str, Finding]]
    """Comparisons by reference, then by phase; a learner is not compared with itself."""
    drift: Estimate
    """The distance of the incoming weights from their initial values at the end of the run."""

    @property
    def is_crossprop(self) -> bool:
        """Whether the rule is one of crossprop's."""
        return self.rule.startswith("crossprop")


class Result(NamedTuple):
    """A column of a study that is done."""

    title: str
    sweep: SweepResults
    rows: list[Row]

    def best(self, optimizer: str, *rules: str) -> Row | None:
        """The best of these rules with this optimizer, on the sweep's seeds."""
        return best_of([row for row in self.rows if row.optimizer == optimizer and row.rule in rules])

    @property
    def optimizers(self) -> list[str]:
        """The optimizers, in the order of the rows."""
        return list(dict.fromkeys(row.optimizer for row in self.rows))


def rows_of(sweep: SweepResults) -> list[Row]:
    """The table of a column, from the best settings on fresh seeds; rows with the same optimizer are together. A column
    without a switch has no phase after one."""
    evaluation = sweep.evaluation
    infos = {name: sweep.learners[name].info for name in evaluation.records}
    values = {phase: evaluation.values(phase) for phase in PHASES}
    values = {phase: own for phase, own in values.items() if not all(np.isnan(each).all() for each in own.values())}
    versus = _comparisons(values, infos)
    optimizers = [info.optimizer for info in infos.values()]
    rows = []
    for name, info in sorted(infos.items(), key=lambda item: optimizers.index(item[1].optimizer)):
        estimates = {phase: finite_mean_interval(own[name].values) for phase, own in values.items()}
        moved = evaluation.records[name].get("incoming_drift")
        drift = finite_mean_interval(np.array([]) if moved is None else moved.isel(step=-1).values)
        rows.append(Row(name, info.rule, info.optimizer, sweep.learners[name], estimates, versus[name], drift))
    return rows


def _comparisons(
    values: "dict[str, dict[str, xarray.DataArray]]", infos: dict[str, LearnerInfo]
) -> dict[str, dict[str, dict[str, Finding]]]:
    """By learner, reference and phase: the learner against the reference rule with the same optimizer."""
    versus: dict[str, dict[str, dict[str, Finding]]] = {name: {} for name in infos}
    for reference in (BACKPROP, FROZEN):
        others = {info.optimizer: name for name, info in reversed(infos.items()) if info.rule == reference}
        against = {
            name: others[info.optimizer]
            for name, info in infos.items()
            if info.rule != reference and info.optimizer in others
        }
        for phase, own in values.items():
            for each in compare(own, against):
                versus[each.learner].setdefault(reference, {})[phase] = each
    return versus


def answers(columns: Mapping[str, Result], costs: Mapping[str, Cost]) -> list[Answer]:
    """Answers the questions of the study. Among several rules one is chosen on the sweep's seeds; all numbers are from
    fresh seeds."""
    first, main = next(iter(columns.items()))
    rules = {row.rule for row in main.rows if row.is_crossprop}
    crossprop = [best for each in main.optimizers if (best := main.best(each, *rules)) and BACKPROP in best.versus]
    foresight = [best for each in main.optimizers if (best := main.best(each, FORESIGHT)) and BACKPROP in best.versus]
    found = [
        _against(f"crossprop-{row.optimizer}", f"Does crossprop credit help with {row.optimizer}?", row, BACKPROP)
        for row in crossprop
    ]
    found += [
        _against(f"foresight-{row.optimizer}", f"Does foresight help with {row.optimizer}?", row, BACKPROP)
        for row in foresight
    ]
    found += [
        *_better_than_the_best(main, crossprop, "crossprop"),
        *_better_than_the_best(main, foresight, "foresight"),
        *_instead_of_matrices(main, foresight, costs),
        *_in_column(columns, SHALLOW, "Does foresight go on helping with depth?", beside=first),
        *_in_column(columns, RELU, "Does foresight help with relu units?"),
        *_in_column(columns, ONE_TASK, "Does foresight help without any switch of task?"),
        *_all_layers_or_the_top(main),
        *_hindsight(main),
    ]
    if crossprop:
        records = main.sweep.evaluation.records
        moved = {name: each.incoming_drift.isel(step=-1) for name, each in records.items()}
        found += [_adapts(crossprop, "crossprop"), _moves(crossprop, moved)]
    return [*found, _adapts(foresight, FORESIGHT)] if foresight else found


def conclusions(columns: Mapping[str, Result], found: list[Answer]) -> list[str]:
    """What a study found, in sentences to quote: with which optimizers crossprop credit and foresight help, and how the
    best of each compares with the best backprop and with frozen features."""
    main = next(iter(columns.values()))
    rules = {row.rule for row in main.rows if row.is_crossprop}
    said = []
    for name, wanted in (("crossprop credit", rules), ("foresight", {FORESIGHT})):
        effects: dict[str, list[str]] = {}
        for optimizer in main.optimizers:
            best = main.best(optimizer, *wanted)
            if best and BACKPROP in best.versus:
                effects.setdefault(EFFECTS[best.versus[BACKPROP]["all"].verdict], []).append(optimizer)
        words = [f"{effect} {listed(effects[effect])}" for effect in EFFECTS.values() if effect in effects]
        said += [f"Both tuned, {name} instead of backprop {listed(words)}."] * bool(words)
    quoted = [answer for answer in found if answer.id.startswith(QUOTED)] or found
    return said + [answer.why for answer in quoted]


def _better_than_the_best(main: Result, bests: list[Row], name: str) -> list[Answer]:
    """The best with any optimizer against the best backprop with any optimizer, and against frozen features."""
    tuned, plain = best_of(bests), best_of([row for row in main.rows if row.rule == BACKPROP])
    if not tuned or not plain:
        return []
    overall = tuned.versus.get(BACKPROP, {}).get("all")
    if overall is None or overall.reference != plain.learner:
        overall = compare(main.sweep.evaluation.values(), {tuned.learner: plain.learner})[0]
    question = f"Is the best {name} better than the best backprop, each with its best optimizer?"
    found = [_answer(f"best-{name}", question, overall)]
    if FROZEN in tuned.versus:
        found.append(
            _against(f"learning-features-{name}", f"Is {name} better than not learning features at all?", tuned, FROZEN)
        )
    return found


def _instead_of_matrices(main: Result, foresight: list[Row], costs: Mapping[str, Cost]) -> list[Answer]:
    pairs = {row.learner: rival.learner for row in foresight if (rival := main.best(row.optimizer, *WITH_MATRICES))}
    if not pairs:
        return []
    comparisons = compare(main.sweep.evaluation.values(), pairs)
    plain = next((costs[row.learner] for row in main.rows if row.rule == BACKPROP and row.learner in costs), None)
    words = [
        f"{row.learner} takes {costs[row.learner].microseconds / plain.microseconds:.2f} times backprop's time for a "
        f"step and keeps {costs[row.learner].numbers / plain.numbers:.2f} times its numbers"
        for row in main.rows
        if plain and row.learner in costs and (row.rule == FORESIGHT or row.rule in WITH_MATRICES)
    ]
    why = f"{_list(comparisons)} Of one run alone, {'; '.join(words)}."
    question = "Does foresight give at least what memory matrices give, and at which cost?"
    return [Answer("matrices", question, common_verdict(comparisons), why)]


def _in_column(columns: Mapping[str, Result], name: str, question: str, beside: str | None = None) -> list[Answer]:
    """Foresight against backprop in another column; the verdict is that of `beside` if it is given."""
    if name not in columns:
        return []
    told, decided = [], []
    for each in dict.fromkeys((name, beside or name)):
        column = columns[each]
        rows = [row for optimizer in column.optimizers if (row := column.best(optimizer, FORESIGHT))]
        comparisons = [row.versus[BACKPROP]["all"] for row in rows if BACKPROP in row.versus]
        told.append(f"{column.title}: {_list(comparisons)}")
        if each == (beside or name):
            decided = comparisons
    return [Answer(name, question, common_verdict(decided), " ".join(told))] if decided else []


def _all_layers_or_the_top(main: Result) -> list[Answer]:
    found = {row.learner: row for row in main.rows if row.rule == FORESIGHT}
    pairs = {
        name: top for name, row in found.items() if (top := f"foresight-top-{row.optimizer}") in found and top != name
    }
    if not pairs:
        return []
    comparisons = compare(main.sweep.evaluation.values(), pairs)
    question = "Is looking ahead in all layers better than in the output layer alone?"
    return [Answer("all-layers", question, common_verdict(comparisons), _list(comparisons))]


def _hindsight(main: Result) -> list[Answer]:
    """Hindsight against backprop, and against replay, which sees as many examples."""
    rows = [row for row in main.rows if row.rule == HINDSIGHT and BACKPROP in row.versus]
    others = {row.optimizer: row.learner for row in main.rows if row.rule == REPLAY}
    pairs = {row.learner: others[row.optimizer] for row in rows if row.optimizer in others}
    if not pairs:
        return []
    controlled = compare(main.sweep.evaluation.values(), pairs)
    plain = [row.versus[BACKPROP]["all"] for row in rows]
    return [
        Answer(id, question, common_verdict(comparisons), _list(comparisons))
        for id, question, comparisons in (
            ("hindsight", "Does it help to wait for the weights to come (hindsight)?", plain),
            ("hindsight-replay", "Is it better than replay, which sees as many examples?", controlled),
        )
    ]


def _list(comparisons: list[Finding], phase: str = "all") -> str:
    """Comparisons in a sentence."""
    return sentence_list(comparisons, f"error {PHASES[phase]}")


def best_of(rows: list[Row]) -> Row | None:
    """The row that is best on the sweep's seeds."""
    return min(rows, key=lambda row: row.swept.choice.rank, default=None)


def _against(id: str, question: str, row: Row, reference: str) -> Answer:
    answer = _answer(id, question, row.versus[reference]["all"])
    return replace(answer, why=f"{answer.why} Its setting: {row.swept.setting(' (edge of the grid)')}.")


def _answer(id: str, question: str, comparison: Finding) -> Answer:
    return Answer(id, question, comparison.verdict, _list([comparison]))


def _adapts(bests: list[Row], name: str) -> Answer:
    comparisons = [row.versus[BACKPROP]["switch"] for row in bests]
    return Answer(
        f"adapts-{name}",
        f"Does {name} adapt faster when the task changes?",
        common_verdict(comparisons),
        _list(comparisons, "switch"),
    )


def _moves(bests: list[Row], moved: "Mapping[str, xarray.DataArray]") -> Answer:
    """Whether U ends nearer to where it started, paired over seeds like errors."""
    comparisons = compare(moved, {row.learner: row.versus[BACKPROP]["all"].reference for row in bests})
    why = "; ".join(each.sentence("movement of U by the end") for each in comparisons)
    return Answer(
        "moves", "Do the features of crossprop move less?", common_verdict(comparisons), f"{upper_first(why)}."
    )
