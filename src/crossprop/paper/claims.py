"""What the paper claims, sentence by sentence, and the rule that decides each from records.

A rule splits its claim into parts. Each part is a comparison whose interval lies inside what is claimed (so), outside
of it (not so), or across the border (undecided); together they make one verdict.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.paper import _rules as rules
from crossprop.paper._measures import CannotDecide, Runs
from crossprop.paper._rules import BACKPROP, CROSSPROP, ERROR, INCOMING, LOSS, MIXTURES, MUCH, OUTGOING
from crossprop.paper._verdicts import CANNOT, FEWEST, Judgement, Number, Part, inside, judge, number, together
from crossprop.statistics import paired_difference

if TYPE_CHECKING:
    import xarray

CLUSTERED = 0.5
SIMILAR_NEIGHBOURS = 0.05


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, or our own, with the rule that decides it, in words and as a function of records."""

    id: str
    experiment: str
    claim: str
    rule: str
    judge: Callable[["xarray.Dataset"], Judgement]


@dataclass(frozen=True)
class Verdict:
    """What became of a claim: the rule, the verdict, why in one sentence, the numbers, and over what they are taken."""

    id: str
    experiment: str
    claim: str
    rule: str
    verdict: str
    why: str
    numbers: tuple[Number, ...]
    over: str


def decide(
    geoff: "xarray.Dataset | None", mnist: "xarray.Dataset | None", features: "xarray.Dataset | None"
) -> list[Verdict]:
    """The verdict on every claim about the experiments given, each by its rule in `CLAIMS`."""
    given = {"geoff": geoff, "mnist": mnist, "features": features}
    return [verdict_on(claim, records) for claim in CLAIMS.values() if (records := given[claim.experiment]) is not None]


