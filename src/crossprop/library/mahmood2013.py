"""Mahmood and Sutton (2013), "Representation search through generate and test": random features, fixed or searched."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from crossprop.experiments.measures import Quantity, Runs
from crossprop.experiments.papers import read_paper

if TYPE_CHECKING:
    import numpy as np

LAST = 10
"""Windows of a phase, of 50."""


def _before(end: float) -> "Callable[[Runs, str], np.ndarray]":
    """The mean error over the last windows before some share of the run."""

    def values(runs: Runs, name: str) -> "np.ndarray":
        curve = runs.curve("loss", name)
        stop = int(end * curve.shape[1])
        return curve[:, stop - LAST : stop].mean(axis=1)

    return values


MEASURES = {
    "error": Quantity("error at the end", "error", _before(1)),
    "change": Quantity("error at the end / before", "", _before(1), before=_before(0.5)),
}

PAPER = read_paper("mahmood2013", MEASURES)
