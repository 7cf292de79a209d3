"""`arena.html`: an arena on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import interval
from crossprop.arena.standing import CREDIT, OTHER, REPLACEMENT, SEVERAL, STEP, Results, Standing
from crossprop.arena.tables import mean_cost, mean_rank, short_difference
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import SweepResults
from crossprop.figures import looks
from crossprop.pages import charts
from crossprop.pages.comparisons import NOTHING, QUICK, TableCell, forest_mark, table_cell
from crossprop.pages.writing import write_page
from crossprop.plot.page import best_settings
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

GROUPS = {
    CREDIT: "credit: who is to blame",
    STEP: "step: how far to go",
    REPLACEMENT: "replacement: which units live",
    SEVERAL: "several at once",
    OTHER: "others",
}
BEST, FEW = "best", 7
"""The charts over time begin with all learners, or with this many of the best if there are more."""
FEATURES = ("plasticity", "dead_units", "effective_rank", "weight_size")
"""What is shown over time besides the error."""
PARTS = 10
"""Parts of equal length that a stream without task switches is divided into."""


class RankRow(NamedTuple):
    """A learner in the table of ranks."""

    learner: str
    parts: tuple[str, ...]
    """Credit, step and replacement."""
    rank: str
    overall: TableCell
    cost: str
    streams: list[tuple[str, str, TableCell]]
    """On every stream the rank, the difference in short, and in full."""


def write_arena(
    path: Path,
    results: Results,
    sweeps: Mapping[str, SweepResults],
    answers: Sequence[Answer],
    conclusions: Sequence[str],
    *,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of an arena to `path`, one self-contained file."""
    forest = _forest(results)
    few = len(results.infos) <= FEW
    titles = {BEST: "all" if few else f"the {FEW} best, and {results.reference}"} | GROUPS
    groups = {group: learners for group in titles if (learners := _group(results, group))}
    parts = {
        f"{name}|{group}": _charts(sweep.best.sel(learner=learners))
        for name, sweep in sweeps.items()
        for group, learners in groups.items()
    }
    data = {"forests": [forest], "parts": parts, "scatters": [_scatter(results)], "quick": quick}
    write_page(
        path,
        "arena/arena.html.jinja",
        data=data,
        title="Arena: credit, step and replacement, side by side",
        contents=[
            ("conclusion", "Conclusion"),
            ("ranks", "Ranks and differences"),
            ("answers", "The answers"),
            ("time", "Over time"),
            ("cost", "Cost beside error"),
            ("best", "The best settings"),
            ("rerun", "Run it again"),
        ],
        banner=QUICK if quick else "",
        conclusions=[NOTHING] if quick else conclusions,
        forest=forest,
        answers=answers,
        pills={each.verdict: _pill(each.verdict) for each in answers},
        reference=results.reference,
        rows=[_row(results, learner) for learner in results.ranked],
        streams={name: standing.title for name, standing in results.streams.items()},
        groups={group: titles[group] for group in groups},
        first=next(iter(parts.items())),
        measures={name: sweep.measure for name, sweep in sweeps.items()},
        best={name: best_settings(sweep) for name, sweep in sweeps.items()},
        errors={name: _errors(results, name) for name in results.streams},
        command=command,
        facts=facts,
        quick=quick,
    )


def _pill(verdict: str) -> str:
    """The CSS class of an answer."""
    known = {"here": "yes", "everywhere": "yes", "nowhere": "open", "no": "no"}
    return "no" if verdict.startswith("better nowhere") else known.get(verdict, "part")


def _group(results: Results, group: str) -> list[str]:
    """The learners of a group, behind the reference; with the best, those whose classes are not of this package."""
    if group == BEST:
        shown = {results.reference, *results.ranked[:FEW], *results.own}
        return [name for name in results.infos if name in shown]
    mine = [name for name in results.infos if name != results.reference and results.group(name) == group]
    return [results.reference, *mine] if mine else []


def _forest(results: Results) -> dict[str, Any]:
    """The chart of differences: every learner against the reference, one view for all streams and one for each."""
    views = {standing.title: _marks(results, standing) for standing in (results.overall, *results.streams.values())}
    return {
        "phases": views,
        "reference": results.reference,
        "axis": f"error against tuned {results.reference}, in percent",
    }


