"""The claims about GEOFF."""

from crossprop.library.measures import Runs
from crossprop.library.texts import INTERVALS, STRICT
from crossprop.library.veeriah2017 import _rules as rules
from crossprop.library.veeriah2017 import _texts as texts
from crossprop.library.veeriah2017._rules import BACKPROP, CROSSPROP, LOSS, MUCH, OUTGOING
from crossprop.library.verdicts import Claim

BOTH = "For crossprop and for crossprop-approx (eta 0), "


CLAIMS = (
    Claim(
        "G1",
        "geoff",
        "On GEOFF, crossprop ends up with an error similar to backprop's.",
        f"{texts.ASYMPTOTIC}{BOTH}a part each: the ratio of its asymptotic squared error to backprop's lies between"
        f" 1/{rules.SIMILAR_RATIO:.2f} and {rules.SIMILAR_RATIO:.2f}.{INTERVALS}",
        lambda records: rules.similar_to_backprop(Runs(records)),
    ),
    Claim(
        "G2",
        "geoff",
        "On GEOFF, backprop ends up with a significantly lower error than crossprop, momentum, RMSProp and Adam.",
        f"{texts.ASYMPTOTIC}Backprop's asymptotic squared error is significantly lower (ratio below 1) than each of"
        f" crossprop's, crossprop-approx's (eta 0), momentum's, rmsprop's and adam's: five parts.{STRICT}",
        lambda records: rules.significantly_better(
            Runs(records), "geoff", ["backprop"], [*CROSSPROP["geoff"], *BACKPROP[1:]]
        ),
    ),
    Claim(
        "G3",
        "geoff",
        "On GEOFF, crossprop changes the incoming weights the least, and backprop and its variants change them much"
        " more.",
        f"{texts.RIVALS}{BOTH}two parts each: the incoming drift of every rival is greater (ratio above 1), and that of"
        f" backprop and every variant at least {MUCH:g} times as great.{STRICT}",
        lambda records: rules.moves_least(Runs(records), "geoff"),
    ),
    Claim(
        "G4",
        "geoff",
        "On GEOFF, crossprop changes the outgoing weights the most.",
        f"{texts.RIVALS}{BOTH}a part each: its outgoing drift is greater than every rival's (ratio above 1).{STRICT}",
        lambda records: rules.first_in_drift(Runs(records), "geoff", [OUTGOING]),
    ),
    Claim(
        "G5",
        "geoff",
        "On GEOFF, crossprop reuses features: after a switch it adapts by moving the outgoing weights, not the"
        " incoming.",
        f"Just after a switch: {texts.AFTER_SWITCH}. Movement: the changes of a drift from window to window, added up,"
        " which is a lower bound of the distance the weights travelled; W's share is W's movement divided by W's and"
        f" U's. {BOTH}two parts each: W's share is above 0.5, and it is greater than that of backprop and of every"
        f" variant (difference above 0).{STRICT}",
        lambda records: rules.adapts_by_outgoing(Runs(records)),
    ),
    Claim(
        "G6",
        "geoff",
        "On GEOFF, crossprop settles on its features much sooner than backprop and its variants.",
        texts.SETTLED.format(BOTH.strip()),
        lambda records: rules.settles_first(Runs(records), "geoff"),
    ),
)
OWN_CLAIMS = (
    Claim(
        "R1",
        "geoff",
        f"Ours, not the paper's: on GEOFF, {texts.LEARNS}",
        texts.FROZEN.format(learners="crossprop and crossprop-approx (eta 0)", error="Its squared error"),
        lambda records: rules.learns_features(Runs(records), CROSSPROP["geoff"], (LOSS,)),
    ),
)
