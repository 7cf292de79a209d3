"""Output of the bench: a table per workload on the terminal, and everything as JSON."""

import json
import platform
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import jax

from crossprop._files import atomic_write
from crossprop._version import __version__
from crossprop.bench.floors import Ceilings
from crossprop.bench.peers import RECORD_EVERY
from crossprop.bench.timing import Row
from crossprop.execution import cores
from crossprop.formats import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

QUICK = " (quick version)"


def print_machine(console: "Console", ceilings: Ceilings, quick: bool) -> None:
    """Prints the device and its measured ceilings."""
    small = "Quick version: tiny sizes, the numbers say nothing about speed. " if quick else ""
    reached = f"{number(2 * ceilings.operations)}FLOP/s in float32 and {number(ceilings.bytes)}B/s of memory"
    device = jax.devices()[0].device_kind
    say(console, f"{small}{device} reaches {reached}; the floor is computed from these.")
    say(console, f"Records every {RECORD_EVERY} steps, with drift.")


def print_workload(console: "Console", title: str, rows: Sequence[Row], quick: bool) -> None:
    """Prints a workload's table, with notes on what was not timed in full."""
    cases = list(dict.fromkeys(row.case for row in rows))
    steps = [case.stream.steps for case in cases]
    span = f"{min(steps):,} to {max(steps):,}" if len({*steps}) > 1 else f"{steps[0]:,}"
    say(console, f"\n{rows[0].workload}: {title}{QUICK * quick}, {cases[0].size}, {span} steps\n")
    console.print(table(rows))
    for line in notes(rows):
        say(console, line)


def say(console: "Console", text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def speedups(row: Row, rows: Iterable[Row]) -> dict[str, float]:
    """How many times as fast as each other contender in the same case."""
    return {
        other.contender: other.seconds_per_run_step / row.seconds_per_run_step
        for other in rows
        if other.seconds and other is not row and (other.workload, other.case) == (row.workload, row.case)
    }


def over_backprop(row: Row, rows: Iterable[Row]) -> float | None:
    """The cost of a learner as a multiple of backprop's with the same contender; None if that was not timed."""
    backprop = (row.workload, "backprop", row.contender)
    for other in rows:
        if other.seconds and other is not row and (other.workload, other.case.name, other.contender) == backprop:
            return row.seconds_per_run_step / other.seconds_per_run_step
    return None


def table(rows: Sequence[Row]) -> "Table":
    """One workload: run-steps per second, speedups of the engines, cost relative to backprop, percent of the floor."""
    from rich import box
    from rich.table import Table

    timed = [row for row in rows if row.seconds]
    peers = dict.fromkeys(row.contender for row in rows if row.is_peer)
    others = [name for name in ("scan", *peers) if any(name in _engine_speedups(row, rows) for row in timed)]
    several = any(len(row.case.learners) > 1 for row in timed)
    beside = any(over_backprop(row, rows) for row in timed)
    titles = ["run-steps\nper second", *(["\nseconds"] if several else [])]
    titles += [f"vs\n{name.split()[-1]}" for name in others]
    titles += [*(["cost vs\nbackprop"] if beside else []), "% of\nfloor"]
    table = Table("", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for case in dict.fromkeys(row.case for row in rows):
        table.add_row(case.name, style="bold")
        for row in rows:
            if row.case is case:
                cells = _cells(row, rows, others, several, beside) if row.seconds else ["-"]
                table.add_row(f"  {row.contender}", *cells)
    return table


def _cells(row: Row, rows: Sequence[Row], others: list[str], several: bool, beside: bool) -> list[str]:
    faster, cost, percent = _engine_speedups(row, rows), over_backprop(row, rows), row.percent_of_floor
    return [
        number(1 / row.seconds_per_run_step),
        *([f"{row.case_seconds:.3g}"] if several else []),
        *(f"{_short(faster[name])}x" if name in faster else "" for name in others),
        *([_short(cost) if cost else ""] if beside else []),
        "-" if percent is None else _short(percent),
    ]


def _engine_speedups(row: Row, rows: Sequence[Row]) -> dict[str, float]:
    """The table shows speedups of engines only, not of peers over each other."""
    return {} if row.is_peer else speedups(row, rows)


def notes(rows: Sequence[Row]) -> list[str]:
    """Notes under a table: what was timed in part, what was not timed and why, and what `auto` chose."""
    cases: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.seconds and row.is_part:
            timed = f"{plural(row.runs, 'run')} x {row.steps:,} steps"
            cases[f"{row.contender}: timed on {timed}, and scaled"].append(row.case.name)
        if row.reason:
            cases[f"{row.contender}: not timed, {row.reason}"].append(row.case.name)
        if row.contender == "auto" and row.engine:
            cases[f"auto: {row.engine}"].append(row.case.name)
    total = len({row.case for row in rows})
    return [f"{note}." if len(names) == total else f"{note} ({'; '.join(names)})." for note, names in cases.items()]


def number(value: float) -> str:
    """Three digits and a unit prefix: 171 k, 1.05 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _short(value: float) -> str:
    """At most two decimals, and none from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write_results(path: Path, rows: Sequence[Row], ceilings: Ceilings, command: str, quick: bool) -> None:
    packages = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    content = {
        "schema": 2,
        "command": command,
        "quick": quick,
        "machine": _machine(),
        "versions": {"crossprop": __version__, "python": platform.python_version()} | packages,
        "ceilings": {
            "float32_operations_per_second": 2 * ceilings.operations,
            "bytes_per_second": ceilings.bytes,
        },
        "record_every": RECORD_EVERY,
        "rows": [_row_content(row, rows) for row in rows],
    }
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, allow_nan=False))


def _row_content(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    content = {
        "workload": row.workload,
        "learner": row.case.name,
        "contender": row.contender,
        "is_peer": row.is_peer,
        "network": row.case.size,
        "learners": len(row.case.learners),
        "runs": row.case.runs,
        "steps": row.case.stream.steps,
    }
    if not row.seconds:
        return content | {"reason": row.reason}
    return content | {
        "timed_runs": row.runs,
        "timed_steps": row.steps,
        "seconds": list(row.seconds),
        "engine": row.engine,
        "median_seconds": median(row.seconds),
        "case_seconds": row.case_seconds,
        "seconds_per_run_step": row.seconds_per_run_step,
        "run_steps_per_second": 1 / row.seconds_per_run_step,
        "floor_seconds_per_run_step": row.floor,
        "percent_of_floor": row.percent_of_floor,
        "speedup_over": speedups(row, rows),
        "cost_over_backprop": over_backprop(row, rows),
    }


def _machine() -> dict[str, Any]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "device": jax.devices()[0].device_kind,
        "backend": jax.default_backend(),
        "cores": cores(),
        "processor": models[0] if models else platform.processor(),
        "system": platform.platform(),
    }
