"""`crossprop arena`: every learner of a list, tuned on every stream by the same budget and judged on fresh seeds."""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.flags import QUIET, Unset
from crossprop._support.formats import duration, plural
from crossprop._support.interrupts import interruptible
from crossprop.arena.answers import answers, conclusions
from crossprop.arena.listing import Contest, read_listing
from crossprop.arena.page import write_arena
from crossprop.arena.standing import Results, results_of
from crossprop.arena.tables import write_arena_table
from crossprop.costs import Cost, kept_costs
from crossprop.engines import ENGINES
from crossprop.experiments.facts import machine
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import SweepResults, read_results
from crossprop.experiments.widening import announcements, fill_widening
from crossprop.pages.comparisons import write_answers
from crossprop.progress import Say

ROUNDS = 3
"""Most times that a grid is widened."""
RESOLUTION = 1.3
"""Step sizes around the best are at most this factor apart in the end."""
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
    """Take the list meant for a GPU: longer streams, larger networks, finer grids, more seeds."""
    quick: bool = False
    """Take a tiny list, which only shows that everything works."""
    show: bool = False
    """Print the list instead of running it."""
    seeds: Unset[int] = None
    """Number of seeds to tune on; default: as the list has it."""
    evaluate: Unset[int] = None
    """Number of fresh seeds to judge on; default: as the list has it."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""

    def __post_init__(self):
        check.choice("engine", self.engine, ("auto", *ENGINES))
        if sum((self.full, self.quick, self.file is not None)) > 1:
            raise ValueError("full, quick and list must not be given together: each stands for a list of its own")
        for name in ("seeds", "evaluate"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), low=2)

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
        version = "-full" * self.full + "-quick" * self.quick
        return as_file(files("crossprop.arena") / f"arena{version}.toml" if self.file is None else self.file)

    @interruptible()
    def run(self, say: Say, command: str = "crossprop arena") -> list[Answer]:
        """Tunes, judges, and writes the tables and the page, which shows `command`."""
        require("crossprop arena", "matplotlib", "plotly", "jinja2", extra="paper")
        check_writable("out", self.folder)
        flags = {"seeds": self.seeds, "evaluate": self.evaluate, "engine": self.engine}
        with self._file() as path:
            listing = read_listing(path, self.streams, self.folder / "sweeps", **flags)
        titles = {name: contest.title for name, contest in listing.contests.items()}
        sweeps: dict[str, SweepResults] = {}
        costs: dict[str, dict[str, Cost]] = {}
        for name, contest in listing.contests.items():
            spec = contest.spec
            assert spec.store is not None
            say(f"{name}: tuning {plural(len(spec.learners), 'learner')}, then {spec.evaluate} fresh seeds of the best")
            rounds, resolution = (0, None) if self.quick else (ROUNDS, RESOLUTION)
            blocks = fill_widening(spec, announcements(name, say), rounds=rounds, resolution=resolution)
            sweeps[name] = read_results(spec.store, blocks)
            costs[name] = self._costs(name, contest, sweeps[name])
        learners = next(iter(listing.contests.values())).spec.learners
        own = [name for name, each in learners.items() if type(each).__module__.partition(".")[0] != "crossprop"]
        own = [name for name in own if name != listing.reference]
        results = results_of(listing.reference, titles, sweeps, costs, own)
        return self._publish(results, listing.contests, sweeps, say, command)

    def _costs(self, name: str, contest: Contest, sweep: SweepResults) -> dict[str, Cost]:
        """The cost of every learner at its best setting, without probes; measured once."""
        spec = contest.spec
        steps, repeats = min(STEPS, spec.steps or STEPS), 1 if self.quick else REPEATS
        path = self.folder / "costs" / f"{name}.json"
        return kept_costs(path, sweep.built(spec), spec.stream, steps=steps, repeats=repeats, engine=self.engine)

    def _publish(
        self, results: Results, contests: dict[str, Contest], sweeps: dict[str, SweepResults], say: Say, command: str
    ) -> list[Answer]:
        found = answers(results)
        said = conclusions(results, found)
        facts = self._facts(contests, sweeps)
        write_arena_table(results, sweeps, self.folder / "table.csv")
        write_arena(
            self.folder / "arena.html", results, sweeps, found, said, command=command, facts=facts, quick=self.quick
        )
        write_answers(self.folder / "answers.json", found, command=command, facts=facts, conclusions=said)
        say(f"The runs took {facts['time']}. The page is {self.folder / 'arena.html'}.")
        return found

    def _facts(self, contests: dict[str, Contest], sweeps: dict[str, SweepResults]) -> dict[str, str]:
        specs = {name: contest.spec for name, contest in contests.items()}
        first = next(iter(specs.values()))
        budgets = {len(grid.points) for spec in specs.values() for grid in spec.header.grids}
        tried = [swept.tried for sweep in sweeps.values() for swept in sweep.learners.values()]
        each = str(budgets.pop()) if len(budgets) == 1 else f"{min(budgets)} to {max(budgets)}"
        networks = {name: next(iter(spec.learners.values())).network for name, spec in specs.items()}
        widened = (
            "; a grid whose best value was at its edge was widened, and step sizes around the best were tried until at "
            f"most a factor of {RESOLUTION} apart: {min(tried)} to {max(tried)} settings in all"
        )
        return {
            "budget": f"{each} settings of every learner on every stream, {plural(len(first.seeds), 'seed')} each"
            + widened * (not self.quick),
            "judged on": f"{first.evaluate} fresh seeds of each learner's best setting",
            **{
                f"stream {name}": f"{type(spec.stream).__name__}, {spec.steps or spec.stream.steps:,} examples, "
                f"{' and '.join(map(str, networks[name].hidden)) or 'no'} hidden units, {networks[name].activation}"
                for name, spec in specs.items()
            },
            "time": duration(sum(sweep.seconds for sweep in sweeps.values())),
        } | machine()
