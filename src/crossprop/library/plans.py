"""Experiments of a paper: learners, stream, seeds, and every deviation from the paper with its reason."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossprop import records as schema
from crossprop.engines.protocol import Probe
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import expected_time
from crossprop.experiments import figures
from crossprop.experiments.charts import Along, Chart, Published, along, curves
from crossprop.learners import Learner
from crossprop.running import States, experiment, run
from crossprop.streams import Stream

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Setting:
    """A row of the table of settings. `paper` is None if the paper does not give it; `why` is the reason for a choice,
    or for a deviation from the paper."""

    name: str
    value: str
    paper: str | None
    why: str = ""

    @property
    def differs(self) -> bool:
        """Whether the setting is other than the paper's."""
        return self.paper is not None and bool(self.why)


class Drawn(NamedTuple):
    """A figure: the name of its files, its title, and its charts by variable."""

    file: str
    title: str
    charts: Mapping[str, Chart]


@dataclass(frozen=True)
class Charts:
    """What is drawn of an experiment: a chart along a setting, or curves over the examples of some learners and
    variables, of all if there are none. `of` makes the records to draw from those of the runs."""

    title: str = ""
    learners: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    of: "Callable[[xarray.Dataset], xarray.Dataset] | None" = None
    along: Along | None = None
    published: Published = field(default_factory=dict)
    linear: bool = False
    """Whether the vertical axis is linear, whatever the variable usually has."""
    file: str = ""
    """The name of the files; unset, it follows from the title."""

    def drawn(self, records: "xarray.Dataset") -> dict[str, Chart]:
        """The charts by variable."""
        if self.along is not None:
            return {"loss": along(records, self.along, self.published)}
        made = records if self.of is None else self.of(records)
        made = made.sel(learner=[*self.learners]) if self.learners else made
        names = [name for name in self.variables if name in made] or [each.name for each in schema.curves(made)]
        return dict(zip(names, curves(made, names, self.published, linear=self.linear), strict=True))


@dataclass(frozen=True)
class Plan:
    """One experiment: everything that its records depend on, and its settings for the report."""

    name: str
    title: str
    learners: Mapping[str, Learner]
    stream: Stream
    seeds: int
    record_every: int
    settings: tuple[Setting, ...]
    about: str
    steps: int | None = None
    """Steps of a run; unset, the whole stream."""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    charts: tuple[Charts, ...] = (Charts(),)
    draw_own: "Callable[[xarray.Dataset], list[Drawn]] | None" = None
    """Makes the figures, where they are not those of `charts`."""
    measure: "Callable[[States], xarray.Dataset] | None" = None
    """Makes the records from the last states, where they are not those of the runs."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """What `measure` depends on besides the states."""

    @property
    def further(self) -> dict[str, str]:
        """What the records depend on besides learners, stream, seeds and windows."""
        further = {"steps": self.steps, "probes": [*self.probes], **self.measured}
        return {name: json.dumps(value) for name, value in further.items() if value}

    def experiment(self) -> dict[str, str]:
        """Everything that the records depend on, as their attributes say it. It hashes the data of the stream."""
        return experiment(self.learners, self.stream, list(range(self.seeds)), self.record_every) | self.further

    def expected(self) -> str:
        """About how long the runs take."""
        steps = self.steps or self.stream.steps or 0
        return expected_time(sum(map(seconds_per_step, self.learners.values())) * self.seeds * steps)

    def run(self, engine: str = "auto", checkpoint: Path | None = None) -> "xarray.Dataset":
        """The records. Long runs are saved in the folder `checkpoint`, if there is one."""
        given = self.learners, self.stream, self.seeds, self.record_every, engine, self.probes
        if self.measure is None:
            return run(*given, steps=self.steps, checkpoint=checkpoint).assign_attrs(self.further)
        records, states = run(*given, steps=self.steps, checkpoint=checkpoint, return_states=True)
        described = {name: records.attrs[name] for name in ("learners", "stream", "seeds", "record_every")}
        return self.measure(states).assign_attrs(described | self.further)

    def drawn(self, records: "xarray.Dataset") -> list[Drawn]:
        """The figures, from the records."""
        if self.draw_own is not None:
            return self.draw_own(records)
        stems = ["-".join([self.name, *charts.title.lower().split()]) for charts in self.charts]
        return [
            Drawn(charts.file or stem, charts.title, charts.drawn(records))
            for stem, charts in zip(stems, self.charts, strict=True)
        ]

    def save(self, drawn: Sequence[Drawn], folder: Path, note: str) -> None:
        """Writes the figures into a folder, as PNG and PDF, with a note in their titles."""
        for name, title, charts in drawn:
            first = next(iter(charts.values()))
            rings = ", rings as published" * bool(first.rings)
            words = f"{title or self.title}: {first.statistic}{note}{rings}"
            figures.save([*charts.values()], folder / name, words, ".png", ".pdf")
