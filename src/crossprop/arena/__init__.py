"""`crossprop arena`: every learner of a list, tuned on every stream by the same budget and judged on fresh seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.flags import QUIET, Unset
from crossprop._support.interrupts import interruptible
from crossprop.arena.answers import answers, conclusions
from crossprop.arena.observers import observers_of
from crossprop.arena.page import write_arena
from crossprop.arena.standing import results_of
from crossprop.arena.tables import write_arena_table
from crossprop.costs import Cost, kept_costs
from crossprop.experiments import SweepSpec
from crossprop.experiments.experiment import Experiment, read_experiment
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import SweepResults
from crossprop.experiments.runner import Written, carry_out, check_flags, size_of
from crossprop.progress import Say

STEPS, REPEATS = 6000, 3
"""Steps and repeats of the runs that are timed."""


@dataclass(frozen=True)
class Arena:
    """Tune every learner of a list on every stream by the same budget, judge the best of each on fresh seeds, and
    answer on one page: where does the credit matter, where the step, where the replacement, and do they add up?

    A grid whose best setting is at its edge is widened. What is in the output folder already is not run again, so the
    same command continues after Ctrl-C.

    Examples:
      crossprop arena
      crossprop arena digits geoff --out two-streams
      crossprop arena --show > my.toml
      crossprop arena --list my.toml
    """

    streams: Annotated[Positional[tuple[str, ...]], QUIET, arg(metavar="[STREAM ...]")] = ()
    """Streams of the list, by name; none are all."""
    file: Annotated[Unset[Path], arg(name="list", metavar="FILE.toml")] = None
    """Learners, streams, grids and budget in TOML; default: the list that --show prints."""
    out: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder for the records, the tables and arena.html; default: arena."""
    full: bool = False
    """Take the list's size meant for a GPU: longer streams, larger networks, finer grids, more seeds."""
    quick: bool = False
    """Take the list's tiny size, which only shows that everything works."""
    show: bool = False
    """Print the list, with all of its sizes, instead of running it."""
    seeds: Unset[int] = None
    """Number of seeds to tune on; default: as the list has it."""
    evaluate: Unset[int] = None
    """Number of fresh seeds to judge on; default: as the list has it."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""

    def __post_init__(self):
        check_flags(self)

    @property
    def folder(self) -> Path:
        """Where the arena is written: `out`, or its default."""
        return self.out or Path("arena")

    @property
    def text(self) -> str:
        """The list, as `show` prints it."""
        with self._file() as path:
            return path.read_text()

    def _file(self) -> Any:
        return as_file(files("crossprop.library") / "arena.toml" if self.file is None else self.file)

    @interruptible()
    def run(self, say: Say, command: str = "crossprop arena") -> list[Answer]:
        """Tunes, judges, and writes the tables and the page, which shows `command`."""
        require("crossprop arena", "matplotlib", "plotly", "jinja2", extra="paper")
        check_writable("out", self.folder)
        flags = {"seeds": self.seeds, "evaluate": self.evaluate, "engine": self.engine}
        with self._file() as path:
            arena = read_arena(path, self.folder / "sweeps", size_of(self), self.streams, **flags)
        return carry_out(arena, self.folder, partial(self._write, arena, command), say=say, command=command)

    def _write(
        self, arena: Experiment, command: str, sweeps: dict[str, SweepResults], facts: dict[str, str]
    ) -> Written:
        costs = {name: self._costs(name, stage.spec, sweeps[name]) for name, stage in arena.stages.items()}
        learners = next(iter(arena.stages.values())).spec.learners
        own = [name for name, each in learners.items() if type(each).__module__.partition(".")[0] != "crossprop"]
        own = [name for name in own if name != arena.reference]
        titles = {name: stage.title for name, stage in arena.stages.items()}
        results = results_of(arena.reference, titles, sweeps, costs, own)
        found = answers(results)
        said = conclusions(results, found)
        page = self.folder / "arena.html"
        write_arena_table(results, sweeps, self.folder / "table.csv")
        write_arena(page, results, sweeps, found, said, command=command, facts=facts, quick=self.quick)
        return Written(page, found, {"conclusions": said})

    def _costs(self, name: str, spec: SweepSpec, sweep: SweepResults) -> dict[str, Cost]:
        """The cost of every learner at its best setting, without probes; measured once."""
        steps, repeats = min(STEPS, spec.steps or STEPS), 1 if self.quick else REPEATS
        path = self.folder / "costs" / f"{name}.json"
        return kept_costs(path, sweep.built(spec), spec.stream, steps=steps, repeats=repeats, engine=self.engine)


def read_arena(
    path: Path, folder: Path, size: str | None = None, streams: Sequence[str] = (), **flags: Any
) -> Experiment:
    """The arena that a list describes, with a stage for each stream, whose sweep is kept in `folder`."""
    store = lambda name: folder / name
    arena = read_experiment(path, store, size=size, stages=streams, called="streams", observe=observers_of, **flags)
    for stage in arena.stages.values():
        check.choice(f"reference in {path}", arena.reference, stage.spec.learners)
    return arena
