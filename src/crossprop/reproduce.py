"""`crossprop reproduce`: reruns the paper, redraws its figures, decides its claims, and writes a report."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
from tyro.conf import FlagCreatePairsOff, Positional

from crossprop import _checks as check
from crossprop import datasets
from crossprop._extras import require
from crossprop._files import atomic_write, check_writable
from crossprop._interrupts import interruptible
from crossprop._version import __version__
from crossprop.datasets.base import DataSet
from crossprop.engines import ENGINES
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import expected_time
from crossprop.figures import paper_curves, paper_maps
from crossprop.formats import listed, plural
from crossprop.pages.facts import engine_words, machine
from crossprop.paper.claims import decide
from crossprop.paper.features import Mapping
from crossprop.paper.plans import PRESETS, Plan, geoff_plan, mnist_plan
from crossprop.paper.story import INTRO, TERMS, TITLE, conclusions, notes
from crossprop.paper.verdicts import Verdict, to_json
from crossprop.report import Headline, Part, Story, write_report
from crossprop.running import experiment, run
from crossprop.store import check_replaceable, read_records, write_records
from crossprop.streams import LabelShift

if TYPE_CHECKING:
    import xarray

PARTS = ("geoff", "mnist", "features")
LETTERS = {"geoff": "a", "mnist": "b"}
QUICK_SEEDS = 5
Say = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """Rerun the paper, redraw its figures, decide its claims, and write a report on one page.

    What is in the output folder already is not run again.

    Example: crossprop reproduce geoff --preset scripts --out reproduction
    """

    out: Path = Path("reproduction")
    """Folder for the records, the figures, claims.json and report.html."""
    parts: Positional[tuple[Literal["geoff", "mnist", "features"], ...]] = PARTS
    """Parts of the paper to rerun; unset, all of them."""
    preset: Literal["paper", "scripts"] = "paper"
    """Settings of the paper's text, or of the scripts that its authors published with it."""
    seeds: int | None = None
    """Number of runs of each learner on GEOFF; unset, the paper's 30, or 5 with --quick."""
    mnist_seeds: int | None = None
    """Number of runs of each learner on MNIST; unset, the paper's 1, or 5 with --quick."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Run a small version; every figure and table of it says so."""
    exact_mnist: bool | None = None
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

    @interruptible()
    def run(self, say: Say, command: str = "crossprop reproduce") -> list[Verdict]:
        """Runs every part that is not done yet, then writes the figures, the claims and the page, which shows
        `command`."""
        require("crossprop reproduce", "matplotlib", "plotly", "jinja2", extra="paper")
        if "features" in self.parts:
            require("crossprop reproduce features", "openTSNE", "sklearn", extra="paper")
        check_writable("out", self.out)
        data = self._data(say)
        plans = self._plans(data)
        mapping = self._mapping(data) if "features" in self.parts and data is not None else None
        for plan in plans:
            planned = experiment(plan.learners, plan.stream, plan.seed_list, plan.record_every)
            check_replaceable(self._store(plan.name), planned)
        if mapping is not None:
            check_replaceable(self._store("features"), mapping.experiment())
        records = {
            plan.name: self._stage(plan.name, lambda plan=plan: self._run(plan), say, _expected(plan)) for plan in plans
        }
        if mapping is not None:
            records["features"] = self._stage("features", mapping.run, say)
        return self._publish(plans, records, data, say, command)

    def _stage(self, name: str, make: Callable[[], "xarray.Dataset"], say: Say, expected: str = "") -> "xarray.Dataset":
        path = self._store(name)
        if path.exists() and not self.force:
            say(f"{name}: done before, in {path}")
            return read_records(path)
        say(f"{name}: running. {expected}".rstrip(". ") + "." * bool(expected))
        began = time.perf_counter()
        records = make()
        seconds = time.perf_counter() - began
        records.attrs["seconds"] = round(seconds, 1)
        write_records(path, records)
        say(f"{name}: done in {seconds:.1f} s")
        return records

    def _run(self, plan: Plan) -> "xarray.Dataset":
        return run(plan.learners, plan.stream, plan.seeds, plan.record_every, self.engine)

    def _publish(
        self, plans: list[Plan], records: dict[str, "xarray.Dataset"], data: DataSet | None, say: Say, command: str
    ) -> list[Verdict]:
        folder = self.out / "figures"
        folder.mkdir(exist_ok=True)
        note = "  (quick version)" if self.quick else ""
        for plan in plans:
            paper_curves(records[plan.name], LETTERS[plan.name], folder, scripts=self.preset == "scripts", note=note)
        if "features" in records:
            paper_maps(records["features"], folder, note)
        verdicts = decide(records.get("geoff"), records.get("mnist"), records.get("features"))
        with atomic_write(self.out / "claims.json") as path:
            path.write_text(json.dumps(self._claims(verdicts, command), indent=1, allow_nan=False))
        write_report(
            self.out / "report.html",
            story=self._story(plans, verdicts),
            parts=[self._part(plan, records[plan.name]) for plan in plans],
            features=records.get("features"),
            verdicts=verdicts,
            command=command,
            quick=self.quick,
            facts=self._facts(records, data),
        )
        say(f"report: {self.out / 'report.html'}")
        return verdicts

    def _part(self, plan: Plan, records: "xarray.Dataset") -> Part:
        return Part(plan.name, plan.title, records, plan.settings, records.attrs["seconds"], plan.about)

    def _story(self, plans: list[Plan], verdicts: list[Verdict]) -> Story:
        what = "this small version" if self.quick else "this rerun"
        seeds = [f"{plural(plan.seeds, 'seed')} on {plan.title}" for plan in plans]
        said = conclusions(verdicts, f"{what}{', with ' * bool(seeds)}{listed(seeds)}")
        top = Headline("geoff", "loss", "Crossprop, backprop and the control on GEOFF", notes(verdicts))
        return Story(TITLE, INTRO, said, top, TERMS)

    def _claims(self, verdicts: list[Verdict], command: str) -> dict[str, Any]:
        about = {"crossprop": __version__, "preset": self.preset, "quick": self.quick, "command": command}
        return about | {"claims": to_json(verdicts)}

    def _facts(self, records: dict[str, "xarray.Dataset"], data: DataSet | None) -> dict[str, str]:
        facts = machine() | {"preset": self.preset}
        for name, each in records.items():
            if "engine" in each.attrs:
                facts[f"engine, {name}"] = engine_words(each.attrs["engine"])
        if data is not None:
            full = "the full MNIST" if data.name == "mnist" else "5,000 embedded images of MNIST"
            facts["data set"] = f"{full}, {len(data.y):,} training images"
        return facts

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
        """The full MNIST if it is in the cache or can be fetched, else the embedded images."""
        if not {"mnist", "features"} & set(self.parts):
            return None
        if self.quick:
            return datasets.mnist5k()
        from crossprop.datasets.mnist_files import fetch, is_cached

        if not is_cached():
            say("mnist: fetching the full data set")
            try:
                say(f"mnist: it came from {fetch()}")
            except OSError as problem:
                say(f"mnist: the embedded 5,000 images stand in for the full set. {problem}")
                return datasets.mnist5k()
        return datasets.mnist()

    def _store(self, name: str) -> Path:
        return self.out / f"{name}.zarr"


def _expected(plan: Plan) -> str:
    """About how long a part takes."""
    return expected_time(sum(map(seconds_per_step, plan.learners.values())) * plan.seeds * (plan.stream.steps or 0))
