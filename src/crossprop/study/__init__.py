"""`crossprop study`: does crossprop credit help, with which optimizer, and at which settings?"""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import jax

from crossprop import _checks as check
from crossprop._extras import require
from crossprop._files import atomic_write, check_writable
from crossprop._interrupts import interruptible
from crossprop._version import __version__
from crossprop.engines import ENGINES
from crossprop.execution import cores, expected_time
from crossprop.formats import duration, plural
from crossprop.plot.drawings import draw
from crossprop.plot.numbers import Sweep, read
from crossprop.records import optimizer_of
from crossprop.streams import Geoff, LabelShift
from crossprop.study.answers import Answer, answers, rows_of
from crossprop.study.drawings import draw_differences
from crossprop.study.page import write_study
from crossprop.study.tables import write_tables
from crossprop.sweeps import SweepSpec, fill
from crossprop.sweeps.toml import read_spec

STUDIES = {
    "geoff": "Does crossprop credit help? GEOFF with six tasks",
    "mnist": "Does crossprop credit help? Label-shifted MNIST",
}
QUICK = {"stream.examples": [60], "network.hidden": [8]}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """Tune every credit rule with every optimizer, evaluate the best of each on fresh seeds, and answer on one page.

    What is in the output folder already is not run again.

    Example: crossprop study geoff --out study-geoff
    """

    name: Literal["geoff", "mnist"]
    """GEOFF with six tasks, or label-shifted MNIST."""
    out: Path | None = None
    """Folder for the sweep, the tables, the figures and study.html; unset, study-geoff or study-mnist."""
    full: bool = False
    """Run the full version, meant for a GPU; the default version takes about ten minutes on two cores."""
    quick: bool = False
    """Run a tiny version with one optimizer, which only shows that everything works."""
    seeds: int | None = None
    """Number of seeds to tune on; unset, as the study defines it."""
    evaluate: int | None = None
    """Number of fresh seeds to evaluate on; unset, 60 for GEOFF and 10 for MNIST."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""

    def __post_init__(self):
        check.choice("name", self.name, STUDIES)
        check.choice("engine", self.engine, ("auto", *ENGINES))
        if self.full and self.quick:
            raise ValueError("full and quick must not both be given: they are two versions of one study")
        for name in ("seeds", "evaluate"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), low=2)

    @property
    def folder(self) -> Path:
        """Where the study is written: `out`, or its default."""
        return self.out or Path(f"study-{self.name}")

    @interruptible()
    def run(self, say: Say, command: str = "crossprop study") -> list[Answer]:
        """Tunes, evaluates, and writes the tables, the figures and the page, which shows `command`."""
        require("crossprop study", "matplotlib", "plotly", "jinja2", extra="paper")
        spec = self._spec()
        check_writable("out", self.folder)
        learners, fresh = len(spec.learners), spec.evaluate
        say(f"{self.name}: tuning {learners} learners, then running the best setting of each on {fresh} fresh seeds")
        hear = lambda runs, seconds: say(f"{self.name}: {plural(runs, 'run')} to do. {expected_time(seconds)}".strip())
        fill(spec, on_start=hear)
        return self._publish(spec, say, command)

    def _publish(self, spec: SweepSpec, say: Say, command: str) -> list[Answer]:
        assert spec.store is not None
        sweep = read(spec.store)
        rows = rows_of(sweep)
        found = answers(sweep, rows)
        figures = self.folder / "figures"
        figures.mkdir(exist_ok=True)
        write_tables(rows, sweep.measure, self.folder)
        draw(sweep, figures)
        draw_differences(rows, sweep.measure, figures / "differences.png", "  (quick version)" * self.quick)
        facts = self._facts(spec, sweep)
        page, title = self.folder / "study.html", STUDIES[self.name]
        write_study(page, title, sweep, rows, found, command=command, facts=facts, quick=self.quick)
        with atomic_write(self.folder / "answers.json") as path:
            summary = {"command": command, "facts": facts, "answers": [each._asdict() for each in found]}
            path.write_text(json.dumps(summary, indent=1))
        say(f"{self.name}: runs of {duration(sweep.seconds)}; the page is {self.folder / 'study.html'}")
        return found

    def _spec(self) -> SweepSpec:
        with as_file(files("crossprop.study") / f"{self.name}{'-full' * self.full}.toml") as path:
            flags = {"seeds": self.seeds, "evaluate": self.evaluate, "store": self.folder / "sweep"}
            spec = read_spec(path, **flags, engine=self.engine)
        return self._quick(spec) if self.quick else spec

    def _quick(self, spec: SweepSpec) -> SweepSpec:
        plain = [grid.name for grid in spec.header.grids if optimizer_of(grid.learner) == "sgd"]
        learners = {name: spec.learners[name] for name in plain}
        over = {name: values for name, values in spec.over.items() if not isinstance(values, dict)}
        over = {axis: values[:1] for axis, values in over.items()} | QUICK
        own = {
            grid.name: {"step_size": grid.over["step_size"][:2]} for grid in spec.header.grids if grid.name in learners
        }
        seeds = list(range(self.seeds or 2))
        few = replace(spec, seeds=seeds, evaluate=self.evaluate or 3, record_every=6)
        return replace(few, learners=learners, over=over | own)

    def _facts(self, spec: SweepSpec, sweep: Sweep) -> dict[str, str]:
        stream, network = spec.stream, next(iter(spec.learners.values())).network
        settings = sum(len(swept.grid.points) for swept in sweep.learners.values())
        assert isinstance(stream, Geoff | LabelShift)
        examples = QUICK["stream.examples"][0] if self.quick else stream.steps // len(stream.tasks)
        version = "full" if self.full else "quick" if self.quick else "default"
        seeds = len(next(iter(sweep.learners.values())).grid.seeds)
        reduced = "" if self.full else "; --full has the paper's sizes, wider grids and more seeds"
        return {
            "version": version + reduced,
            "stream": f"{type(stream).__name__}, tasks {stream.tasks}, {examples:,} examples per task",
            "hidden units": str(QUICK["network.hidden"][0] if self.quick else network.hidden),
            "grid": f"{settings:,} settings in total, {seeds} seed{'s' * (seeds > 1)} each",
            "evaluation": f"{sweep.best.sizes['seed']} fresh seeds of each learner's best setting",
            "time": duration(sweep.seconds),
            "device": f"{jax.devices()[0].device_kind}, {cores()} cores",
            "versions": f"crossprop {__version__}, jax {jax.__version__}, python {platform.python_version()}",
        }
