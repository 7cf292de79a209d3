"""`arena.html`: an arena on one page."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import fixed, interval, minus_signs, plural
from crossprop.costs import Cost
from crossprop.experiments.charts import Axis, Chart, Line, curves, forest
from crossprop.experiments.looks import looks
from crossprop.experiments.page import Cell, Figure, Section, Table, Text, conclusion, short, write_table
from crossprop.experiments.page.answers import answers_section, table_cell
from crossprop.experiments.questions import Answer
from crossprop.experiments.sweep_page import best_settings
from crossprop.library.standing import OVERALL, QUESTIONS, Results, Standing
from crossprop.statistics import MEAN_BRACKETS, mean_interval

if TYPE_CHECKING:
    import xarray

BEST, FEW = "best", 7
"""The charts over time begin with all learners, or with this many of the best if there are more."""
WORDS = tomllib.loads((files("crossprop.library") / "arena_words.toml").read_text(encoding="utf-8"))
GROUPS = WORDS["groups"]
OVER_TIME = ("plasticity", "dead_units", "effective_rank", "weight_size")
"""Variables with curves, besides the error."""
PARTS = 10
"""Parts of equal length that a stream without task switches is divided into."""


def introduction(results: Results, budget: str) -> str:
    """What an arena is, and how its learners were tuned."""
    counts = plural(len(results.infos), "learner"), plural(len(results.streams), "stream")
    words = WORDS["untuned" if results.untuned else "tuned"]
    return words.format(*counts, budget=budget, reference=results.reference)


def arena_sections(results: Results, answers: Sequence[Answer], conclusions: Sequence[str]) -> list[Section]:
    """The page of an arena."""
    differences = Figure(f"Every learner against {results.opponent}", _forests(results), "stream")
    scatter = _scatter(results)
    title = "Mean error over all streams by the time of a step; left and low is good"
    costs = [Figure(title, {"": scatter})] if scatter.lines else []
    prices = [Text(WORDS["price"]), _prices(results)] if results.prices else []
    best = [best_settings(each, each.title) for each in results.sweeps.values()]
    return [
        conclusion(conclusions, differences),
        Section("ranks", "Ranks and differences", [Text(WORDS["ranks"]), _ranks(results)]),
        *([Section("price", "The price of tuning", prices)] if prices else []),
        answers_section(answers, WORDS["answers"]),
        Section("time", "Over time", [Text(WORDS["time"] + _without(results)), *_over_time(results)]),
        Section("cost", "Cost beside error", [*costs, *(_errors(results, name) for name in results.streams)]),
        *([] if results.untuned else [Section("best", "The best settings", best)]),
    ]


def _group(results: Results, group: str) -> list[str]:
    """The learners of a group, behind the reference; with the best, those whose classes are not of this package."""
    if group == BEST:
        shown = {results.reference, *results.ranked[:FEW], *results.own}
        return [name for name in results.infos if name in shown]
    mine = [name for name in results.infos if name != results.reference and results.group(name) == group]
    return [results.reference, *mine] if mine else []


def _forests(results: Results) -> dict[str, Chart]:
    """Every learner against the reference, overall and on each stream."""
    look_of = {name: style._replace(control=results.is_control(name)) for name, style in looks(results.infos).items()}
    charts = {}
    for standing in (results.overall, *results.streams.values()):
        ordered = sorted(standing.versus, key=lambda name: [*GROUPS].index(results.group(name)))
        marks = [(standing.versus[name], results.group(name), look_of[name]) for name in ordered]
        charts[standing.title] = forest(standing.title, f"error against {results.opponent}", marks)
    return charts


def _scatter(results: Results) -> Chart:
    """The cost and the error of every learner."""
    look_of, lines = looks(results.infos), []
    for name in results.ranked:
        values = results.overall.values[name].values
        if np.isfinite(values).all() and np.isfinite(results.cost(name)):
            mean, low, high = (100 * part[None] for part in mean_interval(values))
            lines.append(Line(name, look_of[name], np.array([results.cost(name)]), mean, low, high))
    title = f"error, in percent of {results.reference}’s"
    return Chart("scatter", title, Axis("microseconds per step", log=True), Axis(title, unit="%"), tuple(lines))


def _ranks(results: Results) -> Table:
    """All learners by their mean rank."""
    unit, rows = results.cost(results.reference), []
    for learner in results.ranked:
        parts = [part for part in results.infos[learner] if part != schema.NONE]
        cost = results.cost(learner)
        streams = [
            replace(_cell(each, learner, short=True), note=f"rank {float(each.ranks[learner].mean):g}")
            for each in results.streams.values()
        ]
        title, overall = Cell(learner, note=" · ".join(parts)), _cell(results.overall, learner, short=True)
        rows.append(
            [
                title,
                "{} [{}, {}]".format(*(fixed(float(part), 1) for part in results.overall.ranks[learner])),
                overall,
                *streams,
                Cell(short(cost), note=f"{cost / unit:.1f}×" * bool(np.isfinite(cost))),
            ]
        )
    head = ["Learner", "Mean rank", "Overall", *(each.title for each in results.streams.values()), "µs per step"]
    return Table("All learners, by mean rank", head, rows, "numeric ranks")


def _prices(results: Results) -> Table:
    """The gain by tuning, for every learner."""
    head, rows = ["Learner", "Against its median setting", "Against its default"], []
    for learner, price in sorted(results.prices[OVERALL].items(), key=lambda item: results.ranked.index(item[0])):
        median = f"{minus_signs(f'{price.median:+.0f}')}%" if np.isfinite(price.median) else "diverged"
        rows.append([learner, median, table_cell(price.default) if price.default else "not run"])
    return Table("The error of the best setting, all streams", head, rows)


def _cell(standing: Standing, learner: str, *, short: bool = False) -> Cell:
    if learner not in standing.versus:
        return Cell(note="reference")
    return table_cell(standing.versus[learner], short=short)


def _errors(results: Results, stream: str) -> Table:
    """Every learner by rank: its error, its difference, and what a step costs."""
    standing, rows = results.streams[stream], []
    for learner in sorted(standing.values, key=lambda learner: float(standing.ranks[learner].mean)):
        values, cost = standing.values[learner].values, results.costs[stream][learner]
        diverged = f"diverged on {results.diverged(learner, stream)} of {values.size}"
        error = interval(*map(float, mean_interval(values))) if np.isfinite(values).all() else diverged
        rank, low, high = (f"{float(each):g}" for each in standing.ranks[learner])
        costs = [short(cost.microseconds), f"{cost.numbers:,}"]
        rows.append([learner, f"{rank} [{low}, {high}]", error, _cell(standing, learner), *costs])
    caption = (
        f"{standing.title}: {results.sweeps[stream].measure} on fresh seeds, mean {MEAN_BRACKETS}, difference "
        f"to {results.reference}, and the cost of a single run"
    )
    return Table(
        caption, ["Learner", "Rank", "Error", f"Against {results.reference}", "µs per step", "Numbers stored"], rows
    )


def _over_time(results: Results) -> list[Figure]:
    """Figures that share the choice of a stream and of a group of learners."""
    titles = {BEST: "all" if len(results.infos) <= FEW else f"the {FEW} best, and {results.reference}"} | GROUPS
    filters = {title: names for group, title in titles.items() if (names := _group(results, group))}
    charts = {sweep.title: _charts(sweep.best) for sweep in results.sweeps.values()}
    kinds = dict.fromkeys(kind for each in charts.values() for kind in each)
    return [
        Figure(kind, {name: each[kind] for name, each in charts.items() if kind in each}, "stream", "time", filters)
        for kind in kinds
    ]


def _without(results: Results) -> str:
    """A sentence that names the learners without curves of features."""
    ranks = [sweep.best.effective_rank for sweep in results.sweeps.values() if "effective_rank" in sweep.best]
    names = {str(name): None for each in ranks for name in each.learner.values}
    shown = {name for each in ranks for name in names if np.isfinite(each.sel(learner=name)).any()}
    lacking = [name for name in names if name not in shown]
    return f" Without a method features(state, x): {', '.join(lacking)}." if lacking else ""


def _charts(records: "xarray.Dataset") -> dict[str, Chart]:
    """The charts of a stream by title: error, error per task, and what the probes recorded."""
    measure = schema.measure(records)
    (error,), (by_task,) = curves(records, [measure]), curves(per_task(records), [measure])
    shown = [name for name in OVER_TIME if name in records and np.isfinite(records[name]).any()]
    found = {"Error": error, "Mean error per task": by_task}
    return found | {schema.describe(records, name).title.capitalize(): curves(records, [name])[0] for name in shown}


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


def write_arena_table(results: Results, path: Path) -> None:
    """Writes a row with every number for every learner on every stream, and overall."""
    standings = {"overall": results.overall, **results.streams}
    write_table(path, [_row(results, *each, learner) for each in standings.items() for learner in results.ranked])


def _row(results: Results, stream: str, standing: Standing, learner: str) -> dict[str, Any]:
    rank, versus = standing.ranks[learner], standing.versus.get(learner)
    row = {"stream": stream, "title": standing.title, "learner": learner}
    row |= dict(zip(QUESTIONS, results.infos[learner], strict=True))
    row |= dict(zip(("rank", "rank low", "rank high"), map(float, rank), strict=True))
    row |= {"mean": float(standing.values[learner].mean())}
    row |= {"diverged": results.diverged(learner, *([stream] if stream in results.sweeps else []))}
    price = results.prices.get(stream, {}).get(learner)
    against = ("", "", "") if price is None or price.default is None else price.default.percent
    row |= {"against median percent": price.median if price else ""}
    row |= dict(zip((f"against default percent{end}" for end in ("", " low", " high")), against, strict=True))
    row |= dict(
        zip(("percent", "percent low", "percent high"), versus.percent if versus else ("", "", ""), strict=True)
    )
    row |= {part: getattr(versus, part, "") for part in ("won", "pairs", "p")}
    if stream not in results.sweeps:
        return row | dict.fromkeys((*Cost._fields, "settings", "setting"), "")
    tuned = results.sweeps[stream].learners[learner]
    return row | results.costs[stream][learner]._asdict() | {"settings": tuned.tried, "setting": tuned.setting("!")}
