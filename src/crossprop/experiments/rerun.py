"""Reruns a paper: its experiments, its figures, the verdicts on its claims, and a report on one page."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crossprop import datasets
from crossprop._support.extras import require
from crossprop._support.files import atomic_write, check_writable
from crossprop._support.formats import listed, plural
from crossprop._version import __version__
from crossprop.datasets import DataSet
from crossprop.experiments import figures
from crossprop.experiments.facts import engine_words, machine
from crossprop.experiments.papers import Paper, Plan, Size, Version
from crossprop.experiments.questions import Answer, answers_on, claims_json, conclusions
from crossprop.experiments.report import write_report
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.streams.over_data import OverData

if TYPE_CHECKING:
    import xarray


def rerun(
    paper: Paper,
    parts: Sequence[str],
    version: Version,
    folder: Path,
    say: Say,
    *,
    engine: str,
    force: bool,
    command: str,
    about: Mapping[str, str],
    checkpoints: bool = False,
) -> list[Answer]:
    """Runs every experiment of `parts` that is not in the folder yet, or all by `force`, then writes the figures, the
    claims and the page, which shows `command`. claims.json says what the rerun is `about`. With `checkpoints`, runs are
    saved from time to time, so that the same command goes on after a crash."""
    require("crossprop reproduce", "matplotlib", "plotly", "jinja2", extra="paper")
    check_writable("out", folder)
    plans = [plan(version) for name, plan in paper.plans.items() if name in parts]
    stores = [folder / f"{plan.name}.nc" for plan in plans]
    for plan, store in zip(plans, stores, strict=True):
        if store.exists():  # else the data of its stream would be hashed for nothing
            check_replaceable(store, plan.experiment())
    done = []
    for plan, store in zip(plans, stores, strict=True):
        if store.exists() and not force:
            say(f"{plan.name}: done before, in {store}")
            done.append((plan, read_records(store)))
        else:
            checkpoint = folder / f"{plan.name}.checkpoint" if checkpoints else None
            done.append((plan, _records(plan, store, engine, say, checkpoint)))
    experiments = [(plan, records, plan.drawn(records)) for plan, records in done]
    (folder / "figures").mkdir(exist_ok=True)
    for plan, _, drawn in experiments:
        for drawing, charts in drawn:
            first = next(iter(charts.values()))
            rings = ", rings as published" * bool(first.rings)
            quick = "  (quick version)" * version.is_quick
            title = f"{drawing.title or plan.title}: {first.statistic}{quick}{rings}"
            file = drawing.file or "-".join([plan.name, *drawing.title.lower().split()])
            figures.save([*charts.values()], folder / "figures" / file, title, ".png", ".pdf")
    answers = answers_on(paper.claims, {plan.name: records for plan, records in done})
    with atomic_write(folder / "claims.json") as path:
        said = {"crossprop": __version__, **about, "quick": version.is_quick, "command": command}
        path.write_text(json.dumps(said | {"claims": claims_json(answers)}, indent=1, allow_nan=False))
    write_report(
        folder / "report.html",
        paper,
        conclusions(answers, _what(paper, version, plans), paper.leads, paper.own),
        experiments,
        answers,
        command=command,
        quick=version.is_quick,
        facts=machine() | {**about, "paper": paper.source} | _facts(done),
        banner=paper.small if version.size == "small" else "",
    )
    return answers


def _what(paper: Paper, version: Version, plans: Sequence[Plan]) -> str:
    """What the conclusion is about: the version, and its seeds."""
    small = version.is_quick or (version.size == "small" and paper.small)
    plans = [plan for plan in plans if plan.measure is None]
    by_seeds = {plan.seeds: plan for plan in plans}
    if len(by_seeds) > 1:
        seeds = [f"{plural(plan.seeds, 'seed')} on {plan.title}" for plan in plans]
    else:
        seeds = [plural(number, "seed") for number in by_seeds]
    return f"{'this small version' if small else 'this rerun'}{', with ' * bool(seeds)}{listed(seeds)}"


def _facts(done: "Sequence[tuple[Plan, xarray.Dataset]]") -> dict[str, str]:
    """What a reader needs to judge the numbers: the engines and the data."""
    facts, here = {}, machine()["device"]
    for plan, records in done:
        if "engine" in records.attrs:
            on = records.attrs.get("device", "")
            elsewhere = f", on {on}" if on and on not in here else ""
            facts[f"engine, {plan.name}"] = f"{engine_words(records.attrs['engine'])}{elsewhere}"
        if isinstance(plan.stream, OverData):
            data = plan.stream.data
            images = "5,000 embedded images of MNIST" if data.name.startswith("mnist5k") else "the full MNIST"
            facts["data set"] = f"{images}, {len(data.y):,} training images"
    return facts


def mnist_for(size: Size, say: Say) -> Callable[[], DataSet]:
    """The images of a version: in the full one the full MNIST, if it is in the cache or can be fetched, else the
    embedded images."""
    from crossprop.datasets.images import MNIST

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


def _records(plan: Plan, path: Path, engine: str, say: Say, checkpoint: Path | None) -> "xarray.Dataset":
    """Runs a plan, and writes its records to `path`."""
    expected = plan.expected()
    say(f"{plan.name}: running. {expected}".rstrip(". ") + "." * bool(expected))
    began = time.perf_counter()
    records = plan.run(engine, checkpoint)
    seconds = time.perf_counter() - began
    records.attrs["seconds"] = round(seconds, 1)
    write_records(path, records)
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
    say(f"{plan.name}: done in {seconds:.1f} s")
    return records
