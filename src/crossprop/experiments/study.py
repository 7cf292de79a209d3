"""A study, tuned and written down: its table, its figures, and `study.html`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._support.formats import interval, plural, upper_first
from crossprop.costs import Cost
from crossprop.experiments import figures
from crossprop.experiments.charts import Chart, forest
from crossprop.experiments.experiment import ALL, MAIN, Comparison, Experiment
from crossprop.experiments.findings import compare
from crossprop.experiments.looks import LOOKS, look
from crossprop.experiments.page import (
    NOTHING,
    QUICK,
    WORDS,
    Cell,
    Figure,
    Section,
    Table,
    Text,
    conclusion,
    short,
    write_table,
)
from crossprop.experiments.page.answers import answers_section, table_cell
from crossprop.experiments.questions import Answer, compared
from crossprop.experiments.results import BACKPROP, FROZEN, SweepResults, relative_mean
from crossprop.experiments.runner import costs_of, facts_of, publish, tuned
from crossprop.experiments.sweep_page import best_settings, draw, sweep_sections, write_sweep_page
from crossprop.progress import Say
from crossprop.records import PHASES
from crossprop.statistics import MEAN_BRACKETS, Estimate, finite_mean_interval, mean_interval

Columns = Mapping[str, SweepResults]
"""The results of a study by stage, the main one first."""
STEPS, REPEATS = 4000, 15
"""Steps and repeats of the runs that are timed."""
OTHER_RULE = look("#6a51a3")


def publish_study(
    experiment: Experiment,
    folder: Path,
    say: Say,
    answers: Callable[[Columns, Mapping[str, Cost]], list[Answer]],
    conclusions: Callable[[Columns, list[Answer]], list[str]],
    *,
    command: str,
    quick: bool,
) -> list[Answer]:
    """Tunes, evaluates, and writes the table, the figures and the page of a study, which shows `command`: one
    self-contained file with the charts of its first column; those of every other column get a page of their own beside
    it. The `answers` and `conclusions` are those of a file without questions."""
    columns = tuned(experiment, say)
    facts, ((main, first), *others) = facts_of(experiment, columns), columns.items()
    spec = experiment.stages[main].spec
    plain = [name for name in by_optimizer(first) if first.infos[name].optimizer == "sgd"]
    steps, repeats = (60, 1) if quick else (STEPS, REPEATS)
    costs = {main: costs_of(folder / "costs.json", spec, first, steps, repeats, *plain)}
    found = asked(experiment.questions, columns) if experiment.questions else answers(columns, costs[main])
    said = _in_short(experiment.questions, found, columns) if experiment.questions else conclusions(columns, found)
    rows = [
        _row(name, each, results, costs.get(name, {}))
        for name, results in columns.items()
        for each in by_optimizer(results)
    ]
    write_table(folder / "table.csv", rows)
    for name, results in columns.items():
        drawn = folder / f"figures{f'-{name}' * (name != main)}"
        drawn.mkdir(exist_ok=True)
        draw(results, drawn)
        _draw_differences(results, drawn / "differences", quick)
    for name, results in others:
        write_sweep_page(results, folder / f"{name}.html", command, banner=QUICK if quick else "")
    charts = {phase: chart for phase, chart in differences(first).items() if chart.lines}
    words = f"Every rule against tuned {BACKPROP} with the same optimizer: {first.measure}"
    forests = [Figure(words, charts, "phase of the run")] if charts else []
    sections = [
        conclusion([NOTHING] if quick else said, *forests),
        answers_section(found, WORDS["answers"], *_overview(columns, experiment.reference)),
        *(_column(name, results, costs.get(name, {})) for name, results in columns.items()),
        *sweep_sections(first),
    ]
    learners = plural(len(spec.learners), "learner")
    ran = f"{experiment.intro} Here: {learners} on {facts[f'stream {main}']}; {facts['judged on']}.".strip()
    about = {"title": experiment.title, "intro": ran, "command": command, "facts": facts, "quick": quick, "say": say}
    reference = experiment.reference
    return publish(experiment, columns, costs, found, folder / "study.html", sections, reference=reference, **about)


def by_optimizer(results: SweepResults) -> list[str]:
    """The learners that have fresh seeds; those with the same optimizer are together."""
    infos = {name: results.infos[name] for name in results.evaluation.records}
    optimizers = [info.optimizer for info in infos.values()]
    return sorted(infos, key=lambda name: optimizers.index(infos[name].optimizer))


def _row(column: str, name: str, results: SweepResults, costs: Mapping[str, Cost]) -> dict[str, Any]:
    """The row of a learner in `table.csv`."""
    info, tuned = results.infos[name], results.learners[name]
    row = {"column": column, "learner": name, "rule": info.rule, "optimizer": info.optimizer}
    row |= {"setting": tuned.setting(), "at the edge": " ".join(tuned.choice.edges)}
    row |= {"incoming_drift": float(_drift(name, results).mean)}
    for phase in PHASES:
        mean = _mean(name, phase, results)
        row |= {f"{phase} {part}": "" if mean is None else float(getattr(mean, part)) for part in Estimate._fields}
    for reference in (BACKPROP, FROZEN):
        for phase in PHASES:
            versus = results.versus[reference].get(phase, {}).get(name)
            parts = ("mean", "low", "high", "won", "pairs", "p")
            row |= {f"{phase} minus {reference} {part}": getattr(versus, part, "") for part in parts}
    return row | dict(zip(Cost._fields, costs.get(name, ("",) * len(Cost._fields)), strict=True))


def _mean(name: str, phase: str, results: SweepResults) -> Estimate | None:
    return finite_mean_interval(results.by_phase[phase][name].values) if phase in results.by_phase else None


def _drift(name: str, results: SweepResults) -> Estimate:
    """The distance of the incoming weights from their initial values at the end of the run."""
    moved = results.evaluation.records[name].get("incoming_drift")
    return finite_mean_interval(np.array([]) if moved is None else moved.isel(step=-1).values)


def differences(results: SweepResults) -> dict[str, Chart]:
    """By the title of a phase, every rule against backprop with the same optimizer."""
    charts = {}
    for phase, title in PHASES.items():
        versus = results.versus[BACKPROP].get(phase, {})
        shown = [(versus[name], results.infos[name]) for name in by_optimizer(results) if name in versus]
        marks = [(each, info.optimizer, LOOKS.get(info.rule, OTHER_RULE)) for each, info in shown]
        seeds = shown[0][0].pairs if shown else 0
        charts[title] = forest(title, f"{results.measure} against tuned {BACKPROP}", marks, seeds=seeds)
    return charts


def _draw_differences(results: SweepResults, stem: Path, quick: bool) -> None:
    """Draws the differences, one panel per phase, if there are any."""
    charts = [chart for chart in differences(results).values() if chart.lines]
    if charts:
        words = f"{upper_first(results.measure)} against tuned {BACKPROP} with the same optimizer (line at 0)"
        seeds = f"mean and 95% interval over {charts[0].seeds} fresh seeds; left is better"
        note = f"{results.title}{'  (quick version)' * quick}"
        figures.save(charts, stem, f"{words}: {seeds}\n{note}")


def _column(name: str, results: SweepResults, costs: Mapping[str, Cost]) -> Section:
    """The numbers of a column."""
    measure, title, names = results.measure, upper_first(results.title), by_optimizer(results)
    phases = [upper_first(phase) for phase in PHASES.values()]
    elements: list[Text | Table] = []
    if name != MAIN:
        elements.append(Text(f"The charts of these sweeps are in {name}.html, in the study's folder."))
    caption = f"{upper_first(measure)} on fresh seeds, {results.title}: mean {MEAN_BRACKETS}"
    estimates = {each: [*(_mean(each, phase, results) for phase in PHASES), _drift(each, results)] for each in names}
    means = [[each, *(interval(*map(float, own)) if own else "" for own in row)] for each, row in estimates.items()]
    elements.append(Table(caption, ["Learner", *phases, "U moved, at the end"], means))
    for reference, versus in results.versus.items():
        caption = (
            f"{title}, compared with tuned {reference} with the same optimizer, in percent of its mean error [95% "
            "interval by Student's t, of each alone]; lower is better"
        )
        cells = [
            [
                each,
                *(table_cell(versus[phase][each]) if phase in versus else Cell(note="no switch") for phase in PHASES),
            ]
            for each in names
            if each in versus["all"]
        ]
        elements.append(Table(caption, ["Learner", *phases], cells))
    if costs:
        rows = [[learner, short(cost.microseconds), f"{cost.numbers:,}"] for learner, cost in costs.items()]
        head = ["Learner", "Microseconds per step", "Numbers stored"]
        elements.append(Table("The cost of a single run, on the device below", head, rows))
    elements.append(best_settings(results, results.title))
    return Section(f"comparisons-{name}", title, elements)


def asked(questions: Sequence[Comparison], columns: Mapping[str, SweepResults]) -> list[Answer]:
    """The answers to the questions of a file. Among several learners one is chosen on the tuning seeds; all numbers are
    from fresh seeds."""
    found = []
    for question in questions:
        noun = f"error {PHASES[question.phase]}"
        if question.stage == ALL:
            found.append(_on_all(question, columns, noun))
            continue
        results = columns[question.stage]
        findings = results.findings(dict(_pairs(question, results)), question.phase)
        name, asks = question.id, question.asks
        if sum(each.id == question.id for each in questions) > 1:
            name, asks = f"{name}-{question.stage}", f"{upper_first(results.title)}. {asks}"
        found.append(compared(name, asks, findings, noun, of=question.stage))
    return found


def _in_short(questions: Sequence[Comparison], found: Sequence[Answer], columns: Columns) -> list[str]:
    """The answers in a sentence for each question: the reason, or the stages by answer."""
    answers: dict[str, list[Answer]] = {}
    for question, answer in zip(questions, found, strict=True):
        answers.setdefault(question.id, []).append(answer)
    asks, said = {question.id: question.asks for question in reversed(questions)}, []
    for id, given in answers.items():
        stages: dict[str, list[str]] = {}
        for each in given if len(given) > 1 else ():
            stages.setdefault(each.verdict, []).append(columns[each.of].title)
        told = [f"{upper_first(verdict)}: {', '.join(titles)}." for verdict, titles in stages.items()]
        reason = [f"{upper_first(given[0].verdict)}.", given[0].why.splitlines()[-1]]
        said.append(" ".join([asks[id], *(told or reason)]))
    return said


def _pairs(question: Comparison, results: SweepResults) -> list[tuple[str, str]]:
    """The best of the question's learners with the best of those that it is compared with, if they are there."""
    ran = results.evaluation.records
    one, other = (
        results.best_of(name for name in side if name in ran) for side in (question.learners, question.against)
    )
    return [(one, other)] if one and other else []


