"""The questions of the studies: does crossprop credit or foresight help, with which optimizer and settings?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crossprop._support.formats import listed
from crossprop.costs import Cost
from crossprop.experiments.findings import compare
from crossprop.experiments.questions import Answer, compared
from crossprop.experiments.results import BACKPROP, FROZEN, SweepResults
from crossprop.experiments.study import Columns
from crossprop.records import PHASES

if TYPE_CHECKING:
    import xarray

CROSSPROP, FORESIGHT, HINDSIGHT, REPLAY = "crossprop", "foresight", "hindsight", "backprop-replay"
FADING = "fading"
CREDIT = {CROSSPROP: "crossprop credit", FORESIGHT: "foresight"}
"""The rules that are judged with every optimizer, and their names in sentences."""
RELU, SHALLOW, ONE_TASK = "relu", "shallow", "one-task"
"""Stages with questions of their own, besides the first."""
WITH_MATRICES = ("crossprop", "crossprop-projected", "crossprop-sum")
EFFECTS = {"yes": "helps with", "no": "hurts with", "no difference shown": "makes no difference that shows with"}
QUOTED = ("best", "fading", "learning-features")
"""Prefix of the ids of the answers in the conclusion."""

Pairs = Mapping[str, str]
"""Learners, each with the one that it is compared with."""


def best_by_optimizer(results: SweepResults, rule: str) -> dict[str, str]:
    """For each optimizer, the best learner with a rule, or with one of crossprop's, if it is compared with backprop."""
    versus, found = results.versus[BACKPROP]["all"], dict[str, list[str]]()
    for name, info in results.infos.items():
        if info.rule == rule or (rule == CROSSPROP and info.rule.startswith(rule)):
            found.setdefault(info.optimizer, []).append(name)
    bests = {optimizer: str(results.best_of(several)) for optimizer, several in found.items()}
    return {optimizer: best for optimizer, best in bests.items() if best in versus}


def answers(columns: Columns, costs: Mapping[str, Cost]) -> list[Answer]:
    """Answers the questions of the study. Among several rules one is chosen on the sweep's seeds; all numbers are from
    fresh seeds."""
    first, main = next(iter(columns.items()))
    bests = {rule: [*best_by_optimizer(main, rule).values()] for rule in CREDIT}
    found = []
    for rule, credit in CREDIT.items():
        for best in bests[rule]:
            optimizer = main.infos[best].optimizer
            question = f"Does {credit} help with {optimizer}?"
            found += _ask(main, f"{rule}-{optimizer}", question, _against(main, [best]), setting=True)
    for rule in CREDIT:
        found += _better_than_the_best(main, bests[rule], rule)
    plain = [name for name, info in main.infos.items() if info.rule == BACKPROP]
    fading = [name for name in plain if main.infos[name].optimizer == FADING]
    pairs = _pair(main, fading, [name for name in plain if name not in fading])
    found += _ask(main, "fading", "Does a step size that fades help backprop, each with its best optimizer?", pairs)
    found += _instead_of_matrices(main, bests[FORESIGHT], costs)
    found += _in_column(columns, SHALLOW, "Does foresight go on helping with depth?", beside=first)
    found += _in_column(columns, RELU, "Does foresight help with relu units?")
    found += _in_column(columns, ONE_TASK, "Does foresight help without any switch of task?")
    tops = {name: f"foresight-top-{info.optimizer}" for name, info in main.infos.items() if info.rule == FORESIGHT}
    pairs = {name: top for name, top in tops.items() if top in tops and top != name}
    found += _ask(main, "all-layers", "Is looking ahead in all layers better than in the output layer alone?", pairs)
    late = best_by_optimizer(main, HINDSIGHT)
    replay = {info.optimizer: name for name, info in main.infos.items() if info.rule == REPLAY}
    if controlled := {best: replay[optimizer] for optimizer, best in late.items() if optimizer in replay}:
        question = "Does it help to wait for later weights (hindsight)?"
        found += _ask(main, "hindsight", question, _against(main, late.values()))
        question = "Is it better than replay, which sees as many examples?"
        found += _ask(main, "hindsight-replay", question, controlled)
    for rule in CREDIT:
        question, pairs = f"Does {rule} adapt faster when the task changes?", _against(main, bests[rule])
        found += _ask(main, f"adapts-{rule}", question, pairs, "switch")
        if rule == CROSSPROP and pairs:
            moved = {each: own.incoming_drift.isel(step=-1) for each, own in main.evaluation.records.items()}
            found.append(_moves(pairs, moved))
    return found


