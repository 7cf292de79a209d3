"""The numbers in the charts of a page, thinned and rounded; `page.js` draws them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop.figures import Along, Look, Published, is_control, looks, score_limits
from crossprop.records import switches
from crossprop.statistics import Estimate, mean_interval
from crossprop.variables import Variable

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


def curves(
    records: "xarray.Dataset", variables: Sequence[str] = (), published: Published = MappingProxyType({})
) -> list[dict[str, Any]]:
    """One chart per variable: a line for each learner, with a band if there are several seeds.

    Without `variables` there is one for each variable that has a title. On the first one, what was `published` is
    marked.
    """
    starts = _group_starts(records.task.values)
    shown = [schema.describe(records, name) for name in variables] or schema.curves(records)
    found = [_chart(records, variable, starts) for variable in shown]
    return [chart | marked(chart["lines"], {} if at else published) for at, chart in enumerate(found)]


def marked(lines: Sequence[Mapping[str, Any]], published: Published) -> dict[str, Any]:
    """The published values of a chart with these lines, as the page's script takes them."""
    look = {line["name"]: {key: line[key] for key in ("name", "light", "dark")} for line in lines}
    places = {name: tuple(map(list, zip(*points, strict=True))) for name, points in published.items() if name in look}
    return {"published": [look[name] | {"x": x, "y": y} for name, (x, y) in places.items()]}


def _chart(records: "xarray.Dataset", variable: Variable, starts: np.ndarray) -> dict[str, Any]:
    step = records.step.values
    ends = np.append(starts[1:], len(step)) - 1
    seeds = int(records.sizes["seed"])
    estimate = mean_interval(_grouped(records, variable, starts, ends))
    infos = schema.learner_infos(records)
    lines = [
        estimate_line(name, Estimate(*(part[at] for part in estimate)), look, seeds, is_control(infos[name]))
        for at, (name, look) in enumerate(looks(infos).items())
    ]
    return {
        "variable": variable.name,
        "title": variable.title,
        "log": variable.log,
        "lines": lines,
        "zeros": [line["name"] for line in lines if not any(line["mean"])],
        "step": [int(at) for at in step[ends]],
        "seeds": seeds,
    } | switch_marks(records)


def estimate_line(name: str, estimate: Estimate, look: Look, seeds: int, control: bool = False) -> dict[str, Any]:
    """A line of a chart, with a band if there are several seeds, as the page's script takes it."""
    parts = estimate._fields if seeds > 1 else ("mean",)
    return {"name": name} | line_look(look, control) | {part: rounded(getattr(estimate, part)) for part in parts}


def switch_marks(records: "xarray.Dataset") -> dict[str, Any]:
    """Where the task switches, and the labels of the tasks; nothing if it never does."""
    task = records.task.values
    step, lengths = records.step.values, schema.window_lengths(records)
    marks = schema.marks(step, task, int(step[0] - lengths[0])) if switches(task).size else []
    return {
        "switches": [mark.start for mark in marks if mark.start >= step[0]],
        "tasks": [{"label": mark.label, "at": (mark.start + mark.end) / 2} for mark in marks],
    }


def _grouped(records: "xarray.Dataset", variable: Variable, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """One value per group of windows, with dims seed, learner and group."""
    values = records[variable.name].transpose("seed", "learner", "step").values.astype(np.float64)
    if not variable.averaged:
        return values[..., ends]
    lengths = schema.window_lengths(records)
    return np.add.reduceat(values * lengths, starts, axis=-1) / np.add.reduceat(lengths, starts)


def along(records: "xarray.Dataset", chart: Along, published: Published) -> dict[str, Any]:
    """A chart along a setting on a logarithmic axis, as the page's script takes it."""
    lines, found = [], chart.looks(records)
    for name, (x, estimate) in chart.estimates(records).items():
        numbers = {key: rounded(getattr(estimate, key)) for key in estimate._fields}
        gone = np.flatnonzero(~np.isfinite(estimate.mean)).tolist()
        lines.append(
            {"name": name, "x": x, "labels": [f"{value:g}" for value in x], "diverged": gone}
            | line_look(found[name])
            | numbers
        )
    places = sorted({value for line in lines for value in line["x"]})
    ticks = [[value, f"{value:g}"] for value in _round_ticks(places)]
    limits = score_limits(value for line in lines for value in line["mean"] if value is not None)
    axes = {"along": chart.axis, "numbers": True, "log": True, "limits": limits, "ticks": ticks}
    title = schema.describe(records, "loss").title
    return {"name": chart.title, "title": title, "lines": lines} | axes | marked(lines, published)


def _round_ticks(places: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten within the places of a logarithmic axis."""
    powers = range(math.floor(math.log10(places[0])), math.ceil(math.log10(places[-1])) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if places[0] <= tick * 1.0001 and tick <= places[-1] * 1.0001]


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
    return windows * int(schema.window_lengths(records).max())


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
