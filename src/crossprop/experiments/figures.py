"""Draws charts with matplotlib, one panel for each, to PNG and PDF files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._support.formats import minus_signs
from crossprop.experiments.charts import Axis, Chart

COLUMNS = 4
"""Most panels in a row."""
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MUTED, FAINT = "#555555", "#999999"
BEST = "#e6550d"
"""The colour of the ring around the best setting."""


def save(charts: Sequence[Chart], stem: Path, title: str, *suffixes: str) -> list[Path]:
    """Draws charts side by side, with a title above, to `stem` with each of the suffixes, and returns the files."""
    from matplotlib.figure import Figure

    columns = min(len(charts), COLUMNS)
    rows = -(-len(charts) // columns)
    width, height = _size(charts[0], columns)
    figure = Figure(figsize=(max(width * columns, 6), height * rows + 0.4), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=charts[0].kind == "forest").flat)
    for spare in panels[len(charts) :]:
        spare.set_visible(False)
    for axes, chart in zip(panels, charts, strict=False):
        panel(axes, chart)
    _legends(figure, panels, charts)
    figure.suptitle(title, fontsize=10, color=MUTED)
    return [_saved(figure, stem.with_suffix(suffix)) for suffix in suffixes or (".png",)]


def save_alone(charts: Sequence[Chart], stem: Path, width: float, suffix: str) -> list[Path]:
    """Draws each chart to a file of its own, `width` inches wide and without a title, for a paper."""
    from matplotlib.figure import Figure

    files = []
    for chart in charts:
        figure = Figure(figsize=(width, 0.75 * width), layout="constrained")
        alone(figure.subplots(), chart)
        name = "-".join([stem.name, *re.findall(r"\w+", _short(chart.title).lower())])
        files.append(_saved(figure, stem.with_name(name + suffix)))
    return files


def alone(axes: Any, chart: Chart) -> None:
    """Draws a chart with its title beside the axis."""
    title = axes.get_title()
    panel(axes, chart)
    axes.set_title(title)
    axes.set_ylabel(_short(chart.y.title))
    if chart.kind not in ("forest", "heat"):
        axes.legend(fontsize="small", edgecolor="none")


def _short(title: str) -> str:
    """A title without the symbols of a movement, which do not fit beside a small panel."""
    return title.partition(", |")[0]


def _saved(figure: Any, file: Path) -> Path:
    from matplotlib import rc_context

    with rc_context({"pdf.fonttype": 42}):  # fonts that publishers take
        figure.savefig(file, dpi=150)
    return file


def _size(chart: Chart, columns: int) -> tuple[float, float]:
    """The width and the height of a panel in inches."""
    if chart.kind == "forest":
        return 12 / max(columns, 3), 0.27 * len(chart.lines) + 1.5
    return (4.6, 4.4) if chart.kind in ("curves", "cloud") else (4.2, 3.6)


def panel(axes: Any, chart: Chart) -> None:
    """Draws one chart."""
    kinds = {"forest": _forest, "heat": _heat, "cloud": _cloud}
    kinds.get(chart.kind, _lines)(axes, chart)
    axes.set_title(chart.title, fontsize=10, pad=16 if chart.tasks or chart.kind == "along" else 6)


def _legends(figure: Any, panels: Sequence[Any], charts: Sequence[Chart]) -> None:
    """A legend below all panels if they have the same lines, else one in each."""
    if charts[0].kind in ("forest", "heat"):
        return
    style: dict[str, Any] = {"frameon": False, "fontsize": 8}
    if len({tuple(line.name for line in chart.lines) for chart in charts}) == 1:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3 * min(len(charts), 2), **style)
        return
    for axes in panels[: len(charts)]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, **style)


def _lines(axes: Any, chart: Chart) -> None:
    """Lines with bands over the examples or along a setting; crosses at the top mark what diverged."""
    dots: dict[str, Any] = {"marker": "o", "markersize": 3} if chart.kind == "along" else {}
    for at, line in enumerate(chart.lines):
        colour = line.look.light
        stroke = {"linewidth": 4.5, "alpha": 0.65, "zorder": 1.5} if line.look.control else {"linewidth": 1.3}
        axes.plot(line.x, line.y, DASHES[line.look.dash], color=colour, label=line.name, **dots | stroke)
        if line.low is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        if line.diverged:
            top = {"transform": axes.get_xaxis_transform(), "clip_on": False, "linestyle": "none"}
            height = [1 + 0.012 * (at + 1)] * len(line.diverged)
            axes.plot([line.x[place] for place in line.diverged], height, marker="x", color=colour, markersize=5, **top)
    rings = {"marker": "o", "markerfacecolor": "none", "markeredgewidth": 1.8, "markersize": 10, "linestyle": "none"}
    for ring in chart.rings:
        axes.plot(ring.x, ring.y, color=ring.look.light, clip_on=False, zorder=3, **rings)
    _scale(axes.xaxis, chart.x)
    _scale(axes.yaxis, chart.y, any((line.y > 0).any() for line in chart.lines))
    if chart.kind == "curves":
        _examples(axes, chart)
    else:
        axes.set_ylabel(chart.y.title)
    axes.set_xlabel(chart.x.title)
    axes.spines[["top", "right"]].set_visible(False)


def _examples(axes: Any, chart: Chart) -> None:
    """Marks the tasks over the examples."""
    first = int(chart.lines[0].x[0])
    for mark in chart.tasks:
        if mark.start >= first:
            axes.axvline(mark.start, color=FAINT, linewidth=0.7, linestyle=":")
        place = (max(mark.start, first), 1.01)  # curves start at the end of the first window
        axes.annotate(mark.label, place, xycoords=("data", "axes fraction"), color=MUTED, fontsize=9)
    if axes.get_yscale() == "log" and chart.zeros:
        axes.text(0.99, 0.02, chart.zeros, transform=axes.transAxes, ha="right", color=MUTED, fontsize=8)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0)


def _scale(axis: Any, wanted: Axis, positive: bool = True) -> None:
    """The scale, the ends and the ticks of an axis."""
    name = axis.axis_name
    if wanted.log and positive:
        getattr(axis.axes, f"set_{name}scale")("log")
        _plain_ticks(axis)
    if wanted.limits and name == "y":
        axis.axes.set_ylim(wanted.limits)
    if wanted.ticks:
        axis.set_ticks(*zip(*wanted.ticks, strict=True), fontsize=8)
        axis.axes.minorticks_off()


def _plain_ticks(axis: Any) -> None:
    """Ticks of a log axis as plain numbers: 50, 70, 100, or 0.01, 0.1, 1 where it spans more."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    digits = (1, 2, 3, 4, 5, 6, 7, 8, 9) if decades < 0.6 else (1, 2, 3, 5, 7) if decades < 1.5 else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=digits if decades < 3 else (1,), numticks=12))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _heat(axes: Any, chart: Chart) -> None:
    """Numbers by column and row: a cross where all diverged, a ring around the best."""
    columns, rows = [*chart.lines[0].x], [line.name for line in chart.lines]
    low, high = chart.y.limits or (None, None)
    values = np.array([line.y for line in chart.lines])
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis_r", vmin=low, vmax=high)
    for row, line in enumerate(chart.lines):
        for column in line.diverged:
            axes.text(column, row, "×", ha="center", va="center", color=FAINT)
    for ring in chart.rings:
        style = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": BEST, "markeredgewidth": 1.8}
        axes.plot(columns.index(str(ring.x)), rows.index(str(ring.y)), "o", **style)
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_xlabel(chart.x.title, fontsize=8)
    axes.set_ylabel(chart.y.title, fontsize=8)
    axes.figure.colorbar(image, ax=axes, shrink=0.85, extend="max").ax.tick_params(labelsize=7)


