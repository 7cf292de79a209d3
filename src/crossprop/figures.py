"""Figures of records: curves with bootstrap bands; crossprop in blues, backprop in reds, the control grey."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import plural
from crossprop.records import LearnerInfo, Mark
from crossprop.statistics import Estimate, mean_interval

if TYPE_CHECKING:
    import xarray

Transform = Callable[[np.ndarray], np.ndarray]

LOOKS = {
    "crossprop": ("#08306b", "-"),
    "crossprop-0.5": ("#08306b", "--"),
    "crossprop-approx": ("#4292c6", "-"),
    "crossprop-approx-0.5": ("#4292c6", "--"),
    "crossprop-projected": ("#41b6c4", "-"),
    "crossprop-sum": ("#02818a", ":"),
    "backprop": ("#67000d", "-"),
    "momentum": ("#cb181d", "-"),
    "rmsprop": ("#cb181d", "--"),
    "adam": ("#fb6a4a", "-"),
    "foresight": ("#238b45", "-"),
    "foresight-top": ("#238b45", "--"),
    "hindsight": ("#6a51a3", "-"),
    "backprop-replay": ("#d94801", "-"),
    "frozen": ("#8f8f8f", "-"),
}
OTHERS = ("#238b45", "#6a51a3", "#d94801", "#74c476", "#9e9ac8", "#fdae6b")
"""Colours for learners without one of their own, if no other learner has it."""

CONTROLS = ("frozen",)
"""Credit rules that others are compared with: drawn behind them, thick and grey."""

STYLES = {"sgd": "-", "momentum": "--", "rmsprop": ":", "adam": "-."}

TALLEST = 4
"""Charts along a setting end at this many times the best score: most of what is worse is about to diverge."""

Look = tuple[str, str]

Published = Mapping[str, Sequence[tuple[float, float]]]
"""Published values to mark on a chart: places (x, y) by the line that they belong to."""


@dataclass(frozen=True)
class Along:
    """A chart of the loss in the last window along a setting: for each line, its learners' values of the setting."""

    title: str
    axis: str
    lines: Mapping[str, Mapping[str, float]]

    def looks(self, records: "xarray.Dataset") -> dict[str, Look]:
        """The colour and line style of each line: those of its first learner."""
        infos = schema.learner_infos(records)
        return looks({line: infos[next(iter(learners))] for line, learners in self.lines.items()})

    def estimates(self, records: "xarray.Dataset") -> dict[str, tuple[list[float], Estimate]]:
        """For each line the places on the axis, and the means with their intervals; NaN where a seed diverged."""
        found = {}
        for line, learners in self.lines.items():
            last = records["loss"].isel(step=-1).sel(learner=[*learners]).transpose("seed", "learner")
            found[line] = ([*learners.values()], mean_interval(last.values))
        return found


def looks(learners: Mapping[str, LearnerInfo]) -> dict[str, Look]:
    """The colour and line style of each learner: its own in `LOOKS`, or its rule's colour with its optimizer's style.

    A learner that has neither, or would look like one before it, gets the next colour of `OTHERS`.
    """
    others = [(colour, style) for style in STYLES.values() for colour in OTHERS]
    again = cycle(others)
    found = {name: LOOKS[name] for name in learners if name in LOOKS}
    for name, info in learners.items():
        if name in found:
            continue
        known = info.rule in LOOKS and info.optimizer in STYLES
        look = (LOOKS[info.rule][0], STYLES[info.optimizer]) if known else None
        taken = {*found.values()}
        free = (each for each in ([look] if look else []) + others if each not in taken)
        found[name] = next(free, None) or next(again)
    return {name: found[name] for name in learners}


def is_control(info: LearnerInfo) -> bool:
    """Whether a learner is a control."""
    return info.rule in CONTROLS


def line_style(info: LearnerInfo) -> dict[str, float]:
    """The width and the place in depth of a learner's line: controls lie below the others and are wider, so that a
    learner that does no better stays visible on them."""
    return {"linewidth": 4.5, "alpha": 0.65, "zorder": 1.5} if is_control(info) else {"linewidth": 1.3, "zorder": 2}


