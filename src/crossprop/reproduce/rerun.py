"""`crossprop reproduce NAME`: reruns a paper, draws its figures, decides its claims, and writes a report."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from crossprop import _checks as check
from crossprop import datasets
from crossprop._extras import require
from crossprop._flags import QUIET, Unset
from crossprop._interrupts import interruptible
from crossprop.engines import ENGINES
from crossprop.formats import listed, plural
from crossprop.papers import dohare2024, elsayed2024, sutton1992
from crossprop.papers.paper import Paper, Version
from crossprop.papers.plans import Plan
from crossprop.papers.verdicts import Verdict
from crossprop.progress import Say
from crossprop.reproduce.folder import Folder, facts_of, mnist_or_embedded

PAPERS: dict[str, Paper] = {
    "sutton1992": sutton1992.PAPER,
    "dohare2024": dohare2024.PAPER,
    "elsayed2024": elsayed2024.PAPER,
}
"""The papers besides the crossprop paper, by name."""


@dataclass(frozen=True)
class Rerun:
    """Rerun a paper, redraw its figures, decide its claims, and write a report on one page.

    What is in the output folder already is not run again.
    """

    paper: str
    """The paper to rerun, by name."""
    parts: Annotated[Positional[tuple[str, ...]], QUIET, arg(metavar="[EXPERIMENT ...]")] = ()
    """Experiments to rerun; unset, all of them."""
    out: Unset[Path] = None
    """Folder for the records, the figures, claims.json and report.html; unset, the name of the paper."""
    full: Annotated[bool, FlagCreatePairsOff] = False
    """Run the paper's sizes, meant for a GPU; the default suits two cores, and says how it differs."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a tiny version, which only shows that everything works."""
    seeds: Unset[int] = None
    """Number of runs of each learner; unset, as the experiment defines it."""
    tasks: Unset[int] = None
    """Number of tasks of permuted MNIST, where a paper has it; unset, as the experiment defines it."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run experiments that are done already again."""

    def __post_init__(self):
        check.choice("paper", self.paper, PAPERS)
        check.choice("engine", self.engine, ("auto", *ENGINES))
        if self.full and self.quick:
            raise ValueError("full and quick must not both be given: they are two versions of one reproduction")
        for part in self.parts:
            check.choice("parts", part, tuple(PAPERS[self.paper].plans))
        for name in ("seeds", "tasks"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), low=1)
        if self.tasks is not None and not PAPERS[self.paper].takes_tasks:
            raise ValueError(f"tasks must not be given for {self.paper}, which has no permuted MNIST")

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.out or Path(self.paper)

    @interruptible()
    def run(self, say: Say, command: str = "") -> list[Verdict]:
        """Runs every experiment that is not done yet, then writes the figures, the claims and the page, which shows
        `command`."""
        paper = PAPERS[self.paper]
        require(f"crossprop reproduce {self.paper}", "matplotlib", "plotly", "jinja2", extra="paper")
        folder = Folder(self.folder, say, self.engine, self.force, checkpoints=self.full)
        folder.check({})
        version = self._version(say)
        plans = [plan(version) for name, plan in paper.plans.items() if not self.parts or name in self.parts]
        folder.check({plan.name: plan.experiment() for plan in plans})
        records = {plan.name: folder.run(plan) for plan in plans}
        note = "  (quick version)" if self.quick else ""
        for plan in plans:
            folder.draw(plan, records[plan.name], note)
        return folder.publish(
            paper,
            plans,
            records,
            what=self._what(paper, plans),
            about={
                "paper": self.paper,
                "version": version.size,
                "quick": self.quick,
                "command": command or f"crossprop reproduce {self.paper}",
            },
            facts=facts_of(records, {"paper": paper.source}, None),
            banner=paper.small if version.size == "small" else "",
        )

    def _version(self, say: Say) -> Version:
        if self.full:
            return Version("full", partial(mnist_or_embedded, say), self.seeds, self.tasks)
        return Version("quick" if self.quick else "small", datasets.mnist5k, self.seeds, self.tasks)

    def _what(self, paper: Paper, plans: list[Plan]) -> str:
        """What the conclusion is about."""
        what = "this small version" if self.quick or (paper.small and not self.full) else "this rerun"
        several = len({plan.seeds for plan in plans}) > 1
        seeds = listed(
            [f"{plural(plan.seeds, 'seed')}{f' of {plan.title}' * several}" for plan in plans[: None if several else 1]]
        )
        return f"{what}, with {seeds}"
