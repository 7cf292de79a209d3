"""The numbers behind the page's charts, thinned and rounded; `page.js` draws them."""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.figures import LOOKS, TITLES, look
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

POINTS = 400
DIGITS = 4
AVERAGED = ("loss", "error")
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
# Dark blues and reds vanish on a dark page: the same families, with the dark end turned to the light one.
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
    """A chart for every variable: a line per learner, with a band where there are seeds enough."""
    names = [str(name) for name in records.learner.values]
    others = [name for name in names if name not in LOOKS]
    task, step = records.task.values, records.step.values
    starts = _thinned(task)
    ends = np.append(starts[1:], len(step)) - 1
    switches = np.flatnonzero(np.diff(task[ends]))
    edges = [0, *(int(step[ends[at]]) for at in switches), int(step[-1])]
    shared = {
        "step": [int(at) for at in step[ends]],
        "seeds": int(records.sizes["seed"]),
        "switches": edges[1:-1],
        "tasks": [
            {"letter": chr(ord("A") + int(task[ends[at]])), "at": (low + high) / 2}
            for at, low, high in zip([0, *(switches + 1)], edges[:-1], edges[1:], strict=True)
        ],
    }
    charts = []
    for variable in ("loss", "error", "incoming_drift", "outgoing_drift"):
        if variable not in records:
            continue
        values = records[variable].transpose("seed", "learner", "step").values.astype(np.float64)
        if variable in AVERAGED:
            lengths = np.diff(step, prepend=0)
            values = np.add.reduceat(values * lengths, starts, axis=-1) / np.add.reduceat(lengths, starts)
        else:
            values = values[..., ends]
        estimate = mean_interval(values)
        lines = []
        for at, name in enumerate(names):
            colour, style = look(name, others)
            line: dict[str, Any] = {
                "name": name,
                "light": colour,
                "dark": DARK.get(colour, colour),
                "dash": DASHES[style],
            }
            line["mean"] = rounded(estimate.mean[at])
            if shared["seeds"] > 1:
                line |= {"low": rounded(estimate.low[at]), "high": rounded(estimate.high[at])}
            lines.append(line)
        charts.append(
            {"variable": variable, "title": title(records, variable), "log": variable == "loss", "lines": lines}
            | shared
        )
    return charts


def clouds(features: "xarray.Dataset") -> list[dict[str, Any]]:
    """A chart for every representation: the examples where t-SNE puts them, by label."""
    labels = features.label.values
    return [
        {
            "representation": str(representation),
            "groups": [
                {
                    "label": str(label),
                    "x": [round(float(value), 2) for value in places[labels == label, 0]],
                    "y": [round(float(value), 2) for value in places[labels == label, 1]],
                }
                for label in np.unique(labels)
            ],
        }
        for representation in features.representation.values
        for places in [features.tsne.sel(representation=representation).transpose("example", ...).values]
    ]


def title(records: "xarray.Dataset", variable: str) -> str:
    """What the variable's axis says."""
    return TITLES[variable] if variable != "loss" else TITLES["softmax" if "error" in records else "squared"]


def points_of(records: "xarray.Dataset") -> int:
    """The examples that a point of the curves stands for."""
    every = int(np.diff(_thinned(records.task.values), append=records.sizes["step"]).max())
    return every * int(np.diff(records.step.values, prepend=0).max())


def _thinned(task: np.ndarray) -> np.ndarray:
    """Where groups of neighbouring records start, few enough to draw; no group reaches over a task switch."""
    bounds = [0, *(np.flatnonzero(np.diff(task)) + 1), len(task)]
    every = max(1, math.ceil(len(task) / POINTS))
    while True:
        starts = np.concatenate([np.arange(low, high, every) for low, high in itertools.pairwise(bounds)])
        if len(starts) <= max(POINTS, len(bounds)):
            return starts
        every += 1


def rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]