def to_json(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """The verdicts as what JSON can hold; what is not a finite number is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [plain(asdict(verdict)) for verdict in verdicts]


def verdict_on(claim: Claim, records: "xarray.Dataset") -> Verdict:
    """The verdict on one claim, from the records of its experiment."""
    over = "nothing: the records lack what the claim needs"
    try:
        found = claim.judge(records)
    except CannotDecide as problem:
        found = Judgement(CANNOT, f"{problem}.", (), 0)
    why = found.why
    if found.pairs and claim.experiment == "features":
        over = f"paired over {found.pairs} examples of one run"
    elif found.pairs and records.sizes["seed"] > 1:
        over = f"paired over {found.pairs} seeds"
    elif found.pairs:
        over = f"paired over {found.pairs} disjoint windows of one run, which is not the same as independent runs"
        why = f"{why[:-1]} (one run: the intervals tell of its windows, not of other seeds)."
    return Verdict(claim.id, claim.experiment, claim.claim, claim.rule, found.verdict, why, found.numbers, over)


TOGETHER = (
    "Student's t of paired values, widened (Bonferroni) to hold for all of the claim's comparisons together at 95%"
)
PARTS = (
    " All parts so: holds. At least half: holds in part. Fewer, even if the undecided ones were so: does not hold."
    " Else, or where a learner that counts is missing or diverged: cannot be decided here."
)
INTERVALS = f"{PARTS} Intervals are {TOGETHER}; a part is undecided where its interval crosses the border."
SIGNIFICANT = (
    " Significantly lower: the interval of the paired difference lies below 0. One that reaches 0 counts as not so, or"
    f" as undecided over fewer than {FEWEST} pairs. Intervals are {TOGETHER}."
)
ASYMPTOTIC = "Asymptotic: the last fifth of each task visit, mean over visits. "
RIVALS = (
    "Rivals: backprop, momentum, rmsprop, adam and the mixtures with eta 0.5; frozen is a control, not a rival. Drift:"
    " at the end of the run, or with a single run in the last fifth of its last visit. "
)
BOTH = "For crossprop and for crossprop-approx (eta 0), "
NOT_RUN = " Learners that the paper did not run on MNIST are shown, not counted."
SETTLED = (
    "A learner has settled at the first step after which its incoming drift stays within a tenth of its value at the"
    " end of the run (with a single run: of its values in the last fifth of the last visit). Rivals: backprop, momentum, rmsprop,"
    " adam. {} two parts each: every rival settles later (ratio of steps above 1), and at least"
    f" {MUCH:g} times as late.{INTERVALS}"
)
FROZEN = (
    "Against frozen, whose incoming weights never move, with the same seeds: {learners}. Compared over all steps, in"
    " each task visit, and just after a switch (the first tenth of every visit but the first). {error} significantly"
    " lower than frozen's over all steps for every such learner: holds. Significantly lower for some of them, or"
    f" somewhere: holds in part. Nowhere: does not hold, or over fewer than {FEWEST} pairs cannot be decided here; nor"
    f" can it where a learner that counts is missing or diverged.{SIGNIFICANT}"
)
LEARNS = "crossprop with eta 0 learns features, rather than leaving them where they started."

CLAIMS: dict[str, Claim] = {}


def _claim(
    id: str, experiment: str, claim: str, rule: str
) -> Callable[[Callable[["xarray.Dataset"], Judgement]], Callable[["xarray.Dataset"], Judgement]]:
    def register(judge: Callable[["xarray.Dataset"], Judgement]) -> Callable[["xarray.Dataset"], Judgement]:
        CLAIMS[id] = Claim(id, experiment, claim, rule, judge)
        return judge

    return register


@_claim(
    "G1",
    "geoff",
    "On GEOFF, crossprop ends up with an error similar to backprop's.",
    f"{ASYMPTOTIC}{BOTH}a part each: the ratio of its asymptotic squared error to backprop's lies between"
    f" 1/{rules.SIMILAR_RATIO:.2f} and {rules.SIMILAR_RATIO:.2f}.{INTERVALS}",
)
def _g1(records: "xarray.Dataset") -> Judgement:
    return rules.similar_to_backprop(Runs(records))


@_claim(
    "G2",
    "geoff",
    "On GEOFF, backprop ends up with a significantly lower error than crossprop, momentum, RMSProp and Adam.",
    f"{ASYMPTOTIC}Backprop's asymptotic squared error is significantly lower than each of crossprop's,"
    f" crossprop-approx's (eta 0), momentum's, rmsprop's and adam's: five parts.{PARTS}{SIGNIFICANT}",
)
def _g2(records: "xarray.Dataset") -> Judgement:
    return rules.significantly_better(Runs(records), "geoff", ["backprop"], [*CROSSPROP["geoff"], *BACKPROP[1:]])


@_claim(
    "G3",
    "geoff",
    "On GEOFF, crossprop changes the incoming weights the least, and backprop and its variants change them much more.",
    f"{RIVALS}{BOTH}two parts each: the incoming drift of every rival is greater (ratio above 1), and that of backprop"
    f" and every variant at least {MUCH:g} times as great.{INTERVALS}",
)
def _g3(records: "xarray.Dataset") -> Judgement:
    runs = Runs(records)
    rivals = (*BACKPROP, *MIXTURES["geoff"])
    return rules.least_by_far(runs, "geoff", "incoming drift", lambda name: runs.end(INCOMING, name), rivals)


@_claim(
    "G4",
    "geoff",
    "On GEOFF, crossprop changes the outgoing weights the most.",
    f"{RIVALS}{BOTH}a part each: its outgoing drift is greater than every rival's (ratio above 1).{INTERVALS}",
)
def _g4(records: "xarray.Dataset") -> Judgement:
    return rules.first_in_drift(Runs(records), "geoff", [OUTGOING])


@_claim(
    "G5",
    "geoff",
    "On GEOFF, crossprop reuses features: after a switch it adapts by moving the outgoing weights, not the incoming.",
    "Just after a switch: the first tenth of every visit but the first. Movement: the changes of a drift from window to"
    " window, added up, which is the least way that the weights can have travelled; W's share is W's movement over W's"
    f" and U's. {BOTH}two parts each: W's share is above 0.5, and it is greater than that of backprop and of every"
    f" variant (difference above 0).{INTERVALS}",
)
def _g5(records: "xarray.Dataset") -> Judgement:
    return rules.adapts_by_outgoing(Runs(records))


def _settles(records: "xarray.Dataset", experiment: str) -> Judgement:
    runs = Runs(records)
    return rules.least_by_far(
        runs, experiment, "settling step", lambda name: runs.settling_step(INCOMING, name), BACKPROP
    )


@_claim(
    "G6",
    "geoff",
    "On GEOFF, crossprop settles on its features much sooner than backprop and its variants.",
    SETTLED.format(BOTH.strip()),
)
def _g6(records: "xarray.Dataset") -> Judgement:
    return _settles(records, "geoff")


@_claim(
    "M1",
    "mnist",
    "On MNIST, all learners end up with similar solutions.",
    f"{ASYMPTOTIC}A part for each pair of crossprop-approx, crossprop-approx-0.5, backprop, momentum, rmsprop and adam:"
    f" their asymptotic shares of misclassified examples differ by less than {rules.SIMILAR_ERROR:g} percentage"
    f" points.{NOT_RUN}{INTERVALS}",
)
def _m1(records: "xarray.Dataset") -> Judgement:
    return rules.similar_in_pairs(Runs(records))


@_claim(
    "M2",
    "mnist",
    "On MNIST, Adam and RMSProp end up with a significantly lower error than all other learners.",
    f"{ASYMPTOTIC}The asymptotic cross-entropy of adam and of rmsprop is significantly lower than each of"
    " crossprop-approx's, crossprop-approx-0.5's, backprop's and momentum's: eight parts."
    f"{NOT_RUN}{PARTS}{SIGNIFICANT}",
)
def _m2(records: "xarray.Dataset") -> Judgement:
    others = [*CROSSPROP["mnist"], *MIXTURES["mnist"], "backprop", "momentum"]
    return rules.significantly_better(Runs(records), "mnist", ["adam", "rmsprop"], others)


@_claim(
    "M3",
    "mnist",
    "On MNIST, crossprop changes the incoming weights the least and the outgoing weights the most.",
    f"{RIVALS}For crossprop-approx (eta 0), two parts: its incoming drift is smaller and its outgoing drift greater"
    f" than every rival's (ratios above 1).{NOT_RUN}{INTERVALS}",
)
def _m3(records: "xarray.Dataset") -> Judgement:
    return rules.first_in_drift(Runs(records), "mnist", [INCOMING, OUTGOING])


@_claim(
    "M4",
    "mnist",
    "On MNIST, crossprop settles on its features much sooner than backprop and its variants.",
    SETTLED.format("For crossprop-approx (eta 0),") + NOT_RUN,
)
def _m4(records: "xarray.Dataset") -> Judgement:
    return _settles(records, "mnist")


@_claim(
    "T1",
    "features",
    "The features of backprop and of crossprop both cluster examples by label, and do not differ visibly.",
    "Neighbour share: how many of an example's 10 nearest neighbours in feature space have its label; by chance 0.1."
    f" Three parts: its mean is above {CLUSTERED:g} for backprop, above {CLUSTERED:g} for crossprop-approx (eta 0), and"
    f" the two differ by less than {SIMILAR_NEIGHBOURS:g}, paired over examples. It judges the features themselves, not"
    f" the look of a t-SNE map; frozen features, raw pixels and silhouettes are shown, not counted.{INTERVALS}",
)
def _t1(features: "xarray.Dataset") -> Judgement:
    present, counted = [str(name) for name in features["representation"].values], ("backprop", "crossprop-approx")
    lacking = [name for name in counted if name not in present] + ["neighbours"] * ("neighbours" not in features)
    if lacking:
        raise CannotDecide(f"the features hold no {', '.join(lacking)}")
    level = together(3)

    def values(variable: str, name: str) -> np.ndarray:
        return features[variable].sel(representation=name).values.astype(np.float64)

    def mean(variable: str, name: str) -> Number:
        return number(f"{variable}, {name}", paired_difference(values(variable, name), 0.0, level))

    shares = {name: values("neighbours", name) for name in counted}
    if not all(np.isfinite(share).all() for share in shares.values()):
        raise CannotDecide("the neighbour shares of backprop or crossprop-approx are not all finite")
    difference = paired_difference(shares["crossprop-approx"], shares["backprop"], level)
    apart = number("neighbours, crossprop-approx - backprop", difference)
    means = {name: mean("neighbours", name) for name in present}
    parts = [Part(f"{name} clusters by label", inside(means[name], CLUSTERED), means[name]) for name in counted]
    parts.append(Part("they differ little", inside(apart, -SIMILAR_NEIGHBOURS, SIMILAR_NEIGHBOURS), apart))
    shown = [*means.values(), apart]
    if "silhouette" in features:
        shown += [mean("silhouette", name) for name in present]
    beside = "; ".join(f"beside them {means[name]}" for name in ("frozen", "pixels") if name in present)
    return judge(parts, shown, difference.pairs, beside)


@_claim(
    "R1",
    "geoff",
    f"On GEOFF, {LEARNS}",
    FROZEN.format(learners="crossprop and crossprop-approx (eta 0)", error="Squared error"),
)
def _r1(records: "xarray.Dataset") -> Judgement:
    return rules.learns_features(Runs(records), CROSSPROP["geoff"], (LOSS,))


@_claim(
    "R1m",
    "mnist",
    f"On MNIST, {LEARNS}",
    FROZEN.format(
        learners="crossprop-approx (eta 0), and exact crossprop (eta 0) where it was run",
        error="The share misclassified and the cross-entropy both",
    ),
)
def _r1m(records: "xarray.Dataset") -> Judgement:
    runs = Runs(records)
    exact = [name for name in runs.learners if name == "crossprop"]
    return rules.learns_features(runs, [*exact, *CROSSPROP["mnist"]], (ERROR, LOSS))
