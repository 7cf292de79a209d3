"""`crossprop study credit`: how near the direction of every credit rule is to the exact meta-gradient."""

import json
import math
import time
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop import oracle
from crossprop import records as schema
from crossprop._support.formats import duration, interval, minus_signs
from crossprop.configuration import configuration
from crossprop.experiments import figures
from crossprop.experiments.charts import Axis, Chart, Line, Ring, over_examples
from crossprop.experiments.experiment import Experiment, Stage
from crossprop.experiments.facts import machine
from crossprop.experiments.findings import LABELS
from crossprop.experiments.looks import look, looks
from crossprop.experiments.page import QUICK, Cell, Figure, Page, Section, Table, Text, rerun, write_table
from crossprop.experiments.page.answers import answers_section
from crossprop.experiments.questions import Answer, write_answers
from crossprop.experiments.spec import SweepSpec
from crossprop.learners import CreditRule
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.running import experiment as inputs_of
from crossprop.statistics import Estimate, mean_interval, paired_difference

if TYPE_CHECKING:
    import xarray

BACKPROP = "backprop"
FOLLOWED = ("backprop", "crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-sum", "foresight")
"""The rules that are also followed on runs of their own."""
WORDS = tomllib.loads((files("crossprop.library") / "credit.toml").read_text(encoding="utf-8"))
LARGE = 0.5
"""A part is large if it has this share of the size of backprop's gradient; a rule finds it if its cosine is above."""
COSINES = {column: tuple(names) for column, names in WORDS["cosines"].items()}
"""The columns of the tables: a variable of the oracle, and the part of the meta-gradient."""
NEARER = ("crossprop-sum", "foresight")
"""Rules that are compared with backprop."""
PARTS = {part: look(*its) for part, its in WORDS["parts"].items()}

Row = Mapping[str, Any]
"""A row of a table, by column."""


class Found(NamedTuple):
    """What the oracle found on a stage: all rules along backprop's run, and some on runs of their own."""

    title: str
    along: "xarray.Dataset"
    own: "xarray.Dataset"

    @property
    def top(self) -> str:
        """The top layer."""
        return str(self.along.layer.values[-1])


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
    sizes = [[each["setting"], *(_number(each[name]) for name in WORDS["terms"])] for each in terms]
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


# What the oracle finds.


def follow_stages(stages: Mapping[str, Stage], folder: Path, say: Say, *, quick: bool) -> dict[str, Found]:
    """Follows every rule on every stage, or reads what is in the folder already."""
    found = {}
    for name, stage in stages.items():
        say(f"credit: {stage.title}")
        learners: dict[str, Any] = stage.spec.settled.learners
        own = {rule: learners[rule] for rule in (("crossprop",) if quick else FOLLOWED)}
        along = _followed(folder / f"{name}-along.nc", stage.spec, learners, learners[BACKPROP])
        found[name] = Found(stage.title, along, _followed(folder / f"{name}-own.nc", stage.spec, own, None))
    return found


def _followed(
    path: Path, spec: SweepSpec, learners: Mapping[str, CreditRule], along: CreditRule | None
) -> "xarray.Dataset":
    described = inputs_of(learners, spec.stream, spec.seeds, spec.record_every)
    check_replaceable(path, described | {"along": json.dumps(along and configuration(along))})
    if not path.exists():
        write_records(path, oracle.follow(learners, spec.stream, len(spec.seeds), spec.record_every, along=along))
    return read_records(path)


