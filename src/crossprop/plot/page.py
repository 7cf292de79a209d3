"""`sweep.html`: a sweep on one page."""

from collections.abc import Sequence
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from crossprop.figures import LOOKS, look
from crossprop.plot.drawings import SHADES
from crossprop.plot.numbers import LINES, TALLEST, Sweep, Swept, groups, setting, text
from crossprop.report import charts
from crossprop.report.page import section, write_page
from crossprop.report.sections import chart_of, interval, table
from crossprop.statistics import mean_interval

INTRO = (
    "Every learner lived through the stream at every point of a grid, with several seeds. Its best setting is the one "
    "with the least mean over all steps and the sweep's seeds; one with a diverged seed comes after all without."
)


def write(sweep: Sweep, path: Path) -> None:
    """The best settings, the sensitivity along an axis, heat maps over two, and the learning curves of the best."""
    drawn = pictures(sweep)
    parts = [("best", "The best settings"), *((name, title) for name, title, _ in drawn.sections)]
    write_page(
        path,
        title="A sweep of learners",
        contents=parts,
        intro=INTRO,
        body=[section("best", "The best settings", best(sweep)), *(section(*each) for each in drawn.sections)],
        data=drawn.data,
    )


class Pictures:
    """The page's charts: their sections, as anchor, title and HTML, and the numbers that are drawn in them."""

    def __init__(self, sections: list[tuple[str, str, str]], data: dict[str, Any]):
        self.sections, self.data = sections, data


def pictures(sweep: Sweep) -> Pictures:
    lines, sections = _all_lines(sweep), []
    heats = [_heat(name, swept) for name, swept in sweep.learners.items() if len(swept.axes) > 1]
    parts = {f"curves-{group}": charts.curves(sweep.best.sel(learner=names)) for group, names in groups(sweep).items()}
    if lines:
        figures = "\n".join(_figure(at, chart) for at, chart in enumerate(lines))
        note = (
            "At each value, the best of all other axes; bars are 95% bootstrap intervals over the sweep's seeds. A "
            "cross at the top: all settings there had a seed that diverged."
        )
        sections.append(("sensitivity", "Sensitivity", f'<p class="muted">{note}</p>\n{figures}'))
    if heats:
        sections.append(("maps", "Two axes at a time", HEAT))
    seeds = f"{sweep.best.sizes['seed']} {'fresh' if sweep.fresh else 'of the sweep’s'} seeds"
    for name, shown in parts.items():
        group = name.removeprefix("curves-")
        figures = "\n".join(chart_of(name, at, chart, False) for at, chart in enumerate(shown))
        note = f'<p class="muted">The best settings, on {seeds}. Click a learner in a legend to hide it.</p>'
        sections.append((name, f"Learning curves{': ' * bool(group)}{group}", f"{note}\n{figures}"))
    means = [swept.profile(swept.axes[:2]).mean for swept in sweep.learners.values() if len(swept.axes) > 1]
    seen = np.concatenate([mean[np.isfinite(mean)] for mean in means]) if means else np.ones(1)
    high = float(np.quantile(seen, 0.9)) if len(seen) else 1.0
    data = {"parts": parts, "clouds": [], "quick": False, "lines": lines, "heats": heats, "high": high}
    return Pictures(sections, data)


def best(sweep: Sweep) -> str:
    """A table of the best setting of every learner, on the sweep's seeds and on fresh ones."""
    rows = []
    for name, swept in sweep.learners.items():
        fresh = sweep.evaluation.values().get(name)
        on_fresh = "not run" if fresh is None else interval(*map(float, mean_interval(fresh.values)))
        if fresh is not None and np.isinf(fresh).any():
            on_fresh = f"{int(np.isinf(fresh).sum())} of {fresh.size} diverged"
        flags = f'<span class="tag">edge: {escape(", ".join(swept.choice.edges))}</span>' if swept.choice.edges else ""
        if swept.choice.diverged:
            flags += f' <span class="tag">{swept.choice.diverged} diverged</span>'
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th><td>{swept.choice.mean:.4g}</td><td>{on_fresh}</td>'
            f"<td>{escape(setting(swept))} {flags}</td></tr>"
        )
    head = "<tr><th>Learner</th><th>On the sweep’s seeds</th><th>On fresh seeds [95%]</th><th>Setting</th></tr>"
    return table("best", f"Mean {escape(sweep.measure)} over all steps", head, "\n".join(rows), False)


