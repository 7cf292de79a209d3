"""Shared by papers with permuted images: the loss of accuracy from the first tasks to the last."""

import numpy as np

from crossprop.experiments.measures import CannotDecide, Quantity, Runs

EARLY, LATE = 0.2, 0.1
FEWEST = 3
"""Tasks, so that the early and the late ones are not the same."""


def at_end(runs: Runs, name: str) -> np.ndarray:
    """The percentage that each run misclassifies at the end."""
    curve = runs.curve("error", name)
    return 100 * curve[:, -max(1, round(LATE * curve.shape[1])) :].mean(axis=1)


def lost(runs: Runs, name: str) -> np.ndarray:
    """How many points more each run misclassifies at the end than at first."""
    curve = runs.curve("error", name)
    if curve.shape[1] < FEWEST:
        raise CannotDecide(f"it takes {FEWEST} tasks or more, and the records have {curve.shape[1]}")
    return at_end(runs, name) - 100 * curve[:, 1 : max(2, round(EARLY * curve.shape[1]))].mean(axis=1)


POINTS = "percentage points"
LOST = Quantity("points lost", "", lost, POINTS)
AT_END = Quantity("misclassified at the end", "", at_end, POINTS)
OVER_ALL = Quantity(
    "misclassified over all tasks", "", lambda runs, name: 100 * runs.curve("error", name).mean(axis=1), POINTS
)
MEASURES = {each.name: each for each in (LOST, AT_END, OVER_ALL)}
