"""Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
Networks": its claims, and the words of its page."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from crossprop._support.formats import fixed, listed
from crossprop.experiments.findings import LESS_TIMES, Bounds, Finding
from crossprop.experiments.measures import TINY, CannotDecide, Quantity, Runs
from crossprop.experiments.papers import read_paper
from crossprop.library.veeriah2017 import features

CLUSTERED, SIMILAR_NEIGHBOURS = 0.5, 0.05

EXACT, APPROX = "crossprop", "crossprop-approx"


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


MEASURES = {"share of W": Quantity("share of W", "", _outgoing_share)}
NEIGHBOURS = Quantity("neighbours", "", lambda runs, name: _measured(runs, "neighbours", name))


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
    MEASURES,
    find={
        "T1": _cluster_by_label,
        "R1": partial(_learns_features, {"loss": "squared error"}, lambda runs: [EXACT, APPROX]),
        "R1m": partial(
            _learns_features,
            {"error": "share misclassified", "loss": "cross-entropy"},
            lambda runs: [*(name for name in runs.learners if name == EXACT), APPROX],
        ),
    },
    numbers=globals(),
    plans={"features": features.FIELDS},
)
