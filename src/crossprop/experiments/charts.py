"""Charts as data, made once from records; `page` draws them with Plotly and `figures` with matplotlib."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import plural, upper_first
from crossprop.experiments.looks import LABELS, Look, look, looks
from crossprop.records import Mark, switches
from crossprop.statistics import Estimate, mean_interval
from crossprop.variables import Variable

if TYPE_CHECKING:
    import xarray

    from crossprop.experiments.findings import Finding

POINTS = 400
"""Most points of a curve: neighbouring windows are joined."""
DIGITS = 4
"""Digits of the numbers on a page."""
TALLEST = 4
"""Charts along a setting end at this many times the best score: most of what is worse is about to diverge."""
FEW = 5
"""With fewer seeds, bands are their range: a bootstrap interval of so few values would be far too narrow."""

Kind = Literal["curves", "along", "forest", "heat", "scatter", "cloud"]
"""Lines over the examples; lines along a setting; an interval for each row; a number for each cell; points with
intervals; points of several classes."""
Published = Mapping[str, Sequence[Sequence[float]]]
"""Published values to mark on a chart: places (x, y) by the line that they belong to."""


@dataclass(frozen=True)
class Axis:
    """An axis. Where `limits` and `ticks` are empty, whoever draws it chooses them."""

    title: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    """Places and their labels."""
    unit: str = ""
    """The suffix of tick labels."""


@dataclass(frozen=True)
class Line:
    """A line, a row of a forest or a heat map, a point with its interval, or the points of a class.

    Numbers are NaN where there are none; `diverged` are the places of those that are missing for that reason.
    """

    name: str
    look: Look
    x: np.ndarray | Sequence[str]
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    diverged: tuple[int, ...] = ()
    note: str = ""
    """The legend's text after the name."""
    group: str = ""
    """Rows of a forest that stand together, and lines that a page can show alone."""


class Ring(NamedTuple):
    """A published value, or the best setting."""

    x: float | str
    y: float | str
    look: Look
    name: str


@dataclass(frozen=True)
class Chart:
    """A chart. `x` has the places and `y` the numbers of its lines, also in a forest, whose places are rows. In a heat
    map `y` is the axis of its rows, and its limits are the ends of the colours."""

    kind: Kind
    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    rings: tuple[Ring, ...] = ()
    tasks: tuple[Mark, ...] = ()
    """The visits to tasks whose labels are shown."""
    seeds: int = 0

    @property
    def band(self) -> str:
        """A caption for bands and bars; empty if there are none."""
        return band_words(self.seeds)

    @property
    def statistic(self) -> str:
        """A caption for lines and bands."""
        return f"mean and {self.band}" if self.band else "one run"

    @property
    def zeros(self) -> str:
        """Says which lines a log axis cannot show because they are 0 throughout."""
        names = [line.name for line in self.lines if not line.y.any()] if self.y.log else []
        return f"{', '.join(names)}: 0" if names else ""


def band_words(seeds: int) -> str:
    """A caption for the bands of a chart with this many seeds."""
    if seeds < 2:
        return ""
    return f"range of {seeds} seeds" if seeds < FEW else f"95% bootstrap interval over {seeds} seeds"


def band(values: np.ndarray) -> Estimate:
    """The mean over the first axis, with a bootstrap interval, or with the range of few values."""
    if 1 < len(values) < FEW:
        return Estimate(values.mean(axis=0), values.min(axis=0), values.max(axis=0))
    return mean_interval(values)


