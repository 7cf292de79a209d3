"""The results of a sweep, drawn: as PNG files, and as sections of a page."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.formats import duration, interval, listed, plural, upper_first
from crossprop.experiments import figures
from crossprop.experiments.charts import Axis, Chart, Line, Ring, headline, score_limits
from crossprop.experiments.facts import described, machine
from crossprop.experiments.findings import compare
from crossprop.experiments.looks import SHADES, Look, look, looks
from crossprop.experiments.page import WORDS, Cell, Figure, Page, Section, Table, Text, conclusion, rerun
from crossprop.experiments.results import SweepResults, TunedLearner, read_results, value_text
from crossprop.statistics import MEAN_BRACKETS, mean_interval

LINES = "eta"
"""The hyperparameter that has a chart with a line for each of its values."""
MOST_TICKS = 6
FORMATS = ("png", "pdf", "svg")
FEW = 5
"""With at most this many learners, the chart at the top has a line for each."""
OTHERS = 6
"""Most learners that the best one is compared with in words."""


def plot(
    store: str | Path, out: str | Path | None = None, format: str = "png", width: float | None = None
) -> list[Path]:
    """Draws the results in the store of a sweep, and returns the files written.

    **Arguments:**

    - `store`: the store of a sweep, finished or still running.
    - `out`: a folder for the figures and `sweep.html`; None is `plots` in the store.
    - `format`: the format of the figures.
    - `width`: draws each chart in a file of its own, so many inches wide and without a title.
    """
    check.choice("format", format, FORMATS)
    check.number("width", width, low=1, high=100, optional=True)
    require("crossprop plot", "matplotlib", "plotly", "jinja2", extra="paper")
    store = Path(store)
    sweep = read_results(store, title=f"Sweep {store.resolve().name}")
    folder = store / "plots" if out is None else Path(out)
    check_writable("out", folder)
    write_sweep_page(sweep, folder / "sweep.html", shlex.join(["crossprop", "plot", str(store)]))
    return [folder / "sweep.html", *draw(sweep, folder, f".{format}", width)]


def draw(sweep: SweepResults, folder: Path, suffix: str = ".png", width: float | None = None) -> list[Path]:
    """Draws learning curves, sensitivity along an axis and along `eta`, and maps of two axes."""
    best, lines = sweep.learning_curves, sensitivity(sweep)
    statistic = upper_first(lines[0].statistic) if lines else ""
    drawn = {
        "learning-curves": (best, f"The best settings, on {_seeds(sweep)}: {best[0].statistic}"),
        "sensitivity": (lines, f"The best over all other axes.\n{statistic}; × at the top: diverged"),
        f"sensitivity-{LINES}": (by_eta(sweep), f"One line per {LINES}, at the best of all other axes"),
        "heat-maps": (
            [maps[0] for maps in heat_maps(sweep).values()],
            f"{sweep.measure}, at the best of all other axes. × diverged; ring: the best setting",
        ),
    }
    files = []
    for name, (charts, title) in drawn.items():
        if width is not None:
            files += figures.save_alone(charts, folder / name, width, suffix)
        elif charts:
            files += figures.save(charts, folder / name, title, suffix)
    return files


def write_sweep_page(sweep: SweepResults, path: Path, command: str, *, banner: str = "") -> None:
    """Writes what was found, the best settings, the sensitivity along each axis, heat maps over two axes, and learning
    curves. The page shows `command`, which draws it."""
    top = []
    if len(sweep.learners) <= FEW:
        chart = headline(sweep.learning_curves[0], {name: swept.setting() for name, swept in sweep.learners.items()})
        top.append(Figure.of(chart, f"The best settings, on {_seeds(sweep)}: {chart.title}"))
    sections = [
        conclusion(conclusions(sweep), *top),
        Section("best", "The best settings", [best_settings(sweep)]),
        *sweep_sections(sweep),
        rerun(command, facts(sweep), "What was run", before="This draws the page again from the records in the store:"),
    ]
    Page(sweep.title or "A sweep of learners", WORDS["sweep"], sections, banner).write(path)


def _seeds(sweep: SweepResults) -> str:
    return f"{sweep.best.sizes['seed']} {'fresh' if sweep.fresh else 'of the sweep’s'} seeds"


def best_settings(sweep: SweepResults, of: str = "") -> Table:
    """The best setting of every learner, with its score on the sweep's seeds and on fresh seeds."""
    rows, values = [], sweep.evaluation.values()
    for name, swept in sweep.learners.items():
        fresh, choice = values.get(name), swept.choice
        if fresh is None:
            on_fresh = "not run"
        elif np.isinf(fresh).any():
            on_fresh = f"{int(np.isinf(fresh).sum())} of {fresh.size} diverged"
        else:
            on_fresh = interval(*map(float, mean_interval(fresh.values)))
        tags = [f"edge: {', '.join(choice.edges)}"] if choice.edges else []
        tags += [f"{choice.diverged} diverged"] if choice.diverged else []
        rows.append([name, f"{choice.mean:.4g}", on_fresh, Cell(swept.setting(), tags=tags)])
    head = ["Learner", "On the sweep’s seeds", "On fresh seeds", "Setting"]
    where = f", {of}" * bool(of)
    caption = f"The best settings{where}: {sweep.measure} over all steps, mean {MEAN_BRACKETS}"
    return Table(caption, head, rows)


