"""`crossprop study` and `crossprop arena`: their flags, and what they print."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop._support.files import check_writable
from crossprop._support.formats import upper_first
from crossprop.cli.console import command_line, say, wrap
from crossprop.cli.flags import QUIET, Unset, check_sizes
from crossprop.experiments.experiment import read_experiment, store_of
from crossprop.experiments.questions import Answer
from crossprop.experiments.study import publish_study
from crossprop.library.arena import publish_arena, read_arena
from crossprop.library.credit import publish_credit
from crossprop.library.standing import UNTUNED
from crossprop.library.study import answers, conclusions

CREDIT = "credit"
NAME_HELP = (
    "geoff: GEOFF with six tasks. mnist: label-shifted MNIST. deep: the same with two hidden layers. why: a fading "
    "step size beside foresight. approaches: three ways to features. prediction, atari: predictions over time, on "
    "small streams and on Atari. credit: the exact meta-gradient. Or a file of your own with learners, stream, grids "
    "and questions."
)
STUDIES = ("geoff", "mnist", "deep", "why", "approaches", "prediction", "atari", CREDIT)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The flags that a study and an arena share."""

    out: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder for the records, the tables, the figures and the page; default: arena, or study-geoff for geoff."""
    full: bool = False
    """Run the full version, which needs a GPU; the default suits a CPU, and says about how long it takes."""
    quick: bool = False
    """Run a tiny version, which only shows that everything works."""
    seeds: Unset[int] = None
    """Number of seeds to tune on (in the study credit, to run); default: that of the experiment's file."""
    evaluate: Unset[int] = None
    """Number of fresh seeds to judge the best settings on; default: that of the experiment's file."""
    engine: str = "auto"
    """How to execute the runs; auto chooses by device, sizes and rule."""

    def __post_init__(self):
        check_sizes(self, seeds=2, evaluate=2)

    @property
    def size(self) -> str | None:
        """The size that the flags ask for, None for the default."""
        return "full" if self.full else "quick" if self.quick else None

    @property
    def options(self) -> dict[str, Any]:
        """Overrides of the experiment's file."""
        return {"size": self.size, "seeds": self.seeds, "evaluate": self.evaluate, "engine": self.engine}


@dataclass(frozen=True)
class Study(Tuned):
    """Tune every credit rule with every optimizer, evaluate the best of each on fresh seeds, and answer on one page.

    A grid whose best setting is at its edge is widened. What is in the output folder already is not run again. The
    study credit tunes nothing: it compares the direction of every rule with the exact meta-gradient, in small networks.
    A TOML file is a study of your own.

    Examples:
      crossprop study geoff --out study-geoff
      crossprop study my.toml
    """

    name: Annotated[str, arg(metavar="STUDY or FILE.toml", help=NAME_HELP)]

    def __post_init__(self):
        super().__post_init__()
        if not self.name.endswith(".toml"):
            check.choice("name", self.name, STUDIES, "a file that ends in .toml")
        if self.name == CREDIT and (self.evaluate is not None or self.engine != "auto"):
            raise ValueError("evaluate and engine must not be given for the study credit, which tunes nothing")


@dataclass(frozen=True)
class Arena(Tuned):
    """Tune every learner of a list on every stream from grids of one size, judge the best of each on fresh seeds, and
    compare credit rules, optimizers and replacements of units on one page.

    A grid whose best setting is at its edge is widened. What is in the output folder already is not run again, so the
    same command continues after Ctrl-C.

    Examples:
      crossprop arena
      crossprop arena digits geoff --out two-streams
      crossprop arena --untuned
      crossprop arena data.csv --target price
      crossprop arena --show > my.toml
      crossprop arena --list my.toml
    """

    streams: Annotated[Positional[tuple[str, ...]], QUIET, arg(metavar="[STREAM ...]")] = ()
    """Streams of the list, by name, or CSV and Parquet files; default: all of the list."""
    target: Unset[str] = None
    """Column of the files to predict."""
    missing: Unset[str] = None
    """mean fills in missing values of the files by the mean of their column so far; default: they are an error."""
    file: Annotated[Unset[Path], arg(name="list", metavar="FILE.toml")] = None
    """Learners, streams, grids and budget in TOML; default: the list that --show prints."""
    untuned: bool = False
    """Tune nothing: every learner has its default settings on every stream. The page is in the folder untuned of --out;
    the same command without --untuned then adds what tuning gains."""
    show: bool = False
    """Print the list, with all of its sizes, instead of running it."""


def run_study(flags: Study) -> None:
    folder = flags.out or Path(f"study-{Path(flags.name).stem}")
    _check(folder, "crossprop study")
    own = flags.name.endswith(".toml")
    with _file(Path(flags.name) if own else None, f"studies/{flags.name}.toml") as path:
        experiment = read_experiment(path, partial(store_of, folder), **flags.options)
    if flags.name == CREDIT:
        found = publish_credit(experiment, folder, say, command=command_line(), version=flags.size or "default")
    else:
        about = {"command": command_line(), "quick": flags.quick}
        found = publish_study(experiment, folder, say, answers, conclusions, **about)
    _print_answers(found, flags.quick)


def run_arena(flags: Arena) -> None:
    with _file(flags.file, "arena.toml") as path:
        if flags.show:
            sys.stdout.write(path.read_text())
            return
        folder = flags.out or Path("arena")
        _check(folder, "crossprop arena")
        tables = {"target": flags.target, "missing": flags.missing}
        folder = folder / UNTUNED if flags.untuned else folder
        arena = read_arena(path, folder / "sweeps", flags.streams, tables, untuned=flags.untuned, **flags.options)
    for stage in arena.stages.values():
        if about := getattr(stage.spec.stream, "about", ""):
            wrap(about)
    _print_answers(publish_arena(arena, folder, say, command=command_line(), quick=flags.quick), flags.quick)


def _file(own: Path | None, name: str) -> AbstractContextManager[Path]:
    """A file of the user's own, or that of this name in the library."""
    return as_file(own or files("crossprop.library") / name)


def _check(folder: Path, command: str) -> None:
    require(command, "matplotlib", "plotly", "jinja2", extra="paper")
    check_writable("out", folder)


def _print_answers(answers: Sequence[Answer], quick: bool) -> None:
    if quick:
        wrap(
            "\nThis was the quick version: it shows that everything works and proves nothing. Its runs are too short "
            "and its seeds too few to answer these questions."
        )
    for each in answers:
        wrap(f"\n{each.question} {upper_first(each.verdict)}.\n{each.why}")
