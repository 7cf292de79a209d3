"""What is shown: a table for every workload, and all of it as JSON."""

import json
import platform
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import jax

from crossprop._files import atomic_write
from crossprop._version import __version__
from crossprop.bench.floors import Ceilings
from crossprop.bench.growth import Point
from crossprop.bench.peers import PEERS, RECORD_EVERY
from crossprop.bench.timing import Row
from crossprop.execution import cores

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1
PACKAGES = ("jax", "jaxlib", "numpy", "torch", "alberta-framework")


@dataclass(frozen=True)
class Results:
    """All that one `crossprop bench` measured."""

    rows: list[Row]
    points: list[Point]
    ceilings: Ceilings
    command: str
    quick: bool


def ratios(row: Row, rows: Iterable[Row]) -> dict[str, float]:
    """How many times as fast as each other contender in the same case."""
    return {
        other.by: other.per_run_step / row.per_run_step
        for other in rows
        if other.seconds and other is not row and (other.workload, other.case) == (row.workload, row.case)
    }


def over_backprop(row: Row, rows: Iterable[Row]) -> float | None:
    """What a learner costs in units of backprop with the same contender, where that was timed beside it."""
    backprop = (row.workload, "backprop", row.by)
    for other in rows:
        if other.seconds and other is not row and (other.workload, other.case.name, other.by) == backprop:
            return row.per_run_step / other.per_run_step
    return None


def table(rows: Sequence[Row]) -> "Table":
    """One workload: run-steps a second, how many times as fast as the others, cost over backprop, percent of floor."""
    timed = [row for row in rows if row.seconds]
    others = [by for by in ("scan", *PEERS) if any(by in _compared(row, rows) for row in timed)]
    several = any(len(row.case.learners) > 1 for row in timed)
    beside = any(over_backprop(row, rows) for row in timed)
    titles = ["run-steps\na second", *(["\nseconds"] if several else [])]
    titles += [f"vs\n{by.split()[-1]}" for by in others]
    titles += [*(["cost in\nbackprop"] if beside else []), "% of\nfloor"]
    table = _table(["", *titles])
    for case in dict.fromkeys(row.case for row in rows):
        table.add_row(case.name, style="bold")
        for row in rows:
            if row.case is case:
                table.add_row(f"  {row.by}", *(_cells(row, rows, others, several, beside) if row.seconds else ["-"]))
    return table


def _cells(row: Row, rows: Sequence[Row], others: list[str], several: bool, beside: bool) -> list[str]:
    faster, cost = _compared(row, rows), over_backprop(row, rows)
    return [
        number(1 / row.per_run_step),
        *([f"{row.whole:.3g}"] if several else []),
        *(f"{_short(faster[by])}x" if by in faster else "" for by in others),
        *([_short(cost) if cost else ""] if beside else []),
        _short(100 * row.floor / row.per_run_step),
    ]


def _compared(row: Row, rows: Sequence[Row]) -> dict[str, float]:
    """What the table compares: our engines with everybody."""
    return ratios(row, rows) if row.by not in PEERS else {}


def compilation_table(rows: Sequence[Row]) -> "Table":
    table = _table(["", "network", "seconds to\ncompile"])
    for row in rows:
        table.add_row(f"{row.case.name}, {row.by}", row.case.size, f"{row.seconds[0]:.2f}" if row.seconds else "-")
    return table


def _table(titles: list[str]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for place, title in enumerate(titles):
        table.add_column(title, justify="right" if place else "left", no_wrap=True)
    return table


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know: who was timed on a part, who was not timed and why, what `auto` was."""
    parts: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.seconds and row.is_part:
            runs = f"{row.runs:,} run{'s' * (row.runs > 1)} x {row.steps:,} steps"
            parts[f"{row.by}: timed on {runs}, and scaled"].append(row.case.name)
        if row.reason:
            parts[f"{row.by}: not timed, {row.reason}"].append(row.case.name)
        if row.by == "auto" and row.engine:
            parts[f"auto: {row.engine}"].append(row.case.name)
    everything = len({row.case for row in rows})
    return [
        f"{said}." if len(cases) == everything else f"{said} ({', '.join(cases)})." for said, cases in parts.items()
    ]


def number(value: float) -> str:
    """Three digits and a letter: 171 k, 1.05 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _short(value: float) -> str:
    """Two digits or more, and no more than two decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write_json(path: Path, results: Results) -> None:
    stated = {
        "schema": SCHEMA,
        "command": results.command,
        "quick": results.quick,
        "machine": _machine(),
        "versions": {"crossprop": __version__, "python": platform.python_version()} | _versions(),
        "ceilings": {
            "float32_operations_per_second": 2 * results.ceilings.operations,
            "bytes_per_second": results.ceilings.bytes,
        },
        "record_every": RECORD_EVERY,
        "rows": [_stated(row, results.rows) for row in results.rows],
        "growth": [
            {"quantity": point.quantity, "value": point.value} | _stated(point.row, []) for point in results.points
        ],
    }
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(stated, indent=1, allow_nan=False))


def _stated(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    case = row.case
    asked = {
        "workload": row.workload,
        "learner": case.name,
        "by": row.by,
        "is_peer": row.by in PEERS,
        "network": case.size,
        "learners": len(case.learners),
        "runs": case.runs,
        "steps": case.stream.steps,
    }
    if not row.seconds:
        return asked | {"reason": row.reason}
    timed = {"timed_runs": row.runs, "timed_steps": row.steps, "seconds": list(row.seconds)}
    if row.workload == "compile":
        return asked | timed | {"seconds_to_compile": row.seconds[0]}
    return (
        asked
        | timed
        | {
            "engine": row.engine,
            "median_seconds": median(row.seconds),
            "seconds_of_the_whole": row.whole,
            "seconds_per_run_step": row.per_run_step,
            "run_steps_per_second": 1 / row.per_run_step,
            "floor_seconds_per_run_step": row.floor,
            "percent_of_floor": 100 * row.floor / row.per_run_step,
            "times_as_fast_as": ratios(row, rows),
            "cost_over_backprop": over_backprop(row, rows),
        }
    )


def _machine() -> dict[str, Any]:
    device, cpuinfo = jax.devices()[0], Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "device": device.device_kind,
        "backend": jax.default_backend(),
        "cores": cores(),
        "processor": models[0] if models else platform.processor(),
        "system": platform.platform(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
