"""`crossprop reproduce`: reruns papers, redraws their figures, decides their claims, and writes a report on each."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

import jax
from rich.console import Console
from tyro.conf import FlagCreatePairsOff, Positional, arg

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop.cli.console import command_line, new_table, say, wrap
from crossprop.cli.flags import QUIET, Unset, check_sizes
from crossprop.experiments.rerun import fetched_mnist, rerun
from crossprop.library import PAPERS

FIRST = next(iter(PAPERS))
OF_SOME = ("tasks", "mnist_seeds", "exact_mnist", "preset")
"""Flags that only some papers have."""


@dataclass(frozen=True)
class Reproduce:
    """Rerun the crossprop paper, or another one by name: redraw its figures, decide its claims, and write a report on
    one page.

    What is in the output folder already is not run again. crossprop reproduce --list names the papers and their
    experiments.

    Examples:
      crossprop reproduce geoff --preset scripts --out reproduction
      crossprop reproduce sutton1992
    """

    what: Annotated[Positional[tuple[str, ...]], QUIET, arg(metavar="[PAPER] [EXPERIMENT ...]")] = ()
    """A paper and some of its experiments; default: all experiments of the crossprop paper."""
    list_papers: Annotated[bool, FlagCreatePairsOff, arg(name="list")] = False
    """Name the papers and their experiments, and run nothing."""
    out: Unset[Path] = None
    """Folder for the records, the figures and report.html; default: reproduction, or the name of another paper."""
    full: Annotated[bool, FlagCreatePairsOff] = False
    """Run the paper's sizes, which need a GPU. The crossprop paper always has them; others have smaller ones."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a small version; every figure and table of it says so."""
    seeds: Unset[int] = None
    """Number of runs of each learner, in the crossprop paper on GEOFF; default: that of the experiment."""
    mnist_seeds: Unset[int] = None
    """Number of runs of each learner of the crossprop paper on MNIST; default: 3, or 5 with --quick."""
    exact_mnist: Unset[bool] = None
    """Add exact and projected crossprop on MNIST, which the crossprop paper could not afford; default: on a GPU."""
    tasks: Unset[int] = None
    """Number of tasks of permuted MNIST, in papers that have it; default: that of the experiment."""
    preset: Unset[Literal["paper", "scripts"]] = None
    """Settings of the crossprop paper or of its authors' scripts, both with the paper's rules; default: paper."""
    engine: str = "auto"
    """How to execute the runs; auto chooses by device, sizes and rule."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run again also what is done already."""

    def __post_init__(self):
        check_sizes(self, seeds=1, mnist_seeds=1, tasks=1)
        if self.what and self.name not in self.what:
            check.choice("what to reproduce", self.what[0], [*PAPERS, *PAPERS[FIRST].plans])
        for part in self.parts:
            check.choice("experiments", part, PAPERS[self.name].plans)
        for name in OF_SOME:
            if getattr(self, name) is not None and name not in PAPERS[self.name].takes:
                raise ValueError(f"{name} must not be given for {self.name}, which has nothing of the kind")

    @property
    def name(self) -> str:
        """The name of the paper."""
        return self.what[0] if self.what and self.what[0] in PAPERS else FIRST

    @property
    def options(self) -> list[str]:
        """The options of the paper's file that apply."""
        exact = jax.default_backend() != "cpu" if self.exact_mnist is None else self.exact_mnist
        given = {"exact_mnist": exact, "scripts": self.preset == "scripts"}
        return [option for option, applies in given.items() if applies and option in PAPERS[self.name].options]

    @property
    def parts(self) -> tuple[str, ...]:
        """The experiments to rerun."""
        named = self.what[1:] if self.what and self.what[0] in PAPERS else self.what
        return named or tuple(PAPERS[self.name].plans)


def rerun_paper(flags: Reproduce) -> None:
    """Runs every experiment that is not done yet, then writes the figures, the claims and the page."""
    if flags.list_papers:
        _list_papers()
        return
    require("crossprop reproduce", "matplotlib", "plotly", "jinja2", extra="paper")
    paper = PAPERS[flags.name]
    out = flags.out or Path("reproduction" if flags.name == FIRST else flags.name)
    size = "full" if flags.full else "quick" if flags.quick else paper.size
    given = {name: getattr(flags, name) for name in ("seeds", "tasks", "mnist_seeds")}
    mnist = cache(partial(fetched_mnist, say))
    plans = [
        paper.plans[part](size, flags.options, full_set=mnist, **given) for part in paper.plans if part in flags.parts
    ]
    about = {"paper": flags.name, "version": size}
    if "preset" in paper.takes:
        about["preset"] = flags.preset or "paper"
    how = {"engine": flags.engine, "force": flags.force, "checkpoints": flags.full}
    answers = rerun(paper, plans, size, out, say, command=command_line(), about=about, **how)
    table = new_table("", "claim")
    table.add_column("verdict", min_width=max((len(each.verdict) for each in answers), default=0))
    for each in answers:
        table.add_row(each.id, each.question, each.verdict)
    Console().print(table)
    say(f"The report is {out / 'report.html'}.")
    if flags.quick:
        wrap("This was the quick version, smaller than the paper's settings: its verdicts prove nothing.")


def _list_papers() -> None:
    """Prints the papers that can be rerun, and their experiments."""
    table = new_table("command", "paper", "experiments")
    for name, paper in PAPERS.items():
        command = f"crossprop reproduce {name}" if name != FIRST else "crossprop reproduce"
        table.add_row(command, f"{paper.source}.", ", ".join(paper.plans))
    Console().print(table)
