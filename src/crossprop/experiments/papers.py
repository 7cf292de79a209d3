"""Papers that are rerun: experiments, each deviation from the paper with its reason, claims, and words."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from crossprop import records as schema
from crossprop.datasets import DataSet
from crossprop.descriptions import learner_info
from crossprop.engines.protocol import Probe
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import expected_time
from crossprop.experiments import sweep
from crossprop.experiments.charts import Chart, curves
from crossprop.experiments.page import Table, Text
from crossprop.experiments.questions import INTERVALS, STRICT, Answer, Find, Headline, Question
from crossprop.learners import Learner
from crossprop.running import States, experiment, run
from crossprop.streams import Stream

if TYPE_CHECKING:
    import xarray

Size = Literal["quick", "small", "full"]
T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """The size of a rerun: `quick` shows that everything works, `small` suits two cores, `full` is the paper's size.

    `mnist` returns the images to use. The other fields are flags of the command line, where None leaves the choice to
    the paper; those from `tasks` on only apply to some papers.
    """

    size: Size
    mnist: Callable[[], DataSet]
    seeds: int | None = None
    tasks: int | None = None
    mnist_seeds: int | None = None
    exact_mnist: bool | None = None
    preset: str | None = None

    @property
    def is_quick(self) -> bool:
        """Whether it only shows that everything works."""
        return self.size == "quick"

    def pick(self, quick: T, small: T, full: T) -> T:
        """The value for this size."""
        return {"quick": quick, "small": small, "full": full}[self.size]

    @property
    def why(self) -> str:
        """Why a setting differs from the paper's, unless it has a reason of its own."""
        return self.pick("quick version", "small version, for two cores", "as given on the command line")


class Setting(NamedTuple):
    """A row of the table of settings. `paper` is None if the paper does not give it; `why` is the reason for a choice,
    or for a deviation from the paper."""

    name: str
    value: str
    paper: str | None
    why: str = ""


def curves_of(
    records: "xarray.Dataset",
    learners: Sequence[str] = (),
    variables: Sequence[str] = (),
    of: "Callable[[xarray.Dataset], xarray.Dataset] | None" = None,
    **options: Any,
) -> dict[str, Chart]:
    """Curves over the examples by variable: of some learners and variables, of all if there are none. `of` makes the
    records to draw from those of the runs; `options` are further ones of `curves`."""
    made = records if of is None else of(records)
    made = made.sel(learner=[*learners]) if learners else made
    names = [name for name in variables if name in made] or [each.name for each in schema.curves(made)]
    return dict(zip(names, curves(made, names, **options), strict=True))


