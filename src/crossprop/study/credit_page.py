"""The page, the tables and the figure of `crossprop study credit`."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop import records as schema
from crossprop._support.formats import duration, interval, minus_signs
from crossprop.experiments.questions import Answer
from crossprop.figures import looks
from crossprop.pages.charts import estimate_line, switch_marks
from crossprop.pages.comparisons import PILLS, QUICK, write_answers
from crossprop.pages.facts import machine
from crossprop.pages.writing import write_page, write_table
from crossprop.progress import Say
from crossprop.statistics import Estimate, mean_interval
from crossprop.study.answers import BACKPROP
from crossprop.study.credit import COSINES, CosineRow, Found, Terms, answers, cosine_rows, run_settings, terms_of

if TYPE_CHECKING:
    import xarray

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
    "direct": ("#67000d", "-"),
    "memory": ("#08306b", "-"),
    "own": ("#4292c6", "--"),
    "cross": ("#238b45", "--"),
    "whole": ("#737373", "-"),
}


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
    charts = {
        f"{name}-{kind}": make(each)
        for name, each in found.items()
        for kind, make in (("cosines", _cosines), ("sizes", _sizes))
    }
    contents = [("answers", "The answers"), ("terms", "The parts of the meta-gradient")]
    contents += [(name, each.setting.title) for name, each in found.items()]
    write_page(
        path,
        "study/credit.html.jinja",
        data={"parts": charts, "quick": quick},
        title=title,
        contents=[*contents, ("rerun", "Run it again")],
        banner=QUICK if quick else "",
        answers=answers,
        pills=PILLS,
        terms=[[each.setting, *(minus_signs(f"{getattr(each, name):.2f}") for name in TERMS)] for each in terms],
        term_titles=["Setting", *TERMS.values()],
        settings=[
            {
                "name": name,
                "title": each.setting.title,
                "charts": {part: charts[part] for part in (f"{name}-cosines", f"{name}-sizes")},
                "tables": _tables(rows, each),
            }
            for name, each in found.items()
        ],
        command=command,
        facts=facts,
    )


def _tables(rows: Sequence[CosineRow], found: Found) -> list[dict[str, Any]]:
    """The cosines along backprop's run and on own runs; in a deep network also those of each layer."""
    layers = [str(layer) for layer in found.along.layer.values[1:]] if found.along.sizes["layer"] > 2 else []
    tables = []
    for run in ("backprop's", "its own"):
        mine = [row for row in rows if row.setting == found.setting.title and row.run == run]
        cells = {row.rule: [_cell(row.cosines[column]) for column in COLUMNS] for row in mine if row.layer == "all"}
        for row in mine:
            if row.layer != "all":
                cells[row.rule].append(_cell(row.cosines["whole"]))
        tables.append(
            {"run": run, "head": [*COLUMNS.values(), *(f"Meta-gradient, layer {at}" for at in layers)], "rows": cells}
        )
    return tables


def _cell(estimate: Estimate) -> str:
    mean, low, high = map(float, estimate)
    return "–" if math.isnan(mean) else interval(mean, low, high)


def _cosines(found: Found) -> list[dict[str, Any]]:
    """Cosines of every rule with the meta-gradient and with its memory part, over backprop's run."""
    along, look = found.along.sel(layer="all"), looks(schema.learner_infos(found.along))
    line = lambda rule, part: (along.cosine.sel(learner=rule, part=part), look[rule])
    return [_chart(title, along, {rule: line(rule, part) for rule in look}) for part, title in CHARTS.items()]


def _sizes(found: Found) -> list[dict[str, Any]]:
    """The sizes of the parts of the meta-gradient of the top layer, over backprop's run."""
    top = found.along.isel(layer=-1).sel(learner=BACKPROP)
    title = "sizes of the parts" + " in the top layer" * (found.along.sizes["layer"] > 2)
    return [_chart(title, top, {part: (top.norm.sel(part=part), look) for part, look in PARTS.items()})]


def _chart(title: str, records: "xarray.Dataset", lines: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    seeds = int(records.sizes["seed"])
    estimates = {name: mean_interval(values.transpose("seed", "step").values) for name, (values, _) in lines.items()}
    return {
        "title": title,
        "log": False,
        "lines": [estimate_line(name, estimates[name], look, seeds) for name, (_, look) in lines.items()],
        "step": [int(at) for at in records.step.values],
        "seeds": seeds,
    } | switch_marks(records)


def write_credit_tables(rows: Sequence[CosineRow], terms: Sequence[Terms], folder: Path) -> None:
    """Writes `table.csv` and `terms.csv`, with every number."""
    head = ["setting", "run", "rule", "layer", *(f"{column} {part}" for column in COSINES for part in Estimate._fields)]
    numbers = lambda row: [float(part) for column in COSINES for part in row.cosines[column]]
    write_table(folder / "table.csv", head, [[*row[:4], *numbers(row)] for row in rows])
    write_table(folder / "terms.csv", Terms._fields, terms)


def draw_cosines(rows: Sequence[CosineRow], path: Path, note: str) -> None:
    """Draws the cosine of every rule with the meta-gradient and with its memory part, one panel per setting."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if row.layer == "all" and row.run == "backprop's"]
    settings, rules = (list(dict.fromkeys(getattr(row, name) for row in shown)) for name in ("setting", "rule"))
    figure = Figure(figsize=(3 * len(settings) + 1.5, 0.24 * len(rules) + 1.6), layout="constrained")
    for axes, setting in zip(figure.subplots(1, len(settings), sharey=True, squeeze=False)[0], settings, strict=True):
        for row in (row for row in shown if row.setting == setting):
            at = rules.index(row.rule)
            axes.plot(float(row.cosines["whole"].mean), at, "o", color="#08306b", markersize=6)
            axes.plot(float(row.cosines["memory"].mean), at, "o", color="#d94801", markersize=5, fillstyle="none")
        axes.axvline(0, color="#999999", linewidth=0.8)
        axes.set(title=setting, xlim=(-1, 1), ylim=(len(rules) - 0.5, -0.5))
        axes.set_yticks(range(len(rules)), rules, fontsize=8.5)
        axes.grid(axis="y", color="#eeeeee")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"Cosine of each rule's direction of U with the exact meta-gradient (blue) and its memory part (orange){note}",
        fontsize=10,
        color="#555555",
    )
    figure.savefig(path, dpi=150)


SEEDS = {"quick": 2, "default": 3, "full": 10}


def publish_credit(folder: Path, title: str, version: str, seeds: int | None, say: Say, command: str) -> list[Answer]:
    """Runs the study, or reads what is in the folder already, and writes its tables, figure, page and answers."""
    began, quick, seeds = time.perf_counter(), version == "quick", seeds or SEEDS[version]
    found = run_settings(version, seeds, folder / "records", say)
    rows, terms, told = cosine_rows(found), terms_of(found), answers(found)
    write_credit_tables(rows, terms, folder)
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    draw_cosines(rows, figures / "cosines.png", "  (quick version)" * quick)
    facts = _facts(found, version, seeds)
    write_credit(folder / "study.html", title, found, rows, terms, told, command=command, facts=facts, quick=quick)
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
