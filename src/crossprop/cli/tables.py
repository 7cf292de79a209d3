"""Tables that the command line prints for runs and sweeps."""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from crossprop import records as schema
from crossprop._support.formats import about, interval, plural
from crossprop.cli.console import new_table, say, wrap
from crossprop.experiments.charts import FEW, band
from crossprop.experiments.results import SweepResults, TunedLearner, read_results, status
from crossprop.running import ProgressEvent
from crossprop.statistics import finite_mean_interval

if TYPE_CHECKING:
    import xarray

DRIFTS = ("incoming_drift", "outgoing_drift")


def print_status(store: str | Path) -> None:
    """Prints the progress of the sweep in a store for each learner, and the results so far."""
    learners, writer = status(store)
    table = new_table("learner")
    for title in ("done", "missing", "diverged", "time left"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in learners:
        table.add_row(
            Text(each.learner), f"{each.done:,}", f"{each.missing:,}", f"{each.diverged:,}", _time(each.seconds_left)
        )
    Console().print(table)
    known = [each.seconds_left for each in learners if each.seconds_left is not None]
    left = _time(sum(known) if len(known) == len(learners) else None)
    now = "Nothing runs now; the same command continues from here." if writer is None else f"Running now: {writer}."
    missing = sum(each.missing for each in learners)
    if writer is not None or missing:
        say(f"{now} Total time left: {left}.")
    if any(each.done for each in learners):
        _print_results(read_results(store), missing)


def _print_results(sweep: SweepResults, missing: int) -> None:
    """Prints the best setting of every learner, its error, and the comparison with backprop."""
    seeds = max(values.size for values in sweep.values.values())
    whose = f"{seeds} fresh seeds" if sweep.fresh else f"the sweep's {plural(seeds, 'seed')}"
    measure = f"mean {sweep.measure} over all steps"
    so_far = " so far" * bool(missing)
    wrap(f"\nBest settings{so_far}: {measure}, on {whose}, with 95% intervals of each alone")
    for name, learner in sweep.learners.items():
        say(f"\n{name}")
        for sentence in (_setting(learner), _reached(name, sweep), _compared(name, sweep), _diverged(name, sweep)):
            if sentence:
                Console().print(Padding(Text(sentence), (0, 0, 0, 2), expand=False), highlight=False)
    if not sweep.fresh and any(learner.axes for learner in sweep.learners.values()):
        wrap(
            "\nOn the seeds that it was chosen by, the best of many settings looks better than it is: --evaluate 60 "
            "runs the best settings again, on fresh seeds.",
        )


def _setting(learner: TunedLearner) -> str:
    at = learner.backprop_at
    return ", ".join(
        filter(None, [learner.setting(" (the edge of the grid)"), f"its {at} makes it backprop" * bool(at)])
    )


def _reached(name: str, sweep: SweepResults) -> str:
    values, diverged = sweep.values[name].values, sweep.learners[name].choice.diverged
    estimate = finite_mean_interval(values)
    if not np.isfinite(estimate.mean):
        return f"diverged at every setting, with {diverged} of {plural(len(values), 'seed')} at the best"
    return f"{sweep.measure} {interval(*map(float, estimate))}"


def _compared(name: str, sweep: SweepResults) -> str:
    """The comparison in a sentence; a p-value on the seeds that the setting was chosen by would mean nothing."""
    comparison = sweep.comparisons.get(name)
    return "" if comparison is None else comparison.sentence(sweep.measure, with_p=sweep.fresh)


def _diverged(name: str, sweep: SweepResults) -> str:
    if not (steps := sweep.diverged_at(name)):
        return ""
    when = f"{'at' if len(steps) == 1 else 'the earliest at'} step {min(steps):,}"
    return f"{plural(len(steps), 'run')} diverged, {when}"


def _time(seconds: float | None) -> str:
    return "not known yet" if seconds is None else about(seconds)


class Clock:
    """Steps and core seconds of each run, from its progress events.

    Segments overlap: the event after a segment's own has its seconds, and the first event those of compilation.
    """

    def __init__(self):
        self.segments: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)

    def add(self, event: ProgressEvent) -> None:
        """Counts a segment of a run; a `progress` function for `run`."""
        self.segments[event.learner, event.seed].append((event.steps, event.seconds))

    def seconds_per_step(self, learner: str) -> float:
        """The core seconds of a step; NaN if all runs had one segment."""
        mine = [segments for (name, _), segments in self.segments.items() if name == learner]
        steps = sum(count for segments in mine for count, _ in segments[:-1])
        return sum(seconds for segments in mine for _, seconds in segments[1:]) / steps if steps else np.nan

    @property
    def timed(self) -> bool:
        """Whether any run has two segments, so that it can be timed."""
        return any(len(segments) > 1 for segments in self.segments.values())

    def total_steps(self) -> int:
        return sum(count for segments in self.segments.values() for count, _ in segments)


def results(records: "xarray.Dataset", clock: Clock, baselines: "xarray.Dataset | None") -> Table:
    """One row per learner: its error at the end of the last task, how far its weights moved, and its speed; and one per
    baseline with its error."""
    measure, brackets = schema.measure(records), "range" if 1 < records.sizes["seed"] < FEW else "95% interval"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, collapse_padding=True)
    table.add_column("\nlearner", no_wrap=True)
    speeds = ("seconds\na run", "steps/s\na core") * clock.timed
    for title in (f"final {schema.describe(records, measure).title}\n[{brackets}]", "U\nmoved", "W\nmoved", *speeds):
        table.add_column(title.replace("[", "\\["), justify="right", no_wrap=True)
    end = schema.phase_windows(records.task.values, "end")[-1]
    final, steps = records.isel(step=end), schema.window_lengths(records).sum()
    for learner in map(str, records.learner.values):
        mine = final.sel(learner=learner)
        seconds = clock.seconds_per_step(learner)
        table.add_row(
            learner,
            _error(mine, measure),
            *(_moved(mine, name) for name in DRIFTS),
            *(("", "") if np.isnan(seconds) else (f"{seconds * steps:.3g}", f"{1 / seconds:,.0f}"))[: len(speeds)],
        )
    if baselines is not None:
        for name in map(str, baselines.learner.values):
            table.add_row(f"({name})", _error(baselines.isel(step=end).sel(learner=name), measure))
    return table


def _moved(final: "xarray.Dataset", name: str) -> str:
    mean = final[name].isel(step=-1).mean(skipna=False).item() if name in final else np.nan
    return f"{mean:.3g}" if np.isfinite(mean) else ""


def _error(final: "xarray.Dataset", measure: str) -> str:
    if diverged := int((final.diverged_at >= 0).sum()):
        when = int(final.diverged_at.values[final.diverged_at.values >= 0].min())
        return f"{diverged} of {final.sizes['seed']} diverged,\n{'first ' * (diverged > 1)}at step {when:,}"
    values = final[measure].transpose("seed", "step").values.astype(np.float64)
    mean, low, high = band(np.average(values, axis=1, weights=schema.window_lengths(final)))
    return f"{mean:.4g}" if np.isnan(low) else f"{mean:.4g} \\[{low:.4g}, {high:.4g}]"
