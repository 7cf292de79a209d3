"""The questions of the studies: does crossprop credit or foresight help, with which optimizer and settings?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crossprop._support.formats import listed
from crossprop.costs import Cost
from crossprop.experiments.findings import Finding, compare
from crossprop.experiments.questions import Answer, compared
from crossprop.experiments.results import BACKPROP, FROZEN, SweepResults
from crossprop.experiments.study import Columns, by_optimizer
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


def best_by_optimizer(results: SweepResults, name: str) -> dict[str, str]:
    """For each optimizer, the best of crossprop's rules, or of another credit, if it is compared with backprop."""
    asked_about: dict[str, list[str]] = {}
    for each in by_optimizer(results):
        info = results.infos[each]
        if info.rule.startswith(name) if name == CROSSPROP else info.rule == name:
            asked_about.setdefault(info.optimizer, []).append(each)
    found = {optimizer: str(results.best_of(several)) for optimizer, several in asked_about.items()}
    return {optimizer: each for optimizer, each in found.items() if each in results.versus[BACKPROP]["all"]}


def answers(columns: Columns, costs: Mapping[str, Cost]) -> list[Answer]:
    """Answers the questions of the study. Among several rules one is chosen on the sweep's seeds; all numbers are from
    fresh seeds."""
    first, main = next(iter(columns.items()))
    bests = {name: best_by_optimizer(main, name) for name in CREDIT}
    found = [
        *(
            _with_setting(main, f"{name}-{optimizer}", f"Does {credit} help with {optimizer}?", best, BACKPROP)
            for name, credit in CREDIT.items()
            for optimizer, best in bests[name].items()
        ),
        *(answer for name in CREDIT for answer in _better_than_the_best(main, bests[name].values(), name)),
        *_fading(main),
        *_instead_of_matrices(main, bests[FORESIGHT], costs),
        *_in_column(columns, SHALLOW, "Does foresight go on helping with depth?", beside=first),
        *_in_column(columns, RELU, "Does foresight help with relu units?"),
        *_in_column(columns, ONE_TASK, "Does foresight help without any switch of task?"),
        *_all_layers_or_the_top(main),
        *_hindsight(main),
    ]
    for name in CREDIT:
        question = f"Does {name} adapt faster when the task changes?"
        found += _answer(f"adapts-{name}", question, _versus(main, bests[name].values(), "switch"), "switch")
        if name == CROSSPROP and bests[name]:
            moved = {each: own.incoming_drift.isel(step=-1) for each, own in main.evaluation.records.items()}
            found.append(_moves(_versus(main, bests[name].values()), moved))
    return found


def conclusions(columns: Columns, found: list[Answer]) -> list[str]:
    """The results of a study, in sentences: with which optimizers crossprop credit and foresight help, and how the
    best of each compares with the best backprop and with frozen features."""
    main, said = next(iter(columns.values())), []
    for name, credit in CREDIT.items():
        effects: dict[str, list[str]] = {effect: [] for effect in EFFECTS.values()}
        for optimizer, best in best_by_optimizer(main, name).items():
            effects[EFFECTS[main.versus[BACKPROP]["all"][best].verdict]].append(optimizer)
        words = [f"{effect} {listed(optimizers)}" for effect, optimizers in effects.items() if optimizers]
        said += [f"Both tuned, {credit} instead of backprop {listed(words)}."] * bool(words)
    quoted = [answer for answer in found if answer.id.startswith(QUOTED)] or found
    return said + [answer.why for answer in quoted]


def _answer(id: str, question: str, findings: Sequence[Finding], phase: str = "all") -> list[Answer]:
    """The common answer of several comparisons, if there are any."""
    return [compared(id, question, findings, f"error {PHASES[phase]}")] if findings else []


def _versus(results: SweepResults, names: Iterable[str], phase: str = "all") -> list[Finding]:
    """These learners against backprop with the same optimizer."""
    return [results.versus[BACKPROP][phase][name] for name in names]


def _with_setting(results: SweepResults, id: str, question: str, name: str, reference: str) -> Answer:
    (answer,) = _answer(id, question, [results.versus[reference]["all"][name]])
    return replace(answer, why=f"{answer.why} Its setting: {results.learners[name].setting(' (edge of the grid)')}.")


