"""What a study finds: every tuned learner against tuned backprop and tuned frozen with the same optimizer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop._support.formats import listed
from crossprop.costs import Cost
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.questions import Answer, compared
from crossprop.experiments.results import SweepResults, TunedLearner
from crossprop.records import PHASES, LearnerInfo
from crossprop.statistics import Estimate, finite_mean_interval

if TYPE_CHECKING:
    import xarray

BACKPROP, FROZEN, CROSSPROP, FORESIGHT = "backprop", "frozen", "crossprop", "foresight"
HINDSIGHT, REPLAY = "hindsight", "backprop-replay"
CREDIT = {CROSSPROP: "crossprop credit", FORESIGHT: "foresight"}
"""What is asked about with every optimizer, and what it is called."""
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

    def bests(self, name: str) -> list[Row]:
        """For each optimizer, the best of crossprop's rules, or foresight, if it is compared with backprop."""
        rules = {row.rule for row in self.rows if (row.is_crossprop if name == CROSSPROP else row.rule == name)}
        optimizers = dict.fromkeys(row.optimizer for row in self.rows)
        found = [best for optimizer in optimizers if (best := self.best(optimizer, *rules))]
        return [row for row in found if BACKPROP in row.versus]

    def compared(self, pairs: Mapping[str, str]) -> list[Finding]:
        """Learners compared with others over all steps."""
        return compare(self.sweep.evaluation.values(), pairs)


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
    bests = {name: main.bests(name) for name in CREDIT}
    found = [
        _against(f"{name}-{row.optimizer}", f"Does {credit} help with {row.optimizer}?", row, BACKPROP)
        for name, credit in CREDIT.items()
        for row in bests[name]
    ]
    for name in CREDIT:
        found += _better_than_the_best(main, bests[name], name)
    found += [
        *_instead_of_matrices(main, bests[FORESIGHT], costs),
        *_in_column(columns, SHALLOW, "Does foresight go on helping with depth?", beside=first),
        *_in_column(columns, RELU, "Does foresight help with relu units?"),
        *_in_column(columns, ONE_TASK, "Does foresight help without any switch of task?"),
        *_all_layers_or_the_top(main),
        *_hindsight(main),
    ]
    for name in CREDIT:
        after_switches = [row.versus[BACKPROP]["switch"] for row in bests[name]]
        found += _answer(f"adapts-{name}", f"Does {name} adapt faster when the task changes?", after_switches, "switch")
        if name == CROSSPROP and bests[name]:
            records = main.sweep.evaluation.records
            moved = {learner: each.incoming_drift.isel(step=-1) for learner, each in records.items()}
            found.append(_moves(bests[name], moved))
    return found


def conclusions(columns: Mapping[str, Result], found: list[Answer]) -> list[str]:
    """What a study found, in sentences to quote: with which optimizers crossprop credit and foresight help, and how the
    best of each compares with the best backprop and with frozen features."""
    main, said = next(iter(columns.values())), []
    for name, credit in CREDIT.items():
        effects: dict[str, list[str]] = {effect: [] for effect in EFFECTS.values()}
        for row in main.bests(name):
            effects[EFFECTS[row.versus[BACKPROP]["all"].verdict]].append(row.optimizer)
        words = [f"{effect} {listed(optimizers)}" for effect, optimizers in effects.items() if optimizers]
        said += [f"Both tuned, {credit} instead of backprop {listed(words)}."] * bool(words)
    quoted = [answer for answer in found if answer.id.startswith(QUOTED)] or found
    return said + [answer.why for answer in quoted]


def best_of(rows: list[Row]) -> Row | None:
    """The row that is best on the sweep's seeds."""
    return min(rows, key=lambda row: row.swept.choice.rank, default=None)


def _answer(id: str, question: str, findings: Sequence[Finding], phase: str = "all") -> list[Answer]:
    """The common answer of several comparisons, if there are any."""
    return [compared(id, question, findings, f"error {PHASES[phase]}")] if findings else []


