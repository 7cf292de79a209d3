"""Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
Networks": its claims, and the words of its page."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product

import numpy as np

from crossprop._support.formats import fixed, listed
from crossprop.experiments.findings import HIGHER_BY_EQUAL, LESS_TIMES, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import TINY, CannotDecide, Quantity, Runs
from crossprop.experiments.papers import read_paper
from crossprop.library.veeriah2017 import features

SIMILAR_RATIO = 1.10
SIMILAR_ERROR = 2.0  # percentage points
MUCH = 2.0
CLUSTERED, SIMILAR_NEIGHBOURS = 0.5, 0.05

EXACT, APPROX = "crossprop", "crossprop-approx"
BOTH = (EXACT, APPROX)
BACKPROP = ("backprop", "momentum", "rmsprop", "adam")
MIXTURES = ("crossprop-0.5", "crossprop-approx-0.5")
MNIST_MIXTURES = MIXTURES[1:]
CONTROL = ("frozen",)
OTHERS_ON_MNIST = (APPROX, *MNIST_MIXTURES, "backprop", "momentum")
NOT_RUN_ON_MNIST = (*CONTROL, EXACT)
"""Shown on MNIST only, without a claim."""


def _at_end(noun: str) -> Quantity:
    values = lambda runs, name: runs.over(runs.phase("end"), "loss", name)
    return Quantity("asymptotic loss", f"{noun} at the end of tasks", values)


def _outgoing_share(runs: Runs, learner: str) -> np.ndarray:
    """W's share of the movement of all weights just after switches.

    The movement in a window is the change of the drift, a lower bound of the distance the weights travelled.
    """
    after_switch = runs.phase("switch")
    if not after_switch:
        raise CannotDecide("the records hold no task switch")
    moved = [
        runs.sample(np.abs(np.diff(runs.curve(variable, learner), prepend=0, axis=1)), after_switch)
        for variable in ("incoming_drift", "outgoing_drift")
    ]
    return moved[1] / np.maximum(moved[0] + moved[1], TINY)


SQUARED_ERROR, CROSS_ENTROPY = _at_end("squared error"), _at_end("cross-entropy")
MISCLASSIFIED = Quantity(
    "misclassified", "", lambda runs, name: runs.over(runs.phase("end"), "error", name), "percentage points", 100
)
MOVED_U = Quantity("incoming drift", "movement of U", lambda runs, name: runs.end("incoming_drift", name))
MOVED_W = Quantity("outgoing drift", "movement of W", lambda runs, name: runs.end("outgoing_drift", name))
SETTLING = Quantity("settling step", "settling time", lambda runs, name: runs.settling_step("incoming_drift", name))
OUTGOING_SHARE = Quantity("share of W", "", _outgoing_share)
NEIGHBOURS = Quantity("neighbours", "", lambda runs, name: _measured(runs, "neighbours", name))


def _similar_to_backprop(runs: Runs) -> list[Finding]:
    bounds = Bounds(1 / SIMILAR_RATIO, SIMILAR_RATIO)
    similar = lambda name, part="": runs.ratio(SQUARED_ERROR, name, "backprop", bounds, part)
    counted = [similar(name, f"{name}'s error is similar to backprop's") for name in BOTH]
    return counted + [similar(name) for name in runs.having(CONTROL)]


def _similar_in_pairs(runs: Runs) -> list[Finding]:
    learners = (APPROX, *MNIST_MIXTURES, *BACKPROP)
    alike, says = Bounds(-SIMILAR_ERROR, SIMILAR_ERROR), "at the end of tasks {} misclassifies {{}} than {}"
    apart = lambda a, b, part="": runs.difference(MISCLASSIFIED, a, b, alike, says.format(a, b), part=part)
    counted = [apart(a, b, f"{a} and {b} err alike") for a, b in combinations(learners, 2)]
    farthest_first = sorted(counted, key=lambda each: -abs(each.mean))
    return farthest_first + [apart(name, "backprop") for name in runs.having(NOT_RUN_ON_MNIST)]


def _significantly_better(
    loss: Quantity, better: Sequence[str], others: Sequence[str], shown: Sequence[str], runs: Runs
) -> list[Finding]:
    """A part for each pair: one of `better` has a significantly lower asymptotic loss than one of `others`."""
    below = lambda a, b, part: runs.ratio(loss, a, b, LESS_TIMES, part)
    counted = [below(a, b, f"{a}'s error is significantly below {b}'s") for a, b in product(better, others)]
    return counted + [below(better[0], name, "") for name in runs.having(shown)]


def _least_by_far(
    quantity: Quantity, learners: Sequence[str], rivals: Sequence[str], shown: Sequence[str], runs: Runs
) -> list[Finding]:
    """Two parts for each learner: every rival has more of the quantity, backprop and its variants have much more."""
    found = []
    for name in learners:
        more = f"{name}'s {quantity.noun} is below every rival's"
        much = f"backprop's and its variants' {quantity.noun} is at least {MUCH:g} times {name}'s"
        found += [runs.ratio(quantity, rival, name, MORE_TIMES, more) for rival in rivals]
        found += [runs.ratio(quantity, rival, name, Bounds(MUCH), much) for rival in BACKPROP]
    return found + [runs.ratio(quantity, name, "backprop", LESS_TIMES) for name in runs.having(shown)]


def _first_in_drift(
    quantities: Sequence[Quantity],
    learners: Sequence[str],
    rivals: Sequence[str],
    shown: Sequence[str],
    runs: Runs,
) -> list[Finding]:
    """A part for each learner and quantity: the least movement of U, the greatest of W."""
    found = []
    for quantity, name in product(quantities, learners):
        least = quantity is MOVED_U
        part = f"{name}'s {quantity.noun} is {'below' if least else 'above'} every rival's"
        orders = [(rival, name) if least else (name, rival) for rival in rivals]
        found += [runs.ratio(quantity, a, b, MORE_TIMES, part) for a, b in orders]
    controls = product(quantities, runs.having(shown))
    return found + [runs.ratio(quantity, name, "backprop", MORE_TIMES) for quantity, name in controls]


def _adapts_by_outgoing(runs: Runs) -> list[Finding]:

    def moves_outgoing(name: str, part: str = "") -> Finding:
        values = _outgoing_share(runs, name)
        end = runs.count(values > 0.5 if values.mean() > 0.5 else values < 0.5)
        says = f"just after a switch, {{}} of {name}'s movement is that of W"
        about = {"form": "{}%", "end": end, "learner": name, "part": part}
        return runs.mean(OUTGOING_SHARE.name, values, Bounds(0.5), says, **about)

    def more(name: str, rival: str) -> Finding:
        says = f"W's share of the movement just after a switch is {{}} for {name} than for {rival}"
        part = f"it does so more than backprop and its variants ({name})"
        return runs.difference(OUTGOING_SHARE, name, rival, HIGHER_BY_EQUAL, says, part=part, words="greater|smaller")

    found = []
    for name in BOTH:
        found += [moves_outgoing(name, f"{name} moves W more than U"), *(more(name, rival) for rival in BACKPROP)]
    return found + [moves_outgoing(name) for name in (*BACKPROP, *runs.having(CONTROL))]


def _learns_features(nouns: dict[str, str], learners: Callable[[Runs], Sequence[str]], runs: Runs) -> list[Finding]:
    """A part for each learner: its error over all steps is below that of `frozen`, in every variable.

    Each visit and the time just after switches are compared as well; these are shown, and not counted.
    """
    wanted = learners(runs)
    places = {f"visit {place + 1}": [visit] for place, visit in enumerate(runs.visits)}
    if after_switch := runs.phase("switch"):
        places["just after a switch"] = after_switch

    def compare(name: str, variable: str, place: str, part: str = "") -> Finding:
        values = lambda runs, each: runs.over(places.get(place, runs.phase("all")), variable, each)
        quantity = Quantity(f"{variable} over {place}", f"{nouns[variable]} over {place}", values)
        return runs.ratio(quantity, name, "frozen", LESS_TIMES, part)

    counted = [
        compare(name, each, "all steps", f"{name}'s error is below frozen's") for name in wanted for each in nouns
    ]
    return counted + [compare(name, each, place) for place in places for each in nouns for name in wanted]


def _measured(runs: Runs, variable: str, name: str) -> np.ndarray:
    return runs.records[variable].sel(representation=name).values.astype(np.float64)


def _cluster_by_label(runs: Runs) -> list[Finding]:
    features = runs.records
    present = [str(name) for name in features["representation"].values]
    lacking = [name for name in ("backprop", APPROX) if name not in present]
    lacking += ["neighbours"] * ("neighbours" not in features)
    if lacking:
        raise CannotDecide(f"the features hold no {', '.join(lacking)}")
    if not all(np.isfinite(_measured(runs, "neighbours", name)).all() for name in ("backprop", APPROX)):
        raise CannotDecide("the neighbour shares of backprop or crossprop-approx are not all finite")
    controls = [name for name in present if name not in ("backprop", APPROX)]
    shares = [f"{fixed(100 * _measured(runs, 'neighbours', name).mean(), 0)}% with {name}" for name in controls]
    note = f"for comparison, {listed(shares)}" if shares else ""

    def mean(variable: str, name: str, part: str = "") -> Finding:
        says = f"{{}} of an example's nearest neighbours in the features of {name} have its label"
        about = {"form": "{}%", "learner": name, "part": part, "note": note}
        return runs.mean(variable, _measured(runs, variable, name), Bounds(CLUSTERED), says, **about)

    says = f"neighbours share their label {{}} often in the features of {APPROX} than in those of backprop"
    little = Bounds(-SIMILAR_NEIGHBOURS, SIMILAR_NEIGHBOURS)
    return [
        *(mean("neighbours", name, f"{name} clusters by label") for name in (APPROX, "backprop")),
        runs.difference(NEIGHBOURS, APPROX, "backprop", little, says, part="they differ little"),
        *(mean("neighbours", name) for name in controls),
        *(mean("silhouette", name) for name in present if "silhouette" in features),
    ]


PAPER = read_paper(
    "veeriah2017",
    find={
        "G1": _similar_to_backprop,
        "G2": partial(_significantly_better, SQUARED_ERROR, ["backprop"], [*BOTH, *BACKPROP[1:]], CONTROL),
        "G3": partial(_least_by_far, MOVED_U, BOTH, (*BACKPROP, *MIXTURES), CONTROL),
        "G4": partial(_first_in_drift, [MOVED_W], BOTH, (*BACKPROP, *MIXTURES), CONTROL),
        "G5": _adapts_by_outgoing,
        "G6": partial(_least_by_far, SETTLING, BOTH, BACKPROP, CONTROL),
        "M1": _similar_in_pairs,
        "M2": partial(_significantly_better, CROSS_ENTROPY, ["adam", "rmsprop"], OTHERS_ON_MNIST, NOT_RUN_ON_MNIST),
        "M3": partial(_first_in_drift, [MOVED_U, MOVED_W], [APPROX], (*BACKPROP, *MNIST_MIXTURES), NOT_RUN_ON_MNIST),
        "M4": partial(_least_by_far, SETTLING, [APPROX], BACKPROP, NOT_RUN_ON_MNIST),
        "T1": _cluster_by_label,
        "R1": partial(_learns_features, {"loss": "squared error"}, lambda runs: BOTH),
        "R1m": partial(
            _learns_features,
            {"error": "share misclassified", "loss": "cross-entropy"},
            lambda runs: [*(name for name in runs.learners if name == EXACT), APPROX],
        ),
    },
    numbers=globals(),
    plans={"features": features.PLAN},
    says=lambda times: f"{abs(times - 1):.0%} {'above' if times > 1 else 'below'} backprop at the end of tasks",
)
