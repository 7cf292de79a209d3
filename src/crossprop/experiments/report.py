"""`report.html`: a paper rerun, on one page: its conclusion, one chart, the claims, then every experiment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._support.formats import duration, listed, plural
from crossprop.experiments.charts import Chart, examples_per_point, headline
from crossprop.experiments.page import Cell, Figure, Page, Section, Table, Text, conclusion, rerun
from crossprop.experiments.page.answers import claims_table
from crossprop.experiments.papers import Drawing, Paper, Plan
from crossprop.experiments.questions import Answer, Headline, tally

if TYPE_CHECKING:
    import xarray

    Experiment = tuple[Plan, xarray.Dataset, Sequence[tuple[Drawing, Mapping[str, Chart]]]]
    """A plan, its records, and their figures with their charts by variable."""

QUICK = "quick version: small, not the paper's full settings"
RULE = """One rule decides them all. A part of a claim is true if its interval lies inside what is claimed, false if it
lies outside, and undecided if it includes both. A claim holds if all its parts are true, and in part if at least half
are. It does not hold if fewer than half would be true even with the undecided ones; otherwise it is not shown."""


def write_report(
    path: Path,
    paper: Paper,
    concluded: Sequence[str],
    experiments: "Sequence[Experiment]",
    answers: Sequence[Answer],
    *,
    command: str,
    quick: bool,
    facts: Mapping[str, str],
    banner: str = "",
) -> None:
    """Writes the report of a reproduction to `path`, one self-contained file: what was `concluded`, in sentences to
    quote, the claims with the answers on them, and every experiment, whose records say in `seconds` how long they took.

    With `quick` every figure and table says that this is the small version; else `banner` is what the reader should
    know first.
    """
    top: list[Any] = _headline(paper.headline(answers), experiments)
    top += [paper.terms] if paper.terms else []
    sections = [conclusion(concluded, *top), _claims(answers, paper.own), *map(_experiment, experiments)]
    sections.append(rerun(command, facts, "What it ran on"))
    Page(paper.title, paper.intro, sections, QUICK if quick else banner, quick).write(path)


def _headline(wanted: Headline | None, experiments: "Sequence[Experiment]") -> list[Figure]:
    """The chart at the top, if the report has its experiment."""
    if wanted is None:
        return []
    drawn = (charts for plan, _, drawn in experiments if plan.name == wanted.experiment for _, charts in drawn)
    chart = next((charts[wanted.variable] for charts in drawn if wanted.variable in charts), None)
    if chart is None:
        return []
    return [Figure.of(headline(chart, wanted.notes), f"{wanted.title}: {chart.y.title}")]


def _claims(answers: Sequence[Answer], own: Sequence[str]) -> Section:
    """The claims of the paper and ours, with their verdicts."""
    if not answers:
        return Section("claims", "The claims", [Text("No claim was decided in this run.", muted=False)])
    kinds = {"Of the paper's claims": [each for each in answers if each.id not in own]}
    kinds["Of ours"] = [each for each in answers if each.id in own]
    said = [f"{words}, {listed(tally(shown))}." for words, shown in kinds.items() if shown]
    return Section("claims", "The claims", [Text(" ".join(said), muted=False), Text(RULE), claims_table(answers)])


def _experiment(experiment: "Experiment") -> Section:
    """How an experiment was run, its charts, and its settings."""
    plan, records, drawn = experiment
    named = [(drawing, name, chart) for drawing, charts in drawn for name, chart in charts.items()]
    if plan.table is not None:
        text, table = plan.table(records)
        maps = [Figure.of(chart, name, plan.name) for _, name, chart in named]
        return Section(plan.name, plan.title, [text, *maps, table])
    titles = [f"{drawing.title}: " * bool(drawing.title) + chart.title for drawing, _, chart in named]
    figures = [Figure.of(chart, title, plan.name) for title, (_, _, chart) in zip(titles, named, strict=True)]
    elements: list[Any] = [Text(plan.about, muted=False)] if plan.about else []
    elements += [Text(_how_run(records, [figure.first for figure in figures])), *figures]
    if plan.settings:
        rows = [
            [
                each.name,
                each.value,
                Cell(note="not given") if each.paper is None else Cell(each.paper),
                Cell(each.why or "–", tags=["differs"] if each.differs else []),
            ]
            for each in plan.settings
        ]
        head = ["Setting", "Here", "In the paper", "Why"]
        elements.append(Table(f"Settings of {plan.title}", head, rows, "words"))
    return Section(plan.name, plan.title, elements)


def _how_run(records: "xarray.Dataset", charts: Sequence[Chart]) -> str:
    """How an experiment was run, and what its charts show."""
    seeds, is_curves = records.sizes["seed"], any(chart.kind == "curves" for chart in charts)
    ran = [plural(records.sizes["learner"], "learner"), plural(seeds, "seed")]
    band = next((chart.band for chart in charts if chart.band), "")
    bands = f"{'bands' if is_curves else 'bars'}: {band}" if band else "there is one seed, so there are no bands"
    said = [
        f"{', '.join(ran)}, {int(records.step.values[-1]):,} examples each; it took "
        f"{duration(records.attrs['seconds'])}.",
        f"Each point is the mean over seeds and {examples_per_point(records):,} examples; {bands}.",
        *(["Dotted lines are task switches."] if any(chart.tasks for chart in charts) else []),
        *(["Rings are the published values."] if any(chart.rings for chart in charts) else []),
    ]
    if "diverged_at" in records:
        counts = (records.diverged_at >= 0).sum("seed").transpose("learner").values
        gone = zip(map(str, records.learner.values), counts, strict=True)
        said += [f"{name}: {count} of {seeds} diverged." for name, count in gone if count]
    return " ".join(said)
