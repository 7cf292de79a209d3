"""Runs an experiment: every stage is tuned and judged on fresh seeds, then a page and its answers are written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crossprop._support import checks as check
from crossprop._support.formats import duration, plural
from crossprop.engines import ENGINES
from crossprop.experiments import SweepSpec
from crossprop.experiments.experiment import Experiment
from crossprop.experiments.facts import machine
from crossprop.experiments.questions import Answer, write_answers
from crossprop.experiments.results import SweepResults, read_results
from crossprop.experiments.widening import announcements, fill_widening
from crossprop.progress import Say


def check_flags(flags: Any) -> None:
    """Raises a ValueError if the flags of a study or an arena do not fit together."""
    check.choice("engine", flags.engine, ("auto", *ENGINES))
    if flags.full and flags.quick:
        raise ValueError("full and quick must not both be given: they are two sizes of one experiment")
    for name in ("seeds", "evaluate"):
        if getattr(flags, name) is not None:
            check.integer(name, getattr(flags, name), low=2)


def size_of(flags: Any) -> str | None:
    """The size that the flags ask for, None for the default."""
    return "full" if flags.full else "quick" if flags.quick else None


class Written(NamedTuple):
    """A page, its answers, and what else `answers.json` holds."""

    page: Path
    answers: list[Answer]
    further: Mapping[str, Any] = {}


def carry_out(
    experiment: Experiment,
    folder: Path,
    write: Callable[[dict[str, SweepResults], dict[str, str]], Written],
    *,
    say: Say,
    command: str,
) -> list[Answer]:
    """Runs what is missing of an experiment, lets `write` make tables and the page of its results and facts, and writes
    `answers.json`."""
    results = {}
    for name, (title, spec) in experiment.stages.items():
        assert spec.store is not None
        say(f"{title}: tuning {plural(len(spec.learners), 'learner')}, then {spec.evaluate} fresh seeds of the best")
        blocks = fill_widening(
            spec, announcements(title, say), rounds=experiment.widen, resolution=experiment.resolution
        )
        results[name] = read_results(spec.store, blocks)
    facts = _facts(experiment, results)
    page, answers, further = write(results, facts)
    write_answers(folder / "answers.json", answers, command=command, facts=facts, **further)
    say(f"The runs took {facts['time']}. The page is {page}.")
    return answers


def _facts(experiment: Experiment, results: Mapping[str, SweepResults]) -> dict[str, str]:
    """What a reader needs to judge the numbers: the budget, the streams and networks, the time and the machine."""
    specs = [stage.spec for stage in experiment.stages.values()]
    budgets = {len(grid.points) for spec in specs for grid in spec.grids}
    each = str(budgets.pop()) if len(budgets) == 1 else f"{min(budgets)} to {max(budgets)}"
    tried = [learner.tried for sweep in results.values() for learner in sweep.learners.values()]
    widened = "; a grid whose best value was at its edge was widened"
    refined = f", and step sizes around the best were tried until at most a factor of {experiment.resolution} apart"
    grown = widened * bool(experiment.widen) + refined * bool(experiment.resolution)
    grown += f": {min(tried)} to {max(tried)} settings, {sum(tried):,} in all" * bool(grown)
    seeds = plural(len(specs[0].seeds), "seed")
    return {
        "budget": f"{each} settings of every learner on every stream, {seeds} each{grown}",
        "judged on": f"{specs[0].evaluate} fresh seeds of each learner's best setting",
        **{f"stream {name}": _in_words(stage.spec) for name, stage in experiment.stages.items()},
        "time": duration(sum(sweep.seconds for sweep in results.values())),
    } | machine()


def _in_words(spec: SweepSpec) -> str:
    stream, network = spec.stream, next(iter(spec.learners.values())).network
    return (
        f"{type(stream).__name__}, {spec.steps or stream.steps:,} examples, "
        f"{' and '.join(map(str, network.hidden)) or 'no'} hidden units, {network.activation}"
    )