def sweep_sections(sweep: SweepResults) -> list[Section]:
    """The charts of a sweep: sensitivity, maps of two axes, and learning curves."""
    sections = []
    if lines := [*sensitivity(sweep), *by_eta(sweep)]:
        bars = f" Bars: {lines[0].band}." * bool(lines[0].band)
        text = Text(WORDS["sensitivity"] + bars)
        sections.append(Section("sensitivity", "Sensitivity", [text, *map(Figure.of, lines)]))
    if maps := heat_maps(sweep):
        charts = {f"{name}: {chart.x.title} × {chart.y.title}": chart for name, each in maps.items() for chart in each}
        figure = Figure(upper_first(f"{sweep.measure} along two axes"), charts, "learner and axes")
        sections.append(Section("maps", "Two axes at a time", [Text(WORDS["maps"]), figure]))
    for group, names in groups(sweep).items():
        text = Text(f"The best settings, on {_seeds(sweep)}.")
        shown = [
            replace(chart, lines=tuple(line for line in chart.lines if line.name in names))
            for chart in sweep.learning_curves
        ]
        charts = [Figure.of(chart, linked=f"curves-{group}") for chart in shown]
        title = f"Learning curves{': ' * bool(group)}{group}"
        sections.append(Section(f"curves-{group}", title, [text, *charts]))
    return sections


def groups(sweep: SweepResults) -> dict[str, list[str]]:
    """The learners that share a chart: all of them, or with many learners those that have the same optimizer."""
    optimizers: dict[str, list[str]] = {}
    for name, swept in sweep.learners.items():
        optimizers.setdefault(swept.info.optimizer, []).append(name)
    return optimizers if len(sweep.learners) > 8 and len(optimizers) > 1 else {"": list(sweep.learners)}


def sensitivity(sweep: SweepResults, together: Sequence[str] = ()) -> list[Chart]:
    """A line for every learner along its first axis, one chart for each group, or for those `together`."""
    charts, look_of = [], looks(sweep.infos)
    for group, names in ({"": together} if together else groups(sweep)).items():
        shown = {name: sweep.learners[name] for name in names if sweep.learners[name].axes}
        lines = [_line(name, look_of[name], swept, swept.axes[:1], ()) for name, swept in shown.items()]
        if lines:
            axis = next(iter(shown.values())).axes[0]
            charts.append(_along(f"Learners{': ' * bool(group)}{group}", sweep, axis, lines))
    return charts


