"""Runs an experiment: every stage is tuned and judged on fresh seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crossprop._support.formats import duration, listed, plural
from crossprop.costs import Cost, kept_costs
from crossprop.experiments import SweepSpec, fill
from crossprop.experiments.cards import of_sweep, write_card
from crossprop.experiments.evaluate import Evaluation
from crossprop.experiments.experiment import Experiment
from crossprop.experiments.facts import machine
from crossprop.experiments.grid import build
from crossprop.experiments.labelled import labelled_at
from crossprop.experiments.page import QUICK, Page, Section, rerun
from crossprop.experiments.questions import Answer, write_answers
from crossprop.experiments.results import SweepResults, read_results
from crossprop.experiments.widening import announcements, tune
from crossprop.progress import Say


def tuned(experiment: Experiment, say: Say) -> dict[str, SweepResults]:
    """Runs what is missing of an experiment. The results by stage."""
    how: dict[str, Any] = {"rounds": experiment.widen, "resolution": experiment.resolution}
    if experiment.tune_on:
        return _tuned_elsewhere(experiment, say, how)
    results = {}
    for name, (title, spec) in experiment.stages.items():
        assert spec.store is not None
        what = "running" if experiment.untuned else "tuning"
        say(f"{title}: {what} {plural(len(spec.learners), 'learner')}, then {spec.evaluate} fresh seeds of the best")
        results[name] = read_results(spec.store, tune([spec], announcements(title, say), **how)[1], title)
    return results


def _tuned_elsewhere(experiment: Experiment, say: Say, how: Mapping[str, Any]) -> dict[str, SweepResults]:
    """As `tuned`, with one setting of each learner for all stages, chosen on some and judged on the others."""
    titles = listed([experiment.stages[name].title for name in experiment.tune_on])
    specs = [replace(experiment.stages[name].spec, evaluate=None) for name in experiment.tune_on]
    say(f"{titles}: tuning {plural(len(specs[0].learners), 'learner')}")
    learners, blocks = tune(specs, announcements("tuning", say), reference=experiment.reference, **how)
    results, choices = {}, {name: each.choice for name, each in learners.items()}
    over = {name: {axis: [value] for axis, value in choice.point.items()} for name, choice in choices.items()}
    for name, (title, spec) in experiment.judged.items():
        say(f"{title}: {spec.evaluate} fresh seeds of the settings that were best there")
        judged = replace(spec, over=over, seeds=spec.grids[0].evaluation, evaluate=None)
        own = fill(judged, on_start=partial(announcements(title, say), ", on fresh seeds"))
        records = {grid.name: labelled_at(choices[grid.name].point, grid, own) for grid in judged.grids}
        here = {
            grid.name: learners[grid.name]._replace(grid=replace(grid, over=learners[grid.name].grid.over))
            for grid in judged.grids
        }
        results[name] = SweepResults(here, Evaluation(choices, records), [*blocks, *own], title)
    return results


def costs_of(
    path: Path, spec: SweepSpec, sweep: SweepResults, steps: int, repeats: int, *names: str
) -> dict[str, Cost]:
    """The costs of these learners, or of all, at their best settings, without probes; measured once."""
    learners = {
        name: build(each.choice.point, name, spec.learners[name], spec.stream, {})[0]
        for name, each in sweep.learners.items()
        if name in (names or spec.learners)
    }
    return kept_costs(path, learners, spec.stream, steps=steps, repeats=repeats, engine=spec.engine)


def publish(
    experiment: Experiment,
    results: Mapping[str, SweepResults],
    costs: Mapping[str, Mapping[str, Cost]],
    answers: list[Answer],
    page: Path,
    sections: Sequence[Section],
    *,
    say: Say,
    title: str,
    intro: str,
    command: str,
    facts: Mapping[str, str],
    quick: bool,
    **about: Any,
) -> list[Answer]:
    """Writes the page with these sections, and beside it `answers.json` and the run card of all best settings on fresh
    seeds."""
    stores = {name: str(stage.spec.store and stage.spec.store.name) for name, stage in experiment.stages.items()}
    cards = [ran for name, each in results.items() for ran in of_sweep(stores[name], each, costs.get(name, {}))]
    write_card(page.parent, cards, say)
    sections = [*sections, rerun(command, facts, "What was run, and on what")]
    Page(title, intro, sections, QUICK if quick else "", quick).write(page)
    write_answers(page.parent / "answers.json", answers, facts=facts, command=command, **about)
    say(f"The runs took {facts['time']}. The page is {page}.")
    return answers


def facts_of(experiment: Experiment, results: Mapping[str, SweepResults]) -> dict[str, str]:
    """Context for the numbers: the budget, the streams and networks, the time and the machine."""
    specs = [stage.spec for stage in experiment.stages.values()]
    budgets = {len(grid.points) for spec in specs for grid in spec.grids if grid.over} or {1}
    each = str(budgets.pop()) if len(budgets) == 1 else f"{min(budgets)} to {max(budgets)}"
    learners = [learner for sweep in results.values() for learner in sweep.learners.values()]
    tried = [learner.tried for learner in {id(each.scores): each for each in learners}.values()]
    widened = "; a grid whose best value was at its edge was widened"
    refined = f", and step sizes around the best were tried until at most a factor of {experiment.resolution} apart"
    grown = widened * bool(experiment.widen) + refined * bool(experiment.resolution)
    grown += f": {min(tried)} to {max(tried)} settings, {sum(tried):,} in all" * bool(grown)
    seeds = plural(len(specs[0].seeds), "seed")
    on = listed([experiment.stages[name].title for name in experiment.tune_on]) or "every stream"
    blocks = {id(block): block for sweep in results.values() for block in sweep.blocks}
    settings, which = f"{each} settings of every learner", "best"
    if experiment.untuned:
        settings, which = "the defaults of every learner", "only"
    return {
        "budget": f"{settings} on {on}, {seeds} each{grown}",
        "judged on": f"{specs[0].evaluate} fresh seeds of each learner's {which} setting",
        **{f"stream {name}": _in_words(stage.spec) for name, stage in experiment.stages.items()},
        "time": duration(sum(block.seconds for block in blocks.values())),
    } | machine()


def _in_words(spec: SweepSpec) -> str:
    stream, network = spec.stream, next(iter(spec.learners.values())).network
    name = getattr(stream, "about", "").partition(":")[0] or type(stream).__name__  # a table begins with its file
    return (
        f"{name}, {spec.steps or stream.steps:,} examples, "
        f"{' and '.join(map(str, network.hidden)) or 'no'} hidden units, {network.activation}"
    )