def _on_all(question: Comparison, columns: Mapping[str, SweepResults], noun: str) -> Answer:
    """The answer on all streams: on how many of them the learner is better, and the mean over all, where the error of
    the other is the unit of each."""
    pairs = {stage: pair for stage, results in columns.items() for pair in _pairs(question, results)}
    found = {stage: columns[stage].findings(dict([pair]), question.phase)[0] for stage, pair in pairs.items()}
    answer = compared(question.id, question.asks, [*found.values()], noun, of=ALL)
    better = f"on {sum(each.inside is True for each in found.values())} of {len(found)}"
    one, other = (" or ".join(dict.fromkeys(side)) for side in zip(*pairs.values(), strict=True))
    judged = {stage: columns[stage].evaluation.values(question.phase) for stage in pairs}
    values = {stage: {one: judged[stage][own], other: judged[stage][its]} for stage, (own, its) in pairs.items()}
    (overall,) = compare(relative_mean(values, other), {one: other})
    lines = [f"{columns[stage].title}: {each.sentence(noun)}." for stage, each in found.items()]
    lines.append(f"Mean over all: {overall.sentence(noun)}.")
    return replace(answer, verdict=better if answer.verdict == "it depends" else answer.verdict, why="\n".join(lines))


def _overview(columns: Mapping[str, SweepResults], reference: str) -> list[Table]:
    """The error of every learner on every stream in percent of that of the reference, if there are several streams."""
    values = {results.title: results.evaluation.values() for results in columns.values()}
    names = [name for name in next(iter(values.values())) if all(name in own for own in values.values())]
    if len(values) == 1 or reference not in names:
        return []
    of_all = {"all": {title: {name: own[name] for name in names} for title, own in values.items()}}
    of_each = {title: {title: own} for title, own in of_all["all"].items()}
    shares = {title: relative_mean(own, reference) for title, own in (of_each | of_all).items()}
    cell = lambda own: interval(*(100 * float(part) for part in mean_interval(own.values)))
    rows = [[name, *(cell(own[name]) for own in shares.values())] for name in names]
    caption = f"Error on fresh seeds in percent of {reference}’s: mean [95% bootstrap interval]"
    return [Table(caption, ["Learner", *shares], rows)]
