"""Wording that the rules of several claims share."""

from crossprop.paper._rules import MUCH
from crossprop.paper._verdicts import FEWEST

TOGETHER = (
    "Student's t intervals of paired values, widened (Bonferroni) to hold for all comparisons of the claim together at"
    " 95%"
)
PARTS = (
    " All parts true: holds. At least half: holds in part. Fewer, even if the undecided ones were true: does not hold."
    " Otherwise, or if a learner that counts is missing or diverged: cannot be decided here."
)
INTERVALS = f"{PARTS} Intervals are {TOGETHER}; a part is undecided if its interval crosses the bound."
SIGNIFICANT = (
    " Significantly lower: the interval of the paired difference lies below 0. If it reaches 0 the part is false, or"
    f" undecided with fewer than {FEWEST} pairs. Intervals are {TOGETHER}."
)
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
    f" {MUCH:g} times as late.{INTERVALS}"
)
FROZEN = (
    "Against frozen, whose incoming weights never change, with the same seeds: {learners}. Compared over all steps, in"
    f" each task visit, and just after a switch ({AFTER_SWITCH}). {{error}} significantly lower than frozen's over all"
    " steps for every such learner: holds. Significantly lower for some of them, or in some of these places: holds in"
    f" part. Nowhere: does not hold, or cannot be decided here with fewer than {FEWEST} pairs. If a learner that counts"
    f" is missing or diverged: cannot be decided here.{SIGNIFICANT}"
)
LEARNS = "crossprop with eta 0 learns features, rather than leaving them where they started."