class Drawing(NamedTuple):
    """A figure of an experiment: its title, what makes its charts by variable from the records, and the name of its
    files, which follows from the title if it is empty."""

    title: str = ""
    charts: "Callable[[xarray.Dataset], dict[str, Chart]]" = curves_of
    file: str = ""


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

    learners: Mapping[str, Learner]
    stream: Stream
    seeds: int
    record_every: int
    settings: Sequence[Setting] = ()
    """Those of the paper's file, with `numbers` in the place of their braces."""
    name: str = ""
    title: str = ""
    about: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What the settings have in braces, besides `seeds` and `steps`."""
    steps: int | None = None
    """Steps of a run; unset, the whole stream."""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    over: Grid = field(default_factory=dict)
    """A grid, whose settings are the learners of the records."""
    drawings: Sequence[Drawing] = (Drawing(),)
    measure: "Callable[[States], xarray.Dataset] | None" = None
    """Makes the records from the last states, where they are not those of the runs."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """The inputs of `measure` besides the states."""
    table: "Callable[[xarray.Dataset], tuple[Text, Table]] | None" = None
    """Makes the text and the table of such records."""

    @property
    def further(self) -> dict[str, str]:
        """The inputs of the records besides learners, stream, seeds and windows."""
        further = {"steps": self.steps, "probes": [*self.probes], "over": self.over, **self.measured}
        return {name: json.dumps(value) for name, value in further.items() if value}

    def experiment(self) -> dict[str, str]:
        """Everything that the records depend on, as their attributes say it. It hashes the data of the stream."""
        return experiment(self.learners, self.stream, list(range(self.seeds)), self.record_every) | self.further

    def expected(self) -> str:
        """About how long the runs take."""
        settings = {name: len(values) for name, values in points_of(self.over).items()}
        seconds = sum(settings.get(name, 1) * seconds_per_step(each) for name, each in self.learners.items())
        return expected_time(seconds * self.seeds * (self.steps or self.stream.steps or 0))

    def run(self, engine: str = "auto", checkpoint: Path | None = None) -> "xarray.Dataset":
        """The records. Long runs are saved in the folder `checkpoint`, if there is one."""
        if self.over:
            given = self.learners, self.stream, self.over, self.seeds, self.record_every, engine, checkpoint
            return _joined(sweep(*given, steps=self.steps)).assign_attrs(self.experiment())
        ran = partial(run, self.learners, self.stream, self.seeds, self.record_every, engine, self.probes)
        if self.measure is None:
            return ran(steps=self.steps, checkpoint=checkpoint).assign_attrs(self.further)
        _, states = ran(steps=self.steps, checkpoint=checkpoint, return_states=True)
        return self.measure(states).assign_attrs(self.experiment())

    def drawn(self, records: "xarray.Dataset") -> list[tuple[Drawing, dict[str, Chart]]]:
        """The figures with their charts."""
        return [(each, each.charts(records)) for each in self.drawings]


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
    plans: Mapping[str, Callable[[Version], Plan]]
    """The plan of each experiment, by its name."""
    headline: Callable[[Sequence[Answer]], Headline | None]
    leads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    small: str = ""
    """The default version, if it is not the paper's: shown at the top of its page."""
    own: Sequence[str] = ()
    """Claims of ours, not of the paper."""
    size: Size = "small"
    """The size without a flag."""
    takes: Sequence[str] = ()
    """Flags that only some papers have."""


def read_paper(
    name: str,
    plans: Mapping[str, Callable[[Version], Plan]],
    find: Mapping[str, Find],
    numbers: Mapping[str, Any],
    headline: Callable[[Sequence[Answer]], Headline | None] | None = None,
    **options: Any,
) -> Paper:
    """The paper whose words are in `library/NAME.toml`.

    **Arguments:**

    - `find`: what finds the findings of each claim, by its id.
    - `numbers`: what stands in braces in the claims besides the file's own phrases.
    - `headline`: the chart at the top, if its notes have numbers; else it is the file's.
    - `options`: other fields of the paper.
    """
    table = tomllib.loads((files("crossprop.library") / f"{name}.toml").read_text(encoding="utf-8"))
    names = {**numbers}
    for phrase, text in table.pop("phrases", {}).items():
        names[phrase] = text.format_map(names)
    claims = table.pop("claims")
    questions = [
        Question(
            id,
            each["of"],
            each["asks"].format_map(names),
            each["rule"].format_map(names) + (STRICT if each.get("strict") else INTERVALS),
            find[id],
            each.get("all_together", False),
        )
        for id, each in claims.items()
    ]
    own = [id for id, each in claims.items() if each.get("own")]
    rows = table.pop("settings", {})
    named = {name: partial(_named, plans[name], name, words, rows) for name, words in table.pop("experiments").items()}
    if headline is None:
        fixed = Headline(**table.pop("headline"))
        headline = lambda answers: fixed
    return Paper(**table, claims=questions, own=own, plans=named, headline=headline, **options)


def _named(
    plan: Callable[[Version], Plan], name: str, words: Mapping[str, Any], rows: Mapping[str, Any], version: Version
) -> Plan:
    """A plan with the words and the settings of the paper's file."""
    made = plan(version)
    numbers = {"seeds": made.seeds, "steps": made.steps, **made.numbers}
    settings = [
        _setting({key: text.format_map(numbers) for key, text in row.items()}, version.why)
        for group in words.get("settings", ())
        for row in rows[group]
    ]
    return replace(made, name=name, **{**words, "settings": settings})


def _setting(row: Mapping[str, str], why: str) -> Setting:
    """A row of the table of settings: `here`, and what the `paper` has, with the reason `why` if that is another."""
    here, paper = row["here"], row.get("paper")
    return Setting(row["name"], here, paper, "" if paper in (here, "the same") else row.get("why", why))
