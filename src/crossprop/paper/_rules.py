"""The rules that decide the claims, each from records to a judgement."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from crossprop.paper._measures import TINY, Runs
from crossprop.paper._verdicts import (
    CANNOT,
    DOES_NOT,
    HOLDS,
    IN_PART,
    Judgement,
    Number,
    Part,
    all_inside,
    combine,
    inside,
    joint_level,
    judge,
    number,
    significantly_below,
)
from crossprop.statistics import paired_difference, paired_ratio

SIMILAR_RATIO = 1.10
SIMILAR_ERROR = 2.0  # percentage points
MUCH = 2.0

CROSSPROP = {"geoff": ("crossprop", "crossprop-approx"), "mnist": ("crossprop-approx",)}
MIXTURES = {"geoff": ("crossprop-0.5", "crossprop-approx-0.5"), "mnist": ("crossprop-approx-0.5",)}
BACKPROP = ("backprop", "momentum", "rmsprop", "adam")
NOT_COUNTED = {"geoff": ("frozen",), "mnist": ("frozen", "crossprop")}

ERROR, LOSS, INCOMING, OUTGOING = "error", "loss", "incoming_drift", "outgoing_drift"

Measure = Callable[[str], np.ndarray]


def similar_to_backprop(runs: Runs) -> Judgement:
    """A part for each crossprop learner: its asymptotic loss is similar to backprop's."""
    learners = CROSSPROP["geoff"]
    runs.need((LOSS,), (*learners, "backprop"))
    level = joint_level(len(learners))

    def ratio(name: str) -> Number:
        return _times(lambda each: runs.asymptote(LOSS, each), name, "backprop", level, "asymptotic error")

    parts = [
        Part(f"{name} similar to backprop", inside(ratio(name), 1 / SIMILAR_RATIO, SIMILAR_RATIO), ratio(name))
        for name in learners
    ]
    shown = [ratio(name) for name in (*learners, *runs.having(NOT_COUNTED["geoff"]))]
    return judge(parts, shown, len(runs.asymptote(LOSS, "backprop")))


def similar_in_pairs(runs: Runs) -> Judgement:
    """A part for each pair of learners: their asymptotic errors are similar."""
    learners = (*CROSSPROP["mnist"], *MIXTURES["mnist"], *BACKPROP)
    runs.need((ERROR,), learners)
    pairs = list(combinations(learners, 2))

    def apart(a: str, b: str) -> Number:
        found = paired_difference(runs.asymptote(ERROR, a), runs.asymptote(ERROR, b), joint_level(len(pairs)))
        return number(f"misclassified, {a} - {b}", found, "percentage points", 100)

    numbers = [apart(a, b) for a, b in pairs]
    parts = [inside(each, -SIMILAR_ERROR, SIMILAR_ERROR) for each in numbers]
    why = (
        f"{parts.count(True)} of {len(pairs)} pairs of learners differ by less than {SIMILAR_ERROR:g} percentage"
        f" points, {parts.count(False)} by more, {parts.count(None)} are undecided; farthest apart is"
        f" {max(numbers, key=lambda each: abs(each.mean))}."
    )
    numbers += [apart(name, "backprop") for name in runs.having(NOT_COUNTED["mnist"])]
    return Judgement(combine(parts), why, tuple(numbers), len(runs.asymptote(ERROR, "backprop")))


def significantly_better(runs: Runs, experiment: str, better: Sequence[str], others: Sequence[str]) -> Judgement:
    """A part for each pair: one of `better` has a significantly lower asymptotic loss than one of `others`."""
    runs.need((LOSS,), (*better, *others))
    level = joint_level(len(better) * len(others))

    def compare(a: str, b: str) -> Part:
        found = paired_difference(runs.asymptote(LOSS, a), runs.asymptote(LOSS, b), level)
        shown = number(f"asymptotic loss, {a} - {b}", found)
        says = f"{a} better than {b} (lower in {found.won} of {found.pairs})"
        return Part(says, significantly_below(shown, found.pairs), shown)

    parts = [compare(a, b) for a in better for b in others]
    controls = [compare(better[0], name) for name in runs.having(NOT_COUNTED[experiment])]
    return judge(parts, [part.number for part in (*parts, *controls)], len(runs.asymptote(LOSS, better[0])))


def _times(measure: Measure, above: str, below: str, level: float, what: str) -> Number:
    values = [np.maximum(measure(name), TINY) for name in (above, below)]
    return number(f"{what}, {above} / {below}", paired_ratio(values[0], values[1], level))


def least_by_far(runs: Runs, experiment: str, what: str, measure: Measure, rivals: Sequence[str]) -> Judgement:
    """Two parts for each crossprop learner: every rival's measure is greater, those of backprop much."""
    learners = CROSSPROP[experiment]
    runs.need((INCOMING,), (*learners, *rivals))
    level = joint_level(len(learners) * len(rivals))
    parts, shown = [], []
    for name in learners:
        ratios = {rival: _times(measure, rival, name, level, what) for rival in rivals}
        parts += [
            all_inside(f"{name}'s {what} below every rival's", ratios.values(), 1),
            all_inside(
                f"backprop's and variants' at least {MUCH:g} times {name}'s", [ratios[each] for each in BACKPROP], MUCH
            ),
        ]
        shown += ratios.values()
    shown += [_times(measure, name, "backprop", level, what) for name in runs.having(NOT_COUNTED[experiment])]
    return judge(parts, shown, len(measure("backprop")))


