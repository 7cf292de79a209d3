"""Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
Networks": its claims, and the words of its page."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product

import numpy as np

from crossprop._support.formats import fixed, listed, upper_first
from crossprop.experiments.findings import HIGHER_BY_EQUAL, LESS_TIMES, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import TINY, CannotDecide, Quantity, Runs
from crossprop.experiments.questions import DOES_NOT, HOLDS, INTERVALS, STRICT, Answer, Headline, Leads, Question
from crossprop.library.paper import Paper
from crossprop.library.veeriah2017.features import features_plan
from crossprop.library.veeriah2017.plans import geoff_plan, mnist_plan

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
NOT_RUN_ON_MNIST = (*CONTROL, EXACT)
"""What is shown on MNIST, and not counted."""


def _at_end(noun: str) -> Quantity:
    values = lambda runs, name: runs.over(runs.asymptotic, "loss", name)
    return Quantity("asymptotic loss", f"{noun} at the end of tasks", values)


def _outgoing_share(runs: Runs, learner: str) -> np.ndarray:
    """W's share of the movement of all weights just after switches.

    The movement in a window is the change of the drift, a lower bound of the distance the weights travelled.
    """
    if not runs.after_switch:
        raise CannotDecide("the records hold no task switch")
    moved = [
        runs.sample(np.abs(np.diff(runs.curve(variable, learner), prepend=0, axis=1)), runs.after_switch)
        for variable in ("incoming_drift", "outgoing_drift")
    ]
    return moved[1] / np.maximum(moved[0] + moved[1], TINY)


SQUARED_ERROR, CROSS_ENTROPY = _at_end("squared error"), _at_end("cross-entropy")
MISCLASSIFIED = Quantity(
    "misclassified", "", lambda runs, name: runs.over(runs.asymptotic, "error", name), "percentage points", 100
)
MOVED_U = Quantity("incoming drift", "movement of U", lambda runs, name: runs.end("incoming_drift", name))
MOVED_W = Quantity("outgoing drift", "movement of W", lambda runs, name: runs.end("outgoing_drift", name))
SETTLING = Quantity("settling step", "settling time", lambda runs, name: runs.settling_step("incoming_drift", name))
OUTGOING_SHARE = Quantity("share of W", "", _outgoing_share)
NEIGHBOURS = Quantity("neighbours", "", lambda runs, name: _measured(runs, "neighbours", name))


def _similar_to_backprop(runs: Runs) -> list[Finding]:
    runs.need(["loss"], [*BOTH, "backprop"])
    bounds = Bounds(1 / SIMILAR_RATIO, SIMILAR_RATIO)
    similar = lambda name, part="": runs.ratio(SQUARED_ERROR, name, "backprop", bounds, part)
    counted = [similar(name, f"{name}'s error is similar to backprop's") for name in BOTH]
    return counted + [similar(name) for name in runs.having(CONTROL)]


def _similar_in_pairs(runs: Runs) -> list[Finding]:
    learners = (APPROX, *MNIST_MIXTURES, *BACKPROP)
    runs.need(["error"], learners)
    alike, says = Bounds(-SIMILAR_ERROR, SIMILAR_ERROR), "at the end of tasks {} misclassifies {{}} than {}"
    apart = lambda a, b, part="": runs.difference(MISCLASSIFIED, a, b, alike, says.format(a, b), part=part)
    counted = [apart(a, b, f"{a} and {b} err alike") for a, b in combinations(learners, 2)]
    farthest_first = sorted(counted, key=lambda each: -abs(each.mean))
    return farthest_first + [apart(name, "backprop") for name in runs.having(NOT_RUN_ON_MNIST)]


def _significantly_better(
    loss: Quantity, better: Sequence[str], others: Sequence[str], shown: Sequence[str], runs: Runs
) -> list[Finding]:
    """A part for each pair: one of `better` has a significantly lower asymptotic loss than one of `others`."""
    runs.need(["loss"], [*better, *others])
    below = lambda a, b, part: runs.ratio(loss, a, b, LESS_TIMES, part)
    counted = [below(a, b, f"{a}'s error is significantly below {b}'s") for a, b in product(better, others)]
    return counted + [below(better[0], name, "") for name in runs.having(shown)]


def _least_by_far(
    quantity: Quantity, learners: Sequence[str], rivals: Sequence[str], shown: Sequence[str], runs: Runs
) -> list[Finding]:
    """Two parts for each learner: every rival has more of the quantity, backprop and its variants have much more."""
    runs.need(["incoming_drift"], [*learners, *rivals])
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
    runs.need([each.name.replace(" ", "_") for each in quantities], [*learners, *rivals])
    found = []
    for quantity, name in product(quantities, learners):
        least = quantity is MOVED_U
        part = f"{name}'s {quantity.noun} is {'below' if least else 'above'} every rival's"
        orders = [(rival, name) if least else (name, rival) for rival in rivals]
        found += [runs.ratio(quantity, a, b, MORE_TIMES, part) for a, b in orders]
    controls = product(quantities, runs.having(shown))
    return found + [runs.ratio(quantity, name, "backprop", MORE_TIMES) for quantity, name in controls]


def _adapts_by_outgoing(runs: Runs) -> list[Finding]:
    runs.need(["incoming_drift", "outgoing_drift"], [*BOTH, *BACKPROP])

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
    runs.need([*nouns], [*wanted, *CONTROL])
    places = {f"visit {place + 1}": [visit] for place, visit in enumerate(runs.visits)}
    if runs.after_switch:
        places["just after a switch"] = runs.after_switch

    def compare(name: str, variable: str, place: str, part: str = "") -> Finding:
        values = lambda runs, each: runs.over(places.get(place, runs.whole), variable, each)
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


ASYMPTOTIC = "Asymptotic: the last fifth of each task visit, mean over visits. "
AFTER_SWITCH = "the first tenth of every visit but the first"
RIVALS = (
    "Rivals: backprop, momentum, rmsprop, adam and the mixtures with eta 0.5; frozen is a control, not a rival. Drift:"
    " at the end of the run, or with a single run in the last fifth of its last visit. "
)
SETTLED = (
    "A learner has settled at the first step after which its incoming drift stays within a tenth of its value at the"
    " end of the run (with a single run: of its values in the last fifth of the last visit). Rivals: backprop,"
    " momentum, rmsprop, adam. {} two parts each: every rival settles later (ratio of steps above 1), and at least"
    f" {MUCH:g} times as late.{STRICT}"
)
AGAINST_FROZEN = (
    "Against frozen, whose incoming weights never change, with the same seeds: a part each for {learners}. {error} over"
    " all steps below frozen's (ratio below 1). Each task visit and the time just after a switch"
    f" ({AFTER_SWITCH}) are compared as well, and not counted.{STRICT}"
)
FOR_BOTH = "For crossprop and for crossprop-approx (eta 0), "
SHOWN_ONLY = " Learners that the paper did not run on MNIST are shown, not counted."
LEARNS = "crossprop with eta 0 learns features, rather than leaving them where they started."
OURS = (
    Question(
        "R1",
        "geoff",
        f"Ours, not the paper's: on GEOFF, {LEARNS}",
        AGAINST_FROZEN.format(learners="crossprop and crossprop-approx (eta 0)", error="Its squared error"),
        partial(_learns_features, {"loss": "squared error"}, lambda runs: BOTH),
        all_together=True,
    ),
    Question(
        "R1m",
        "mnist",
        f"Ours, not the paper's: on MNIST, {LEARNS}",
        AGAINST_FROZEN.format(
            learners="crossprop-approx (eta 0), and exact crossprop (eta 0) where it was run",
            error="Its share misclassified and its cross-entropy, both",
        ),
        partial(
            _learns_features,
            {"error": "share misclassified", "loss": "cross-entropy"},
            lambda runs: [*(name for name in runs.learners if name == EXACT), APPROX],
        ),
        all_together=True,
    ),
)
CLAIMS = (
    Question(
        "G1",
        "geoff",
        "On GEOFF, crossprop ends up with an error similar to backprop's.",
        f"{ASYMPTOTIC}{FOR_BOTH}a part each: the ratio of its asymptotic squared error to backprop's lies between"
        f" 1/{SIMILAR_RATIO:.2f} and {SIMILAR_RATIO:.2f}.{INTERVALS}",
        _similar_to_backprop,
    ),
    Question(
        "G2",
        "geoff",
        "On GEOFF, backprop ends up with a significantly lower error than crossprop, momentum, RMSProp and Adam.",
        f"{ASYMPTOTIC}Backprop's asymptotic squared error is significantly lower (ratio below 1) than each of"
        f" crossprop's, crossprop-approx's (eta 0), momentum's, rmsprop's and adam's: five parts.{STRICT}",
        partial(_significantly_better, SQUARED_ERROR, ["backprop"], [*BOTH, *BACKPROP[1:]], CONTROL),
    ),
    Question(
        "G3",
        "geoff",
        "On GEOFF, crossprop changes the incoming weights the least, and backprop and its variants change them much"
        " more.",
        f"{RIVALS}{FOR_BOTH}two parts each: the incoming drift of every rival is greater (ratio above 1), and that of"
        f" backprop and every variant at least {MUCH:g} times as great.{STRICT}",
        partial(_least_by_far, MOVED_U, BOTH, (*BACKPROP, *MIXTURES), CONTROL),
    ),
    Question(
        "G4",
        "geoff",
        "On GEOFF, crossprop changes the outgoing weights the most.",
        f"{RIVALS}{FOR_BOTH}a part each: its outgoing drift is greater than every rival's (ratio above 1).{STRICT}",
        partial(_first_in_drift, [MOVED_W], BOTH, (*BACKPROP, *MIXTURES), CONTROL),
    ),
    Question(
        "G5",
        "geoff",
        "On GEOFF, crossprop reuses features: after a switch it adapts by moving the outgoing weights, not the"
        " incoming.",
        f"Just after a switch: {AFTER_SWITCH}. Movement: the changes of a drift from window to window, added up,"
        " which is a lower bound of the distance the weights travelled; W's share is W's movement divided by W's and"
        f" U's. {FOR_BOTH}two parts each: W's share is above 0.5, and it is greater than that of backprop and of every"
        f" variant (difference above 0).{STRICT}",
        _adapts_by_outgoing,
    ),
    Question(
        "G6",
        "geoff",
        "On GEOFF, crossprop settles on its features much sooner than backprop and its variants.",
        SETTLED.format(FOR_BOTH.strip()),
        partial(_least_by_far, SETTLING, BOTH, BACKPROP, CONTROL),
    ),
    Question(
        "M1",
        "mnist",
        "On MNIST, all learners end up with similar solutions.",
        f"{ASYMPTOTIC}A part for each pair of crossprop-approx, crossprop-approx-0.5, backprop, momentum, rmsprop"
        " and adam: their asymptotic shares of misclassified examples differ by less than"
        f" {SIMILAR_ERROR:g} percentage points.{SHOWN_ONLY}{INTERVALS}",
        _similar_in_pairs,
    ),
    Question(
        "M2",
        "mnist",
        "On MNIST, Adam and RMSProp end up with a significantly lower error than all other learners.",
        f"{ASYMPTOTIC}The asymptotic cross-entropy of adam and of rmsprop is significantly lower (ratio below 1)"
        " than each of crossprop-approx's, crossprop-approx-0.5's, backprop's and momentum's: eight parts."
        f"{SHOWN_ONLY}{STRICT}",
        partial(
            _significantly_better,
            CROSS_ENTROPY,
            ["adam", "rmsprop"],
            [APPROX, *MNIST_MIXTURES, "backprop", "momentum"],
            NOT_RUN_ON_MNIST,
        ),
    ),
    Question(
        "M3",
        "mnist",
        "On MNIST, crossprop changes the incoming weights the least and the outgoing weights the most.",
        f"{RIVALS}For crossprop-approx (eta 0), two parts: its incoming drift is smaller and its outgoing drift"
        f" greater than every rival's (ratios above 1).{SHOWN_ONLY}{STRICT}",
        partial(_first_in_drift, [MOVED_U, MOVED_W], [APPROX], (*BACKPROP, *MNIST_MIXTURES), NOT_RUN_ON_MNIST),
    ),
    Question(
        "M4",
        "mnist",
        "On MNIST, crossprop settles on its features much sooner than backprop and its variants.",
        SETTLED.format("For crossprop-approx (eta 0),") + SHOWN_ONLY,
        partial(_least_by_far, SETTLING, [APPROX], BACKPROP, NOT_RUN_ON_MNIST),
    ),
    Question(
        "T1",
        "features",
        "The features of backprop and of crossprop both cluster examples by label, and do not differ visibly.",
        "Neighbour share: how many of an example's 10 nearest neighbours in feature space have its label; by chance"
        f" 0.1. Three parts: its mean is above {CLUSTERED:g} for backprop, above {CLUSTERED:g} for crossprop-approx"
        f" (eta 0), and the two differ by less than {SIMILAR_NEIGHBOURS:g}, paired over examples. The rule judges the"
        " features themselves, not the look of a t-SNE map; frozen features, raw pixels and silhouettes are shown, not"
        f" counted.{INTERVALS}",
        _cluster_by_label,
    ),
)
LEADS: Leads = {
    "G1": {
        HOLDS: "On GEOFF, crossprop does end up with an error like backprop's: {}",
        DOES_NOT: "On GEOFF, crossprop does not reach an error like backprop's: {}",
        None: "On GEOFF, how crossprop's error compares with backprop's is not settled: {}",
    },
    "G3": {
        HOLDS: "It does change its features the least, as claimed: {}",
        DOES_NOT: "Nor does it change its features the least: {}",
        None: "Whether it changes its features the least is not settled: {}",
    },
    "R1": {
        HOLDS: "What little it moves them helps, compared with a control that never moves them: {}",
        DOES_NOT: "But small movement is no sign of good features. With this step size and these initial weights, a"
        " control that never moves them does as well or better: {}",
        None: "Whether moving them helps, compared with a control that never moves them, is not settled: {}",
    },
    "M1": {
        HOLDS: "On MNIST, all learners end up alike: {}",
        DOES_NOT: "On MNIST, the learners do not end up alike: {}",
        None: "On MNIST, whether the learners end up alike is not settled: {}",
    },
    "R1m": {
        HOLDS: "There crossprop with eta 0 learns features: {}",
        DOES_NOT: "There, too, crossprop with eta 0 does no better than frozen features: {}",
        None: "Whether crossprop with eta 0 learns features there is not settled: {}",
    },
}
"""The claims that the conclusion quotes."""
CHART = ("crossprop", "backprop", "frozen")
"""The learners of the chart at the top."""


def headline(answers: Sequence[Answer]) -> Headline:
    """The chart at the top, with each learner against backprop beside its line, from the numbers of G1."""
    ratios = {each.learner: each.mean for answer in answers if answer.id == "G1" for each in answer.findings}
    said = {"backprop": "gradient descent", "frozen": "never moves U"}
    for name in CHART:
        if ratio := ratios.get(name):
            side = f"{abs(ratio - 1):.0%} {'above' if ratio > 1 else 'below'} backprop at the end of tasks"
            said[name] = "; ".join(filter(None, [said.get(name, ""), side]))
    notes = {name: upper_first(said.get(name, "")) for name in CHART}
    return Headline("geoff", "loss", "Crossprop, backprop and the control on GEOFF", notes)


INTRO = (
    "Crossprop learns features online, one example at a time: it credits the incoming weights U of hidden units by "
    "their past effect on the outgoing weights W, where backprop looks at the current error alone. Veeriah, Zhang and "
    "Sutton (2017) claim that it reaches similar errors while it keeps and reuses its features. This page reruns their "
    "experiments, beside a control called frozen, whose U never moves."
)
TERMS = {
    "U and W": "the incoming and the outgoing weights of the hidden units. The units' activations are the features.",
    "movement": "the distance of weights from where they started: |U − U₀|, |W − W₀|.",
    "eta": "how much of backprop is mixed in: 0 is the paper's crossprop, 1 is backprop.",
    "crossprop, crossprop-0.5": "the exact rule, with eta 0 and 0.5.",
    "crossprop-approx, crossprop-approx-0.5": "its cheap approximation, with eta 0 and 0.5.",
    "backprop": "stochastic gradient descent.",
    "momentum, rmsprop, adam": "backprop with these optimizers: the variants.",
    "frozen": "the control: U stays as it was initialised, W learns as in backprop.",
    "GEOFF": "generic online feature finding: the learner imitates a random network, half of whose outgoing weights "
    "are redrawn when the task changes.",
    "MNIST": "images of handwritten digits, each shown once a task; with every task each label is shifted by one.",
    "task, visit, switch": "a task is what is to be learned, a visit a stretch of examples of one task, a switch where "
    "one visit ends and the next begins.",
    "at the end of tasks": "over the last fifth of each visit, which the paper calls asymptotic.",
    "settling time": "the number of examples after which the movement of U stays within a tenth of where it ends.",
    "seed": "one run: its examples and its initial weights. All learners get the same seeds, so they are compared in "
    "pairs.",
    "[25, 29]": "a 95% interval: Student's t over pairs, widened so that all intervals of a claim hold together.",
}
"""The words of the page, explained."""
PAPER = Paper(
    source=(
        'Veeriah, Zhang and Sutton (2017), "Crossprop: learning representations by stochastic meta-gradient descent in '
        'neural networks"'
    ),
    title="Crossprop, reproduced",
    intro=INTRO,
    claims=(*CLAIMS, *OURS),
    leads=LEADS,
    terms=TERMS,
    headline=headline,
    plans={"geoff": geoff_plan, "mnist": mnist_plan, "features": features_plan},
    own=[claim.id for claim in OURS],
)
