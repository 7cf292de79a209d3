"""`crossprop study`: does crossprop credit or foresight help, with which optimizer and settings, and is it the right
credit?"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.flags import Unset
from crossprop._support.formats import duration, plural
from crossprop._support.interrupts import interruptible
from crossprop.costs import Cost, kept_costs
from crossprop.engines import ENGINES
from crossprop.experiments import SweepSpec
from crossprop.experiments.facts import machine
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import read_results
from crossprop.experiments.sweep_page import draw
from crossprop.experiments.widening import announcements, fill_widening
from crossprop.pages.comparisons import write_answers
from crossprop.progress import Say
from crossprop.streams import Geoff, LabelShift
from crossprop.study.answers import Result, answers, rows_of
from crossprop.study.columns import MAIN, Column, columns_of, spec_of
from crossprop.study.credit_page import publish_credit
from crossprop.study.page import draw_differences, write_study
from crossprop.study.tables import write_study_table

STUDIES = {
    "geoff": "Does crossprop credit help? GEOFF with six tasks",
    "mnist": "Does crossprop credit help? Label-shifted MNIST",
    "deep": "Does foresight help in deep networks? Label-shifted MNIST",
    "credit": "Is it the right credit? Every rule beside the exact meta-gradient",
}
STEPS, REPEATS = 4000, 15
"""Steps and repeats of the runs that are timed."""
ROUNDS = 4
"""Most times that a grid is widened."""
RESOLUTION = {"default": 1.5, "full": 1.2}
"""Both step sizes around the best are at most this factor apart in the end: rules with hyperparameters of their own,
which have many settings, and those without then find them equally well."""


@dataclass(frozen=True)
class Study:
    """Tune every credit rule with every optimizer, evaluate the best of each on fresh seeds, and answer on one page.

    A grid whose best setting is at its edge is widened. What is in the output folder already is not run again. The
    study credit tunes nothing: it compares the direction of every rule with the exact meta-gradient, in small networks.

    Example: crossprop study geoff --out study-geoff
    """

    name: Literal["geoff", "mnist", "deep", "credit"]
    """GEOFF with six tasks, label-shifted MNIST, the same with two hidden layers, or the exact meta-gradient."""
    out: Unset[Path] = None
    """Folder for the records, the tables, the figures and study.html; default: study-geoff and so on by name."""
    full: bool = False
    """Run the full version, meant for a GPU; the default version suits a CPU, and says about how long it takes."""
    quick: bool = False
    """Run a tiny version with one optimizer, which only shows that everything works."""
    seeds: Unset[int] = None
    """Number of seeds to tune on, or in credit to run; default: as the study defines it."""
    evaluate: Unset[int] = None
    """Number of fresh seeds to evaluate on; default: 60 for GEOFF, 10 for MNIST and 20 for deep."""
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
        if self.name == "credit" and (self.evaluate is not None or self.engine != "auto"):
            raise ValueError("evaluate and engine must not be given for the study credit, which tunes nothing")

    @property
    def folder(self) -> Path:
        """Where the study is written: `out`, or its default."""
        return self.out or Path(f"study-{self.name}")

    @property
    def _version(self) -> str:
        return "full" if self.full else "quick" if self.quick else "default"

    @interruptible()
    def run(self, say: Say, command: str = "crossprop study") -> list[Answer]:
        """Tunes, evaluates, and writes the tables, the figures and the page, which shows `command`."""
        require("crossprop study", "matplotlib", "plotly", "jinja2", extra="paper")
        if self.name == "credit":
            check_writable("out", self.folder)
            return publish_credit(self.folder, STUDIES[self.name], self._version, self.seeds, say, command)
        with as_file(files("crossprop.study") / f"{self.name}{'-full' * self.full}.toml") as file:
            columns = columns_of(self.name, file)
            specs = {name: self._spec(column, file, name) for name, column in columns.items()}
        check_writable("out", self.folder)
        results: dict[str, Result] = {}
        for name, spec in specs.items():
            say(
                f"{self.name}, {columns[name].title}: tuning {len(spec.learners)} learners, then running the best "
                f"setting of each on {spec.evaluate} fresh seeds"
            )
            rounds, resolution = (0, None) if self.quick else (ROUNDS, RESOLUTION[self._version])
            blocks = fill_widening(spec, announcements(self.name, say), rounds=rounds, resolution=resolution)
            assert spec.store is not None
            sweep = read_results(spec.store, blocks)
            results[name] = Result(columns[name].title, sweep, rows_of(sweep))
        return self._publish(specs[MAIN], results, say, command)

    def _spec(self, column: Column, file: Path, name: str) -> SweepSpec:
        flags = {"seeds": self.seeds, "evaluate": self.evaluate, "engine": self.engine}
        if self.quick:
            flags |= {"seeds": self.seeds or 2, "evaluate": self.evaluate or 3, "record_every": 6}
        store = self.folder / ("sweep" if name == MAIN else f"sweep-{name}")
        return spec_of(column, file, store, quick=self.quick, **flags)

    def _publish(self, spec: SweepSpec, results: Mapping[str, Result], say: Say, command: str) -> list[Answer]:
        costs = self._costs(spec, results[MAIN])
        found = answers(results, costs)
        write_study_table(results, costs, self.folder / "table.csv")
        for name, (title, sweep, rows) in results.items():
            figures = self.folder / ("figures" if name == MAIN else f"figures-{name}")
            figures.mkdir(exist_ok=True)
            draw(sweep, figures)
            note = f"\n{title}{'  (quick version)' * self.quick}"
            draw_differences(rows, sweep.measure, figures / "differences.png", note)
        facts = self._facts(spec, results)
        page, title = self.folder / "study.html", STUDIES[self.name]
        learners = f"{plural(len(spec.learners), 'learner')} with {facts['hidden units']} hidden units"
        ran = f"Here: {learners} on {facts['stream']}; {facts['grid']}, then {facts['evaluation']}."
        write_study(page, title, results, costs, found, ran=ran, command=command, facts=facts, quick=self.quick)
        write_answers(self.folder / "answers.json", found, command=command, facts=facts)
        say(f"The runs took {facts['time']}. The page is {page}.")
        return found

    def _costs(self, spec: SweepSpec, main: Result) -> dict[str, Cost]:
        """The cost of every rule with plain steps, at its best setting; measured once."""
        plain = {row.learner for row in main.rows if row.optimizer == "sgd"}
        learners = {name: each for name, each in main.sweep.built(spec).items() if name in plain}
        steps, repeats = (60, 1) if self.quick else (STEPS, REPEATS)
        path = self.folder / "costs.json"
        return kept_costs(path, learners, spec.stream, steps=steps, repeats=repeats, engine=self.engine)

    def _facts(self, spec: SweepSpec, results: Mapping[str, Result]) -> dict[str, str]:
        stream, network = spec.stream, next(iter(spec.learners.values())).network
        swept = [each for result in results.values() for each in result.sweep.learners.values()]
        assert isinstance(stream, Geoff | LabelShift)
        reduced = "" if self.full else "; --full has larger networks, longer tasks and wider grids"
        factor = RESOLUTION.get(self._version)
        refined = f", among them step sizes around the best, at most a factor of {factor} apart" if factor else ""
        return {
            "version": self._version + reduced,
            "stream": f"{type(stream).__name__}, tasks {stream.tasks}, {stream.steps // len(stream.tasks):,} examples "
            "per task",
            "hidden units": " and ".join(map(str, network.hidden)),
            "grid": f"{sum(each.tried for each in swept):,} settings in total, "
            f"{plural(len(swept[0].grid.seeds), 'seed')} each{refined}",
            "evaluation": f"{results[MAIN].sweep.best.sizes['seed']} fresh seeds of each learner's best setting",
            "time": duration(sum(result.sweep.seconds for result in results.values())),
        } | machine()