def to_json(value: Any) -> Any:
    """A chart in JSON's types: empty fields are left out, numbers have a few digits, and are null if not finite."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [float(f"{each:.{DIGITS}g}") if math.isfinite(each) else None for each in value.tolist()]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Chart):
        shared = value.lines[0].x if value.lines else ()
        lines = [replace(line, x=()) if at and line.x is shared else line for at, line in enumerate(value.lines)]
        stated = {each.name: getattr(value, each.name) for each in fields(value)}
        return to_json(stated | {"lines": lines, "zeros": value.zeros})
    if is_dataclass(value):
        return to_json({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Look | Ring | Mark):
        return to_json(value._asdict())
    if isinstance(value, Mapping):
        is_empty = lambda each: each is None or each is False or (isinstance(each, str | tuple) and not each)
        return {name: to_json(each) for name, each in value.items() if not is_empty(each)}
    return [to_json(each) for each in value] if isinstance(value, list | tuple) else value


# Curves over the examples.


def curves(
    records: "xarray.Dataset",
    variables: Sequence[str] = (),
    published: Published = MappingProxyType({}),
    *,
    linear: bool = False,
) -> list[Chart]:
    """One chart per variable with a line for each learner: of `variables`, or of all that have a title.

    On the first one, what was `published` is marked.
    """
    shown = [schema.describe(records, name) for name in variables] or schema.curves(records)
    starts = _group_starts(records.task.values)
    look_of = looks(schema.learner_infos(records))
    charts = []
    for at, variable in enumerate(shown):
        step, values = _grouped(records, variable, starts)
        lines = {name: (values[:, index], look_of[name]) for index, name in enumerate(look_of)}
        chart = over_examples(records, variable.title, step, lines, log=variable.log and not linear)
        charts.append(replace(chart, rings=_rings(chart.lines, {} if at else published)))
    return charts


def over_examples(
    records: "xarray.Dataset", title: str, step: np.ndarray, lines: Mapping[str, tuple[np.ndarray, Look]], log: bool
) -> Chart:
    """A chart of values with the dims seed and step for each line, with the task switches of `records`."""
    seeds = int(records.sizes["seed"])
    made = []
    for name, (values, style) in lines.items():
        mean, low, high = band(values)
        made.append(Line(name, style, step, mean, low, high) if seeds > 1 else Line(name, style, step, mean))
    examples, y = Axis(f"examples ({plural(seeds, 'seed')})", limits=(0, int(step[-1]))), Axis(title, log)
    return Chart("curves", title, examples, y, tuple(made), tasks=_tasks(records), seeds=seeds)


def _tasks(records: "xarray.Dataset") -> tuple[Mark, ...]:
    """The visits to tasks; none if the task never switches."""
    task, step = records.task.values, records.step.values
    if not switches(task).size:
        return ()
    return tuple(schema.marks(step, task, int(step[0] - schema.window_lengths(records)[0])))


def _grouped(records: "xarray.Dataset", variable: Variable, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last step of each group of windows, and one value per group, with dims seed, learner and group."""
    ends = np.append(starts[1:], records.sizes["step"]) - 1
    step = records.step.values[ends].astype(int)
    values = records[variable.name].transpose("seed", "learner", "step").values.astype(np.float64)
    if not variable.averaged:
        return step, values[..., ends]
    lengths = schema.window_lengths(records)
    return step, np.add.reduceat(values * lengths, starts, axis=-1) / np.add.reduceat(lengths, starts)


def examples_per_point(records: "xarray.Dataset") -> int:
    """How many examples one point of the curves stands for."""
    windows = int(np.diff(_group_starts(records.task.values), append=records.sizes["step"]).max())
    return windows * int(schema.window_lengths(records).max())


def _group_starts(task: np.ndarray) -> np.ndarray:
    """The first window of each group of neighbouring windows, at most `POINTS` groups.

    A group ends at a task switch, unless there are more visits than points.
    """
    bounds = [0, *switches(task), len(task)]
    if len(bounds) > POINTS:
        bounds = [0, len(task)]
    every = max(1, math.ceil(len(task) / POINTS))
    while True:
        starts = np.concatenate([np.arange(low, high, every) for low, high in itertools.pairwise(bounds)])
        if len(starts) <= POINTS:
            return starts
        every += 1


def _rings(lines: Sequence[Line], published: Published) -> tuple[Ring, ...]:
    look_of = {line.name: line.look for line in lines}
    return tuple(
        Ring(x, y, look_of[name], f"{name}, published")
        for name, points in published.items()
        if name in look_of
        for x, y in points
    )


