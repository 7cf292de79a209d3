"""`sweep.html`: a sweep on one page."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossprop._support.formats import interval
from crossprop.experiments.results import SweepResults, TunedLearner, value_text
from crossprop.figures import Look, is_control, looks, score_limits
from crossprop.pages import charts
from crossprop.pages.writing import write_page
from crossprop.plot.drawings import SHADES
from crossprop.plot.findings import conclusions, facts
from crossprop.plot.numbers import LINES, color_limits, groups, is_log, thinned
from crossprop.statistics import mean_interval

HEADLINE = "headline"
FEW = 5
"""With at most this many learners, the chart at the top has a line for each."""


def write(sweep: SweepResults, path: Path, command: str) -> None:
    """Writes what was found, the best settings, the sensitivity along each axis, heat maps over two axes, and learning
    curves. The page shows `command`, which draws it."""
    pictures = pictures_of(sweep)
    top = _headline(sweep, pictures)
    data = pictures.data
    if top:
        data["parts"][HEADLINE] = [top]
    write_page(
        path,
        "plot/sweep.html.jinja",
        data=data,
        title="A sweep of learners",
        contents=[
            ("conclusion", "Conclusion"),
            ("best", "The best settings"),
            *pictures.contents,
            ("rerun", "Run it again"),
        ],
        conclusions=conclusions(sweep),
        headline=top,
        measure=sweep.measure,
        command=command,
        facts=facts(sweep),
        best=best_settings(sweep),
        pictures=pictures,
    )


def _headline(sweep: SweepResults, pictures: "Pictures") -> dict[str, Any] | None:
    """The learning curves of the best settings, with each setting beside its line; None if there are many learners."""
    if len(sweep.learners) > FEW:
        return None
    first = next(iter(pictures.curves.values()))[0]
    return charts.headline(first, {name: swept.setting() for name, swept in sweep.learners.items()})


class BestSetting(NamedTuple):
    """A row of the table of best settings; `mean` is over the sweep's seeds, `fresh` over fresh seeds."""

    learner: str
    mean: float
    fresh: str
    setting: str
    edges: str
    diverged: int


def best_settings(sweep: SweepResults) -> list[BestSetting]:
    """The best setting of every learner, with its score on the sweep's seeds and on fresh seeds."""
    rows, values = [], sweep.evaluation.values()
    for name, swept in sweep.learners.items():
        fresh = values.get(name)
        if fresh is None:
            on_fresh = "not run"
        elif np.isinf(fresh).any():
            on_fresh = f"{int(np.isinf(fresh).sum())} of {fresh.size} diverged"
        else:
            on_fresh = interval(*map(float, mean_interval(fresh.values)))
        choice = swept.choice
        rows.append(BestSetting(name, choice.mean, on_fresh, swept.setting(), ", ".join(choice.edges), choice.diverged))
    return rows


class Pictures(NamedTuple):
    """The numbers in the charts of a sweep."""

    lines: list[dict[str, Any]]
    heat_maps: list[dict[str, Any]]
    curves: dict[str, list[dict[str, Any]]]
    """Charts by group of learners."""
    seeds: str
    """Which seeds the curves are means over."""
    highest: float
    """The end of the heat maps' colour scale."""

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors and titles of the sections."""
        entries = [("sensitivity", "Sensitivity")] if self.lines else []
        entries += [("maps", "Two axes at a time")] if self.heat_maps else []
        return entries + [(f"curves-{group}", f"Learning curves{': ' * bool(group)}{group}") for group in self.curves]

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script draws."""
        parts = {f"curves-{group}": shown for group, shown in self.curves.items()}
        found = {"lines": self.lines, "heats": self.heat_maps, "high": self.highest}
        return {"parts": parts, "clouds": [], "quick": False} | found


def pictures_of(sweep: SweepResults) -> Pictures:
    """The numbers in the charts of a sweep."""
    two_axes = {name: swept for name, swept in sweep.learners.items() if len(swept.axes) > 1}
    _, highest = color_limits([swept.profile(swept.axes[:2]) for swept in two_axes.values()])
    return Pictures(
        lines=[*_learner_lines(sweep), *_eta_lines(sweep)],
        heat_maps=[_heat_maps(name, swept) for name, swept in two_axes.items()],
        curves={group: charts.curves(sweep.best.sel(learner=names)) for group, names in groups(sweep).items()},
        seeds=f"{sweep.best.sizes['seed']} {'fresh' if sweep.fresh else 'of the sweep’s'} seeds",
        highest=highest,
    )


def _learner_lines(sweep: SweepResults) -> list[dict[str, Any]]:
    """One chart per group, with a line for each learner along its first axis."""
    found = []
    for group, names in groups(sweep).items():
        mine = {name: sweep.learners[name] for name in names if sweep.learners[name].axes}
        look = looks({name: sweep.learners[name].info for name in names})
        lines = [
            _line(name, look[name], swept, swept.axes[:1], (), is_control(swept.info)) for name, swept in mine.items()
        ]
        if lines:
            along = next(iter(mine.values())).axes[0]
            found.append(_chart(f"Learners{': ' * bool(group)}{group}", sweep.measure, along, lines))
    return found


def _eta_lines(sweep: SweepResults) -> list[dict[str, Any]]:
    """One chart per learner that has the axis `eta`, with a line for each of its values."""
    found = []
    for name, swept in sweep.learners.items():
        if LINES in swept.axes[1:]:
            keep = [swept.axes[0], LINES]
            lines = [
                _line(f"{LINES} = {value_text(value)}", (SHADES[at % len(SHADES)], "-"), swept, keep, (at,))
                for at, value in enumerate(swept.values(LINES))
            ]
            found.append(_chart(f"{name}, by {LINES}", sweep.measure, keep[0], lines))
    return found


def _line(
    name: str, look: Look, swept: TunedLearner, keep: Sequence[str], which: tuple[int, ...], control: bool = False
) -> dict[str, Any]:
    mean, low, high, diverged = (part[(slice(None), *which)] for part in swept.profile(keep))
    values = swept.values(keep[0])
    numbers = {key: charts.rounded(part) for key, part in (("mean", mean), ("low", low), ("high", high))}
    labels = [value_text(value) for value in values]
    places = {"x": values, "labels": labels, "diverged": np.flatnonzero(diverged).tolist()}
    return {"name": name} | charts.line_look(look, control) | numbers | places


def _chart(name: str, title: str, along: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    values = [value for line in lines for value in line["x"]]
    limits = score_limits(value for line in lines for value in line["mean"] if value is not None)
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    ticks = [*thinned({value: value_text(value) for value in values}).items()] if numbers else []
    axes = {"along": along, "numbers": numbers, "log": numbers and is_log(values), "limits": limits, "ticks": ticks}
    return {"name": name, "title": title, "lines": lines} | axes


def _heat_maps(name: str, swept: TunedLearner) -> dict[str, Any]:
    """One map for each pair of a learner's axes."""
    maps = []
    for across, down in combinations(swept.axes, 2):
        profile = swept.profile([down, across])
        columns, rows = ([value_text(value) for value in swept.values(axis)] for axis in (across, down))
        maps.append(
            {
                "across": across,
                "down": down,
                "columns": columns,
                "rows": rows,
                "mean": [charts.rounded(row) for row in profile.mean],
                "gone": [[columns[column], rows[row]] for row, column in np.argwhere(profile.diverged)],
                "best": [value_text(swept.choice.point[axis]) for axis in (across, down)],
            }
        )
    return {"name": name, "maps": maps}
