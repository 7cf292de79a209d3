"""Reruns any paper: its experiments, its figures, the verdicts on its claims, and a report on one page."""

import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crossprop import datasets
from crossprop._support.extras import require
from crossprop._support.files import atomic_write, check_writable
from crossprop._support.formats import listed, plural
from crossprop._version import __version__
from crossprop.datasets import DataSet
from crossprop.experiments.facts import engine_words, machine
from crossprop.experiments.questions import Answer, answers_on, claims_json, conclusions
from crossprop.library.paper import Paper, Size, Version
from crossprop.library.plans import Plan
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.reproduce.page import Story, write_report
from crossprop.streams.over_data import OverData

if TYPE_CHECKING:
    import xarray


def rerun(
    paper: Paper,
    parts: Collection[str],
    version: Version,
    folder: "Folder",
    *,
    command: str,
    about: Mapping[str, str],
    facts: Mapping[str, str],
) -> list[Answer]:
    """Runs every experiment of `parts` that is not done yet, then writes the figures, the claims and the page.

    The page shows `command` and `facts`; claims.json holds `about`.
    """
    require("crossprop reproduce", "matplotlib", "plotly", "jinja2", extra="paper")
    folder.check()
    plans = [plan(version) for name, plan in paper.plans.items() if name in parts]
    folder.check(plans)
    records = {plan.name: folder.run(plan) for plan in plans}
    drawn = {plan.name: plan.drawn(records[plan.name]) for plan in plans}
    for plan in plans:
        plan.save(drawn[plan.name], folder.figures(), "  (quick version)" * version.is_quick)
    answers = answers_on(paper.claims, records)
    with atomic_write(folder.path / "claims.json") as path:
        said = {"crossprop": __version__, **about, "quick": version.is_quick, "command": command}
        path.write_text(json.dumps(said | {"claims": claims_json(answers)}, indent=1, allow_nan=False))
    shown = [plan for plan in plans if plan.measure is None]
    results = [(plan, records[plan.name], drawn[plan.name]) for plan in plans]
    concluded = conclusions(answers, _what(paper, version, shown), paper.leads, paper.own)
    write_report(
        folder.path / "report.html",
        story=Story(paper.title, paper.intro, concluded, paper.headline(answers), paper.terms, paper.own),
        experiments=[each for each in results if each[0] in shown],
        features=next((each for each in results if each[0] not in shown), None),
        answers=answers,
        command=command,
        quick=version.is_quick,
        facts=machine() | dict(facts) | _facts(plans, records),
        banner=paper.small if version.size == "small" else "",
    )
    return answers


def _what(paper: Paper, version: Version, plans: Sequence[Plan]) -> str:
    """What the conclusion is about: the version, and its seeds."""
    small = version.is_quick or (version.size == "small" and paper.small)
    by_seeds = {plan.seeds: plan for plan in plans}
    if len(by_seeds) > 1:
        seeds = [f"{plural(plan.seeds, 'seed')} on {plan.title}" for plan in plans]
    else:
        seeds = [plural(number, "seed") for number in by_seeds]
    return f"{'this small version' if small else 'this rerun'}{', with ' * bool(seeds)}{listed(seeds)}"


def _facts(plans: Sequence[Plan], records: "Mapping[str, xarray.Dataset]") -> dict[str, str]:
    """What a reader needs to judge the numbers: the engines and the data."""
    facts = {}
    here = machine()["device"]
    for name, each in records.items():
        if "engine" in each.attrs:
            on = each.attrs.get("device", "")
            elsewhere = f", on {on}" if on and on not in here else ""
            facts[f"engine, {name}"] = f"{engine_words(each.attrs['engine'])}{elsewhere}"
    for plan in plans:
        if isinstance(plan.stream, OverData):
            data = plan.stream.data
            images = "5,000 embedded images of MNIST" if data.name.startswith("mnist5k") else "the full MNIST"
            facts["data set"] = f"{images}, {len(data.y):,} training images"
    return facts


def mnist_for(size: Size, say: Say) -> Callable[[], DataSet]:
    """The images of a version: in the full one the full MNIST, if it is in the cache or can be fetched, else the
    embedded images."""
    from crossprop.datasets.mnist_files import MNIST

    @cache
    def mnist_or_embedded() -> DataSet:
        if not MNIST.is_cached():
            say("mnist: fetching the full data set")
            try:
                say(f"mnist: it came from {MNIST.fetch()}")
            except OSError as problem:
                say(f"mnist: the embedded 5,000 images stand in for the full set. {problem}")
                return datasets.mnist5k()
        return datasets.mnist()

    return mnist_or_embedded if size == "full" else datasets.mnist5k


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

    def check(self, plans: Sequence[Plan] = ()) -> None:
        """Raises a ValueError if nothing can be written, or if there are records of another experiment by that name."""
        check_writable("out", self.path)
        for plan in plans:
            if self._store(plan).exists():  # else the data of its stream would be hashed for nothing
                check_replaceable(self._store(plan), plan.experiment())

    def run(self, plan: Plan) -> "xarray.Dataset":
        """The records of a plan, run unless they are there."""
        path, saved = self._store(plan), self.path / f"{plan.name}.checkpoint"
        if path.exists() and not self.force:
            self.say(f"{plan.name}: done before, in {path}")
            return read_records(path)
        expected = plan.expected()
        self.say(f"{plan.name}: running. {expected}".rstrip(". ") + "." * bool(expected))
        began = time.perf_counter()
        records = plan.run(self.engine, saved if self.checkpoints else None)
        shutil.rmtree(saved, ignore_errors=True)
        seconds = time.perf_counter() - began
        records.attrs["seconds"] = round(seconds, 1)
        write_records(path, records)
        self.say(f"{plan.name}: done in {seconds:.1f} s")
        return records

    def figures(self) -> Path:
        """The folder of the figures."""
        (self.path / "figures").mkdir(exist_ok=True)
        return self.path / "figures"

    def _store(self, plan: Plan) -> Path:
        return self.path / f"{plan.name}.nc"
