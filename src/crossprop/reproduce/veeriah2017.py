"""`crossprop reproduce`: reruns the crossprop paper, redraws its figures, decides its claims, and writes a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import jax
from tyro.conf import FlagCreatePairsOff, Positional, arg

from crossprop import _checks as check
from crossprop import datasets
from crossprop._extras import require
from crossprop._flags import QUIET, Unset
from crossprop._interrupts import interruptible
from crossprop.datasets.base import DataSet
from crossprop.engines import ENGINES
from crossprop.figures import paper_curves, paper_maps
from crossprop.formats import listed, plural
from crossprop.papers.plans import Plan
from crossprop.papers.veeriah2017 import PAPER
from crossprop.papers.veeriah2017.features import Mapping
from crossprop.papers.veeriah2017.plans import PRESETS, geoff_plan, mnist_plan
from crossprop.papers.verdicts import Verdict
from crossprop.progress import Say
from crossprop.reproduce.folder import Folder, facts_of, mnist_or_embedded
from crossprop.streams import LabelShift

if TYPE_CHECKING:
    import xarray

Part = Literal["geoff", "mnist", "features"]
PARTS: tuple[Part, ...] = ("geoff", "mnist", "features")
LETTERS = {"geoff": "a", "mnist": "b"}
QUICK_SEEDS = 5


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
    parts: Annotated[
        Positional[tuple[Literal["geoff", "mnist", "features"], ...]], QUIET, arg(metavar="[PART ...]")
    ] = PARTS
    """Parts of the paper to rerun: geoff, mnist or features; unset, all of them."""
    preset: Literal["paper", "scripts"] = "paper"
    """Settings of the paper's text, or of the scripts that its authors published with it."""
    seeds: Unset[int] = None
    """Number of runs of each learner on GEOFF; unset, the paper's 30, or 5 with --quick."""
    mnist_seeds: Unset[int] = None
    """Number of runs of each learner on MNIST; unset, the paper's 1, or 5 with --quick."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a small version; every figure and table of it says so."""
    exact_mnist: Unset[bool] = None
    """Add exact and projected crossprop on MNIST, which the paper could not afford; unset, only on a GPU."""
    engine: str = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run parts that are done already again."""

    def __post_init__(self):
        check.choice("preset", self.preset, PRESETS)
        check.choice("engine", self.engine, ("auto", *ENGINES))
        if not self.parts:
            raise ValueError(f"parts must not be empty: give some of {', '.join(PARTS)}")
        for part in self.parts:
            check.choice("parts", part, PARTS)
        for name in ("seeds", "mnist_seeds"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), low=1)

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return self.out

    @interruptible()
    def run(self, say: Say, command: str = "crossprop reproduce") -> list[Verdict]:
        """Runs every part that is not done yet, then writes the figures, the claims and the page, which shows
        `command`."""
        require("crossprop reproduce", "matplotlib", "plotly", "jinja2", extra="paper")
        if "features" in self.parts:
            require("crossprop reproduce features", "openTSNE", "sklearn", extra="paper")
        folder = Folder(self.out, say, self.engine, self.force)
        folder.check({})
        data = self._data(say)
        plans = self._plans(data)
        mapping = self._mapping(data) if "features" in self.parts and data is not None else None
        folder.check({plan.name: plan.experiment() for plan in plans})
        if mapping is not None:
            folder.check({"features": mapping.experiment()})
        records = {plan.name: folder.run(plan) for plan in plans}
        if mapping is not None:
            records["features"] = folder.stage("features", mapping.run)
        what = "this small version" if self.quick else "this rerun"
        seeds = [f"{plural(plan.seeds, 'seed')} on {plan.title}" for plan in plans]
        self._draw(records, folder.figures())
        return folder.publish(
            PAPER,
            plans,
            records,
            what=f"{what}{', with ' * bool(seeds)}{listed(seeds)}",
            about={"preset": self.preset, "quick": self.quick, "command": command},
            facts=facts_of(records, {"preset": self.preset}, data),
        )

    def _draw(self, records: dict[str, "xarray.Dataset"], figures: Path) -> None:
        note = "  (quick version)" if self.quick else ""
        for name, letter in LETTERS.items():
            if name in records:
                paper_curves(records[name], letter, figures, scripts=self.preset == "scripts", note=note)
        if "features" in records:
            paper_maps(records["features"], figures, note)

    def _plans(self, data: DataSet | None) -> list[Plan]:
        plans = []
        if "geoff" in self.parts:
            plans.append(geoff_plan(self.preset, self._number(self.seeds, 30), self.quick))
        if "mnist" in self.parts and data is not None:
            exact = jax.default_backend() != "cpu" if self.exact_mnist is None else self.exact_mnist
            plans.append(mnist_plan(self.preset, self._number(self.mnist_seeds, 1), self.quick, data, exact))
        return plans

    def _number(self, given: int | None, paper: int) -> int:
        """Number of seeds: as given, or 5 in the quick version, or the paper's."""
        return given or (QUICK_SEEDS if self.quick else paper)

    def _mapping(self, data: DataSet) -> Mapping:
        """Standard MNIST, task A, in the network of the MNIST experiment."""
        plan = mnist_plan(self.preset, 1, self.quick, data, exact=False)
        assert isinstance(plan.stream, LabelShift)
        stream = LabelShift(data, tasks="A", examples=plan.stream.examples)
        return Mapping(plan.learners["frozen"].network, stream, 500 if self.quick else 2500)

    def _data(self, say: Say) -> DataSet | None:
        """MNIST, if a part needs it; in the quick version the embedded images."""
        if not {"mnist", "features"} & set(self.parts):
            return None
        return datasets.mnist5k() if self.quick else mnist_or_embedded(say)
