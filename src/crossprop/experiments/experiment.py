"""An experiment in a TOML file: stages, each a sweep that is tuned and judged on fresh seeds, and questions.

Keys at the top of the file are common to all stages, and each stage replaces what is different there. The tables
`[sizes.NAME]` do the same for other sizes of the whole experiment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from crossprop._support import checks as check
from crossprop.engines.protocol import Metric, Probe
from crossprop.experiments.spec import SweepSpec
from crossprop.experiments.toml import merged, read_toml, spec_of_table
from crossprop.hyperparameters import hyperparameters
from crossprop.network import Network
from crossprop.records import PHASES
from crossprop.registry import import_modules
from crossprop.specification import (
    as_table,
    build_network,
    build_stream,
    builder_of,
    check_keys,
    default_step_size,
    learner_tables,
    loss_of,
    suited_to,
)
from crossprop.streams import SUITED_TO, Stream

ALL = "all"
"""The stage of a question about all of them together."""
MAIN = "main"
"""The stage of an experiment that names none."""
OF_SWEEP = ("seeds", "evaluate", "record_every", "steps")
OF_STAGE = ("title", "learners", "stream", "network", "over", "only", "without", *OF_SWEEP)
OF_EXPERIMENT = (
    "import",
    "intro",
    "reference",
    "settings",
    "plasticity",
    "widen",
    "resolution",
    "tune_on",
    *OF_STAGE,
)
MERGED = ("stream", "network", "learners")
"""Tables of a size or a stage that are merged with those of the file, entry by entry; so are the stages of a size."""
WIDEN, RESOLUTION = 3, 1.3
"""Defaults of a file: the limit of widenings, and the largest factor between step sizes around the best."""

Observe = Callable[[Network, Stream, bool], tuple[Mapping[str, Probe], Mapping[str, Metric]]]
"""Probes and metrics of a stage, from its network, its stream, and the key `plasticity` of the file."""


class Stage(NamedTuple):
    """A sweep of an experiment, and its title."""

    title: str
    spec: SweepSpec


class Comparison(NamedTuple):
    """The question whether a learner has less error than another one on fresh seeds; among several, the best on the
    tuning seeds speaks."""

    id: str
    """One for all stages that a question is asked of."""
    asks: str
    learners: tuple[str, ...]
    against: tuple[str, ...]
    stage: str
    """`all` are compared one by one, and together."""
    phase: str


def store_of(folder: Path, stage: str) -> Path:
    """The folder of a stage's sweep."""
    return folder / ("sweep" if stage == MAIN else f"sweep-{stage}")


@dataclass(frozen=True)
class Experiment:
    """An experiment, checked."""

    title: str
    intro: str
    reference: str
    stages: dict[str, Stage]
    widen: int = WIDEN
    """The largest number of times that a grid is widened."""
    resolution: float | None = RESOLUTION
    """Step sizes around the best are at most this factor apart in the end; None refines nothing."""
    questions: list[Comparison] = field(default_factory=list)
    untuned: bool = False
    """Whether every learner has its default settings."""
    tune_on: tuple[str, ...] = ()
    """The stages on which one setting of each learner is chosen for all others; without them each stage has its own."""

    @property
    def judged(self) -> dict[str, Stage]:
        """The stages that have fresh seeds."""
        return {name: stage for name, stage in self.stages.items() if name not in self.tune_on}


