"""Shared by papers with permuted images: smaller images, and the loss of accuracy from the first tasks to the last."""

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.datasets import DataSet
from crossprop.experiments.findings import HIGHER, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.papers import Drawing, Plan, Version, curves_of
from crossprop.learners import Learner
from crossprop.streams import PermutedInputs

if TYPE_CHECKING:
    import xarray

EARLY, LATE = 0.2, 0.1
FEWEST = 3
"""Tasks, so that the early and the late ones are not the same."""
TASK_ERRORS = """Misclassified: the share over a whole task, from its first example on. At first: the first fifth of \
the tasks without the very first; at the end: the last tenth. Lost: the points misclassified at the end less those at \
first."""


@cache
def smaller(data: DataSet) -> DataSet:
    """Images of 28x28 pixels with a quarter of them, each the mean of four."""
    x = data.x.reshape(len(data.x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(data.x), 196)
    return DataSet(f"{data.name}-14x14", x, data.y, data.classes)


def without_tasks(records: "xarray.Dataset") -> "xarray.Dataset":
    """The records without their tasks, where there are too many to mark on a chart."""
    return records.assign_coords(task=("step", np.zeros(records.sizes["step"], int)))


def plan(
    version: Version, learners: Mapping[str, Learner], stream: PermutedInputs, seeds: int, numbers: Mapping[str, Any]
) -> Plan:
    """An experiment with a record for every task; `numbers` are its own among those of the settings."""
    assert stream.examples is not None and stream.steps is not None
    images = "the full set is not here" if version.size == "full" else version.why
    sizes = {"tasks": stream.steps // stream.examples, "examples": stream.examples, "pixels": stream.inputs}
    drawings = (Drawing(charts=partial(curves_of, variables=("error",), of=without_tasks)),)
    return Plan(
        learners, stream, seeds, stream.examples, numbers={**sizes, "images": images, **numbers}, drawings=drawings
    )


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


LOST = Quantity("points lost", "", lost, "percentage points")
AT_END = Quantity("misclassified at the end", "", at_end, "percentage points")
OVER_ALL = Quantity(
    "misclassified over all tasks",
    "",
    lambda runs, name: 100 * runs.curve("error", name).mean(axis=1),
    "percentage points",
)


def loses(runs: Runs, name: str, bounds: Bounds, part: str) -> Finding:
    """The accuracy that a learner loses."""
    says = f"{name} misclassifies {{}} at the end than at first"
    about = {"form": "{} points more|less", "learner": name, "unit": LOST.unit, "part": part}
    return runs.mean(LOST.name, lost(runs, name), bounds, says, **about)


def worse(runs: Runs, a: str, b: str, part: str, of: Quantity = AT_END) -> Finding:
    """The difference of two learners' shares misclassified, at the end or over all tasks."""
    when = of.name.removeprefix("misclassified ")
    return runs.difference(of, a, b, HIGHER, f"{when} {a} misclassifies {{}} than {b}", part=part)