def _forest(axes: Any, chart: Chart) -> None:
    """An interval in each row; a number beyond the axis is written at its edge."""
    axes.set_xlim(chart.y.limits)
    edge: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5, "transform": axes.get_yaxis_transform()}
    for at, line in enumerate(chart.lines):
        colour, value = line.look.light, float(line.y[0])
        if line.diverged or value > axes.get_xlim()[1]:
            axes.text(0.99, at, "diverged" if line.diverged else f"{value:+.0f}% →", color=colour, **edge)
            continue
        if line.low is not None and line.high is not None:
            axes.plot([line.low[0], line.high[0]], [at, at], color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(value, at, "o", color=colour, markersize=5)
        if at and chart.lines[at - 1].group != line.group:
            axes.axhline(at - 0.5, color="#dddddd", linewidth=0.8)
    rows: list[str] = [line.name for line in chart.lines]
    for ring in chart.rings:
        axes.plot(ring.y, rows.index(str(ring.x)), "o", color=ring.look.light, markersize=6, fillstyle="none")
    axes.axvline(0, color=FAINT, linewidth=1)
    axes.set_yticks(range(len(rows)), rows, fontsize=8.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(chart.y.title, fontsize=8)
    signed = bool(chart.y.unit)
    axes.xaxis.set_major_formatter(
        lambda value, _: minus_signs(f"{value:+g}" if signed and value else f"{value:g}") + chart.y.unit
    )
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right"]].set_visible(False)


def _cloud(axes: Any, chart: Chart) -> None:
    """The points of classes."""
    for line in chart.lines:
        axes.scatter(line.x, line.y, color=line.look.light, label=line.name, s=5, linewidths=0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", "datalim")