def curves(records: "xarray.Dataset", path: str | Path, note: str = "") -> None:
    """Draws every curve of `records` over the steps, one panel per variable, to a file."""
    names = [variable.name for variable in schema.curves(records)]
    figure = _figure(len(names), width=4.6, height=4.4)
    for axes, name in zip(figure.axes, names, strict=True):
        panel(axes, records, name)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    seeds = records.sizes["seed"]
    band = "mean and 95% bootstrap band" if seeds > 1 else "one run"
    figure.suptitle(f"{note}{': ' * bool(note)}{band}, {plural(seeds, 'seed')}", fontsize=10, color="#555555")
    figure.savefig(path, dpi=150)


def panel(axes: Any, records: "xarray.Dataset", name: str, transform: Transform = np.asarray) -> None:
    """The curves of one variable, with a band around each if there are several seeds, and the task switches.

    `transform` is applied to every run before the mean over seeds.
    """
    step, infos = records.step.values, schema.learner_infos(records)
    found = looks(infos)
    estimate = mean_interval(transform(records[name].transpose("seed", "learner", "step").values))
    for index, learner in enumerate(map(str, records.learner.values)):
        colour, style = found[learner]
        axes.plot(step, estimate.mean[index], style, color=colour, label=learner, **line_style(infos[learner]))
        axes.fill_between(step, estimate.low[index], estimate.high[index], color=colour, alpha=0.15, linewidth=0)
    if schema.switches(records.task.values).size:
        _mark_tasks(axes, schema.marks(step, records.task.values), first=int(step[0]))
    variable = schema.describe(records, name)
    if variable.log and (estimate.mean > 0).any():
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)
        zero = [str(name) for name, mean in zip(records.learner.values, estimate.mean, strict=True) if not mean.any()]
        if zero:
            axes.text(
                0.99, 0.02, f"{', '.join(zero)}: 0", transform=axes.transAxes, ha="right", color="#777777", fontsize=8
            )
    axes.set_title(variable.title, fontsize=10, pad=16)
    axes.set_xlabel("examples")
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)