def conclusions(columns: Columns, found: list[Answer]) -> list[str]:
    """The results of a study, in sentences: with which optimizers crossprop credit and foresight help, and how the
    best of each compares with the best backprop and with frozen features."""
    main, said = next(iter(columns.values())), []
    for rule, credit in CREDIT.items():
        effects: dict[str, list[str]] = {effect: [] for effect in EFFECTS.values()}
        for optimizer, best in best_by_optimizer(main, rule).items():
            effects[EFFECTS[main.versus[BACKPROP]["all"][best].verdict]].append(optimizer)
        words = [f"{effect} {listed(optimizers)}" for effect, optimizers in effects.items() if optimizers]
        said += [f"Both tuned, {credit} instead of backprop {listed(words)}."] * bool(words)
    quoted = [answer for answer in found if answer.id.startswith(QUOTED)] or found
    return said + [answer.why for answer in quoted]


def _against(results: SweepResults, names: Iterable[str], rule: str = BACKPROP) -> Pairs:
    """These learners with those of a rule that have the same optimizer."""
    versus = results.versus[rule]["all"]
    return {name: versus[name].reference for name in names if name in versus}


def _pair(results: SweepResults, names: Iterable[str], others: Iterable[str]) -> Pairs:
    """The best of these learners with the best of the others."""
    one, other = results.best_of(names), results.best_of(others)
    return {one: other} if one and other else {}


def _ask(
    results: SweepResults, id: str, question: str, pairs: Pairs, phase: str = "all", *, setting: bool = False
) -> list[Answer]:
    """The common answer of several comparisons, if there are any, with the `setting` of the learner."""
    if not pairs or phase not in results.by_phase:
        return []
    answer = compared(id, question, results.findings(pairs, phase), f"error {PHASES[phase]}")
    settings = [results.learners[name].setting(" (edge of the grid)") for name in pairs if setting]
    return [replace(answer, why=" ".join([answer.why, *(f"Its setting: {each}." for each in settings)]))]


def _better_than_the_best(main: SweepResults, bests: Sequence[str], rule: str) -> list[Answer]:
    """The best with any optimizer against the best backprop with any optimizer, and against frozen features."""
    pairs = _pair(main, bests, [each for each, info in main.infos.items() if info.rule == BACKPROP])
    question = f"Is the best {rule} better than the best backprop, each with its best optimizer?"
    found = _ask(main, f"best-{rule}", question, pairs)
    question = f"Is {rule} better than not learning features at all?"
    return found + _ask(main, f"learning-features-{rule}", question, _against(main, pairs, FROZEN), setting=True)


def _instead_of_matrices(main: SweepResults, foresight: Iterable[str], costs: Mapping[str, Cost]) -> list[Answer]:
    infos, pairs = main.infos, dict[str, str]()
    for best in foresight:
        same = [each for each, info in infos.items() if info.optimizer == infos[best].optimizer]
        pairs |= _pair(main, [best], [each for each in same if infos[each].rule in WITH_MATRICES])
    plain = next((costs[name] for name, info in infos.items() if info.rule == BACKPROP and name in costs), None)
    words = [
        f"{name} takes {costs[name].microseconds / plain.microseconds:.2f} times backprop's time for a step and stores "
        f"{costs[name].numbers / plain.numbers:.2f} times as many numbers"
        if math.isfinite(plain.microseconds)
        else f"{name} stores {costs[name].numbers / plain.numbers:.2f} times as many numbers as backprop"
        for name, info in infos.items()
        if plain and name in costs and info.rule in (FORESIGHT, *WITH_MATRICES)
    ]
    question = "Does foresight give at least what memory matrices give, and at what cost?"
    return [
        replace(each, why=f"{each.why} In a single run {'; '.join(words)}.")
        for each in _ask(main, "matrices", question, pairs)
    ]


def _in_column(columns: Columns, name: str, question: str, beside: str | None = None) -> list[Answer]:
    """Foresight against backprop in another column; the verdict is that of `beside` if it is given."""
    told, words = [], []
    for results in [columns[each] for each in dict.fromkeys((name, beside or name))] if name in columns else ():
        told = _ask(results, name, question, _against(results, best_by_optimizer(results, FORESIGHT).values()))
        words += [f"{results.title}: {each.why}" for each in told]
    return [replace(each, why=" ".join(words)) for each in told]


def _moves(pairs: Pairs, moved: "Mapping[str, xarray.DataArray]") -> Answer:
    """Whether U ends nearer to where it started, paired over seeds like errors."""
    return compared(
        "moves", "Do the features of crossprop move less?", compare(moved, pairs), "movement of U by the end"
    )
