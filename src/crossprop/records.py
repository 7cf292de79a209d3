"""The schema of records: their variables, tasks and visits, phases of a run, and the fields of a learner.

`crossprop.run` returns one value per window of `record_every` steps for each variable. A *visit* is a stretch of
consecutive windows on one task, and a *switch* is where one visit ends and the next begins.
"""

import json
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop._support import checks as check
from crossprop.variables import DRIFT, LOSS, VARIABLES, Variable, drift

if TYPE_CHECKING:
    import xarray

END_SHARE = 0.2
"""The last fifth of each visit is the end of the task: what the paper calls asymptotic."""
SWITCH_SHARE = 0.1
"""The first tenth of every visit but the first is the time just after a switch."""
PHASES = {"all": "over all steps", "end": "at the end of tasks", "switch": "just after a switch"}
"""The phases of a run, with their titles."""


def describe(records: Container[str], name: str) -> Variable:
    """A variable of these records. With classes, which is when there is an `error`, the loss is a cross-entropy; of
    predictions, which is when there is `known`, it is the error against the return."""
    if name == "loss" and "error" in records:
        return replace(LOSS, title="cross-entropy", unit="nats")
    if name == "loss" and "known" in records:
        return replace(LOSS, title="squared error of the return")
    if name.startswith(DRIFT):
        return drift(name.removeprefix(DRIFT))
    return VARIABLES.get(name) or Variable(name, reads="state", title=name.replace("_", " "))


def curves(records: "xarray.Dataset") -> list[Variable]:
    """The variables to draw, in the order of the charts; probes and metrics are left out."""
    drifts = [str(name) for name in records.data_vars if str(name).startswith(DRIFT)]
    return [describe(records, name) for name in (*VARIABLES, *drifts) if name in records]


def measure(records: Container[str]) -> str:
    """The variable that learners are compared by: the share misclassified if there are classes, else the loss."""
    return "error" if "error" in records else "loss"


def switches(task: np.ndarray) -> np.ndarray:
    """The index of the first window of every visit but the first."""
    return np.flatnonzero(np.diff(task)) + 1


def visits(task: np.ndarray) -> list[np.ndarray]:
    """The windows of each visit, as indices."""
    return np.split(np.arange(len(task)), switches(task))


def phase_windows(task: np.ndarray, phase: str) -> list[np.ndarray]:
    """The windows of a phase, as indices: one array for all steps, otherwise one for each visit that has the phase."""
    check.choice("phase", phase, PHASES)
    if phase == "all":
        return [np.arange(len(task))]
    if phase == "end":
        return [visit[-_count(visit, END_SHARE) :] for visit in visits(task)]
    return [visit[: _count(visit, SWITCH_SHARE)] for visit in visits(task)[1:]]


def _count(visit: np.ndarray, share: float) -> int:
    return max(1, round(share * len(visit)))


def window_lengths(records: "xarray.Dataset") -> np.ndarray:
    """The number of examples in each window: the coordinate `window`, 0 where a run has no record.

    In records without it, such as records made by hand, lengths are the differences of `step`. It is a ValueError if
    the first window cannot have begun at step 0, since its length is then unknown.
    """
    if "window" in records.coords:
        window = records["window"]
        if window.dims != ("step",):
            found = ", ".join(map(str, window.dims))
            raise ValueError(f"window must have the dim step, got {found}: choose one run of each seed, as by .sel")
        return np.nan_to_num(window.values)
    step = records["step"].values
    lengths = np.diff(step, prepend=0)
    likely = {json.loads(str(records.attrs.get("record_every", "null"))), *lengths[1:2].tolist()}
    if len(step) > 1 and lengths[0] not in likely:
        raise ValueError(
            f"records must have the coordinate window, the number of examples in each window, if they begin later than "
            f"a run: got none, with step {step[0]}, {step[1]}, ..."
        )
    return lengths


def phase_weights(lengths: np.ndarray, task: np.ndarray, phase: str) -> np.ndarray:
    """How many examples of each window, of these lengths, belong to a phase: all of them or none."""
    weights = np.zeros_like(lengths)
    for windows in phase_windows(task, phase):
        weights[windows] = lengths[windows]
    return weights


LETTERS = 26
ROOM = 36
"""How many characters of task labels fit above a chart, counting one space behind each."""


class Mark(NamedTuple):
    """A visit to mark on a chart: the label of its task, and the steps at which it starts and ends."""

    label: str
    start: int
    end: int


def task_label(task: int) -> str:
    """`A` for task 0 to `Z` for task 25, and the number itself from there on."""
    return chr(ord("A") + task) if 0 <= task < LETTERS else str(task)


def marks(step: np.ndarray, task: np.ndarray, first: int = 0) -> list[Mark]:
    """The visits to mark on a chart of records that begin at step `first`. Where their labels would collide, only every
    second, third, ... visit is there."""
    found = [
        Mark(task_label(int(task[visit[0]])), int(step[visit[0] - 1]) if visit[0] else first, int(step[visit[-1]]))
        for visit in visits(task)
    ]
    widest = max(len(mark.label) for mark in found)
    return found[:: -(-len(found) * (widest + 1) // ROOM)]


class LearnerInfo(NamedTuple):
    """The names of a learner's credit rule, optimizer and replacement of units."""

    rule: str
    optimizer: str
    replacement: str


NONE = "none"


def info_coordinates(learners: Mapping[str, LearnerInfo]) -> dict[str, tuple[str, list[str]]]:
    """The coordinates `rule`, `optimizer` and `replacement` of records, on the dim `learner`."""
    return {field: ("learner", [getattr(info, field) for info in learners.values()]) for field in LearnerInfo._fields}


def learner_infos(records: "xarray.Dataset") -> dict[str, LearnerInfo]:
    """The credit rule, optimizer and replacement of each learner. In records without these coordinates, such as records
    made by hand, a learner's name is taken for its rule."""
    names = [str(name) for name in records["learner"].values]
    if all(field in records.coords for field in LearnerInfo._fields):
        columns = [map(str, records[field].values) for field in LearnerInfo._fields]
        return {name: LearnerInfo(*fields) for name, *fields in zip(names, *columns, strict=True)}
    return {name: LearnerInfo(name, NONE, NONE) for name in names}