def settles_first(runs: Runs, experiment: str) -> Judgement:
    """Two parts for each crossprop learner: every rival settles later, and much later."""

    def measure(name: str) -> np.ndarray:
        return runs.settling_step(INCOMING, name)

    return least_by_far(runs, experiment, "settling step", measure, BACKPROP)


def first_in_drift(runs: Runs, experiment: str, variables: Sequence[str]) -> Judgement:
    """A part for each crossprop learner and variable: the least incoming drift, the greatest outgoing drift."""
    learners, rivals = CROSSPROP[experiment], (*BACKPROP, *MIXTURES[experiment])
    runs.need(tuple(variables), (*learners, *rivals))
    level = joint_level(len(variables) * len(learners) * len(rivals))
    parts, shown = [], []
    for variable in variables:
        what = variable.replace("_", " ")
        says = f"{what} below" if variable == INCOMING else f"{what} above"

        def measure(name: str, variable: str = variable) -> np.ndarray:
            return runs.end(variable, name)

        for name in learners:
            orders = [(rival, name) if variable == INCOMING else (name, rival) for rival in rivals]
            ratios = [_times(measure, above, below, level, what) for above, below in orders]
            parts.append(all_inside(f"{name}'s {says} every rival's", ratios, 1))
            shown += ratios
        controls = runs.having(NOT_COUNTED[experiment])
        shown += [_times(measure, name, "backprop", level, what) for name in controls]
    return judge(parts, shown, len(runs.end(variables[0], "backprop")))


def adapts_by_outgoing(runs: Runs) -> Judgement:
    """Two parts for each crossprop learner: W's share of the movement is above half, and above that of backprop."""
    learners = CROSSPROP["geoff"]
    runs.need((INCOMING, OUTGOING), (*learners, *BACKPROP))
    level = joint_level(len(learners) * (1 + len(BACKPROP)))

    def share(name: str) -> Number:
        return number(f"share of W, {name}", paired_difference(runs.outgoing_share(name), 0.0, level))

    def more(name: str, rival: str) -> Number:
        found = paired_difference(runs.outgoing_share(name), runs.outgoing_share(rival), level)
        return number(f"share of W, {name} - {rival}", found)

    parts, shown = [], []
    for name in learners:
        mine, differences = share(name), [more(name, rival) for rival in BACKPROP]
        parts += [
            Part(f"{name} moves W more than U", inside(mine, 0.5), mine),
            all_inside(f"{name} does so more than backprop and variants", differences, 0),
        ]
        shown += [mine, *differences]
    shown += [share(name) for name in (*BACKPROP, *runs.having(NOT_COUNTED["geoff"]))]
    return judge(parts, shown, len(runs.outgoing_share("backprop")))


def learns_features(runs: Runs, learners: Sequence[str], variables: tuple[str, ...]) -> Judgement:
    """Compares learners with `frozen` over all steps, in each visit and just after switches."""
    runs.need(variables, (*learners, "frozen"))
    places = {"all steps": runs.whole}
    places |= {f"visit {place + 1}": [visit] for place, visit in enumerate(runs.visits)}
    if runs.after_switch:
        places["just after a switch"] = runs.after_switch
    level = joint_level(len(learners) * len(variables) * len(places))

    def compare(place: str, variable: str, name: str) -> Part:
        values = [runs.mean(variable, each, places[place]) for each in (name, "frozen")]
        found = paired_difference(values[0], values[1], level)
        unit, scale = ("percentage points", 100.0) if variable == ERROR else ("", 1.0)
        shown = number(f"{variable} over {place}, {name} - frozen", found, unit, scale)
        says = f"{name} below frozen in {variable} (in {found.won} of {found.pairs})"
        return Part(says, significantly_below(shown, found.pairs), shown)

    parts = {place: [compare(place, variable, name) for variable in variables for name in learners] for place in places}
    overall = parts.pop("all steps")
    elsewhere = [part for each in parts.values() for part in each]
    true = [part.true for part in (*overall, *elsewhere)]
    if all(part.true for part in overall):
        verdict = HOLDS
    elif True in true:
        verdict = IN_PART
    else:
        verdict = CANNOT if None in true else DOES_NOT
    below = sum(part.true is True for part in elsewhere)
    why = "; ".join(map(str, overall)) + f"; below in {below} of the {len(elsewhere)} comparisons by visit and switch."
    pairs = len(runs.mean(variables[0], "frozen", runs.whole))
    return Judgement(verdict, why, tuple(part.number for part in (*overall, *elsewhere)), pairs)
