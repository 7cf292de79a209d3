"""The output folder of a reproduction: the records of each experiment, figures, claims.json and report.html."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop import datasets
from crossprop._files import atomic_write, check_writable
from crossprop._version import __version__
from crossprop.datasets.base import DataSet
from crossprop.figures import along_setting, experiment_curves
from crossprop.pages.facts import engine_words, machine
from crossprop.papers.paper import Paper
from crossprop.papers.plans import Plan
from crossprop.papers.story import conclusions
from crossprop.papers.verdicts import Verdict, to_json, verdicts_on
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.report import Story, write_report
from crossprop.running import run

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Folder:
    """Where a reproduction keeps what it did: experiments whose records are there already are not run again, unless by
    `force`."""

    path: Path
    say: Say
    engine: str
    force: bool
    checkpoints: bool = False
    """Whether runs are saved from time to time, so that the same command goes on after a crash."""

    def check(self, experiments: Mapping[str, dict[str, str]]) -> None:
        """Raises a ValueError if nothing can be written, or if there are records of another experiment by that name."""
        check_writable("out", self.path)
        for name, described in experiments.items():
            check_replaceable(self.store(name), described)

    def store(self, name: str) -> Path:
        """Where the records of an experiment are."""
        return self.path / f"{name}.zarr"

    def run(self, plan: Plan) -> "xarray.Dataset":
        """The records of a plan."""

        def make() -> "xarray.Dataset":
            saved = self.path / f"{plan.name}.checkpoint"
            further: dict[str, Any] = plan.observed | ({"checkpoint": saved} if self.checkpoints else {})
            records = run(plan.learners, plan.stream, plan.seeds, plan.record_every, self.engine, **further)
            shutil.rmtree(saved, ignore_errors=True)
            return records.assign_attrs(plan.experiment())

        return self.stage(plan.name, make, plan.expected())

    def stage(self, name: str, make: Callable[[], "xarray.Dataset"], expected: str = "") -> "xarray.Dataset":
        """The records of an experiment, made unless they are there."""
        path = self.store(name)
        if path.exists() and not self.force:
            self.say(f"{name}: done before, in {path}")
            return read_records(path)
        self.say(f"{name}: running. {expected}".rstrip(". ") + "." * bool(expected))
        began = time.perf_counter()
        records = make()
        seconds = time.perf_counter() - began
        records.attrs["seconds"] = round(seconds, 1)
        write_records(path, records)
        self.say(f"{name}: done in {seconds:.1f} s")
        return records

    def figures(self) -> Path:
        """The folder of the figures."""
        (self.path / "figures").mkdir(exist_ok=True)
        return self.path / "figures"

    def draw(self, plan: Plan, records: "xarray.Dataset", note: str) -> None:
        """Draws the charts of an experiment, as PNG and PDF."""
        for charts in plan.charts:
            stem = self.figures() / "-".join([plan.name, *charts.title.lower().split()])
            title = f"{charts.title or plan.title}{note}{', rings as published' * bool(charts.published)}"
            if charts.along is not None:
                along_setting(records, stem, title, charts.along, charts.published)
            else:
                experiment_curves(
                    charts.records(records), stem, title, charts.variables, charts.published, charts.linear
                )

    def publish(
        self,
        paper: Paper,
        plans: Sequence[Plan],
        records: "Mapping[str, xarray.Dataset]",
        *,
        what: str,
        about: Mapping[str, Any],
        facts: Mapping[str, str],
        banner: str = "",
    ) -> list[Verdict]:
        """Decides the claims, and writes claims.json and report.html, which conclude what holds in `what`. `about` says
        what was run: `quick`, `command` and more."""
        verdicts = verdicts_on(paper.claims, records)
        said = conclusions(verdicts, what, paper.leads, paper.own)
        with atomic_write(self.path / "claims.json") as path:
            claims = {"crossprop": __version__, **about, "claims": to_json(verdicts)}
            path.write_text(json.dumps(claims, indent=1, allow_nan=False))
        write_report(
            self.path / "report.html",
            story=Story(paper.title, paper.intro, said, paper.headline(verdicts), paper.terms),
            experiments=[(plan, records[plan.name]) for plan in plans],
            features=records.get("features"),
            verdicts=verdicts,
            command=about["command"],
            quick=about["quick"],
            facts=facts,
            banner=banner,
        )
        return verdicts


def facts_of(records: "Mapping[str, xarray.Dataset]", given: Mapping[str, str], data: DataSet | None) -> dict[str, str]:
    """What a reader needs to judge the numbers: the machine, what was `given`, the engines and the data."""
    facts = machine() | dict(given)
    for name, each in records.items():
        if "engine" in each.attrs:
            on = each.attrs.get("device", "")
            elsewhere = f", on {on}" if on and on not in facts["device"] else ""
            facts[f"engine, {name}"] = f"{engine_words(each.attrs['engine'])}{elsewhere}"
    if data is not None:
        full = "the full MNIST" if data.name == "mnist" else "5,000 embedded images of MNIST"
        facts["data set"] = f"{full}, {len(data.y):,} training images"
    return facts


def mnist_or_embedded(say: Say) -> DataSet:
    """The full MNIST if it is in the cache or can be fetched, else the embedded images."""
    from crossprop.datasets.mnist_files import MNIST

    if not MNIST.is_cached():
        say("mnist: fetching the full data set")
        try:
            say(f"mnist: it came from {MNIST.fetch()}")
        except OSError as problem:
            say(f"mnist: the embedded 5,000 images stand in for the full set. {problem}")
            return datasets.mnist5k()
    return datasets.mnist()