def cosines_of(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """Every rule in every setting, for all layers together and for each: cosines of its direction with parts of the
    meta-gradient by column of `COSINES`, means over a run with intervals over seeds."""
    rows = []
    for each in found.values():
        for run, records in (("backprop's", each.along), ("its own", each.own)):
            for layer in records.layer.values[: 1 if records.sizes["layer"] == 2 else None]:
                for rule in map(str, records.learner.values):
                    row = {"setting": each.title, "run": run, "rule": rule, "layer": str(layer)}
                    for column in COSINES:
                        estimate = mean_interval(_by_seed(records, rule, layer, column))
                        row |= {f"{column} {part}": float(value) for part, value in estimate._asdict().items()}
                    rows.append(row)
    return rows


def _by_seed(records: "xarray.Dataset", rule: str, layer: str, column: str) -> np.ndarray:
    variable, part = COSINES[column]
    return records[variable].sel(learner=rule, layer=layer, part=part).mean("step").values


def terms_of(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """The parts of the meta-gradient along backprop's run in every setting: their sizes, backprop's gradient being 1,
    and cosines. Own and cross are of the top layer, beside that layer's gradient and memory part."""
    rows = []
    for each in found.values():
        records, top = each.along.mean(("seed", "step")), each.top
        of = lambda variable, rule, layer, part, records=records: float(
            records[variable].sel(learner=rule, layer=layer, part=part)
        )
        memory, own, cross, direct = (of("norm", BACKPROP, top, part) for part in ("memory", "own", "cross", "direct"))
        row = {
            "setting": each.title,
            "memory": of("norm", BACKPROP, "all", "memory") / of("norm", BACKPROP, "all", "direct"),
            "own": own / direct,
            "cross": cross / direct,
            "direct_memory": of("memory_cosine", BACKPROP, "all", "direct"),
            "own_memory": of("memory_cosine", BACKPROP, top, "own"),
            "cross_memory": of("memory_cosine", BACKPROP, top, "cross"),
            "own_cross": (memory**2 - own**2 - cross**2) / (2 * own * cross),
            "crossprop_own": of("cosine", "crossprop", top, "own"),
            "sum_own": of("added_cosine", "crossprop-sum", top, "own"),
        }
        rows.append(row)
    return rows


# The answers.


def answers(found: Mapping[str, Found]) -> list[Answer]:
    """The results in words: for each question the answer over all settings, with its numbers."""
    told = {each.title: _told(each, row) for each, row in zip(found.values(), terms_of(found), strict=True)}
    made = []
    for id, words in WORDS["questions"].items():
        truths = {own[id][0] for own in told.values()}
        verdict = "it depends" if len(truths) > 1 else LABELS[truths.pop()]
        numbers = "; ".join(f"{setting} {own[id][1]}" for setting, own in told.items())
        made.append(Answer(id, words["asks"], verdict, words["why"].format(numbers)))
    return made


def _told(found: Found, terms: Row) -> dict[str, tuple[bool | None, str]]:
    """By question, its truth in a setting and the numbers."""
    one, sums = (
        float(_by_seed(found.along, "crossprop", found.top, each).mean()) for each in ("memory", "summed_memory")
    )
    dropped = f"{terms['own']:.2f}, {terms['cross']:.2f}, {_number(terms['own_cross'], '+.2f')}"
    return {
        "large": (terms["memory"] > LARGE, f"{terms['memory']:.2f}"),
        "direction": (terms["direct_memory"] > 0, _number(terms["direct_memory"], "+.2f")),
        "crossprop": (one > LARGE, f"{_number(one, '+.2f')} and {_number(sums, '+.2f')}"),
        "dropped": (terms["cross"] > LARGE, dropped),
    } | {f"nearer-{rule}": _nearer(found, rule) for rule in NEARER}


def _nearer(found: Found, rule: str) -> tuple[bool | None, str]:
    """Whether a rule is nearer to the meta-gradient than backprop, along backprop's run."""
    mine, backprop = (_by_seed(found.along, name, "all", "whole") for name in (rule, BACKPROP))
    _, low, high = paired_difference(mine, backprop)
    ends = f"(difference between {_number(low, '+.3f')} and {_number(high, '+.3f')})"
    return True if low > 0 else False if high < 0 else None, f"{mine.mean():.3f} and {backprop.mean():.3f} {ends}"


def _number(value: float, form: str = ".2f") -> str:
    return minus_signs(f"{value:{form}}")


# The page.


def _section(name: str, found: Found, cosines: Sequence[Row]) -> Section:
    """The charts and the tables of a setting."""
    along, look_of = found.along.sel(layer="all"), looks(schema.learner_infos(found.along))
    charts = [
        _over_examples(title, along, {rule: along.cosine.sel(learner=rule, part=part) for rule in look_of}, look_of)
        for part, title in WORDS["charts"].items()
    ]
    top = found.along.isel(layer=-1).sel(learner=BACKPROP)
    title = "sizes of the parts" + " in the top layer" * (found.along.sizes["layer"] > 2)
    sizes = _over_examples(title, top, {part: top.norm.sel(part=part) for part in PARTS}, PARTS)
    mine = [row for row in cosines if row["setting"] == found.title]
    tables = [_table(run, [row for row in mine if row["run"] == run]) for run in ("backprop's", "its own")]
    linked = [Figure.of(chart, linked=name) for chart in charts]
    return Section(name, found.title, [Text(WORDS["of_cosines"]), *linked, Figure.of(sizes), *tables])


def _over_examples(
    title: str, records: "xarray.Dataset", lines: "Mapping[str, xarray.DataArray]", look_of: Mapping[str, Any]
) -> Chart:
    values = {name: (line.transpose("seed", "step").values, look_of[name]) for name, line in lines.items()}
    return over_examples(records, title, records.step.values.astype(int), values, log=False)


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


def cosine_charts(cosines: Sequence[Row]) -> dict[str, Chart]:
    """By setting, the cosine of every rule with the meta-gradient along backprop's run; rings are those with its memory
    part."""
    charts, axis = {}, Axis("cosine with the meta-gradient", limits=(-1.05, 1.05))
    for setting in dict.fromkeys(row["setting"] for row in cosines):
        lines, rings = [], []
        for row in cosines:
            if (row["setting"], row["layer"], row["run"]) == (setting, "all", "backprop's"):
                rule, (mean, low, high) = row["rule"], (np.array([row[f"whole {part}"]]) for part in Estimate._fields)
                lines.append(Line(rule, look("#1764d0"), (rule,), mean, low, high))
                rings.append(Ring(rule, row["memory mean"], look("#b8860b"), f"{rule}, memory part"))
        charts[setting] = Chart("forest", setting, Axis(), axis, tuple(lines), tuple(rings))
    return charts


def _fact(stage: Stage) -> str:
    stream = stage.spec.stream
    backprop: Any = stage.spec.settled.learners[BACKPROP]
    network = backprop.network
    return (
        f"{type(stream).__name__}, {stream.steps:,} examples, windows of {stage.spec.record_every}; "
        f"{network.inputs} inputs, {' and '.join(map(str, network.hidden))} hidden units, {network.outputs} outputs, "
        f"{network.activation}; step sizes {backprop.step_size:g} of W and {backprop.incoming_step_size:g} of U"
    )
