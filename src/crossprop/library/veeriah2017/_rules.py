"""The rules that decide the claims, each from records to a judgement."""

from collections.abc import Sequence
from itertools import combinations

from crossprop._support.formats import points, share
from crossprop.library.measures import Quantity, Runs
from crossprop.library.rules import mean_of
from crossprop.library.verdicts import (
    LESS_TIMES,
    MORE,
    MORE_TIMES,
    Bounds,
    Finding,
    Judgement,
    Part,
    joint_level,
)

SIMILAR_RATIO = 1.10
SIMILAR_ERROR = 2.0  # percentage points
MUCH = 2.0

CROSSPROP = {"geoff": ("crossprop", "crossprop-approx"), "mnist": ("crossprop-approx",)}
MIXTURES = {"geoff": ("crossprop-0.5", "crossprop-approx-0.5"), "mnist": ("crossprop-approx-0.5",)}
BACKPROP = ("backprop", "momentum", "rmsprop", "adam")
NOT_COUNTED = {"geoff": ("frozen",), "mnist": ("frozen", "crossprop")}

ERROR, LOSS, INCOMING, OUTGOING = "error", "loss", "incoming_drift", "outgoing_drift"
MOVEMENT = {INCOMING: "movement of U", OUTGOING: "movement of W"}


def _loss_name(runs: Runs) -> str:
    return "cross-entropy" if ERROR in runs.curves else "squared error"


def _asymptotic_loss(runs: Runs) -> Quantity:
    noun = f"{_loss_name(runs)} at the end of tasks"
    return Quantity(runs, "asymptotic loss", noun, lambda name: runs.asymptote(LOSS, name))


def similar_to_backprop(runs: Runs) -> Judgement:
    """A part for each crossprop learner: its asymptotic loss is similar to backprop's."""
    learners = CROSSPROP["geoff"]
    runs.need((LOSS,), (*learners, "backprop"))
    loss, level = _asymptotic_loss(runs), joint_level(len(learners))

    def compare(name: str) -> Finding:
        return loss.times(name, "backprop", level, Bounds(1 / SIMILAR_RATIO, SIMILAR_RATIO))

    parts = tuple(Part(f"{name}'s error is similar to backprop's", (compare(name),)) for name in learners)
    shown = tuple(compare(name) for name in runs.having(NOT_COUNTED["geoff"]))
    return Judgement(parts, len(loss.of("backprop")), shown)


def similar_in_pairs(runs: Runs) -> Judgement:
    """A part for each pair of learners: their asymptotic errors are similar."""
    learners = (*CROSSPROP["mnist"], *MIXTURES["mnist"], *BACKPROP)
    runs.need((ERROR,), learners)
    pairs = list(combinations(learners, 2))

    def apart(a: str, b: str) -> Finding:
        ends, level = (runs.asymptote(ERROR, a), runs.asymptote(ERROR, b)), joint_level(len(pairs))
        number, count = runs.apart(f"misclassified, {a} - {b}", ends, level, "percentage points", 100)
        text = f"at the end of tasks {a} misclassifies {{}} than {b}"
        said = points(text, ("more", "less"), number.interval, count)
        return Finding(number, Bounds(-SIMILAR_ERROR, SIMILAR_ERROR), said)

    parts = [Part(f"{a} and {b} err alike", (apart(a, b),)) for a, b in pairs]
    farthest_first = sorted(parts, key=lambda part: -abs(part.decisive.number.mean))
    shown = tuple(apart(name, "backprop") for name in runs.having(NOT_COUNTED["mnist"]))
    return Judgement(farthest_first, len(runs.asymptote(ERROR, "backprop")), shown)


def significantly_better(runs: Runs, experiment: str, better: Sequence[str], others: Sequence[str]) -> Judgement:
    """A part for each pair: one of `better` has a significantly lower asymptotic loss than one of `others`."""
    runs.need((LOSS,), (*better, *others))
    loss, level = _asymptotic_loss(runs), joint_level(len(better) * len(others))
    parts = tuple(
        Part(f"{a}'s error is significantly below {b}'s", (loss.times(a, b, level, LESS_TIMES),))
        for a in better
        for b in others
    )
    controls = runs.having(NOT_COUNTED[experiment])
    shown = tuple(loss.times(better[0], name, level, LESS_TIMES) for name in controls)
    return Judgement(parts, len(loss.of(better[0])), shown)


def least_by_far(runs: Runs, experiment: str, quantity: Quantity, rivals: Sequence[str]) -> Judgement:
    """Two parts for each crossprop learner: every rival has more of the quantity, those of backprop much more."""
    learners = CROSSPROP[experiment]
    runs.need((INCOMING,), (*learners, *rivals))
    level = joint_level(len(learners) * len(rivals))
    parts = []
    for name in learners:
        more = tuple(quantity.times(rival, name, level, MORE_TIMES) for rival in rivals)
        much = tuple(quantity.times(rival, name, level, Bounds(MUCH)) for rival in BACKPROP)
        parts += [
            Part(f"{name}'s {quantity.noun} is below every rival's", more),
            Part(f"backprop's and its variants' {quantity.noun} is at least {MUCH:g} times {name}'s", much),
        ]
    controls = runs.having(NOT_COUNTED[experiment])
    shown = tuple(quantity.times(name, "backprop", level, LESS_TIMES) for name in controls)
    return Judgement(parts, len(quantity.of("backprop")), shown)


