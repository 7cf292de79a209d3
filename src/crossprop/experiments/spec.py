"""The specification of a sweep: learners, a stream, a grid, seeds, and variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from crossprop._support import checks as check
from crossprop.arguments import (
    MOST_STEPS,
    check_count,
    check_fit,
    check_steps,
    checked_learners,
    checked_seeds,
    checked_steps,
    checked_variables,
)
from crossprop.configuration import configuration
from crossprop.engines.protocol import Metric, Probe, RunOptions
from crossprop.execution import compiler_flags
from crossprop.experiments.grid import Grid, build, checked_grids
from crossprop.learners.base import Learner
from crossprop.network import float_type
from crossprop.source_identity import CodeIdentity, code_identity
from crossprop.streams.base import Stream
from crossprop.streams.iterator import Iterator as IteratorStream
from crossprop.variables import Variable


@dataclass(frozen=True)
class SweepSpec:
    """A sweep, checked: `SweepSpec.of(...)` takes the arguments of `sweep`."""

    learners: dict[str, Learner]
    stream: Stream
    over: Mapping[str, Any]
    seeds: list[int]
    record_every: int = 50
    engine: str = "auto"
    store: Path | None = None
    evaluate: int | None = None
    steps: int | None = None
    probes: Mapping[str, Probe] | None = None
    metrics: Mapping[str, Metric] | None = None
    made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Learners, networks and streams of points, built once for this sweep and for those that `replace` makes of it."""

    @classmethod
    def of(
        cls, learners: Any, stream: Any, over: Any, seeds: Any = 30, record_every: Any = 50, **options: Any
    ) -> "SweepSpec":
        """The sweep with these arguments; an error names the one that does not fit."""
        record_every = check.integer("record_every", record_every, low=1, high=MOST_STEPS)
        options |= {name: check.plain(value) for name, value in options.items() if name in ("steps", "evaluate")}
        if (store := options.get("store")) is not None:
            options["store"] = check.path("store", store, "a folder")
        return cls(checked_learners(learners), stream, over, checked_seeds(seeds), record_every, **options)

    def __post_init__(self):
        check_fit({}, self.stream)
        if isinstance(self.stream, IteratorStream):
            raise ValueError("stream must be one that can be dealt again, got a crossprop.Iterator, which has one pass")
        checked_steps(self.steps, self.stream)
        check_steps(self.steps or self.stream.steps or 0, self.record_every)
        if self.evaluate is not None:
            if max(self.seeds) == 2**32 - 1:
                raise ValueError(
                    f"seeds must be below {2**32 - 1} with evaluate, whose seeds follow the greatest of them"
                )
            check.integer("evaluate", self.evaluate, low=1, high=2**32 - 1 - max(self.seeds))
            check_count("evaluate", self.evaluate)
            if self.store is None:
                raise ValueError(f"evaluate={self.evaluate} needs a store, which keeps its runs: give store a folder")

    @cached_property
    def observed(self) -> tuple[Variable, ...]:
        """Probes and metrics, tried on every learner."""
        return checked_variables(self.probes, self.metrics, self.learners)

    @property
    def options(self) -> RunOptions:
        """Options of all runs."""
        return RunOptions(self.record_every, self.steps, observed=self.observed)

    @cached_property
    def grids(self) -> list[Grid]:
        """A grid for every learner."""
        grids = checked_grids(self.learners, self.stream, self.over, self.seeds)
        common = {
            "record_every": self.record_every,
            "float_type": str(float_type()),
            "xla_flags": compiler_flags(),
            "steps": self.steps,
            "probes": configuration(dict(self.probes or {})),
            "metrics": configuration(dict(self.metrics or {})),
        }
        first = max(self.seeds) + 1
        aside = {"evaluation": list(range(first, first + (self.evaluate or 0))), "common": common}
        return [replace(grid, code=self._code(grid.name), **aside) for grid in grids]

    @property
    def settled(self) -> "SweepSpec":
        """The sweep without its grid, whose learners have one setting each."""
        points = {grid.name: next(iter(grid.points.values())) for grid in self.grids}
        made = {name: build(own, name, self.learners[name], self.stream, {})[0] for name, own in points.items()}
        return replace(self, learners=made, over={})

    @cached_property
    def sources(self) -> dict[str, CodeIdentity]:
        """The identity of all code that the package does not define, by where it is given."""
        given = {f"learners[{name!r}]": learner for name, learner in self.learners.items()} | {"stream": self.stream}
        given |= {f"probes[{name!r}]": probe for name, probe in (self.probes or {}).items()}
        given |= {f"metrics[{name!r}]": metric for name, metric in (self.metrics or {}).items()}
        found = {name: code_identity(value) for name, value in given.items()}
        return {name: source for name, source in found.items() if source is not None}

    def _code(self, learner: str) -> dict[str, str]:
        """The part of that code that a learner's records depend on."""
        own = f"learners[{learner!r}]"
        return {
            "learner" if name == own else name: source.sha256
            for name, source in self.sources.items()
            if name == own or not name.startswith("learners[")
        }
