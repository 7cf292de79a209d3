"""Wording that the rules of several claims of this paper share."""

from crossprop.library.texts import STRICT
from crossprop.library.veeriah2017._rules import MUCH

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
FROZEN = (
    "Against frozen, whose incoming weights never change, with the same seeds: a part each for {learners}. {error} over"
    " all steps below frozen's (ratio below 1). Each task visit and the time just after a switch"
    f" ({AFTER_SWITCH}) are compared as well, and not counted.{STRICT}"
)
LEARNS = "crossprop with eta 0 learns features, rather than leaving them where they started."
