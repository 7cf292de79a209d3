"""Mahmood and Sutton (2013), "Representation search through generate and test": random features, fixed or searched."""

from itertools import pairwise

from crossprop.experiments.findings import LESS_TIMES, Finding
from crossprop.experiments.measures import Quantity, Runs
from crossprop.experiments.papers import read_paper

FIXED, SEARCHED = (100, 300, 1000, 3000), (100, 300)
TIMES = 10
END = 10
"""Windows at the end, of 50."""


def fixed(features: int) -> str:
    """The learner with so many features that stay."""
    return f"{features:,} fixed"


def searched(features: int) -> str:
    """The learner with so many features that are searched."""
    return f"{features:,} searched"


AT_END = Quantity("error at the end", "error", lambda runs, name: runs.curve("loss", name)[:, -END:].mean(axis=1))


def _change(runs: Runs, name: str, part: str = "") -> Finding:
    """The ratio of the error at the end to the error before the middle."""
    curve = runs.curve("loss", name)
    middle = curve.shape[1] // 2
    end, before = curve[:, -END:].mean(axis=1), curve[:, middle - END : middle].mean(axis=1)
    says = f"the error with {name} features at the end is {{}} times that before the middle"
    return runs.change("error at the end / before", name, end, before, LESS_TIMES, says, part=part)


PAPER = read_paper(
    "mahmood2013",
    find={
        "R1": lambda runs: [
            runs.ratio(AT_END, more, fewer, LESS_TIMES, f"{more} are better")
            for fewer, more in pairwise(runs.having([*map(fixed, FIXED)]))
        ],
        "R2": lambda runs: [
            runs.ratio(AT_END, searched(each), fixed(TIMES * each), LESS_TIMES, f"{searched(each)} are better")
            for each in SEARCHED
        ],
        "R3": lambda runs: [
            *(_change(runs, searched(each), f"{searched(each)} improve") for each in SEARCHED),
            *(_change(runs, fixed(each)) for each in SEARCHED),
        ],
    },
    numbers=globals(),
)