def by_eta(sweep: SweepResults) -> list[Chart]:
    """One chart per learner that has the axis `eta`, with a line for each of its values."""
    charts = []
    for name, swept in sweep.learners.items():
        if LINES in swept.axes[1:]:
            keep = [swept.axes[0], LINES]
            lines = [
                _line(f"{LINES} = {value_text(value)}", look(SHADES[at % len(SHADES)]), swept, keep, (at,))
                for at, value in enumerate(swept.values(LINES))
            ]
            charts.append(_along(f"{name}, by {LINES}", sweep, keep[0], lines))
    return charts


def _line(name: str, style: Look, swept: TunedLearner, keep: Sequence[str], which: tuple[int, ...]) -> Line:
    """Scores along the first of the axes kept, whose values are numbers, or text if they are not."""
    mean, low, high, diverged = (part[(slice(None), *which)] for part in swept.profile(keep))
    values = swept.values(keep[0])
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    x = np.array(values, float) if are_numbers else tuple(map(value_text, values))
    return Line(name, style, x, mean, low, high, tuple(np.flatnonzero(diverged).tolist()))


def _along(title: str, sweep: SweepResults, along: str, lines: Sequence[Line]) -> Chart:
    x = Axis(along)
    if all(isinstance(line.x, np.ndarray) for line in lines):
        values = sorted({float(value) for line in lines for value in line.x})
        is_log = values[0] > 0 and values[-1] / values[0] > 3
        x = Axis(along, is_log, ticks=thinned(values))
    else:
        lines = [replace(line, x=tuple(map(value_text, line.x))) for line in lines]
    seeds = max(len(swept.grid.seeds) for swept in sweep.learners.values())
    return Chart("along", title, x, Axis(sweep.measure, limits=score_limits(lines)), tuple(lines), seeds=seeds)