HEAT = (
    '<p class="muted">At each pair of values, the best of all other axes. A cross: diverged. The square is the best '
    "setting of all.</p><figure><figcaption><label>learner <select></select></label> <label>axes <select></select>"
    '</label></figcaption><div class="chart heat" role="img" aria-label="a heat map over two axes"></div></figure>'
)


def _figure(at: int, chart: dict[str, Any]) -> str:
    title = escape(chart["name"])
    return (
        f"<figure><figcaption><h3>{title}</h3></figcaption>"
        f'<div class="chart lines" data-chart="{at}" role="img" aria-label="{title}"></div></figure>'
    )


def _all_lines(sweep: Sweep) -> list[dict[str, Any]]:
    found = []
    for group, names in groups(sweep).items():
        others = [name for name in names if name not in LOOKS]
        with_axes = [name for name in names if sweep.learners[name].axes]
        lines = []
        for name in with_axes:
            swept = sweep.learners[name]
            lines.append(_line(name, *look(name, others), swept, swept.axes[:1], ()))
        if lines:
            along = sweep.learners[with_axes[0]].axes[0]
            found.append(_chart(f"Learners{': ' * bool(group)}{group}", sweep.measure, along, lines))
    for name, swept in sweep.learners.items():
        if LINES in swept.axes[1:]:
            keep = [swept.axes[0], LINES]
            lines = [
                _line(f"{LINES} = {text(value)}", SHADES[at % len(SHADES)], "-", swept, keep, (at,))
                for at, value in enumerate(swept.values(LINES))
            ]
            found.append(_chart(f"{name}, by {LINES}", sweep.measure, keep[0], lines))
    return found


def _line(name: str, colour: str, style: str, swept: Swept, keep: Sequence[str], which: tuple[int, ...]) -> Any:
    mean, low, high, diverged = (part[(slice(None), *which)] for part in swept.profile(keep))
    values = swept.values(keep[0])
    look = {"light": colour, "dark": charts.DARK.get(colour, colour), "dash": charts.DASHES[style]}
    numbers = {key: charts.rounded(part) for key, part in (("mean", mean), ("low", low), ("high", high))}
    where = {"x": values, "labels": [text(value) for value in values], "diverged": np.flatnonzero(diverged).tolist()}
    return {"name": name} | look | numbers | where


def _chart(name: str, title: str, along: str, lines: list[Any]) -> dict[str, Any]:
    values = [value for line in lines for value in line["x"]]
    seen = [value for line in lines for value in line["mean"] if value is not None]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    log = numbers and min(values) > 0 and max(values) / min(values) > 3
    ticks = sorted({value: text(value) for value in values}.items()) if numbers else []
    top = TALLEST * min(seen, default=1)
    limits = [0.9 * min(seen), top] if seen and max(seen) > top > 0 else None
    about = {"name": name, "title": title, "along": along, "numbers": numbers, "log": log, "limits": limits}
    return about | {"ticks": ticks, "lines": lines}


def _heat(name: str, swept: Swept) -> dict[str, Any]:
    maps = []
    for across, down in combinations(swept.axes, 2):
        profile = swept.profile([down, across])
        columns, rows = ([text(value) for value in swept.values(axis)] for axis in (across, down))
        gone = [[columns[column], rows[row]] for row, column in np.argwhere(profile.diverged)]
        best = [text(swept.choice.point[axis]) for axis in (across, down)]
        mean = [charts.rounded(row) for row in profile.mean]
        maps.append(
            {"across": across, "down": down, "columns": columns, "rows": rows, "mean": mean, "gone": gone, "best": best}
        )
    return {"name": name, "maps": maps}
