"""The page, the tables and the figure of `crossprop study credit`."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crossprop import records as schema
from crossprop._support.formats import duration, interval, minus_signs
from crossprop.experiments import figures
from crossprop.experiments.charts import Axis, Chart, Line, Ring, over_examples
from crossprop.experiments.facts import machine
from crossprop.experiments.looks import Look, look, looks
from crossprop.experiments.page import Cell, Figure, Page, Section, Table, Text, rerun, write_table
from crossprop.experiments.page.answers import QUICK, answers_section
from crossprop.experiments.questions import Answer, write_answers
from crossprop.progress import Say
from crossprop.statistics import Estimate
from crossprop.study.answers import BACKPROP
from crossprop.study.credit import COSINES, CosineRow, Found, Terms, answers, cosine_rows, run_settings, terms_of

if TYPE_CHECKING:
    import xarray

TITLE = "Is it the right credit? Every rule beside the exact meta-gradient"
COLUMNS = {
    "whole": "Meta-gradient",
    "memory": "Its memory part",
    "summed_whole": "Meta-gradient, summed",
    "summed_memory": "Memory part, summed",
    "added_memory": "What it adds to backprop and the memory part, summed",
}
"""The titles of `COSINES`."""
TERMS = {
    "memory": "Size of the memory part",
    "direct_memory": "Cosine of gradient and memory part",
    "own": "Size of the own part",
    "cross": "Size of the cross part",
    "own_cross": "Cosine of own and cross",
    "own_memory": "Cosine of own and memory",
    "crossprop_own": "Cosine of crossprop and own",
    "sum_own": "Cosine of what crossprop-sum adds and own",
}
CHARTS = {"whole": "cosine with the meta-gradient", "memory": "cosine with its memory part"}
PARTS = {
    "direct": look("#67000d"),
    "memory": look("#08306b"),
    "own": look("#4292c6", "dash"),
    "cross": look("#238b45", "dash"),
    "whole": look("#737373"),
}


INTRO = """The outgoing weights W that a network has now depend on the incoming weights U that it had in the past. The
exact meta-gradient counts this: it is backprop's gradient, the direct part, plus a memory part, by the derivative of W
by all past U. Crossprop and foresight estimate the memory part; an oracle computes it here, in networks small enough. A
cosine of 1 means that a rule moves U in exactly that direction, 0 that the two have nothing in common."""
OF_TERMS = """Along backprop's run; means over all examples. The size of backprop's gradient is 1. The memory part is
the sum of two: own goes through a unit's own outgoing weights, cross through those of all other units of the top layer,
which adapt when the unit changes. Crossprop keeps the first and drops the second."""
OF_COSINES = """Mean cosine [95% bootstrap interval over seeds] of each rule's direction of U with the meta-gradient and
with its memory part: example by example, and of the sums over windows of examples. Along backprop's run all rules see
the same weights and keep memories of their own."""


def write_credit(
    path: Path,
    title: str,
    found: Mapping[str, Found],
    rows: Sequence[CosineRow],
    terms: Sequence[Terms],
    answers: Sequence[Answer],
    *,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of the study to `path`, one self-contained file."""
    sizes = [[each.setting, *(minus_signs(f"{getattr(each, name):.2f}") for name in TERMS)] for each in terms]
    parts = Table("Sizes and cosines of the parts", ["Setting", *TERMS.values()], sizes)
    cosines = Figure("Cosine of every rule's direction; rings: with the memory part", cosine_charts(rows), "setting")
    sections = [
        answers_section(answers, "", cosines),
        Section("terms", "The parts of the meta-gradient", [Text(OF_TERMS), parts]),
        *(_section(name, each, rows) for name, each in found.items()),
        rerun(command, facts, "What was run, and on what", same=False),
    ]
    Page(title, INTRO, sections, QUICK if quick else "", quick).write(path)


def _section(name: str, found: Found, rows: Sequence[CosineRow]) -> Section:
    """The charts and the tables of a setting."""
    cosines = [Figure.of(chart, linked=name) for chart in _cosines(found)]
    elements = [Text(OF_COSINES), *cosines, Figure.of(_sizes(found)), *_tables(rows, found)]
    return Section(name, found.setting.title, elements)


