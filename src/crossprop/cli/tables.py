"""Tables that the command line prints for runs and sweeps."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from crossprop import records as schema
from crossprop.running import ProgressEvent
from crossprop.statistics import mean_interval
from crossprop.sweeps.status import status

if TYPE_CHECKING:
    import xarray

DRIFTS = ("incoming_drift", "outgoing_drift")


def print_status(store: str | Path) -> None:
    """Prints how far the sweep in a store is, for each learner."""
    learners, writer = status(store)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("learner", overflow="fold")
    for title in ("done", "missing", "diverged", "time left"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in learners:
        table.add_row(
            each.learner, f"{each.done:,}", f"{each.missing:,}", f"{each.diverged:,}", _time(each.seconds_left)
        )
    console = Console()
    console.print(table)
    known = [each.seconds_left for each in learners if each.seconds_left is not None]
    left = _time(sum(known) if len(known) == len(learners) else None)
    now = "Nothing runs now; the same command continues from here." if writer is None else f"Running now: {writer}."
    if writer is not None or any(each.missing for each in learners):
        console.print(f"{now} Total time left: {left}.", soft_wrap=True, markup=False)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "not known yet"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Clock:
    """The steps and the core seconds of each run."""

    def __init__(self):
        self.steps: dict[str, Counter[int]] = defaultdict(Counter)
        self.seconds: dict[str, Counter[int]] = defaultdict(Counter)

    def hear(self, event: ProgressEvent) -> None:
        """Counts a segment of a run; a `progress` function for `run`."""
        self.steps[event.learner][event.seed] += event.steps
        self.seconds[event.learner][event.seed] += event.seconds  # pyright: ignore[reportArgumentType]

    def core_seconds(self, learner: str) -> float:
        return sum(self.seconds[learner].values())

    def rate(self, learner: str) -> float:
        """Steps per second on one core in the median run, since the first run also compiles."""
        return float(np.median([self.steps[learner][seed] / s for seed, s in self.seconds[learner].items()]))

    def total_steps(self) -> int:
        return sum(steps.total() for steps in self.steps.values())


def results(records: "xarray.Dataset", clock: Clock) -> Table:
    """One row per learner: its error at the end of the last task, how far its weights moved, and its speed."""
    measure = schema.measure(records)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, collapse_padding=True)
    table.add_column("\nlearner", no_wrap=True)
    for title in (
        f"final {schema.describe(records, measure).title}\n[95% interval]",
        "U\nmoved",
        "W\nmoved",
        "core\nseconds",
        "run-steps/s\na core",
    ):
        table.add_column(title.replace("[", "\\["), justify="right", no_wrap=True)
    final = records.isel(step=schema.phase_windows(records.task.values, "end")[-1])
    for learner in map(str, records.learner.values):
        mine = final.sel(learner=learner)
        table.add_row(
            learner,
            _error(mine, measure),
            *(f"{mine[name].isel(step=-1).mean().item():.3g}" if name in mine else "" for name in DRIFTS),
            f"{clock.core_seconds(learner):.2f}",
            f"{clock.rate(learner):,.0f}",
        )
    return table


def _error(final: "xarray.Dataset", measure: str) -> str:
    if diverged := int((final.diverged_at >= 0).sum()):
        return f"{diverged} of {final.sizes['seed']} diverged"
    mean, low, high = mean_interval(final[measure].mean("step").values)
    return f"{mean:.4g}" if np.isnan(low) else f"{mean:.4g} \\[{low:.4g}, {high:.4g}]"
