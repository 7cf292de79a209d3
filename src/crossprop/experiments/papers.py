"""Papers that are rerun: experiments, each deviation from the paper with its reason, claims, and words."""

import fnmatch
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop import records as schema
from crossprop._support.extras import require
from crossprop.descriptions import learner_info
from crossprop.engines.protocol import Probe
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import expected_time
from crossprop.experiments import sweep
from crossprop.experiments.charts import Chart, along, curves
from crossprop.experiments.experiment import MERGED, OF_STAGE, read_stage
from crossprop.experiments.measures import Quantity, finder, quantity
from crossprop.experiments.page import WORDS, Table, Text
from crossprop.experiments.questions import Answer, Find, Question
from crossprop.experiments.spec import SweepSpec
from crossprop.experiments.toml import merged
from crossprop.registry import import_modules
from crossprop.running import States, experiment, run

if TYPE_CHECKING:
    import xarray

SIZES = {
    "quick": "quick version",
    "small": "small version, for two cores",
    "full": "as given on the command line",
}
"""The sizes of a rerun, and why a setting differs from the paper's there, unless it has a reason of its own: `quick`
shows that everything works, `small` suits two cores, `full` is the paper's size."""
FULL_SET, EMBEDDED = "mnist", "mnist5k"
"""The data set of the full version, and that of the others."""