def _marks(results: Results, standing: Standing) -> list[dict[str, Any]]:
    ordered = sorted(standing.versus, key=lambda name: [*GROUPS].index(results.group(name)))
    found = looks(results.infos)
    marks = [
        forest_mark(standing.versus[name], results.group(name), found[name], results.is_control(name))
        for name in ordered
    ]
    return [mark for mark in marks if mark]


def _scatter(results: Results) -> dict[str, Any]:
    """Cost and error of every learner, as the page's script takes them."""
    found = looks(results.infos)
    points = []
    for name in results.ranked:
        values = results.overall.values[name].values
        if np.isfinite(values).all():
            mean, low, high = charts.rounded(100 * np.array([*map(float, mean_interval(values))]))
            x = charts.rounded(np.array([mean_cost(results, name)]))[0]
            points.append({"name": name, "x": x, "y": mean, "low": low, "high": high} | charts.line_look(found[name]))
    return {
        "points": points,
        "across": "microseconds per step",
        "up": f"error, in percent of {results.reference}’s",
    }


def _row(results: Results, learner: str) -> RankRow:
    rule, optimizer, replacement = results.infos[learner]
    streams = [
        (f"{float(each.ranks[learner].mean):g}", short_difference(each.versus.get(learner)), _cell(each, learner))
        for each in results.streams.values()
    ]
    times = mean_cost(results, learner) / mean_cost(results, results.reference)
    return RankRow(
        learner,
        (rule, optimizer, *([replacement] if replacement != schema.NONE else [])),
        mean_rank(results, learner),
        _cell(results.overall, learner),
        f"{mean_cost(results, learner):.3g} ({times:.1f}×)",
        streams,
    )


def _cell(standing: Standing, learner: str) -> TableCell:
    return table_cell(standing.versus[learner]) if learner in standing.versus else TableCell("reference", "", "")


def _errors(results: Results, stream: str) -> list[tuple[str, str, str, TableCell, float, int]]:
    """For every learner by rank: its name, rank, error, difference, and what a step costs."""
    standing = results.streams[stream]
    ordered = sorted(standing.values, key=lambda learner: float(standing.ranks[learner].mean))
    found = []
    for learner in ordered:
        values, cost = standing.values[learner].values, results.costs[stream][learner]
        error = interval(*map(float, mean_interval(values))) if np.isfinite(values).all() else "diverged"
        rank, low, high = (f"{float(each):g}" for each in standing.ranks[learner])
        found.append((learner, f"{rank} [{low}, {high}]", error, _cell(standing, learner), *cost))
    return found


def _charts(records: "xarray.Dataset") -> list[dict[str, Any]]:
    """The charts of a group of learners on a stream: error, error per task, and what the probes recorded."""
    measure = schema.measure(records)
    found = charts.curves(records, [measure])
    found += [
        chart | {"title": f"mean {chart['title']} per task"} for chart in charts.curves(per_task(records), [measure])
    ]
    shown = [name for name in FEATURES if name in records and np.isfinite(records[name]).any()]
    return found + (charts.curves(records, shown) if shown else [])


def per_task(records: "xarray.Dataset") -> "xarray.Dataset":
    """The mean loss or error of each visit to a task; of each tenth of a run that has one task."""
    measure, lengths = schema.measure(records), schema.window_lengths(records)
    visits = schema.visits(records.task.values)
    if len(visits) == 1:
        visits = [part for part in np.array_split(visits[0], PARTS) if part.size]
    values = records[measure].transpose("learner", "seed", "step").values
    means = [np.average(values[..., windows], axis=-1, weights=lengths[windows]) for windows in visits]
    ends = [int(windows[-1]) for windows in visits]
    together = [int(lengths[windows].sum()) for windows in visits]
    grouped = records[[measure]].isel(step=ends).assign_coords(window=("step", together))
    return grouped.assign({measure: (("learner", "seed", "step"), np.stack(means, axis=-1))})
