"""Reruns a paper: its experiments, its figures, the verdicts on its claims, and `report.html` with all of that."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._support.files import atomic_write, check_writable
from crossprop._support.formats import duration, listed, plural
from crossprop._version import __version__
from crossprop.datasets.images import MNIST
from crossprop.experiments import figures
from crossprop.experiments.charts import Chart, examples_per_point, headline
from crossprop.experiments.facts import engine_words, machine
from crossprop.experiments.page import WORDS, Cell, Figure, Page, Section, Table, Text, conclusion
from crossprop.experiments.page import rerun as run_again
from crossprop.experiments.page.answers import claims_table
from crossprop.experiments.papers import Paper, Plan
from crossprop.experiments.questions import Answer, answers_on, claims_json, conclusions, tally
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.streams.over_data import OverData

if TYPE_CHECKING:
    import xarray

    Ran = tuple[Plan, xarray.Dataset, Sequence[tuple[Mapping[str, Any], Mapping[str, Chart]]]]
    """A plan, its records, and their figures with their charts by variable."""


def rerun(
    paper: Paper,
    plans: Sequence[Plan],
    size: str,
    folder: Path,
    say: Say,
    *,
    engine: str,
    force: bool,
    command: str,
    about: Mapping[str, str],
    checkpoints: bool = False,
) -> list[Answer]:
    """Runs every experiment of `plans` that is not in the folder yet, or all by `force`, then writes the figures, the
    claims and the page, which shows `command`. claims.json says what the rerun is `about`. With `checkpoints`, runs are
    saved from time to time, so that the same command goes on after a crash."""
    check_writable("out", folder)
    quick = size == "quick"
    stores = [folder / f"{plan.name}.nc" for plan in plans]
    for plan, store in zip(plans, stores, strict=True):
        if store.exists():  # else the data of its stream would be hashed for nothing
            check_replaceable(store, plan.experiment())
    found = []
    for plan, store in zip(plans, stores, strict=True):
        if store.exists() and not force:
            say(f"{plan.name}: done before, in {store}")
            records = read_records(store)
        else:
            checkpoint = folder / f"{plan.name}.checkpoint" if checkpoints else None
            records = _records(plan, store, engine, say, checkpoint)
        found.append((plan, records))
    done: list[Ran] = [(plan, records, plan.drawn(records)) for plan, records in found]
    (folder / "figures").mkdir(exist_ok=True)
    for plan, _, drawn in done:
        for figure, charts in drawn:
            name = figure.get("title", "")
            first = next(iter(charts.values()))
            rings = ", rings as published" * bool(first.rings)
            title = f"{name or plan.title}: {first.statistic}{'  (quick version)' * quick}{rings}"
            file = figure.get("file", "-".join([plan.name, *name.lower().split()]))
            figures.save([*charts.values()], folder / "figures" / file, title, ".png", ".pdf")
    answers = answers_on(paper.claims, {plan.name: records for plan, records, _ in done})
    with atomic_write(folder / "claims.json") as path:
        said = {"crossprop": __version__, **about, "quick": quick, "command": command}
        path.write_text(json.dumps(said | {"claims": claims_json(answers)}, indent=1, allow_nan=False))
    write_report(
        folder / "report.html",
        paper,
        conclusions(answers, _what(paper, size, plans), paper.leads, paper.own),
        done,
        answers,
        command=command,
        quick=quick,
        facts=machine() | {**about, "paper": paper.source} | _facts(done),
        banner=paper.small if size == "small" else "",
    )
    return answers


def _what(paper: Paper, size: str, plans: Sequence[Plan]) -> str:
    """The subject of the conclusion: the version, and its seeds."""
    small = size == "quick" or (size == "small" and paper.small)
    counts = {plan.title: plural(len(plan.spec.seeds), "seed") for plan in plans if plan.measure is None}
    seeds = sorted({*counts.values()})
    if len(seeds) > 1:
        seeds = [f"{count} on {title}" for title, count in counts.items()]
    return f"{'this small version' if small else 'this rerun'}{', with ' * bool(seeds)}{listed(seeds)}"


def _facts(done: "Sequence[Ran]") -> dict[str, str]:
    """Context for the numbers: the engines and the data."""
    facts, here = {}, machine()["device"]
    for plan, records, _ in done:
        if "engine" in records.attrs:
            on = records.attrs.get("device", "")
            elsewhere = f", on {on}" if on and on not in here else ""
            facts[f"engine, {plan.name}"] = f"{engine_words(records.attrs['engine'])}{elsewhere}"
        if isinstance(plan.spec.stream, OverData):
            data = plan.spec.stream.data
            images = "5,000 embedded images of MNIST" if data.name.startswith("mnist5k") else "the full MNIST"
            facts["data set"] = f"{images}, {len(data.y):,} training images"
    return facts


def fetched_mnist(say: Say) -> bool:
    """Whether the full MNIST is in the cache or can be fetched; else the embedded images stand in."""
    if not MNIST.is_cached():
        say("mnist: fetching the full data set")
        try:
            say(f"mnist: it came from {MNIST.fetch()}")
        except OSError as problem:
            say(f"mnist: the embedded 5,000 images stand in for the full set. {problem}")
            return False
    return True


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


# The report.


def write_report(
    path: Path,
    paper: Paper,
    concluded: Sequence[str],
    experiments: "Sequence[Ran]",
    answers: Sequence[Answer],
    *,
    command: str,
    quick: bool,
    facts: Mapping[str, str],
    banner: str = "",
) -> None:
    """Writes the report of a reproduction to `path`, one self-contained file: what was `concluded`, in sentences to
    quote, the claims with the answers on them, and every experiment, whose records say in `seconds` how long they took.

    With `quick` every figure and table says that this is the small version; else `banner` is what the reader should
    know first.
    """
    top: list[Any] = _headline(paper.headline(answers), experiments)
    top += [paper.terms] if paper.terms else []
    sections = [conclusion(concluded, *top), _claims(answers, paper.own), *map(_experiment, experiments)]
    sections.append(run_again(command, facts, "What it ran on"))
    Page(paper.title, paper.intro, sections, WORDS["quick_paper"] if quick else banner, quick).write(path)


def _headline(wanted: Mapping[str, Any] | None, experiments: "Sequence[Ran]") -> list[Figure]:
    """The chart at the top, if the report has its experiment."""
    if wanted is None:
        return []
    drawn = [charts for plan, _, drawn in experiments if plan.name == wanted["experiment"] for _, charts in drawn]
    found = [charts[wanted["variable"]] for charts in drawn if wanted["variable"] in charts]
    return [Figure.of(headline(each, wanted["notes"]), f"{wanted['title']}: {each.y.title}") for each in found[:1]]


def _claims(answers: Sequence[Answer], own: Sequence[str]) -> Section:
    """The claims of the paper and ours, with their verdicts."""
    if not answers:
        return Section("claims", "The claims", [Text("No claim was decided in this run.", muted=False)])
    kinds = {"Of the paper's claims": [each for each in answers if each.id not in own]}
    kinds["Of ours"] = [each for each in answers if each.id in own]
    said = [f"{words}, {listed(tally(shown))}." for words, shown in kinds.items() if shown]
    return Section(
        "claims", "The claims", [Text(" ".join(said), muted=False), Text(WORDS["claims"]), claims_table(answers)]
    )


def _experiment(experiment: "Ran") -> Section:
    """The section of an experiment: its run, charts and settings."""
    plan, records, drawn = experiment
    named = [(figure.get("title", ""), name, chart) for figure, charts in drawn for name, chart in charts.items()]
    if plan.table is not None:
        text, table = plan.table(records)
        maps = [Figure.of(chart, name, plan.name) for _, name, chart in named]
        return Section(plan.name, plan.title, [text, *maps, table])
    titles = [f"{title}: " * bool(title) + chart.title for title, _, chart in named]
    figures = [Figure.of(chart, title, plan.name) for title, (_, _, chart) in zip(titles, named, strict=True)]
    elements: list[Any] = [Text(plan.about, muted=False)] if plan.about else []
    elements += [Text(_how_run(records, [figure.first for figure in figures])), *figures]
    if plan.settings:
        rows = [setting_row(**each) for each in plan.settings]
        head = ["Setting", "Here", "In the paper", "Why"]
        elements.append(Table(f"Settings of {plan.title}", head, rows, "words"))
    return Section(plan.name, plan.title, elements)


def setting_row(name: str, here: str, why: str, paper: str | None = None) -> list[str | Cell]:
    """A row of the table of settings: the reason is of a choice, or of a deviation from the paper."""
    same = paper in (here, "the same") or not why
    given = Cell(note="not given") if paper is None else Cell(paper)
    return [name, here, given, Cell("–" if same else why, tags=["differs"] * (not same and paper is not None))]


def _how_run(records: "xarray.Dataset", charts: Sequence[Chart]) -> str:
    """The text of an experiment: its run, and captions of its charts."""
    seeds, is_curves = records.sizes["seed"], any(chart.kind == "curves" for chart in charts)
    ran = [plural(records.sizes["learner"], "learner"), plural(seeds, "seed")]
    band = next((chart.band for chart in charts if chart.band), "")
    bands = f"{'bands' if is_curves else 'bars'}: {band}" if band else "there is one seed, so there are no bands"
    said = [
        f"{', '.join(ran)}, {int(records.step.values[-1]):,} examples each; it took "
        f"{duration(records.attrs['seconds'])}.",
        f"Each point is the mean over seeds and {examples_per_point(records):,} examples; {bands}.",
        *(["Dotted lines are task switches."] if any(chart.tasks for chart in charts) else []),
        *(["Rings are the published values."] if any(chart.rings for chart in charts) else []),
    ]
    if "diverged_at" in records:
        counts = (records.diverged_at >= 0).sum("seed").transpose("learner").values
        gone = zip(map(str, records.learner.values), counts, strict=True)
        said += [f"{name}: {count} of {seeds} diverged." for name, count in gone if count]
    return " ".join(said)
