"""Figures of records: curves with bootstrap bands, crossprop blue, backprop red, the control grey."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

LOOKS = {
    "crossprop": ("#08306b", "-"),
    "crossprop-0.5": ("#08306b", "--"),
    "crossprop-approx": ("#4292c6", "-"),
    "crossprop-approx-0.5": ("#4292c6", "--"),
    "crossprop-projected": ("#41b6c4", "-"),
    "crossprop-sum": ("#41b6c4", ":"),
    "backprop": ("#67000d", "-"),
    "momentum": ("#cb181d", "-"),
    "rmsprop": ("#cb181d", "--"),
    "adam": ("#fb6a4a", "-"),
    "frozen": ("#737373", "-"),
}
OTHERS = ("#238b45", "#6a51a3", "#d94801", "#74c476", "#9e9ac8", "#fdae6b")

TITLES = {
    "squared": "squared error",
    "softmax": "cross-entropy",
    "error": "share misclassified",
    "incoming_drift": "change of incoming weights, |U − U₀|",
    "outgoing_drift": "change of outgoing weights, |W − W₀|",
}


def look(name: str, others: list[str]) -> tuple[str, str]:
    """The colour and line style of a learner; those without one of their own go round a few."""
    return LOOKS.get(name) or (OTHERS[others.index(name) % len(OTHERS)], "-")


def curves(records: "xarray.Dataset", path: str | Path) -> None:
    """Draws every curve of `records` over the steps, a panel each, to a file."""
    from matplotlib.figure import Figure

    names = [name for name in ("loss", "error", "incoming_drift", "outgoing_drift") if name in records]
    figure = Figure(figsize=(4.6 * len(names), 4.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        panel(axes, records, name)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    seeds = records.sizes["seed"]
    band = "mean and 95% bootstrap band" if seeds > 1 else "one run"
    figure.suptitle(f"{band}, {seeds} seed{'s' * (seeds > 1)}", fontsize=10, color="#555555")
    figure.savefig(path, dpi=150)


def panel(axes: Any, records: "xarray.Dataset", name: str) -> None:
    """One variable's curves, a band around each where there are seeds enough, task switches marked."""
    step = records.step.values
    others = [str(learner) for learner in records.learner.values if str(learner) not in LOOKS]
    estimate = mean_interval(records[name].transpose("seed", "learner", "step").values)
    for index, learner in enumerate(map(str, records.learner.values)):
        colour, style = look(learner, others)
        axes.plot(step, estimate.mean[index], style, color=colour, linewidth=1.3, label=learner)
        axes.fill_between(step, estimate.low[index], estimate.high[index], color=colour, alpha=0.15, linewidth=0)
    switches = np.flatnonzero(np.diff(records.task.values))
    for switch in step[switches]:
        axes.axvline(switch, color="#999999", linewidth=0.7, linestyle=":")
    for start in [0, *(switches + 1)]:
        letter = chr(ord("A") + int(records.task.values[start]))
        axes.annotate(letter, (step[start], 1.01), xycoords=("data", "axes fraction"), color="#777777", fontsize=9)
    if name == "loss" and (estimate.mean > 0).any():
        axes.set_yscale("log")
    axes.set_title(_title(records, name), fontsize=10, pad=16)
    axes.set_xlabel("examples")
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)


def _title(records: "xarray.Dataset", name: str) -> str:
    return TITLES["softmax" if "error" in records else "squared"] if name == "loss" else TITLES[name]
