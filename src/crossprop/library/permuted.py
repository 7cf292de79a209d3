"""What papers with permuted images share: smaller images, and how much is lost from the first tasks to the last."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from crossprop._support.formats import points
from crossprop.datasets import DataSet
from crossprop.learners import Learner
from crossprop.library import rules
from crossprop.library.measures import Runs
from crossprop.library.plans import Charts, Plan, Setting
from crossprop.library.verdicts import Bounds, CannotDecide, Finding
from crossprop.streams import PermutedInputs

if TYPE_CHECKING:
    import xarray

EARLY, LATE = 0.2, 0.1
FEWEST = 3
"""Tasks, so that the early and the late ones are not the same."""
ABOVE_ZERO = Bounds(low=0)
UNIT = "percentage points"
TASK_ERRORS = (
    "Misclassified: the share over a whole task, from its first example on. At first: the first fifth of the tasks"
    " without the very first; at the end: the last tenth. Lost: the points misclassified at the end less those at"
    " first. "
)


@cache
def smaller(data: DataSet) -> DataSet:
    """Images of 28x28 pixels with a quarter of them, each the mean of four."""
    x = data.x.reshape(len(data.x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(data.x), 196)
    return DataSet(f"{data.name}-14x14", x, data.y, data.classes)


def without_tasks(records: "xarray.Dataset") -> "xarray.Dataset":
    """The records without their tasks, where there are too many to mark on a chart."""
    return records.assign_coords(task=("step", np.zeros(records.sizes["step"], int)))


def plan(
    title: str,
    about: str,
    learners: Mapping[str, Learner],
    stream: PermutedInputs,
    seeds: int,
    settings: tuple[Setting, ...],
) -> Plan:
    """The experiment `mnist`, with a record for every task."""
    assert stream.examples is not None
    charts = (Charts(variables=("error",), of=without_tasks),)
    about += " The share misclassified is that of a whole task, from its first example on."
    return Plan("mnist", title, dict(learners), stream, seeds, stream.examples, settings, about, charts=charts)


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


def loses(runs: Runs, name: str, level: float, bounds: Bounds) -> Finding:
    """How much a learner loses."""
    number = rules.mean_of(f"points lost, {name}", lost(runs, name), level, UNIT)
    text = f"{name} misclassifies {{}} at the end than at first"
    return Finding(number, bounds, points(text, ("more", "less"), number.interval))


def loses_more(runs: Runs, a: str, b: str, level: float) -> Finding:
    """How much more one learner loses than another."""
    number, count = runs.apart(f"points lost, {a} - {b}", (lost(runs, a), lost(runs, b)), level, UNIT)
    return Finding(number, ABOVE_ZERO, points(f"{a} loses {{}} than {b}", ("more", "less"), number.interval, count))


def worse(runs: Runs, a: str, b: str, level: float, when: str = "at the end") -> Finding:
    """How much more one learner misclassifies than another, at the end or over all tasks."""
    of = at_end if when == "at the end" else lambda runs, name: 100 * runs.curve("error", name).mean(axis=1)
    number, count = runs.apart(f"misclassified {when}, {a} - {b}", (of(runs, a), of(runs, b)), level, UNIT)
    text = f"{when} {a} misclassifies {{}} than {b}"
    return Finding(number, ABOVE_ZERO, points(text, ("more", "less"), number.interval, count))