def _tables(rows: Sequence[CosineRow], found: Found) -> list[Table]:
    """The cosines along backprop's run and on own runs; in a deep network also those of each layer."""
    layers = [str(layer) for layer in found.along.layer.values[1:]] if found.along.sizes["layer"] > 2 else []
    head = ["Rule", *COLUMNS.values(), *(f"Meta-gradient, layer {at}" for at in layers)]
    tables = []
    for run in ("backprop's", "its own"):
        mine = [row for row in rows if row.setting == found.setting.title and row.run == run]
        cells = {row.rule: [_cell(row.cosines[column]) for column in COLUMNS] for row in mine if row.layer == "all"}
        for row in mine:
            if row.layer != "all":
                cells[row.rule].append(_cell(row.cosines["whole"]))
        tables.append(Table(f"Cosines along {run} run", head, [[rule, *each] for rule, each in cells.items()]))
    return tables


def _cell(estimate: Estimate) -> Cell:
    mean, low, high = map(float, estimate)
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


def cosine_charts(rows: Sequence[CosineRow]) -> dict[str, Chart]:
    """By setting, the cosine of every rule with the meta-gradient along backprop's run; rings are those with its memory
    part."""
    charts = {}
    for setting in dict.fromkeys(row.setting for row in rows):
        shown = [row for row in rows if (row.setting, row.layer, row.run) == (setting, "all", "backprop's")]
        whole = {row.rule: np.array(row.cosines["whole"])[:, None] for row in shown}
        lines = tuple(Line(rule, look("#08306b"), (rule,), *each) for rule, each in whole.items())
        rings = tuple(
            Ring(row.rule, float(row.cosines["memory"].mean), look("#d94801"), f"{row.rule}, memory part")
            for row in shown
        )
        axis = Axis("cosine with the meta-gradient", limits=(-1.05, 1.05))
        charts[setting] = Chart("forest", setting, Axis(), axis, lines, rings)
    return charts


def write_credit_tables(rows: Sequence[CosineRow], terms: Sequence[Terms], folder: Path) -> None:
    """Writes `table.csv` and `terms.csv`, with every number."""
    head = ["setting", "run", "rule", "layer", *(f"{column} {part}" for column in COSINES for part in Estimate._fields)]
    numbers = lambda row: [float(part) for column in COSINES for part in row.cosines[column]]
    write_table(folder / "table.csv", head, [[*row[:4], *numbers(row)] for row in rows])
    write_table(folder / "terms.csv", Terms._fields, terms)


SEEDS = {"quick": 2, "default": 3, "full": 10}


def publish_credit(folder: Path, version: str, seeds: int | None, say: Say, command: str) -> list[Answer]:
    """Runs the study, or reads what is in the folder already, and writes its tables, figure, page and answers."""
    began, quick, seeds = time.perf_counter(), version == "quick", seeds or SEEDS[version]
    found = run_settings(version, seeds, folder / "records", say)
    rows, terms, told = cosine_rows(found), terms_of(found), answers(found)
    write_credit_tables(rows, terms, folder)
    (folder / "figures").mkdir(exist_ok=True)
    words = "Cosine of each rule's direction of U with\nthe exact meta-gradient (blue) and its memory part (orange)"
    charts = [*cosine_charts(rows).values()]
    figures.save(charts, folder / "figures" / "cosines", words + "  (quick version)" * quick)
    facts = _facts(found, version, seeds)
    write_credit(folder / "study.html", TITLE, found, rows, terms, told, command=command, facts=facts, quick=quick)
    write_answers(folder / "answers.json", told, command=command, facts=facts)
    say(f"It took {duration(time.perf_counter() - began)}. The page is {folder / 'study.html'}.")
    return told


def _facts(found: Mapping[str, Found], version: str, seeds: int) -> dict[str, str]:
    facts = {"version": version, "seeds": str(seeds)}
    for each in found.values():
        title, network, stream, step_size, incoming, every = each.setting
        facts[title] = (
            f"{type(stream).__name__}, {stream.steps:,} examples, windows of {every}; {network.inputs} inputs, "
            f"{' and '.join(map(str, network.hidden))} hidden units, {network.outputs} outputs, {network.activation}; "
            f"step sizes {step_size:g} of W and {incoming:g} of U"
        )
    return facts | machine()
