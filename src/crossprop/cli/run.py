"""`crossprop run`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from tyro.conf import arg

from crossprop import records as schema
from crossprop._support.extras import missing, needs
from crossprop._support.files import check_writable
from crossprop._support.formats import listed, upper_first
from crossprop.arguments import checked_steps
from crossprop.cli.console import say, wrap
from crossprop.cli.flags import STREAM_HELP, ExperimentFlags, Unset
from crossprop.cli.tables import Clock, results
from crossprop.configuration import configuration
from crossprop.descriptions import backprop_at, nested
from crossprop.engines.segments import seconds_per_step
from crossprop.execution import expected_time
from crossprop.experiments import figures
from crossprop.experiments.charts import band_words, curves
from crossprop.experiments.findings import compare
from crossprop.learners import Learner, Trivial
from crossprop.progress import bar
from crossprop.record_files import check_replaceable, write_records
from crossprop.running import ProgressEvent, experiment, run
from crossprop.specification import build, builder_of, learner_tables, takers
from crossprop.streams import Arrays, Iterator, Stream
from crossprop.streams.table import last_targets

BACKPROP = "backprop"
LEARNERS_BY_DEFAULT = ["crossprop", BACKPROP, "frozen"]


@dataclass
class Run:
    """Run learners on a stream with many seeds, and print the errors they reached.

    Below the learners are the errors of two predictors that ignore the inputs.

    Examples:
      crossprop run geoff --learners crossprop backprop --out comparison
      crossprop run digits --learners crossprop --eta 0.5 --step-size 0.1
      crossprop run mnist5k --hidden 256 256 --learners foresight backprop
      crossprop run data.csv --target price
    """

    stream: Annotated[str, arg(metavar="STREAM", help=STREAM_HELP)]
    experiment: ExperimentFlags
    seeds: int = 10
    """Number of runs of each learner, with seeds 0, 1, 2 ..."""
    steps: Unset[int] = None
    """Number of examples of a run; default: the whole stream. An endless stream needs it."""
    out: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder for records.nc and figure.png; default: nothing is written."""


def run_experiment(flags: Run) -> None:
    tables: dict[str, Any] = {"learners": LEARNERS_BY_DEFAULT} | flags.experiment.tables()
    tables["stream"] = {"name": flags.stream} | tables.get("stream", {})
    learners, stream = build(tables, flags.experiment.learner_flags())
    steps = _steps(stream, flags.steps)
    record_every, engine = tables.get("record_every", 50), tables.get("engine", "auto")
    if flags.out is not None:
        check_writable("out", flags.out)
        described = experiment(learners, stream, list(range(flags.seeds)), record_every)
        check_replaceable(flags.out / "records.nc", described, steps)
    notes = [getattr(stream, "about", "")]
    notes += _notes(learner_tables(tables["learners"]), learners, flags.experiment.learner_flags())
    notes += [expected_time(sum(map(seconds_per_step, learners.values())) * flags.seeds * steps)]
    for note in filter(None, notes):
        wrap(note, aside=True)
    clock, began = Clock(), time.perf_counter()
    with bar(flags.stream, len(learners) * flags.seeds * steps) as advance:

        def on_event(event: ProgressEvent) -> None:
            advance(event.steps)
            clock.add(event)

        records = run(learners, stream, flags.seeds, record_every, engine, progress=on_event, steps=flags.steps)
    seconds = time.perf_counter() - began
    baselines = _baselines(learners, stream, flags.seeds, record_every, flags.steps)
    wrote = "" if flags.out is None else _write(records, flags.out)  # before printing, which a closed pipe ends
    console = Console()
    console.print(results(records, clock, baselines))
    total = clock.total_steps()
    brackets = f"{band_words(flags.seeds) or 'none of one seed'}; of a difference, its 95% interval alone"
    console.print(f"Final: the last fifth of the last task. Brackets: {brackets}.")
    if clock.timed:
        console.print("Seconds and steps/s: one core, without compilation; blank where runs are too short to time.")
    for sentence in _compared(records):
        wrap(sentence)
    console.print(f"{total:,} run-steps in {seconds:.1f} s, {total / seconds:,.0f} per second, compilation included.")
    if wrote:
        say(wrote)


def _baselines(learners: dict[str, Learner], stream: Stream, seeds: int, record_every: int, steps: int | None) -> Any:
    """Records of predictors that ignore the inputs; None for predictions over time, whose loss is about returns, and
    for a stream that can be read once only."""
    if stream.predicts or isinstance(stream, Iterator):
        return None
    network = next(iter(learners.values())).network
    names = ("most frequent", "last label") if stream.one_hot else ("running mean", "last target")
    baselines = {name: Trivial(network, answer) for name, answer in zip(names, ("mean", "last"), strict=True)}
    records = run(baselines, stream, seeds, record_every, progress=False, steps=steps)
    if isinstance(stream, Arrays) and stream.standardized:  # the units change with every row, and 0 is the running mean
        lengths, y = schema.window_lengths(records).astype(int), np.asarray(stream.y)
        for name, answers in zip(names, (np.zeros_like(y), last_targets(y)), strict=True):
            errors = np.sum((y - answers) ** 2, axis=1)[: lengths.sum()]
            means = np.add.reduceat(errors, np.cumsum(lengths) - lengths) / lengths
            records.loss.loc[{"learner": name}] = means
    return records


def _compared(records: Any) -> list[str]:
    """Every other learner against backprop, seed by seed."""
    others = [str(name) for name in records.learner.values if name != BACKPROP]
    if BACKPROP not in records.learner.values or records.sizes["seed"] < 2:
        return []
    noun = f"{schema.describe(records, schema.measure(records)).title} over all steps"
    return [upper_first(f"{each.sentence(noun)}.") for each in compare(records, dict.fromkeys(others, BACKPROP))]


def _notes(tables: Mapping[str, Any], learners: dict[str, Learner], given: dict[str, Any]) -> list[str]:
    """Notes on flags that do not apply to all learners, and on settings that are backprop."""
    builders, notes = {name: builder_of(name, own) for name, own in tables.items()}, []
    for flag, value in given.items():
        users = takers(flag, builders)
        others = [name for name in learners if name not in users]
        if ":" not in flag and others:
            notes.append(f"{flag}={value} applies to {listed(users)}, not to {listed(others)}.")
    for name, learner in learners.items():
        made = [*nested(configuration(learner))][-1]
        if (setting := backprop_at(made)) is not None:
            notes.append(f"{name} has {setting}={made[setting]:g}: this is backprop.")
    return notes


def _steps(stream: Stream, steps: int | None) -> int:
    """Number of steps of one run."""
    if steps is None and stream.steps is None:
        raise ValueError(f"{type(stream).__name__} is endless: give the number of steps with --steps N")
    return checked_steps(steps, stream) or stream.steps or 0


def _write(records: Any, folder: Path) -> str:
    """Writes the records and their figure, and returns what to print about them."""
    written = [folder / "records.nc"]
    write_records(written[0], records)
    lacking = missing("matplotlib")
    if not lacking:
        charts = curves(records)
        written += figures.save(charts, folder / "figure", charts[0].statistic)
    note = f" No figure was drawn: {needs('figure.png', lacking, 'paper')}" if lacking else ""
    return f"Wrote {' and '.join(map(str, written))}.{note}"
