"""`crossprop study`: does crossprop credit or foresight help, with which optimizer and settings, and is it the right
credit? Or an experiment of one's own, from a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.flags import Unset
from crossprop._support.formats import plural
from crossprop._support.interrupts import interruptible
from crossprop.costs import Cost, kept_costs
from crossprop.experiments import SweepSpec
from crossprop.experiments.experiment import MAIN, Comparison, Experiment, read_experiment
from crossprop.experiments.findings import compare
from crossprop.experiments.questions import Answer, compared
from crossprop.experiments.results import SweepResults
from crossprop.experiments.runner import Written, carry_out, check_flags, size_of
from crossprop.experiments.sweep_page import draw
from crossprop.progress import Say
from crossprop.records import PHASES
from crossprop.study.answers import BACKPROP, Result, answers, best_of, rows_of
from crossprop.study.credit_page import publish_credit
from crossprop.study.page import draw_differences, write_study
from crossprop.study.tables import write_study_table

STEPS, REPEATS = 4000, 15
"""Steps and repeats of the runs that are timed."""


@dataclass(frozen=True)
class Study:
    """Tune every credit rule with every optimizer, evaluate the best of each on fresh seeds, and answer on one page.

    A grid whose best setting is at its edge is widened. What is in the output folder already is not run again. The
    study credit tunes nothing: it compares the direction of every rule with the exact meta-gradient, in small networks.
    A TOML file is a study of your own.

    Examples:
      crossprop study geoff --out study-geoff
      crossprop study my.toml
    """

    name: Annotated[str, arg(metavar="{geoff,mnist,deep,credit,FILE.toml}")]
    """GEOFF with six tasks, label-shifted MNIST, the same with two hidden layers, the exact meta-gradient, or a file
    with learners, stream, grids and questions."""
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
        if not self.name.endswith(".toml"):
            check.choice("name", self.name, (*STUDIES, "FILE.toml"))
        check_flags(self)
        if self.name == CREDIT and (self.evaluate is not None or self.engine != "auto"):
            raise ValueError("evaluate and engine must not be given for the study credit, which tunes nothing")

    @property
    def folder(self) -> Path:
        """Where the study is written: `out`, or its default."""
        return self.out or Path(f"study-{Path(self.name).stem}")

    @interruptible()
    def run(self, say: Say, command: str = "crossprop study") -> list[Answer]:
        """Tunes, evaluates, and writes the tables, the figures and the page, which shows `command`."""
        require("crossprop study", "matplotlib", "plotly", "jinja2", extra="paper")
        check_writable("out", self.folder)
        return STUDIES.get(self.name, tuned_study)(self, say, command)


def tuned_study(study: Study, say: Say, command: str) -> list[Answer]:
    """A study that a file describes: learners in one or more stages, each a column of its tables."""
    flags = {"seeds": study.seeds, "evaluate": study.evaluate, "engine": study.engine}
    with as_file(_file(study.name)) as file:
        experiment = read_experiment(file, partial(_store, study.folder), size=size_of(study), **flags)
    write = partial(_write, experiment, study, command)
    return carry_out(experiment, study.folder, write, say=say, command=command)


def exact_credit(study: Study, say: Say, command: str) -> list[Answer]:
    """The study that compares every rule with the exact meta-gradient."""
    return publish_credit(study.folder, size_of(study) or "default", study.seeds, say, command)


CREDIT = "credit"
STUDIES: dict[str, Callable[[Study, Say, str], list[Answer]]] = {
    "geoff": tuned_study,
    "mnist": tuned_study,
    "deep": tuned_study,
    CREDIT: exact_credit,
}
"""How each study is carried out, by its name."""


def _file(name: str) -> Any:
    return Path(name) if name.endswith(".toml") else files("crossprop.library") / "studies" / f"{name}.toml"


def _store(folder: Path, stage: str) -> Path:
    return folder / ("sweep" if stage == MAIN else f"sweep-{stage}")


def _write(
    experiment: Experiment, study: Study, command: str, results: dict[str, SweepResults], facts: dict[str, str]
) -> Written:
    folder, page = study.folder, study.folder / "study.html"
    columns = {name: Result(experiment.stages[name].title, sweep, rows_of(sweep)) for name, sweep in results.items()}
    main, first = next(iter(columns.items()))
    costs = _costs(experiment, study, main, first)
    found = asked(experiment.questions, columns) if experiment.questions else answers(columns, costs)
    write_study_table(columns, costs, folder / "table.csv")
    for name, (title, sweep, rows) in columns.items():
        figures = folder / f"figures{f'-{name}' * (name != main)}"
        figures.mkdir(exist_ok=True)
        draw(sweep, figures)
        if any(BACKPROP in row.versus for row in rows):
            note = f"\n{title}{'  (quick version)' * study.quick}"
            draw_differences(rows, sweep.measure, figures / "differences.png", note)
    ran = f"{experiment.intro} Here: {_in_words(experiment.stages[main].spec)}; {facts['judged on']}.".strip()
    title = experiment.title
    write_study(page, title, columns, costs, found, ran=ran, command=command, facts=facts, quick=study.quick)
    return Written(page, found)


def _in_words(spec: SweepSpec) -> str:
    network, tasks = next(iter(spec.learners.values())).network, getattr(spec.stream, "tasks", None)
    hidden = " and ".join(map(str, network.hidden)) or "no"
    letters = f", tasks {tasks}" if isinstance(tasks, str) else ""
    return (
        f"{plural(len(spec.learners), 'learner')} with {hidden} hidden units on {type(spec.stream).__name__}{letters}"
    )


def _costs(experiment: Experiment, study: Study, stage: str, result: Result) -> dict[str, Cost]:
    """The cost of every rule with plain steps, or of all learners if none has them, at its best setting."""
    spec = experiment.stages[stage].spec
    plain = [row.learner for row in result.rows if row.optimizer == "sgd"] or [*spec.learners]
    learners = {name: each for name, each in result.sweep.built(spec).items() if name in plain}
    steps, repeats = (60, 1) if study.quick else (STEPS, REPEATS)
    path = study.folder / "costs.json"
    return kept_costs(path, learners, spec.stream, steps=steps, repeats=repeats, engine=study.engine)


def asked(questions: Sequence[Comparison], columns: Mapping[str, Result]) -> list[Answer]:
    """The answers to the questions of a file. Among several learners one is chosen on the tuning seeds; all numbers are
    from fresh seeds."""
    found = []
    for question in questions:
        result = columns[question.stage]
        best = best_of([row for row in result.rows if row.learner in question.learners])
        values = result.sweep.evaluation.values(question.phase)
        findings = compare(values, {best.learner: question.against}) if best else []
        noun = f"error {PHASES[question.phase]}"
        found.append(compared(question.id, question.asks, findings, noun, of=question.stage))
    return found
