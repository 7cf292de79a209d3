"""`crossprop reproduce` and `crossprop reproduce PAPER`: their flags."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

from crossprop._support import checks as check
from crossprop._support.flags import QUIET, Unset
from crossprop._support.interrupts import interruptible
from crossprop.engines import ENGINES
from crossprop.experiments.questions import Answer
from crossprop.library import dohare2024, elsayed2024, sutton1992, veeriah2017
from crossprop.library.paper import Paper, Size, Version
from crossprop.library.veeriah2017.plans import PRESETS
from crossprop.progress import Say
from crossprop.reproduce.runner import Folder, mnist_for, rerun

PAPERS: dict[str, Paper] = {
    "sutton1992": sutton1992.PAPER,
    "dohare2024": dohare2024.PAPER,
    "elsayed2024": elsayed2024.PAPER,
}
"""The papers besides the crossprop paper, by name."""
Part = Literal["geoff", "mnist", "features"]
PARTS: tuple[Part, ...] = ("geoff", "mnist", "features")
"""The parts of the crossprop paper."""


@dataclass(frozen=True)
class Reproduction:
    """Rerun the crossprop paper, or another one by name: redraw its figures, decide its claims, and write a report on
    one page.

    What is in the output folder already is not run again. crossprop reproduce --list names the other papers, and
    crossprop reproduce sutton1992 --help shows the flags for one of them.

    Example: crossprop reproduce geoff --preset scripts --out reproduction
    """

    out: Path = Path("reproduction")
    """Folder for the records, the figures, claims.json and report.html."""
    parts: Annotated[Positional[tuple[Part, ...]], QUIET, arg(metavar="[PART ...]")] = PARTS
    """Parts of the paper to rerun: geoff, mnist or features; default: all of them."""
    preset: Literal["paper", "scripts"] = "paper"
    """Settings of the paper's text, or of the scripts that its authors published with it. The rules are the paper's
    with both: the scripts have the other sign of eta's term in crossprop's memory."""
    seeds: Unset[int] = None
    """Number of runs of each learner on GEOFF; default: the paper's 30, or 5 with --quick."""
    mnist_seeds: Unset[int] = None
    """Number of runs of each learner on MNIST; default: the paper's 1, or 5 with --quick."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a small version; every figure and table of it says so."""
    exact_mnist: Unset[bool] = None
    """Add exact and projected crossprop on MNIST, which the paper could not afford; default: only on a GPU."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run parts that are done already again."""

    def __post_init__(self):
        check.choice("preset", self.preset, PRESETS)
        if not self.parts:
            raise ValueError(f"parts must not be empty: give some of {', '.join(PARTS)}")
        _check(self, PARTS, "seeds", "mnist_seeds")

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.out

    @interruptible()
    def run(self, say: Say, command: str = "crossprop reproduce") -> list[Answer]:
        """Runs every part that is not done yet, then writes the figures, the claims and the page, which shows
        `command`."""
        size: Size = "quick" if self.quick else "full"
        version = Version(
            size,
            mnist_for(size, say),
            self.seeds,
            mnist_seeds=self.mnist_seeds,
            exact_mnist=self.exact_mnist,
            preset=self.preset,
        )
        folder = Folder(self.folder, say, self.engine, self.force)
        preset = {"preset": self.preset}
        return rerun(veeriah2017.PAPER, self.parts, version, folder, command=command, about=preset, facts=preset)


@dataclass(frozen=True)
class Rerun:
    """Rerun a paper, redraw its figures, decide its claims, and write a report on one page.

    What is in the output folder already is not run again.
    """

    paper: str
    """The paper to rerun, by name."""
    parts: Annotated[Positional[tuple[str, ...]], QUIET, arg(metavar="[EXPERIMENT ...]")] = ()
    """Experiments to rerun; default: all of them."""
    out: Unset[Path] = None
    """Folder for the records, the figures, claims.json and report.html; default: the name of the paper."""
    full: Annotated[bool, FlagCreatePairsOff] = False
    """Run the paper's sizes, meant for a GPU; the default suits two cores, and says how it differs."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a tiny version, which only shows that everything works."""
    seeds: Unset[int] = None
    """Number of runs of each learner; default: as the experiment defines it."""
    tasks: Unset[int] = None
    """Number of tasks of permuted MNIST, where a paper has it; default: as the experiment defines it."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run experiments that are done already again."""

    def __post_init__(self):
        check.choice("paper", self.paper, PAPERS)
        if self.full and self.quick:
            raise ValueError("full and quick must not both be given: they are two versions of one reproduction")
        _check(self, PAPERS[self.paper].plans, "seeds", "tasks")
        if self.tasks is not None and not PAPERS[self.paper].takes_tasks:
            raise ValueError(f"tasks must not be given for {self.paper}, which has no permuted MNIST")

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.out or Path(self.paper)

    @interruptible()
    def run(self, say: Say, command: str = "") -> list[Answer]:
        """Runs every experiment that is not done yet, then writes the figures, the claims and the page, which shows
        `command`."""
        paper = PAPERS[self.paper]
        size: Size = "full" if self.full else "quick" if self.quick else "small"
        return rerun(
            paper,
            self.parts or paper.plans,
            Version(size, mnist_for(size, say), self.seeds, self.tasks),
            Folder(self.folder, say, self.engine, self.force, checkpoints=self.full),
            command=command or f"crossprop reproduce {self.paper}",
            about={"paper": self.paper, "version": size},
            facts={"paper": paper.source},
        )


def _check(flags: Reproduction | Rerun, parts: Collection[str], *numbers: str) -> None:
    check.choice("engine", flags.engine, ("auto", *ENGINES))
    for part in flags.parts:
        check.choice("parts", part, parts)
    for name in numbers:
        if getattr(flags, name) is not None:
            check.integer(name, getattr(flags, name), low=1)
