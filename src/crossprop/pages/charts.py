"""The numbers in the charts of a page, thinned and rounded; `page.js` draws them."""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop.figures import Look, looks
from crossprop.records import Variable, switches
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

POINTS = 400
DIGITS = 4
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
# Dark blues and reds are unreadable on a dark page: the same hues, with the dark shades exchanged for light ones.
DARK = {
    "#08306b": "#c6dbef",
    "#4292c6": "#4fa3dc",
    "#41b6c4": "#5fd0dd",
    "#02818a": "#35c2a9",
    "#67000d": "#ffc4bd",
    "#cb181d": "#f4575c",
    "#fb6a4a": "#ff9d6b",
    "#737373": "#a3a3a3",
    "#238b45": "#5fcf86",
    "#6a51a3": "#b39ddb",
    "#d94801": "#ff8a4a",
}


def curves(records: "xarray.Dataset") -> list[dict[str, Any]]:
    """One chart per variable: a line for each learner, with a band if there are several seeds."""
    starts = _group_starts(records.task.values)
    return [_chart(records, variable, starts) for variable in schema.curves(records)]


def _chart(records: "xarray.Dataset", variable: Variable, starts: np.ndarray) -> dict[str, Any]:
    step = records.step.values
    ends = np.append(starts[1:], len(step)) - 1
    seeds = int(records.sizes["seed"])
    estimate = mean_interval(_grouped(records, variable, starts, ends))
    lines = []
    for at, (name, look) in enumerate(looks(schema.learner_infos(records)).items()):
        line = {"name": name} | line_look(look) | {"mean": rounded(estimate.mean[at])}
        if seeds > 1:
            line |= {"low": rounded(estimate.low[at]), "high": rounded(estimate.high[at])}
        lines.append(line)
    marks = schema.marks(step, records.task.values)
    return {
        "variable": variable.name,
        "title": variable.title,
        "log": variable.log,
        "lines": lines,
        "step": [int(at) for at in step[ends]],
        "seeds": seeds,
        "switches": [mark.start for mark in marks if mark.start],
        "tasks": [{"label": mark.label, "at": (mark.start + mark.end) / 2} for mark in marks],
    }


def _grouped(records: "xarray.Dataset", variable: Variable, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """One value per group of windows, with dims seed, learner and group."""
    values = records[variable.name].transpose("seed", "learner", "step").values.astype(np.float64)
    if not variable.averaged:
        return values[..., ends]
    lengths = np.diff(records.step.values, prepend=0)
    return np.add.reduceat(values * lengths, starts, axis=-1) / np.add.reduceat(lengths, starts)


def line_look(look: Look) -> dict[str, Any]:
    """The colours of a line on the light and the dark page, and its dashes, as the page's script takes them."""
    colour, style = look
    return {"light": colour, "dark": DARK.get(colour, colour), "dash": DASHES[style]}


def examples_per_point(records: "xarray.Dataset") -> int:
    """How many examples one point of the curves stands for."""
    windows = int(np.diff(_group_starts(records.task.values), append=records.sizes["step"]).max())
    return windows * int(np.diff(records.step.values, prepend=0).max())


def _group_starts(task: np.ndarray) -> np.ndarray:
    """The first window of each group of neighbouring windows, at most `POINTS` groups.

    A group ends at a task switch, unless there are more visits than points.
    """
    bounds = [0, *switches(task), len(task)]
    if len(bounds) > POINTS:
        bounds = [0, len(task)]
    every = max(1, math.ceil(len(task) / POINTS))
    while True:
        starts = np.concatenate([np.arange(low, high, every) for low, high in itertools.pairwise(bounds)])
        if len(starts) <= POINTS:
            return starts
        every += 1


def rounded(values: np.ndarray) -> list[float | None]:
    """The values with a few digits; what is not finite is null in JSON."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]
