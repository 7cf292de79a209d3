"""`study.html`: a study on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from crossprop._support.formats import interval, upper_first
from crossprop.costs import Cost
from crossprop.experiments import figures
from crossprop.experiments.charts import Chart, forest
from crossprop.experiments.looks import LOOKS, look
from crossprop.experiments.page import Cell, Figure, Page, Section, Table, Text, conclusion, rerun, short
from crossprop.experiments.page.answers import NOTHING, QUICK, answers_section, table_cell
from crossprop.experiments.questions import Answer
from crossprop.experiments.sweep_page import best_settings, sweep_sections, write_sweep_page
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, FROZEN, Result, Row, conclusions

OTHER_RULE = look("#6a51a3")
ANSWERS = """Differences are paired over seeds. In brackets are 95% intervals by Student's t, of each comparison alone;
p-values have Holm's correction for all learners that are compared with the same reference in the same phase, and an
answer other than “no difference shown” has p below 0.05."""


def write_study(
    path: Path,
    title: str,
    columns: Mapping[str, Result],
    costs: Mapping[str, Cost],
    answers: list[Answer],
    *,
    ran: str,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
) -> None:
    """Writes the page of a study to `path`, one self-contained file, with the charts of its first column; the charts of
    every other column get a page of their own beside it. `ran` says what was run."""
    banner = QUICK if quick else ""
    (_, first), *others = columns.items()
    for name, column in others:
        write_sweep_page(column.sweep, path.with_name(f"{name}.html"), command, banner=banner)
    charts = {phase: chart for phase, chart in differences(first.rows, first.sweep.measure).items() if chart.lines}
    words = f"Every rule against tuned {BACKPROP} with the same optimizer: {first.sweep.measure}"
    forests = [Figure(words, charts, "phase of the run")] if charts else []
    sections = [
        conclusion([NOTHING] if quick else conclusions(columns, answers), *forests),
        answers_section(answers, ANSWERS),
        *(_column(name, column, {} if at else costs) for at, (name, column) in enumerate(columns.items())),
        *sweep_sections(first.sweep),
        rerun(command, facts, "What was run, and on what"),
    ]
    Page(title, ran, sections, banner, quick).write(path)


def differences(rows: Sequence[Row], measure: str) -> dict[str, Chart]:
    """By the title of a phase, every rule against backprop with the same optimizer."""
    charts = {}
    for phase, title in PHASES.items():
        shown = [(row.versus[BACKPROP][phase], row) for row in rows if phase in row.versus.get(BACKPROP, {})]
        marks = [(each, row.optimizer, LOOKS.get(row.rule, OTHER_RULE)) for each, row in shown]
        seeds = shown[0][0].pairs if shown else 0
        charts[title] = forest(title, f"{measure} against tuned {BACKPROP}", marks, seeds=seeds)
    return charts


def draw_differences(rows: Sequence[Row], measure: str, path: Path, note: str) -> None:
    """Draws the differences, one panel per phase."""
    charts = [chart for chart in differences(rows, measure).values() if chart.lines]
    words = f"{upper_first(measure)} against tuned {BACKPROP} with the same optimizer (line at 0)"
    title = f"{words}: mean and 95% interval over {charts[0].seeds} fresh seeds; left is better{note}"
    figures.save(charts, path.with_suffix(""), title)


def _column(name: str, column: Result, costs: Mapping[str, Cost]) -> Section:
    """The numbers of a column."""
    measure, title = column.sweep.measure, upper_first(column.title)
    phases = [upper_first(phase) for phase in PHASES.values()]
    elements: list[Text | Table] = []
    if name != "main":
        elements.append(Text(f"The charts of these sweeps are in {name}.html, in the study's folder."))
    caption = f"{upper_first(measure)} on fresh seeds, {column.title}: mean [95% bootstrap interval]"
    means = [[row.learner, *_means(row)] for row in column.rows]
    elements.append(Table(caption, ["Learner", *phases, "U moved, at the end"], means))
    for reference in (BACKPROP, FROZEN):
        caption = (
            f"{title}, compared with tuned {reference} with the same optimizer, in percent of its mean error [95% "
            "interval by Student's t, of each alone]; lower is better"
        )
        versus = [[row.learner, *_versus(row, reference)] for row in column.rows if reference in row.versus]
        elements.append(Table(caption, ["Learner", *phases], versus))
    if costs:
        cells = [[learner, short(cost.microseconds), f"{cost.numbers:,}"] for learner, cost in costs.items()]
        head = ["Learner", "Microseconds per step", "Numbers kept"]
        elements.append(Table("The cost of one run alone, on the device below", head, cells))
    elements.append(best_settings(column.sweep, column.title))
    return Section(f"comparisons-{name}", title, elements)


def _means(row: Row) -> list[str]:
    estimates = [*(row.estimates.get(phase) for phase in PHASES), row.drift]
    return [interval(*map(float, estimate)) if estimate else "" for estimate in estimates]


def _versus(row: Row, reference: str) -> list[Cell]:
    """The comparisons of a learner with a reference, one for each phase."""
    versus = row.versus[reference]
    return [table_cell(versus[phase]) if phase in versus else Cell(note="no switch") for phase in PHASES]
