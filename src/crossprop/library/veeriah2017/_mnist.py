"""The claims about label-shifted MNIST."""

from typing import TYPE_CHECKING

from crossprop.library.measures import Runs
from crossprop.library.texts import INTERVALS, STRICT
from crossprop.library.veeriah2017 import _rules as rules
from crossprop.library.veeriah2017 import _texts as texts
from crossprop.library.veeriah2017._rules import CROSSPROP, ERROR, INCOMING, LOSS, MIXTURES, OUTGOING
from crossprop.library.verdicts import Claim, Judgement

if TYPE_CHECKING:
    import xarray

SHOWN_ONLY = " Learners that the paper did not run on MNIST are shown, not counted."


def _adam_and_rmsprop_lowest(records: "xarray.Dataset") -> Judgement:
    others = [*CROSSPROP["mnist"], *MIXTURES["mnist"], "backprop", "momentum"]
    return rules.significantly_better(Runs(records), "mnist", ["adam", "rmsprop"], others)


def _learns_features(records: "xarray.Dataset") -> Judgement:
    runs = Runs(records)
    exact = [name for name in runs.learners if name == "crossprop"]
    return rules.learns_features(runs, [*exact, *CROSSPROP["mnist"]], (ERROR, LOSS))


CLAIMS = (
    Claim(
        "M1",
        "mnist",
        "On MNIST, all learners end up with similar solutions.",
        f"{texts.ASYMPTOTIC}A part for each pair of crossprop-approx, crossprop-approx-0.5, backprop, momentum, rmsprop"
        " and adam: their asymptotic shares of misclassified examples differ by less than"
        f" {rules.SIMILAR_ERROR:g} percentage points.{SHOWN_ONLY}{INTERVALS}",
        lambda records: rules.similar_in_pairs(Runs(records)),
    ),
    Claim(
        "M2",
        "mnist",
        "On MNIST, Adam and RMSProp end up with a significantly lower error than all other learners.",
        f"{texts.ASYMPTOTIC}The asymptotic cross-entropy of adam and of rmsprop is significantly lower (ratio below 1)"
        " than each of crossprop-approx's, crossprop-approx-0.5's, backprop's and momentum's: eight parts."
        f"{SHOWN_ONLY}{STRICT}",
        _adam_and_rmsprop_lowest,
    ),
    Claim(
        "M3",
        "mnist",
        "On MNIST, crossprop changes the incoming weights the least and the outgoing weights the most.",
        f"{texts.RIVALS}For crossprop-approx (eta 0), two parts: its incoming drift is smaller and its outgoing drift"
        f" greater than every rival's (ratios above 1).{SHOWN_ONLY}{STRICT}",
        lambda records: rules.first_in_drift(Runs(records), "mnist", [INCOMING, OUTGOING]),
    ),
    Claim(
        "M4",
        "mnist",
        "On MNIST, crossprop settles on its features much sooner than backprop and its variants.",
        texts.SETTLED.format("For crossprop-approx (eta 0),") + SHOWN_ONLY,
        lambda records: rules.settles_first(Runs(records), "mnist"),
    ),
)
OWN_CLAIMS = (
    Claim(
        "R1m",
        "mnist",
        f"Ours, not the paper's: on MNIST, {texts.LEARNS}",
        texts.FROZEN.format(
            learners="crossprop-approx (eta 0), and exact crossprop (eta 0) where it was run",
            error="Its share misclassified and its cross-entropy, both",
        ),
        _learns_features,
    ),
)