def _against(id: str, question: str, row: Row, reference: str) -> Answer:
    (answer,) = _answer(id, question, [row.versus[reference]["all"]])
    return replace(answer, why=f"{answer.why} Its setting: {row.swept.setting(' (edge of the grid)')}.")


def _better_than_the_best(main: Result, bests: list[Row], name: str) -> list[Answer]:
    """The best with any optimizer against the best backprop with any optimizer, and against frozen features."""
    tuned, plain = best_of(bests), best_of([row for row in main.rows if row.rule == BACKPROP])
    if not tuned or not plain:
        return []
    overall = tuned.versus[BACKPROP]["all"]
    if overall.reference != plain.learner:
        (overall,) = main.compared({tuned.learner: plain.learner})
    question = f"Is the best {name} better than the best backprop, each with its best optimizer?"
    found = _answer(f"best-{name}", question, [overall])
    if FROZEN in tuned.versus:
        question = f"Is {name} better than not learning features at all?"
        found.append(_against(f"learning-features-{name}", question, tuned, FROZEN))
    return found


def _instead_of_matrices(main: Result, foresight: list[Row], costs: Mapping[str, Cost]) -> list[Answer]:
    pairs = {row.learner: rival.learner for row in foresight if (rival := main.best(row.optimizer, *WITH_MATRICES))}
    plain = next((costs[row.learner] for row in main.rows if row.rule == BACKPROP and row.learner in costs), None)
    words = [
        f"{row.learner} takes {costs[row.learner].microseconds / plain.microseconds:.2f} times backprop's time for a "
        f"step and keeps {costs[row.learner].numbers / plain.numbers:.2f} times its numbers"
        for row in main.rows
        if plain and row.learner in costs and row.rule in (FORESIGHT, *WITH_MATRICES)
    ]
    question = "Does foresight give at least what memory matrices give, and at which cost?"
    return [
        replace(each, why=f"{each.why} Of one run alone, {'; '.join(words)}.")
        for each in _answer("matrices", question, main.compared(pairs))
    ]


def _in_column(columns: Mapping[str, Result], name: str, question: str, beside: str | None = None) -> list[Answer]:
    """Foresight against backprop in another column; the verdict is that of `beside` if it is given."""
    if name not in columns:
        return []
    shown = [columns[each] for each in dict.fromkeys((name, beside or name))]
    findings = [[row.versus[BACKPROP]["all"] for row in column.bests(FORESIGHT)] for column in shown]
    told = [_answer(name, question, each) for each in findings]
    why = " ".join(f"{column.title}: {each.why}" for column, found in zip(shown, told, strict=True) for each in found)
    return [replace(each, why=why) for each in told[-1]]


def _all_layers_or_the_top(main: Result) -> list[Answer]:
    rows = {row.learner: row for row in main.rows if row.rule == FORESIGHT}
    tops = {name: f"foresight-top-{row.optimizer}" for name, row in rows.items()}
    pairs = {name: top for name, top in tops.items() if top in rows and top != name}
    question = "Is looking ahead in all layers better than in the output layer alone?"
    return _answer("all-layers", question, main.compared(pairs))


def _hindsight(main: Result) -> list[Answer]:
    """Hindsight against backprop, and against replay, which sees as many examples."""
    rows = main.bests(HINDSIGHT)
    replay = {row.optimizer: row.learner for row in main.rows if row.rule == REPLAY}
    controlled = main.compared({row.learner: replay[row.optimizer] for row in rows if row.optimizer in replay})
    question = "Does it help to wait for the weights to come (hindsight)?"
    plain = _answer("hindsight", question, [row.versus[BACKPROP]["all"] for row in rows if controlled])
    return plain + _answer("hindsight-replay", "Is it better than replay, which sees as many examples?", controlled)


def _moves(bests: list[Row], moved: "Mapping[str, xarray.DataArray]") -> Answer:
    """Whether U ends nearer to where it started, paired over seeds like errors."""
    findings = compare(moved, {row.learner: row.versus[BACKPROP]["all"].reference for row in bests})
    return compared("moves", "Do the features of crossprop move less?", findings, "movement of U by the end")