def headline(chart: Chart, notes: Mapping[str, str]) -> Chart:
    """A chart with a few of its lines, each with a note; the line that ends highest comes first."""
    lines = [replace(line, note=notes[line.name]) for line in chart.lines if line.name in notes]
    return replace(chart, lines=tuple(sorted(lines, key=lambda line: -np.nan_to_num(line.y[-1], nan=np.inf))))


# Lines along a setting.


def along(
    records: "xarray.Dataset", lines: Mapping[str, Mapping[str, float]], axis: str, published: Published
) -> dict[str, Chart]:
    """A chart of the loss in the last window along a setting of learners, on a logarithmic axis: for each line, its
    learners' values of the setting."""
    infos = schema.learner_infos(records)
    look_of = looks({name: infos[next(iter(learners))] for name, learners in lines.items()})
    made = []
    for name, learners in lines.items():
        last = records["loss"].isel(step=-1).sel(learner=[*learners]).transpose("seed", "learner").values
        mean, low, high = band(last)
        gone = tuple(np.flatnonzero(~np.isfinite(mean)).tolist())
        made.append(Line(name, look_of[name], np.array([*learners.values()]), mean, low, high, gone))
    title, seeds = schema.describe(records, "loss").title, int(records.sizes["seed"])
    x, y = Axis(axis, log=True), Axis(title, limits=score_limits(made))
    rings = _rings(made, published)
    return {"loss": Chart("along", f"{upper_first(title)} at the end", x, y, tuple(made), rings, seeds=seeds)}


def score_limits(lines: Iterable[Line]) -> tuple[float, float] | None:
    """The ends of the score axis of a chart along a setting; None where all finite scores fit on it."""
    finite = [float(score) for line in lines for score in line.y if math.isfinite(score)]
    best, worst = min(finite, default=0.0), max(finite, default=0.0)
    return (0.9 * best, TALLEST * best) if worst > TALLEST * best > 0 else None


# Intervals of comparisons, and classes.


def forest(title: str, axis: str, rows: "Iterable[tuple[Finding, str, Look]]", seeds: int = 0) -> Chart:
    """Differences to a reference in percent, a row for each learner, from comparisons, their groups and looks.

    A learner that diverged has no number; one that cannot be compared for another reason has no row.
    """
    lines = []
    for finding, group, style in rows:
        gone = bool(np.isinf(finding.learner_mean))
        if gone or np.isfinite(finding.mean):
            mean, low, high = np.full((3, 1), np.nan) if gone else np.array(finding.percent)[:, None]
            name = finding.learner
            lines.append(Line(name, style, (name,), mean, low, high, (0,) if gone else (), group=group))
    y = Axis(axis, limits=_forest_limits(lines), unit="%")
    return Chart("forest", title, Axis(), y, tuple(lines), seeds=seeds)


def _forest_limits(lines: Sequence[Line]) -> tuple[float, float]:
    """The ends of the axis. Controls do not set them: where one is far off, all else would be squeezed together."""
    shown = [line for line in lines if not line.look.control] or lines
    ends = [float(end[0]) for line in shown for end in (line.low, line.high) if end is not None]
    finite = [0.0, *(end for end in ends if math.isfinite(end))]
    room = max(finite) - min(finite) or 1.0
    return min(finite) - 0.08 * room, max(finite) + 0.2 * room


def clouds(features: "xarray.Dataset") -> list[Chart]:
    """One map for each representation: its examples at their t-SNE coordinates, by label."""
    labels = features.label.values
    charts = []
    for name in map(str, features.representation.values):
        places = features.tsne.sel(representation=name).transpose("example", ...).values
        lines = tuple(
            Line(str(label), look(LABELS[at % len(LABELS)]), places[labels == label, 0], places[labels == label, 1])
            for at, label in enumerate(np.unique(labels))
        )
        same, apart = (float(features[each].sel(representation=name).mean()) for each in ("neighbours", "silhouette"))
        title = f"{name}: same-label neighbours {same:.2f}, silhouette {apart:.2f}"
        charts.append(Chart("cloud", title, Axis(), Axis(), lines))
    return charts