def thinned(values: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """The ticks of an axis. If there are many, powers of 2 between whole ones have no label."""
    many = len(values) > MOST_TICKS
    return tuple((value, "" if many and "·" in text else text) for value, text in _texts(values).items())


def _texts(values: Sequence[Any]) -> dict[Any, str]:
    """The values of an axis as text: all powers of 2 if one is shown so."""
    texts = [value_text(value) for value in values]
    below = math.inf if any(text.startswith("2⁻") for text in texts) else 0
    return {value: value_text(value, below) for value in values}


def heat_maps(sweep: SweepResults) -> dict[str, list[Chart]]:
    """By learner, a map for each pair of its axes."""
    profiles = {
        (name, across, down): (swept, swept.profile([down, across]))
        for name, swept in sweep.learners.items()
        for across, down in combinations(swept.axes, 2)
    }
    scores = np.concatenate([np.ones(0), *(mean.ravel() for _, (mean, *_) in profiles.values())])
    scores = scores[np.isfinite(scores)]  # colours end at the 90th percentile: most of what is worse diverges
    limits = (float(scores.min()), float(np.quantile(scores, 0.9))) if len(scores) else (0.0, 1.0)
    maps: dict[str, list[Chart]] = {}
    for (name, across, down), (swept, (means, *_, diverged)) in profiles.items():
        texts = {axis: _texts(swept.values(axis)) for axis in (across, down)}
        columns, rows = (tuple(texts[axis].values()) for axis in (across, down))
        lines = tuple(
            Line(row, look(SHADES[0]), columns, mean, diverged=tuple(np.flatnonzero(gone).tolist()))
            for row, mean, gone in zip(rows, means, diverged, strict=True)
        )
        column, row = (texts[axis][swept.choice.point[axis]] for axis in (across, down))
        best = Ring(column, row, look("#e6550d"), "the best")
        edge = f"\nat the edge: {', '.join(swept.choice.edges)}" if swept.choice.edges else ""
        chart = Chart("heat", name + edge, Axis(across), Axis(down, limits=limits), lines, (best,))
        maps.setdefault(name, []).append(chart)
    return maps


# In words.


def conclusions(sweep: SweepResults) -> list[str]:
    """The results in sentences: the best learner, how the others compare, and what limits the answer."""
    values, choices = sweep.evaluation.values(), {name: each.choice for name, each in sweep.learners.items()}
    reached = {name: float(values[name].mean()) if sweep.fresh else each.mean for name, each in choices.items()}
    ranked = sorted(choices, key=lambda name: (choices[name].diverged, reached[name]))
    best = ranked[0]
    others = {name: best for name in ranked[1 : OTHERS + 1] if {name, best} <= values.keys()}
    known = [each for each in compare(values, others) if each.pairs > 1 and np.isfinite(each.mean)]
    found = [_best(sweep, best), *(upper_first(each.sentence(sweep.measure)) + "." for each in known)]
    edges = [f"{name} ({listed(swept.choice.edges)})" for name, swept in sweep.learners.items() if swept.choice.edges]
    if edges:
        found.append(
            f"A wider grid may do better for {listed(edges)}: the best value is at the edge of what was tried."
        )
    found += are_backprop(sweep)
    if gone := [name for name, swept in sweep.learners.items() if swept.choice.diverged]:
        found.append(f"Even the best setting of {listed(gone)} diverged with some seeds.")
    return found


def are_backprop(sweep: SweepResults) -> list[str]:
    """Says which learners are backprop at their best setting."""
    plain: dict[tuple[str, float], list[str]] = {}
    for name, swept in sweep.learners.items():
        if (axis := swept.backprop_at) in swept.choice.point:
            plain.setdefault((axis, swept.choice.point[axis]), []).append(name)
    return [
        f"The best {axis} of {listed(names)} is {value:g}, which is backprop." for (axis, value), names in plain.items()
    ]


def _best(sweep: SweepResults, name: str) -> str:
    """The learner with the lowest error, on fresh seeds if it has them."""
    swept, fresh = sweep.learners[name], sweep.evaluation.values().get(name)
    where = f"at {swept.setting()}" if swept.setting() else "at its only setting"
    lead = f"Of {plural(len(sweep.learners), 'learner')}, {name} has" if len(sweep.learners) > 1 else f"{name} has"
    if fresh is None or not np.isfinite(fresh.values).all():
        seeds = f"{plural(len(swept.grid.seeds), 'seed')}, those with which its setting was chosen"
        return upper_first(
            f"{lead} the lowest {sweep.measure}: {swept.choice.mean:.4g} over all steps, {where}, on {seeds}."
        )
    shown = interval(*map(float, mean_interval(fresh.values)))
    return upper_first(
        f"{lead} the lowest {sweep.measure}: {shown} over all steps, {where}, on {fresh.size} fresh seeds."
    )


def facts(sweep: SweepResults) -> dict[str, str]:
    """The stream, the networks, the grid and the seeds of a sweep, in words."""
    grids = [swept.grid for swept in sweep.learners.values()]
    swept_over = {axis for grid in grids for axis in grid.over}
    streams = {grid.table or described(grid.stream, _fields("stream.", swept_over)): None for grid in grids}
    networks = {described(grid.learner.get("network", {}), _fields("network.", swept_over)): None for grid in grids}
    found = {"stream": "; ".join(streams), "network": "; ".join(networks)}
    for grid in grids:
        axes = [f"{axis} {', '.join(map(value_text, values))}" for axis, values in grid.over.items()]
        sizes = math.prod(len(values) for values in grid.over.values())
        found[f"grid, {grid.name}"] = f"{plural(sizes, 'setting')}: {'; '.join(axes)}" if axes else "one setting"
    fresh = {len(grid.evaluation) for grid in grids}
    return found | {
        "seeds": f"{_range([len(grid.seeds) for grid in grids])} to choose settings, {_range([*fresh])} fresh ones",
        "examples per run": f"{int(sweep.best.step.values[-1]):,}, one value recorded per {grids[0].record_every:,}",
        "time of all runs": duration(sum(block.seconds for block in sweep.blocks)),
        "drawn with": machine()["versions"],
    }


def _fields(prefix: str, axes: set[str]) -> tuple[str, ...]:
    return tuple(axis.removeprefix(prefix) for axis in axes if axis.startswith(prefix))


def _range(counts: list[int]) -> str:
    return f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
