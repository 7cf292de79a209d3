"""Wording that the rules of all claims share."""

from crossprop.library.verdicts import EQUAL

TOGETHER = (
    "Student's t intervals of paired values, widened (Bonferroni) to hold for all comparisons of the claim together at"
    " 95%"
)
PARTS = (
    " All parts true: holds. At least half: holds in part. Fewer, even if the undecided ones were true: does not hold."
    " Otherwise: not shown. If a learner that counts is missing or diverged: cannot be decided here."
)
INTERVALS = (
    f"{PARTS} Intervals are {TOGETHER}; a part is true if its interval lies inside the bounds, false if outside, and"
    " undecided if it includes both."
)
STRICT = f"{INTERVALS} An interval that excludes every difference of {EQUAL:.0%} or more shows that there is none."
