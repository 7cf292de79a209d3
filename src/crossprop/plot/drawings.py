"""The plots of a sweep as PNG files."""

from pathlib import Path
from typing import Any

import numpy as np

from crossprop.experiments.results import SweepResults, TunedLearner, value_text
from crossprop.figures import curves, line_style, looks, score_limits
from crossprop.plot.numbers import LINES, color_limits, groups, is_log, thinned

SHADES = ("#08306b", "#2171b5", "#4ba3c7", "#41ab5d", "#a6a000", "#d94801", "#a50f15")
"""The colours of one learner's lines, in the order of their values."""
MOST_COLUMNS = 4


def draw(sweep: SweepResults, folder: Path) -> list[Path]:
    """Draws every plot that the sweep has axes for, each to a file, and returns the paths."""
    written = []
    note = "best settings, " + ("fresh seeds" if sweep.fresh else "the sweep's seeds")
    for group, names in groups(sweep).items():
        written.append(folder / f"learning-curves{'-' * bool(group)}{group}.png")
        curves(sweep.best.sel(learner=names), written[-1], note)
    if any(swept.axes for swept in sweep.learners.values()):
        written.append(folder / "sensitivity.png")
        _learners(sweep, written[-1])
    if any(LINES in swept.axes for swept in sweep.learners.values()):
        written.append(folder / f"sensitivity-{LINES}.png")
        _lines(sweep, written[-1])
    if any(len(swept.axes) > 1 for swept in sweep.learners.values()):
        written.append(folder / "heat-maps.png")
        _maps(sweep, written[-1])
    return written


def _learners(sweep: SweepResults, path: Path) -> None:
    """A line for every learner along its first axis; with many learners, one panel per optimizer."""
    panels = groups(sweep)
    along = next(swept.axes[0] for swept in sweep.learners.values() if swept.axes)
    figure, places = _panels(len(panels))
    for axes, (title, names) in zip(places, panels.items(), strict=True):
        look, ticks = looks({name: sweep.learners[name].info for name in names}), {}
        for name in names:
            swept = sweep.learners[name]
            if not swept.axes:
                continue
            colour, style = look[name]
            drawn = {"color": colour, "linestyle": style, "label": name} | line_style(swept.info)
            ticks |= _line(axes, swept, swept.axes[:1], (), drawn)
        _finish(axes, title, sweep.measure, along, ticks)
        axes.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    _title(figure, "the best over all other axes at each value,\nmean and 95% bootstrap band; × at the top: diverged")
    figure.savefig(path, dpi=150)


def _lines(sweep: SweepResults, path: Path) -> None:
    """One panel per learner that has the axis `eta`, with a line for each value."""
    names = [name for name, swept in sweep.learners.items() if LINES in swept.axes and len(swept.axes) > 1]
    figure, places = _panels(len(names))
    for axes, name in zip(places, names, strict=True):
        swept, ticks = sweep.learners[name], {}
        for at, value in enumerate(swept.values(LINES)):
            style = {"color": SHADES[at % len(SHADES)], "label": f"{LINES} = {value_text(value)}"}
            ticks |= _line(axes, swept, [swept.axes[0], LINES], (at,), style)
        _finish(axes, name, sweep.measure, swept.axes[0], ticks)
    places[0].legend(frameon=False, fontsize=7.5)
    _title(figure, f"One line per {LINES}, at the best of all other axes")
    figure.savefig(path, dpi=150)


def _line(
    axes: Any, swept: TunedLearner, keep: list[str], which: tuple[int, ...], style: dict[str, Any]
) -> dict[float, str]:
    """Draws a line with its interval along the first axis of `keep`; diverged settings are marked at the top.

    Returns the ticks of that axis: places and labels.
    """
    mean, low, high, diverged = (part[(slice(None), *which)] for part in swept.profile(keep))
    values = swept.values(keep[0])
    numbers = all(isinstance(value, int | float) for value in values)
    x = np.array(values, float) if numbers else np.arange(len(values))
    axes.plot(x, mean, marker="o", markersize=3, **{"linewidth": 1.3} | style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    if diverged.any():
        top = {"transform": axes.get_xaxis_transform(), "clip_on": False, "linestyle": "none"}
        height = np.full(diverged.sum(), 1 + 0.012 * len(axes.lines))
        axes.plot(x[diverged], height, marker="x", color=style["color"], markersize=5, **top)
    if numbers and is_log(values):
        axes.set_xscale("log", base=2)
    return dict(zip(x.tolist(), map(value_text, values), strict=True))


def _maps(sweep: SweepResults, path: Path) -> None:
    """One heat map per learner with two or more axes, over its first two: a cross where all settings diverged, a ring
    around the best."""
    learners = {name: swept for name, swept in sweep.learners.items() if len(swept.axes) > 1}
    figure, places = _panels(len(learners))
    profiles = {name: swept.profile(swept.axes[1::-1]) for name, swept in learners.items()}
    low, high = color_limits([*profiles.values()])
    for axes, (name, swept) in zip(places, learners.items(), strict=True):
        mean, *_, diverged = profiles[name]
        image = axes.imshow(mean, origin="lower", aspect="auto", cmap="viridis_r", vmin=low, vmax=high)
        down, across = swept.axes[1], swept.axes[0]
        for row, column in np.argwhere(diverged):
            axes.text(column, row, "×", ha="center", va="center", color="#999999")
        best = [swept.values(axis).index(swept.choice.point[axis]) for axis in (across, down)]
        axes.plot(*best, "o", markersize=11, markerfacecolor="none", markeredgecolor="#e6550d", markeredgewidth=1.8)
        axes.set_xticks(range(mean.shape[1]), [value_text(value) for value in swept.values(across)], fontsize=8)
        axes.set_yticks(range(mean.shape[0]), [value_text(value) for value in swept.values(down)], fontsize=8)
        axes.set_xlabel(across, fontsize=8)
        axes.set_ylabel(down, fontsize=8)
        edge = f"\nat the edge: {', '.join(swept.choice.edges)}" if swept.choice.edges else ""
        axes.set_title(name + edge, fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.85, extend="max").ax.tick_params(labelsize=7)
    _title(figure, f"{sweep.measure}, at the best of all other axes. × diverged; ring: the best setting")
    figure.savefig(path, dpi=150)


def _panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(4.2 * columns, 6), 3.6 * rows + 0.4), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in places[count:]:
        spare.set_visible(False)
    return figure, places[:count]


def _finish(axes: Any, title: str, measure: str, along: str, ticks: dict[float, str]) -> None:
    axes.set_title(title, fontsize=10, pad=14)
    axes.set_xticks(*map(list, zip(*thinned(ticks).items(), strict=True)), fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel(along)
    axes.set_ylabel(measure)
    if ends := score_limits(y for line in axes.lines if line.get_marker() == "o" for y in line.get_ydata()):
        axes.set_ylim(ends)
    axes.spines[["top", "right"]].set_visible(False)


def _title(figure: Any, words: str) -> None:
    figure.suptitle(words, fontsize=9.5, color="#555555")