def moves_least(runs: Runs, experiment: str) -> Judgement:
    """Two parts for each crossprop learner: every rival's U ends farther from where it began, backprop's much."""
    return least_by_far(runs, experiment, _movement(runs, INCOMING), (*BACKPROP, *MIXTURES[experiment]))


def settles_first(runs: Runs, experiment: str) -> Judgement:
    """Two parts for each crossprop learner: every rival settles later, and much later."""
    settling = Quantity(runs, "settling step", "settling time", lambda name: runs.settling_step(INCOMING, name))
    return least_by_far(runs, experiment, settling, BACKPROP)


def _movement(runs: Runs, variable: str) -> Quantity:
    return Quantity(runs, variable.replace("_", " "), MOVEMENT[variable], lambda name: runs.end(variable, name))


def first_in_drift(runs: Runs, experiment: str, variables: Sequence[str]) -> Judgement:
    """A part for each crossprop learner and variable: the least incoming drift, the greatest outgoing drift."""
    learners, rivals = CROSSPROP[experiment], (*BACKPROP, *MIXTURES[experiment])
    runs.need(tuple(variables), (*learners, *rivals))
    level = joint_level(len(variables) * len(learners) * len(rivals))
    parts, shown = [], []
    for variable in variables:
        moved, least = _movement(runs, variable), variable == INCOMING
        for name in learners:
            orders = [(rival, name) if least else (name, rival) for rival in rivals]
            findings = tuple(moved.times(a, b, level, MORE_TIMES) for a, b in orders)
            parts.append(Part(f"{name}'s {moved.noun} is {'below' if least else 'above'} every rival's", findings))
        shown += [moved.times(name, "backprop", level, MORE_TIMES) for name in runs.having(NOT_COUNTED[experiment])]
    return Judgement(parts, len(runs.end(variables[0], "backprop")), shown)


def adapts_by_outgoing(runs: Runs) -> Judgement:
    """Two parts for each crossprop learner: W's share of the movement is above half, and above that of backprop."""
    learners = CROSSPROP["geoff"]
    runs.need((INCOMING, OUTGOING), (*learners, *BACKPROP))
    level = joint_level(len(learners) * (1 + len(BACKPROP)))

    def moves_outgoing(name: str) -> Finding:
        values = runs.outgoing_share(name)
        number = mean_of(f"share of W, {name}", values, level)
        agree = values > 0.5 if number.mean > 0.5 else values < 0.5
        text = f"just after a switch, {{}} of {name}'s movement is that of W"
        return Finding(number, Bounds(0.5), share(text, number.interval, runs.count(agree)))

    def more(name: str, rival: str) -> Finding:
        shares = runs.outgoing_share(name), runs.outgoing_share(rival)
        number, count = runs.apart(f"share of W, {name} - {rival}", shares, level)
        text = f"W's share of the movement just after a switch is {{}} for {name} than for {rival}"
        said = points(text, ("greater", "smaller"), number.times(100).interval, count)
        return Finding(number, MORE, said)

    parts = []
    for name in learners:
        parts += [
            Part(f"{name} moves W more than U", (moves_outgoing(name),)),
            Part(f"it does so more than backprop and its variants ({name})", tuple(more(name, r) for r in BACKPROP)),
        ]
    shown = tuple(moves_outgoing(name) for name in (*BACKPROP, *runs.having(NOT_COUNTED["geoff"])))
    return Judgement(parts, len(runs.outgoing_share("backprop")), shown)


def learns_features(runs: Runs, learners: Sequence[str], variables: tuple[str, ...]) -> Judgement:
    """A part for each learner: its error over all steps is below that of `frozen`, in every variable.

    Each visit and the time just after switches are compared as well; these are shown, and not counted.
    """
    runs.need(variables, (*learners, "frozen"))
    places = {f"visit {place + 1}": [visit] for place, visit in enumerate(runs.visits)}
    if runs.after_switch:
        places["just after a switch"] = runs.after_switch
    level = joint_level(len(learners) * len(variables) * (1 + len(places)))

    def compare(name: str, variable: str, place: str) -> Finding:
        phase = places.get(place, runs.whole)
        noun = f"{'share misclassified' if variable == ERROR else _loss_name(runs)} over {place}"
        quantity = Quantity(runs, f"{variable} over {place}", noun, lambda each: runs.mean(variable, each, phase))
        return quantity.times(name, "frozen", level, LESS_TIMES)

    parts = tuple(
        Part(f"{name}'s error is below frozen's", tuple(compare(name, each, "all steps") for each in variables))
        for name in learners
    )
    shown = tuple(compare(name, each, place) for place in places for each in variables for name in learners)
    return Judgement(parts, len(runs.mean(variables[0], "frozen", runs.whole)), shown)