def curves_of(
    records: "xarray.Dataset",
    learners: Sequence[str] = ("*",),
    variables: Sequence[str] = (),
    *,
    tasks: bool = True,
    linear: bool = False,
    published: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> dict[str, Chart]:
    """Curves over the examples by variable: of the learners that match each of some patterns, in the order of the
    patterns, and of some variables, or of all. There are no charts if a pattern matches no learner.

    `tasks` are marked unless there are too many. Values `published` by learner are `first`, in the first window, or at
    the `end`.
    """
    shown = [fnmatch.filter(map(str, records.learner.values), each) for each in learners]
    if not all(shown):
        return {}
    drawn = [name for name in variables if name in records] or [each.name for each in schema.curves(records)]
    rings: dict[str, list[tuple[int, float]]] = {}
    for when, at in (("first", 0), ("end", -1)):
        for name, value in published.get(when, {}).items():
            rings.setdefault(name, []).append((int(records.step[at]), value))
    if not tasks:
        records = records.assign_coords(task=("step", np.zeros(records.sizes["step"], int)))
    made = curves(records.sel(learner=[*chain(*shown)]), drawn, rings, linear=linear)
    return dict(zip(drawn, made, strict=True))


Grid = Mapping[str, Mapping[str, Sequence[float]]]
"""Values of one axis by learner: `{"LMS": {"step_size": [0.01, 0.03]}}`."""


def points_of(grid: Grid) -> dict[str, dict[str, float]]:
    """The settings of a grid by learner, with their names: "LMS 0.03" is the learner LMS at the value 0.03."""
    return {
        name: {f"{name} {value:g}": value for value in values}
        for name, axes in grid.items()
        for values in axes.values()
    }


@dataclass(frozen=True)
class Plan:
    """An experiment: everything that its records depend on, and its settings for the report."""

    name: str
    title: str
    spec: SweepSpec
    """Its runs. The settings of a grid are the learners of the records."""
    about: str = ""
    settings: Sequence[Mapping[str, str]] = ()
    """Rows of the table of settings, as in the file: `name`, `here`, in the `paper` if it says so, and `why`."""
    figures: Sequence[Mapping[str, Any]] = ({},)
    """Tables of figures: `title`, name of the `file`, which else follows from the title, and options of `charts`."""
    charts: "Callable[..., dict[str, Chart]]" = curves_of
    """Makes the charts of a figure by variable, from the records."""
    measure: "Callable[[Plan, States], xarray.Dataset] | None" = None
    """Makes the records from the last states, where they are not those of the runs."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """The inputs of `measure` besides the states."""
    table: "Callable[[xarray.Dataset], tuple[Text, Table]] | None" = None
    """Makes the text and the table of such records."""

    @property
    def further(self) -> dict[str, str]:
        """The inputs of the records besides learners, stream, seeds and windows."""
        spec = self.spec
        further = {"steps": spec.steps, "probes": [*(spec.probes or {})], "over": spec.over, **self.measured}
        return {name: json.dumps(value) for name, value in further.items() if value}

    def experiment(self) -> dict[str, str]:
        """Everything that the records depend on, as their attributes say it. It hashes the data of the stream."""
        spec = self.spec
        return experiment(spec.learners, spec.stream, spec.seeds, spec.record_every) | self.further

    def expected(self) -> str:
        """About how long the runs take."""
        spec, settings = self.spec, {name: len(values) for name, values in points_of(self.spec.over).items()}
        seconds = sum(settings.get(name, 1) * seconds_per_step(each) for name, each in spec.learners.items())
        return expected_time(seconds * len(spec.seeds) * (spec.steps or spec.stream.steps or 0))

    def run(self, engine: str = "auto", checkpoint: Path | None = None) -> "xarray.Dataset":
        """The records. Long runs are saved in the folder `checkpoint`, if there is one."""
        spec = self.spec
        if spec.over:
            given = spec.learners, spec.stream, spec.over, spec.seeds, spec.record_every, engine, checkpoint
            return _joined(sweep(*given, steps=spec.steps)).assign_attrs(self.experiment())
        ran = partial(run, spec.learners, spec.stream, spec.seeds, spec.record_every, engine, spec.probes)
        if self.measure is None:
            return ran(steps=spec.steps, checkpoint=checkpoint).assign_attrs(self.further)
        _, states = ran(steps=spec.steps, checkpoint=checkpoint, return_states=True)
        return self.measure(self, states).assign_attrs(self.experiment())

    def drawn(self, records: "xarray.Dataset") -> list[tuple[Mapping[str, Any], dict[str, Chart]]]:
        """The figures with their charts, without those whose learners are not there."""
        options = [{key: each[key] for key in each if key not in ("title", "file")} for each in self.figures]
        charts = [self.charts(records, **each) for each in options]
        return [pair for pair in zip(self.figures, charts, strict=True) if pair[1]]


def _joined(records: "dict[str, xarray.Dataset]") -> "xarray.Dataset":
    """The records of a grid with one axis for each learner as those of one learner for each setting."""
    import xarray

    lines, infos = [], {}
    for name, own in records.items():
        (axis,) = {*map(str, own.sizes)} - {"seed", "step"}
        points = [*points_of({name: {axis: own[axis].values.tolist()}})[name]]
        lines.append(own.drop_vars("learner").rename({axis: "learner"}).assign_coords(learner=points))
        infos |= dict.fromkeys(points, learner_info(json.loads(own.attrs["learners"])[name]))
    bare = [own.drop_vars(schema.LearnerInfo._fields, errors="ignore") for own in lines]
    return xarray.concat(bare, "learner", combine_attrs="drop_conflicts").assign_coords(schema.info_coordinates(infos))


@dataclass(frozen=True)
class Paper:
    """A paper that can be rerun."""

    source: str
    """Authors, year and title."""
    title: str
    intro: str
    terms: Mapping[str, str]
    claims: Sequence[Question]
    plans: Mapping[str, Callable[..., Plan]]
    """The plan of each experiment, by its name, from the arguments of `_plan` that follow its table."""
    headline: Callable[[Sequence[Answer]], Mapping[str, Any] | None]
    """The chart at the top: a `variable` of an `experiment`, its `title`, and `notes` by learner."""
    leads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    small: str = ""
    """The default version, if it is not the paper's: shown at the top of its page."""
    own: Sequence[str] = ()
    """Claims of ours, not of the paper."""
    size: str = "small"
    """The size without a flag."""
    takes: Sequence[str] = ()
    """Flags that only some papers have."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the experiments by name, such as the settings of the authors' scripts."""


FIELDS = ("source", "title", "intro", "terms", "leads", "small", "size", "takes", "options")
"""Keys of a paper's file that are fields of the paper."""


def paper_table(name: str) -> dict[str, Any]:
    """The file `library/NAME.toml` of a paper."""
    return tomllib.loads((files("crossprop.library") / f"{name}.toml").read_text(encoding="utf-8"))


def read_paper(
    name: str,
    measures: Mapping[str, Quantity] = MappingProxyType({}),
    find: Mapping[str, Find] = MappingProxyType({}),
    numbers: Mapping[str, Any] = MappingProxyType({}),
    *,
    plans: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    probes: Mapping[str, Mapping[str, Probe]] = MappingProxyType({}),
) -> Paper:
    """The paper whose words and experiments are in `library/NAME.toml`.

    **Arguments:**

    - `measures`: what the comparisons of claims measure, by name, besides those of the file.
    - `find`: what finds the findings of claims without comparisons, by their ids.
    - `numbers`: what stands in braces in the claims besides the file's own phrases.
    - `plans`: further fields of a `Plan`, by the name of the experiment.
    - `probes`: probes by the name of the experiment.
    """
    table, names = paper_table(name), {**numbers}
    measures = {**measures, **{name: quantity(name, row) for name, row in table.get("measures", {}).items()}}
    for phrase, text in table.get("phrases", {}).items():
        names[phrase] = text.format_map(names)
    questions = [
        Question(
            id,
            each["of"],
            each["asks"].format_map(names),
            " ".join(
                [each["rule"].format_map(names), WORDS["intervals"], *[WORDS["strict"]] * each.get("strict", False)]
            ),
            finder(each, measures, table.get("groups", {})) if "compare" in each else find[id],
            each.get("all_together", False),
        )
        for id, each in table["claims"].items()
    ]
    made = {
        part: partial(_plan, plans.get(part, {}), part, probes.get(part, {}), table) for part in table["experiments"]
    }
    return Paper(
        **{key: table[key] for key in FIELDS if key in table},
        claims=questions,
        own=[id for id, each in table["claims"].items() if each.get("own")],
        plans=made,
        headline=partial(_headline, table["headline"]),
    )


def _plan(
    further: Mapping[str, Any],
    name: str,
    probes: Mapping[str, Probe],
    table: Mapping[str, Any],
    size: str,
    options: Sequence[str] = (),
    *,
    full_set: Callable[[], bool] = lambda: False,
    **flags: int | None,
) -> Plan:
    """The plan of an experiment.

    **Arguments:**

    - `size`: one of `SIZES`.
    - `options`: those of the file's `options` that apply.
    - `full_set`: whether the full MNIST is here, for the full version; else the embedded images stand in.
    - `flags`: values at the places that the file's `flags` name, unless they are None.
    """
    changes = [table.get("sizes", {}).get(size, {}), *(table["options"][each] for each in options)]
    given = {flag: value for flag, value in flags.items() if value is not None}
    changes += [_at(place, value) for flag, value in given.items() for place in table["flags"][flag]]
    for each in changes:
        table = merged(table, each, (*MERGED, "experiments"))
    import_modules(table.get("import", []))
    row = table["experiments"][name]
    require(f"crossprop reproduce {name}", *row.get("needs", ()), extra="paper")
    own = {key: row[key] for key in ("about", "measured", "figures") if key in row}
    charts: Any = partial(along, lines=points_of(row["over"])) if "over" in row else curves_of
    own["charts"] = partial(charts, published=row.get("published", {}))
    words, stream = {"why": SIZES[size], "images": "", **row.get("words", {})}, row["stream"]
    if isinstance(stream, dict) and FULL_SET in stream.values() and not (size == "full" and full_set()):
        reason = "the full set is not here" if size == "full" else SIZES[size]
        stream = _embedded(stream)
        words["images"] = f"the embedded 5,000 images: {reason}"
    stage = {key: value for key, value in row.items() if key in OF_STAGE} | {"stream": stream}
    title, spec = read_stage(name, stage, table, None, lambda *_: (probes, {}))
    data, examples = getattr(spec.stream, "data", None), getattr(spec.stream, "examples", None)
    if examples is None and data is not None:
        examples = len(data.y)
    if "record_every" not in row:
        assert examples is not None
        spec = replace(spec, record_every=examples)
    first = next(iter(spec.learners.values()))
    numbers = {"seeds": len(spec.seeds), "steps": spec.steps, "examples": examples, "record_every": spec.record_every}
    numbers |= {"stream": spec.stream, "network": first.network, "learners": spec.learners, **words}
    settings = [
        {"why": SIZES[size]} | {key: text.format_map(numbers) for key, text in each.items()}
        for group in row.get("settings", ())
        for each in table["settings"][group]
    ]
    is_grid = any(len(grid.points) > 1 for grid in spec.grids)
    return Plan(name, title, spec if is_grid else spec.settled, settings=settings, **{**own, **further})


def _at(place: str, value: Any) -> dict[str, Any]:
    """A table with a value at a place such as `experiments.mnist.seeds`."""
    for key in reversed(place.split(".")):
        value = {key: value}
    return value


def _embedded(stream: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a stream over the full MNIST, over the embedded images: all of them, if its tasks are not passes."""
    return {
        key: EMBEDDED if value == FULL_SET else value
        for key, value in stream.items()
        if key != "examples" or stream["name"] != FULL_SET
    }


def _headline(words: Mapping[str, Any], answers: Sequence[Answer]) -> dict[str, Any] | None:
    """The chart at the top. Its notes say the means of what some claims find about a learner, alone or against a
    reference, less a number; it is None if no finding is about a pattern of learners."""
    claims, against, less = words.get("claims", ()), words.get("against", ""), words.get("less", 0)
    found = [each for answer in answers if answer.id in claims for each in answer.findings]
    means, notes = {each.learner: each.mean - less for each in found if each.reference == against}, {}
    for pattern, note in words["notes"].items():
        name = next((each for each in means if fnmatch.fnmatchcase(each, pattern)), pattern)
        if "*" in name:
            return None
        notes[name] = note
        if name in means:
            side = r"\1" if means[name] > 0 else r"\2"
            said = re.sub(r"(\w+)\|(\w+)", side, words["says"].format(abs(means[name])))
            notes[name] = f"{note}; {said}" if note else said
    return {**words, "notes": notes}
