"""The numbers in the charts of a page, thinned and rounded; `page.js` draws them."""

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop.figures import Look, is_control, looks
from crossprop.records import Variable, switches
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

POINTS = 400
DIGITS = 4
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
# On a dark page, the same hues in brighter shades; crossprop, backprop and the control stay apart when simulated
# for colour-blind eyes.
DARK = {
    "#08306b": "#4b9bff",
    "#4292c6": "#a9d6ff",
    "#41b6c4": "#5fd0dd",
    "#02818a": "#2fae95",
    "#67000d": "#ff5252",
    "#cb181d": "#ff9b7d",
    "#fb6a4a": "#ffd2b8",
    "#8f8f8f": "#7d838a",
    "#2171b5": "#6db1ff",
    "#a50f15": "#ff6b6b",
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
    infos = schema.learner_infos(records)
    for at, (name, look) in enumerate(looks(infos).items()):
        line = {"name": name} | line_look(look, is_control(infos[name])) | {"mean": rounded(estimate.mean[at])}
        if seeds > 1:
            line |= {"low": rounded(estimate.low[at]), "high": rounded(estimate.high[at])}
        lines.append(line)
    marks = schema.marks(step, records.task.values)
    return {
        "variable": variable.name,
        "title": variable.title,
        "log": variable.log,
        "lines": lines,
        "zeros": [line["name"] for line in lines if not any(line["mean"])],
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


def line_look(look: Look, control: bool = False) -> dict[str, Any]:
    """The colours of a line on the light and the dark page, its dashes, and whether it lies behind the others, as the
    page's script takes them."""
    colour, style = look
    return {"light": colour, "dark": DARK.get(colour, colour), "dash": DASHES[style], "control": control}


def headline(chart: dict[str, Any], notes: Mapping[str, str]) -> dict[str, Any]:
    """A chart with a few of its lines, each with a note beside its end."""
    lines = [line | {"note": notes[line["name"]]} for line in chart["lines"] if line["name"] in notes]
    return chart | {"lines": lines}


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