def _better_than_the_best(main: SweepResults, bests: Iterable[str], name: str) -> list[Answer]:
    """The best with any optimizer against the best backprop with any optimizer, and against frozen features."""
    best, plain = main.best_of(bests), main.best_of(each for each, info in main.infos.items() if info.rule == BACKPROP)
    if not best or not plain:
        return []
    question = f"Is the best {name} better than the best backprop, each with its best optimizer?"
    found = _answer(f"best-{name}", question, [main.finding(best, plain)])
    if best in main.versus[FROZEN]["all"]:
        question = f"Is {name} better than not learning features at all?"
        found.append(_with_setting(main, f"learning-features-{name}", question, best, FROZEN))
    return found


def _fading(main: SweepResults) -> list[Answer]:
    """Backprop whose step size fades, with its best optimizer, against backprop with constant steps and its best."""
    plain = [name for name, info in main.infos.items() if info.rule == BACKPROP]
    fading = [name for name in plain if main.infos[name].optimizer == FADING]
    best, constant = main.best_of(fading), main.best_of(name for name in plain if name not in fading)
    question = "Does a step size that fades help backprop, each with its best optimizer?"
    return _answer("fading", question, [main.finding(best, constant)]) if best and constant else []


def _instead_of_matrices(main: SweepResults, foresight: Mapping[str, str], costs: Mapping[str, Cost]) -> list[Answer]:
    rules = {name: main.infos[name].rule for name in by_optimizer(main)}
    pairs = {}
    for optimizer, best in foresight.items():
        same = [each for each in rules if main.infos[each].optimizer == optimizer]
        if rival := main.best_of(each for each in same if rules[each] in WITH_MATRICES):
            pairs[best] = rival
    plain = next((costs[name] for name, rule in rules.items() if rule == BACKPROP and name in costs), None)
    words = [
        f"{name} takes {costs[name].microseconds / plain.microseconds:.2f} times backprop's time for a step and stores "
        f"{costs[name].numbers / plain.numbers:.2f} times as many numbers"
        if math.isfinite(plain.microseconds)
        else f"{name} stores {costs[name].numbers / plain.numbers:.2f} times as many numbers as backprop"
        for name, rule in rules.items()
        if plain and name in costs and rule in (FORESIGHT, *WITH_MATRICES)
    ]
    question = "Does foresight give at least what memory matrices give, and at what cost?"
    return [
        replace(each, why=f"{each.why} In a single run {'; '.join(words)}.")
        for each in _answer("matrices", question, compare(main.evaluation.values(), pairs))
    ]


def _in_column(columns: Columns, name: str, question: str, beside: str | None = None) -> list[Answer]:
    """Foresight against backprop in another column; the verdict is that of `beside` if it is given."""
    if name not in columns:
        return []
    told, words = [], []
    for results in (columns[each] for each in dict.fromkeys((name, beside or name))):
        told = _answer(name, question, _versus(results, best_by_optimizer(results, FORESIGHT).values()))
        words += [f"{results.title}: {each.why}" for each in told]
    return [replace(each, why=" ".join(words)) for each in told]


def _all_layers_or_the_top(main: SweepResults) -> list[Answer]:
    names = [name for name in by_optimizer(main) if main.infos[name].rule == FORESIGHT]
    tops = {name: f"foresight-top-{main.infos[name].optimizer}" for name in names}
    pairs = {name: top for name, top in tops.items() if top in names and top != name}
    question = "Is looking ahead in all layers better than in the output layer alone?"
    return _answer("all-layers", question, compare(main.evaluation.values(), pairs))


def _hindsight(main: SweepResults) -> list[Answer]:
    """Hindsight against backprop, and against replay, which sees as many examples."""
    bests = best_by_optimizer(main, HINDSIGHT)
    replay = {info.optimizer: name for name, info in main.infos.items() if info.rule == REPLAY}
    controlled = compare(
        main.evaluation.values(), {best: replay[optimizer] for optimizer, best in bests.items() if optimizer in replay}
    )
    question = "Does it help to wait for later weights (hindsight)?"
    plain = _answer("hindsight", question, _versus(main, bests.values()) if controlled else [])
    return plain + _answer("hindsight-replay", "Is it better than replay, which sees as many examples?", controlled)


def _moves(versus: Sequence[Finding], moved: "Mapping[str, xarray.DataArray]") -> Answer:
    """Whether U ends nearer to where it started, paired over seeds like errors."""
    findings = compare(moved, {each.learner: each.reference for each in versus})
    return compared("moves", "Do the features of crossprop move less?", findings, "movement of U by the end")
