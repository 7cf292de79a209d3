"""The page, the tables and the figure of `crossprop study credit`."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import duration, interval, minus_signs
from crossprop.experiments import figures
from crossprop.experiments.charts import Axis, Chart, Line, Ring, over_examples
from crossprop.experiments.experiment import Experiment, Stage
from crossprop.experiments.facts import machine
from crossprop.experiments.looks import Look, look, looks
from crossprop.experiments.page import Cell, Figure, Page, Section, Table, Text, rerun, write_table
from crossprop.experiments.page.answers import QUICK, answers_section
from crossprop.experiments.questions import Answer, write_answers
from crossprop.library.credit import BACKPROP, WORDS, Found, answers, cosines_of, follow_stages, learners_of, terms_of
from crossprop.progress import Say
from crossprop.statistics import Estimate

if TYPE_CHECKING:
    import xarray

Row = Mapping[str, Any]
"""A row of a table, by column."""

CHARTS = {"whole": "cosine with the meta-gradient", "memory": "cosine with its memory part"}
PARTS = {
    "direct": look("#a50f15"),
    "memory": look("#1764d0"),
    "own": look("#63a9e0", "dash"),
    "cross": look("#2f9b4c", "dash"),
    "whole": look("#737373"),
}


def _section(name: str, found: Found, cosines: Sequence[Row]) -> Section:
    """The charts and the tables of a setting."""
    charts = [Figure.of(chart, linked=name) for chart in _cosines(found)]
    mine = [row for row in cosines if row["setting"] == found.title]
    tables = [_table(run, [row for row in mine if row["run"] == run]) for run in ("backprop's", "its own")]
    return Section(name, found.title, [Text(WORDS["of_cosines"]), *charts, Figure.of(_sizes(found)), *tables])


def _table(run: str, rows: Sequence[Row]) -> Table:
    """The cosines along backprop's run or on own runs; in a deep network also those of each layer."""
    cells = {row["rule"]: [_cell(row, column) for column in WORDS["columns"]] for row in rows if row["layer"] == "all"}
    layers = [row for row in rows if row["layer"] != "all"]
    for row in layers:
        cells[row["rule"]].append(_cell(row, "whole"))
    further = [f"Meta-gradient, layer {layer}" for layer in dict.fromkeys(row["layer"] for row in layers)]
    head = ["Rule", *WORDS["columns"].values(), *further]
    return Table(f"Cosines along {run} run", head, [[rule, *each] for rule, each in cells.items()])


def _cell(row: Row, column: str) -> Cell:
    mean, low, high = (row[f"{column} {part}"] for part in Estimate._fields)
    if math.isnan(mean):
        return Cell("–")
    number, _, ends = interval(mean, low, high).partition(" ")
    return Cell(number, note=ends)


def _cosines(found: Found) -> list[Chart]:
    """Cosines of every rule with the meta-gradient and with its memory part, over backprop's run."""
    along, look_of = found.along.sel(layer="all"), looks(schema.learner_infos(found.along))
    line = lambda rule, part: along.cosine.sel(learner=rule, part=part)
    return [
        _over_examples(title, along, {rule: (line(rule, part), look_of[rule]) for rule in look_of})
        for part, title in CHARTS.items()
    ]


def _sizes(found: Found) -> Chart:
    """The sizes of the parts of the meta-gradient of the top layer, over backprop's run."""
    top = found.along.isel(layer=-1).sel(learner=BACKPROP)
    title = "sizes of the parts" + " in the top layer" * (found.along.sizes["layer"] > 2)
    return _over_examples(title, top, {part: (top.norm.sel(part=part), style) for part, style in PARTS.items()})


def _over_examples(
    title: str, records: "xarray.Dataset", lines: "Mapping[str, tuple[xarray.DataArray, Look]]"
) -> Chart:
    values = {name: (line.transpose("seed", "step").values, style) for name, (line, style) in lines.items()}
    return over_examples(records, title, records.step.values.astype(int), values, log=False)


def cosine_charts(cosines: Sequence[Row]) -> dict[str, Chart]:
    """By setting, the cosine of every rule with the meta-gradient along backprop's run; rings are those with its memory
    part."""
    charts = {}
    for setting in dict.fromkeys(row["setting"] for row in cosines):
        shown = [row for row in cosines if (row["setting"], row["layer"], row["run"]) == (setting, "all", "backprop's")]
        whole = {row["rule"]: [np.array([row[f"whole {part}"]]) for part in Estimate._fields] for row in shown}
        lines = tuple(
            Line(rule, look("#1764d0"), (rule,), mean, low, high) for rule, (mean, low, high) in whole.items()
        )
        rings = tuple(
            Ring(row["rule"], row["memory mean"], look("#b8860b"), f"{row['rule']}, memory part") for row in shown
        )
        axis = Axis("cosine with the meta-gradient", limits=(-1.05, 1.05))
        charts[setting] = Chart("forest", setting, Axis(), axis, lines, rings)
    return charts


def publish_credit(experiment: Experiment, folder: Path, say: Say, *, command: str, version: str) -> list[Answer]:
    """Runs the study, or reads what is in the folder already, and writes its tables, figure, page and answers."""
    began, quick, stages = time.perf_counter(), version == "quick", experiment.stages
    found = follow_stages(stages, folder / "records", say, quick=quick)
    cosines, terms, told = cosines_of(found), terms_of(found), answers(found)
    charts = cosine_charts(cosines)
    write_table(folder / "table.csv", cosines)
    write_table(folder / "terms.csv", terms)
    (folder / "figures").mkdir(exist_ok=True)
    words = "Cosine of each rule's direction of U with\nthe exact meta-gradient (blue) and its memory part (orange)"
    figures.save([*charts.values()], folder / "figures" / "cosines", words + "  (quick version)" * quick)
    seeds = str(len(next(iter(stages.values())).spec.seeds))
    facts = {"version": version, "seeds": seeds} | {each.title: _fact(each) for each in stages.values()} | machine()
    sizes = [[each["setting"], *(minus_signs(f"{each[name]:.2f}") for name in WORDS["terms"])] for each in terms]
    parts = Table("Sizes and cosines of the parts", ["Setting", *WORDS["terms"].values()], sizes)
    shown = Figure("Cosine of every rule's direction; rings: with the memory part", charts, "setting")
    sections = [
        answers_section(told, "", shown),
        Section("terms", "The parts of the meta-gradient", [Text(WORDS["of_terms"]), parts]),
        *(_section(name, each, cosines) for name, each in found.items()),
        rerun(command, facts, "What was run, and on what", same=False),
    ]
    page = folder / "study.html"
    Page(experiment.title, experiment.intro, sections, QUICK if quick else "", quick).write(page)
    write_answers(folder / "answers.json", told, command=command, facts=facts)
    say(f"It took {duration(time.perf_counter() - began)}. The page is {page}.")
    return told


def _fact(stage: Stage) -> str:
    stream, backprop = stage.spec.stream, learners_of(stage)[BACKPROP]
    network = backprop.network
    return (
        f"{type(stream).__name__}, {stream.steps:,} examples, windows of {stage.spec.record_every}; "
        f"{network.inputs} inputs, {' and '.join(map(str, network.hidden))} hidden units, {network.outputs} outputs, "
        f"{network.activation}; step sizes {backprop.step_size:g} of W and {backprop.incoming_step_size:g} of U"
    )