def read_experiment(
    path: Path,
    store: Callable[[str], Path],
    *,
    size: str | None = None,
    stages: Sequence[str] = (),
    further: Mapping[str, Any] | None = None,
    called: str = "stages",
    observe: Observe | None = None,
    untuned: bool = False,
    **flags: Any,
) -> Experiment:
    """The experiment that a file describes.

    **Arguments:**

    - `store`: the folder of a stage's sweep, by its name.
    - `size`: the name of one of the file's `sizes`; None is the file without them.
    - `stages`: names of some of the file's stages; none are all.
    - `further`: stages beside those of the file.
    - `called`: what the file calls its stages.
    - `untuned`: every learner has one setting: its defaults, and the step size for a stream that is not known, apart
      from arguments that the file gives it.
    - `flags`: `seeds`, `evaluate` and `engine` in the place of the file's, unless they are None.
    """
    table = read_toml(path)
    check_keys(str(path), table, (*OF_EXPERIMENT, "questions", "sizes", called))
    sizes = as_table("sizes", table.pop("sizes", {}))
    if size is not None:
        if size not in sizes:
            raise ValueError(f"{path} has no size {size!r}: give a table [sizes.{size}]")
        check_keys(f"sizes.{size}", as_table(f"sizes.{size}", sizes[size]), (*OF_EXPERIMENT, "questions", called))
        table = merged(table, sizes[size], (*MERGED, called))
    table |= {"over": {}, "settings": 1, "widen": 0, "resolution": False} if untuned else {}
    import_modules(table.get("import", []))
    for key in ("learners", *([called] if called != "stages" else [])):
        if not table.get(key):
            raise ValueError(f"{path} has no {key}: give a table [{key}.NAME] for each")
    table["learners"] = learner_tables(table["learners"])
    table |= {key: value for key, value in flags.items() if value is not None}
    if table.get("evaluate") is None:
        raise ValueError(f"{path} has no evaluate: give the number of fresh seeds to judge on, such as evaluate = 20")
    check.integer(f"evaluate in {path}", table["evaluate"], low=2)
    reference = table.get("reference", "backprop")
    rows = as_table(called, table.get(called) or {MAIN: {}}) | dict(further or {})
    rows = {name: row for name, row in rows.items() if row is not False}
    for name in stages:
        check.choice(f"a {called.removesuffix('s')} of {path}", name, rows)
    made = {}
    for name in stages or rows:
        if Path(name).name != name:
            raise ValueError(f"{called} in {path} must have names that a folder can have, got {name!r}")
        try:
            made[name] = read_stage(
                name, as_table(f"{called}.{name}", rows[name]), table, store(name), observe, untuned
            )
            _check_settings(made[name].spec, table.get("settings"))
        except (ValueError, TypeError) as problem:
            raise type(problem)(f"{path}, {called}.{name}: {problem}") from None
    widen = check.integer(f"widen in {path}", table.get("widen", WIDEN), low=0)
    resolution = table.get("resolution", RESOLUTION)
    if resolution is not False:
        resolution = check.scalar(f"resolution in {path}", resolution, above=1)
    asked = table.get("questions", [])
    if not isinstance(asked, list):
        raise TypeError(f"questions in {path} must be tables [[questions]], got {check.shown(asked)}")
    tune_on = _tune_on(table.get("tune_on", []), made, reference)
    judged = {name: stage for name, stage in made.items() if name not in tune_on}
    questions = [each for number, row in enumerate(asked, 1) for each in _questions(number, row, judged)]
    title, intro = (str(table.get(key, default)) for key, default in (("title", path.stem), ("intro", "")))
    return Experiment(title, intro, reference, made, widen, resolution or None, questions, untuned, tune_on)


def _tune_on(names: Any, stages: Mapping[str, Stage], reference: str) -> tuple[str, ...]:
    """The stages that choose the settings for all others, checked."""
    if not isinstance(names, list):
        raise TypeError(f"tune_on must be a list of stages, got {check.shown(names)}")
    for name in names:
        check.choice("a stage in tune_on", name, stages)
    if len({*names}) == len(stages):
        raise ValueError("tune_on must leave a stage to judge the settings on, got all of them")
    axes = [stage.spec.over for stage in stages.values()]
    if names and any(each != axes[0] for each in axes):
        raise ValueError("over, only and without must be the same for all stages where there is a tune_on")
    if names:
        check.choice("reference", reference, axes[0])
    return tuple(names)


