"""The bench's figures: one of bars, and five of how cost grows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossprop.bench.growth import Point
from crossprop.bench.output import Results, number
from crossprop.bench.peers import PEERS
from crossprop.bench.timing import Row
from crossprop.figures import LOOKS

INK, FAINT = "#333333", "#777777"
SEVERAL = "#54278f"
"""The colour of several learners at once."""
CONTENDERS = {
    "scan": ("#6a51a3", "o"),
    "chunked": ("#238b45", "D"),
    "kernel": ("#d94801", "^"),
    "auto": ("#fdae6b", "v"),
    "plain jax": ("#a8a8a8", "s"),
}
"""The colours and marks of lines that are all of one learner."""
AXES = {
    "hidden": "hidden units",
    "inputs": "inputs",
    "outputs": "outputs",
    "runs": "runs",
    "steps": "steps of every run",
}
WHOLE = ("runs", "steps")


def bars(path: Path, results: Results) -> bool:
    """Run-steps a second of everybody, a panel for every workload, fastest first; whether there was any to draw."""
    from matplotlib.figure import Figure

    rows = [row for row in results.rows if row.seconds and row.workload != "compile"]
    if not rows:
        return False
    workloads = list(dict.fromkeys(row.workload for row in rows))
    panels = [[row for row in rows if row.workload == workload] for workload in workloads]
    heights = [len(panel) + 1.2 * len({row.case.name for row in panel}) for panel in panels]
    figure = Figure(figsize=(8.2, 0.9 + sum(0.24 * height + 0.75 for height in heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _bar_panel(axes, panel)
    note = "  (quick version)" if results.quick else ""
    title = f"run-steps a second: filled, an engine of crossprop; pale, a peer; line, this machine's floor{note}"
    figure.suptitle(title, fontsize=10, color=INK)
    figure.savefig(path, dpi=150)
    return True


def _bar_panel(axes: Any, rows: Sequence[Row]) -> None:
    place, ticks, labels = 0.0, [], []
    slowest = min(1 / row.per_run_step for row in rows)
    left = 10 ** np.floor(np.log10(slowest) - 0.3)
    for name in dict.fromkeys(row.case.name for row in rows):
        group = sorted((row for row in rows if row.case.name == name), key=lambda row: row.per_run_step)
        axes.text(left, place, f" {name}", va="center", fontsize=9, fontweight="bold", color=INK)
        top = place
        for row in group:
            place += 1
            rate = 1 / row.per_run_step
            axes.barh(place, rate - left, left=left, height=0.74, color=_colour(row), linewidth=0)
            axes.annotate(
                _label(row), (rate, place), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK
            )
            ticks.append(place)
            labels.append(row.by)
        floor = 1 / group[0].floor
        axes.plot([floor, floor], [top + 0.55, place + 0.45], color=INK, linewidth=1.2)
        place += 1.2
    axes.set_xscale("log")
    axes.set_xlim(left, 6 * max(1 / row.floor for row in rows))
    axes.set_ylim(place - 0.4, -0.6)
    axes.set_yticks(ticks, labels, fontsize=8, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8, colors=FAINT)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")
    case = rows[0].case
    runs = f"{case.runs:,} run{'s' * (case.runs > 1)}"
    axes.set_title(f"{rows[0].workload}: {case.size}, {runs}", fontsize=10, loc="left", color=INK)


def _label(row: Row) -> str:
    several = f", {row.whole:.3g} s" if len(row.case.learners) > 1 else ""
    return f"{number(1 / row.per_run_step)}{several}"


def _colour(row: Row) -> Any:
    """The learner's colour; a peer's is the same, mixed with white."""
    from matplotlib.colors import to_rgb

    learner, *others = row.case.learners
    colour = np.array(to_rgb(SEVERAL if others else LOOKS[learner][0]))
    return 1 - (1 - colour) * (0.35 if row.by in PEERS else 1)


def growth(folder: Path, results: Results) -> list[Path]:
    """A figure each for hidden units, inputs, outputs, runs and steps."""
    written = []
    for quantity in dict.fromkeys(point.quantity for point in results.points):
        path = folder / f"growth-{quantity}.png"
        _growth(path, [point for point in results.points if point.quantity == quantity], results.quick)
        written.append(path)
    return written


def _growth(path: Path, points: list[Point], quick: bool) -> None:
    from matplotlib.figure import Figure

    quantity = points[0].quantity
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    timed = [point for point in points if point.row.seconds]
    learners = list(dict.fromkeys(point.row.case.name for point in timed))
    for learner, by in dict.fromkeys((point.row.case.name, point.row.by) for point in timed):
        mine = [point for point in timed if (point.row.case.name, point.row.by) == (learner, by)]
        colour, mark = CONTENDERS[by]
        cost = [point.row.whole if quantity in WHOLE else 1e6 * point.row.per_run_step for point in mine]
        style = f"{mark}{'-:'[learners.index(learner)]}"
        label = by if len(learners) == 1 else f"{by}, {learner}"
        axes.plot([point.value for point in mine], cost, style, color=colour, label=label, linewidth=1.6, markersize=5)
    _finish_growth(axes, points, quick)
    figure.legend(loc="outside lower center", ncols=min(len(axes.lines), 4 // len(learners)), frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def _finish_growth(axes: Any, points: list[Point], quick: bool) -> None:
    from matplotlib.ticker import LogLocator

    quantity, case = points[0].quantity, points[0].row.case
    sizes = {"inputs": case.network.inputs, "hidden": case.network.hidden, "outputs": case.network.outputs}
    network = "-".join(f"{size}" if name != quantity else "?" for name, size in sizes.items())
    runs, steps = f"{case.runs:,} run{'s' * (case.runs > 1)}", f"{case.stream.steps:,} steps"
    beside = steps if quantity == "runs" else runs
    values = sorted({point.value for point in points})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.08)
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel(AXES[quantity])
    axes.set_ylabel("seconds" if quantity in WHOLE else "microseconds a run-step")
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    note = "  (quick version)" if quick else ""
    axes.set_title(f"exact crossprop, {network}, {beside}{note}", fontsize=10, color=INK)