def _plain_ticks(axis: Any) -> None:
    """Ticks of a log axis as plain numbers: 50, 70, 100, or 0.01, 0.1, 1 where it spans more."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    digits = (1, 2, 3, 4, 5, 6, 7, 8, 9) if decades < 0.6 else (1, 2, 3, 5, 7) if decades < 1.5 else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=digits if decades < 3 else (1,), numticks=12))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _mark_tasks(axes: Any, marks: Sequence[Mark], first: int) -> None:
    for mark in marks:
        if mark.start >= first:
            axes.axvline(mark.start, color="#999999", linewidth=0.7, linestyle=":")
        place = (max(mark.start, first), 1.01)  # curves start at the end of the first window
        axes.annotate(mark.label, place, xycoords=("data", "axes fraction"), color="#777777", fontsize=9)


def experiment_curves(
    records: "xarray.Dataset", stem: Path, title: str, variables: Sequence[str], published: Published, linear: bool
) -> None:
    """Curves over the examples, one panel per variable, as PNG and PDF; published values are rings on the first one."""
    shown = [*variables] or [variable.name for variable in schema.curves(records)]
    figure = _figure(len(shown), width=6.4)
    for axes, name in zip(figure.axes, shown, strict=True):
        panel(axes, records, name)
        if linear:
            axes.set_yscale("linear")
    _rings(figure.axes[0], looks(schema.learner_infos(records)), published)
    _finish(figure, title, records.sizes["seed"])
    _save(figure, stem)


def along_setting(records: "xarray.Dataset", stem: Path, title: str, along: Along, published: Published) -> None:
    """Lines along a setting, as PNG and PDF; published values are marked with rings."""
    figure = _figure(1, width=6.4)
    axes, found = figure.axes[0], along.looks(records)
    for line, (x, estimate) in along.estimates(records).items():
        colour, style = found[line]
        axes.plot(x, estimate.mean, style, color=colour, label=line, marker="o", markersize=3, linewidth=1.3)
        axes.fill_between(x, estimate.low, estimate.high, color=colour, alpha=0.15, linewidth=0)
    _rings(axes, found, published)
    if ends := score_limits(value for _, estimate in along.estimates(records).values() for value in estimate.mean):
        axes.set_ylim(ends)
    axes.set_xscale("log")
    _plain_ticks(axes.xaxis)
    axes.set_xlabel(along.axis)
    axes.set_title(along.title, fontsize=10, pad=16)
    axes.spines[["top", "right"]].set_visible(False)
    _finish(figure, title, records.sizes["seed"])
    _save(figure, stem)


def score_limits(scores: Iterable[float]) -> list[float] | None:
    """The ends of the score axis of a chart along a setting; None where all finite scores fit on it."""
    finite = [float(score) for score in scores if math.isfinite(score)]
    best, worst = min(finite, default=0.0), max(finite, default=0.0)
    return [0.9 * best, TALLEST * best] if worst > TALLEST * best > 0 else None


def _rings(axes: Any, looks: Mapping[str, Look], published: Published) -> None:
    for line, points in published.items():
        style = {"markerfacecolor": "none", "markeredgewidth": 1.8, "markersize": 10, "linestyle": "none"}
        axes.plot(*zip(*points, strict=True), "o", color=looks[line][0], clip_on=False, zorder=3, **style)


def paper_curves(letter: str, scripts: bool, records: "xarray.Dataset", folder: Path, note: str) -> None:
    """Figures 1, 2 and 3 of the paper for one experiment (`letter` a or b), each as PNG and PDF.

    With `scripts` they show what the authors' scripts draw: half the squared error, and drifts squared per run before
    the mean.
    """
    square = np.square if scripts else np.asarray
    halved = (lambda values: values / 2) if scripts and "error" not in records else np.asarray
    losses = [("loss", halved), ("error", np.asarray)] if "error" in records else [("loss", halved)]
    for number, panels in enumerate((losses, [("incoming_drift", square)], [("outgoing_drift", square)]), start=1):
        figure = _figure(len(panels))
        for axes, (name, transform) in zip(figure.axes, panels, strict=True):
            panel(axes, records, name, transform)
            if transform is square and scripts:
                axes.set_title(axes.get_title() + "²", fontsize=10, pad=16)
            if transform is halved and halved is not np.asarray:
                axes.set_title("half the " + axes.get_title(), fontsize=10, pad=16)
        _finish(figure, f"figure {number}{letter}", records.sizes["seed"], note)
        _save(figure, folder / f"figure-{number}{letter}")


def paper_maps(features: "xarray.Dataset", folder: Path, note: str) -> None:
    """Figure 4: the features of backprop (a) and crossprop-approx (b), each next to the control or the pixels."""
    for letter, names in (("a", ["backprop", "frozen"]), ("b", ["crossprop-approx", "pixels"])):
        figure = _figure(2)
        for axes, name in zip(figure.axes, names, strict=True):
            one = features.sel(representation=name)
            style = {"cmap": "tab10", "vmin": -0.5, "vmax": 9.5, "s": 5, "linewidths": 0}
            axes.scatter(*one.tsne.values.T, c=features.label, **style)
            same, apart = one.neighbours.mean().item(), one.silhouette.mean().item()
            axes.set_title(f"{name}: same-label neighbours {same:.2f}, silhouette {apart:.2f}", fontsize=10)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_aspect("equal", "datalim")
        figure.colorbar(figure.axes[0].collections[0], ax=figure.axes, ticks=range(10), label="label", shrink=0.7)
        figure.suptitle(f"figure 4{letter}: t-SNE of the hidden units after task A, one run{note}", fontsize=10)
        _save(figure, folder / f"figure-4{letter}")


def _figure(panels: int, width: float = 5.2, height: float = 4.6) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, height), layout="constrained")
    figure.subplots(1, panels)
    return figure


def _finish(figure: Any, title: str, seeds: int, note: str = "") -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3 * len(figure.axes), frameon=False, fontsize=8)
    runs = f"{seeds} seeds, 95% bootstrap bands" if seeds > 1 else "one run"
    figure.suptitle(f"{title}: {runs}{note}", fontsize=10, color="#555555")


def _save(figure: Any, stem: Path) -> None:
    for suffix in (".png", ".pdf"):
        figure.savefig(stem.with_suffix(suffix), dpi=150)
