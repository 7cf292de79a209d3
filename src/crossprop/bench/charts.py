"""The bench's figure: run-steps per second as bars, one panel per workload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossprop.bench.output import QUICK, number
from crossprop.bench.timing import Row
from crossprop.formats import plural

INK, FAINT = "#333333", "#777777"
ENGINE, PEER = "#08519c", "#b9c7d6"


def draw_bars(path: Path, rows: Sequence[Row], quick: bool) -> bool:
    """Draws all timed workloads, the fastest contender first; returns whether there was anything to draw."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row.seconds]
    if not rows:
        return False
    workloads = list(dict.fromkeys(row.workload for row in rows))
    panels = [[row for row in rows if row.workload == workload] for workload in workloads]
    heights = [len(panel) + 1.2 * len({row.case.name for row in panel}) for panel in panels]
    figure = Figure(figsize=(8.2, 0.9 + sum(0.24 * height + 0.75 for height in heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _draw_panel(axes, panel)
    title = "run-steps per second; blue: engines of crossprop, grey: peers, line: this machine's floor"
    figure.suptitle(title + QUICK * quick, fontsize=10, color=INK)
    figure.savefig(path, dpi=150)
    return True


def _draw_panel(axes: Any, rows: Sequence[Row]) -> None:
    rates = [1 / row.seconds_per_run_step for row in rows]
    floors = [1 / row.floor for row in rows if row.floor]
    left, right = 10 ** np.floor(np.log10(min(rates)) - 0.3), 6 * max([*rates, *floors])
    place, ticks = 0.0, {}
    for name in dict.fromkeys(row.case.name for row in rows):
        group = sorted((row for row in rows if row.case.name == name), key=lambda row: row.seconds_per_run_step)
        axes.text(left, place, f" {name}", va="center", fontsize=9, fontweight="bold", color=INK)
        if floor := group[0].floor:
            axes.vlines(1 / floor, place + 0.55, place + len(group) + 0.45, color=INK, linewidth=1.2)
        for row in group:
            place += 1
            _draw_bar(axes, place, left, row)
            ticks[place] = row.contender
        place += 1.2
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(place - 0.4, -0.6)
    axes.set_yticks([*ticks], [*ticks.values()], fontsize=8, color=INK)
    _style(axes)
    case = rows[0].case
    axes.set_title(f"{rows[0].workload}: {case.size}, {plural(case.runs, 'run')}", fontsize=10, loc="left", color=INK)


def _draw_bar(axes: Any, place: float, left: float, row: Row) -> None:
    rate = 1 / row.seconds_per_run_step
    seconds = f", {row.case_seconds:.3g} s" if len(row.case.learners) > 1 else ""
    text = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": INK}
    axes.barh(place, rate - left, left=left, height=0.74, color=PEER if row.is_peer else ENGINE, linewidth=0)
    axes.annotate(number(rate) + seconds, (rate, place), (4, 0), **text)


def _style(axes: Any) -> None:
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8, colors=FAINT)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")