def read_stage(
    name: str,
    row: Mapping[str, Any],
    common: Mapping[str, Any],
    store: Path | None,
    observe: Observe | None = None,
    untuned: bool = False,
) -> Stage:
    """The stage that a table describes, with the keys that are common to all stages."""
    check_keys(name, row, OF_STAGE)
    row = {**row, "over": {}} if untuned else row
    table = merged({"stream": {"name": name}, "network": {}} | {**common}, row, MERGED)
    shared, own = (as_table("over", each.get("over", {})) for each in (common, row))
    both = {key: {**shared[key], **axes} for key, axes in own.items() if isinstance(shared.get(key), dict)}
    table["over"] = {**shared, **own, **both}
    stream = build_stream(table["stream"])
    network = build_network(table["network"], stream, suited_to(table["stream"], stream))
    if untuned:
        suited = SUITED_TO[loss_of(stream)]
        table["learners"] = {
            learner: {**default_step_size(builder_of(learner, own), own, network, suited), **own}
            for learner, own in table["learners"].items()
        }
    plasticity = check.flag("plasticity", table.get("plasticity", True))
    probes, metrics = observe(network, stream, plasticity) if observe else ({}, {})
    spec = spec_of_table(table, store=store, probes=probes, metrics=metrics)
    grids = {grid.name: grid.over for grid in spec.grids}
    for each in (common, row):
        gone = _matching("without", each.get("without", []), grids)
        grids = {name: grids[name] for name in _matching("only", each.get("only", "*"), grids) if name not in gone}
    if not grids:
        raise ValueError("only and without must leave some learners, got none")
    learners = {learner: spec.learners[learner] for learner in grids}
    return Stage(str(row.get("title", name)), replace(spec, learners=learners, over=grids))


def _matching(key: str, value: Any, names: Iterable[str], *, lenient: bool = True) -> tuple[str, ...]:
    """The names that match a pattern, or one of a list of patterns; a ValueError if there is none, unless it is
    `lenient`."""
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise TypeError(
            f"{key} must be the name of a learner, a pattern such as '*-sgd', or a list of these, got {value!r}"
        )
    found = tuple(name for name in names if any(fnmatchcase(name, each) for each in patterns))
    if not found and not lenient:
        check.choice(key, next(iter(patterns), ""), names)
    return found


def _check_settings(spec: SweepSpec, settings: Any) -> None:
    """Raises a ValueError unless every learner has the same budget."""
    if settings is None:
        return
    check.integer("settings", settings, low=1)
    for grid in spec.grids:
        if hyperparameters(type(spec.learners[grid.name])) and len(grid.points) != settings:
            axes = ", ".join(f"{len(values)} of {axis}" for axis, values in grid.over.items()) or "no axis"
            raise ValueError(
                f"settings is {settings}, but learners.{grid.name} has {len(grid.points)}: {axes}. Change over, or "
                "remove settings, which keeps the budgets of all learners the same"
            )


def _questions(number: int, row: Mapping[str, Any], stages: Mapping[str, Stage]) -> list[Comparison]:
    """A table of the file as a question for each of its stages that has the learners."""
    check_keys("questions", as_table("questions", row), ("id", "ask", "learner", "against", "stage", "phase"))
    given, against, phase = row.get("learner", []), row.get("against", "backprop"), row.get("phase", "all")
    check.choice("phase of a question", phase, PHASES)
    asked, found = row.get("stage", [*stages][:1]), []
    chosen = (ALL,) if asked == ALL else _matching("stage of a question", asked, stages, lenient=False)
    for stage in chosen:
        there, lenient = stages.get(stage, next(iter(stages.values()))).spec.learners, len(chosen) > 1
        learners = _matching("learner of a question", given, there, lenient=lenient)
        references = _matching("against of a question", against, there, lenient=lenient)
        if learners and references:
            ask = row.get("ask", f"Is {_best_of(learners)} better than {_best_of(references)}?")
            found.append(Comparison(str(row.get("id", number)), ask, learners, references, stage, phase))
    return found


def _best_of(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"the best of {', '.join(names)}"
