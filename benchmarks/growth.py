"""How cost grows with hidden units, inputs, outputs, runs and steps: GEOFF's sizes, one of them changed at a time.

python benchmarks/growth.py [--engines scan chunked] [--repeats 3] [--out growth] [--quick]

Draws growth-hidden.png and so on: each engine and plain JAX, with exact crossprop; over outputs, projected as well.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console

import crossprop as cp
from crossprop.bench.floors import measure_ceilings
from crossprop.bench.output import QUICK, print_machine, say
from crossprop.bench.peers import PLAIN_JAX, RECORD_EVERY
from crossprop.bench.timing import Row, time_case
from crossprop.bench.workloads import CachedStream, Case, Scale
from crossprop.engines import ENGINES
from crossprop.learners import LEARNERS
from crossprop.progress import bar

SIZES = {
    "hidden": (32, 128, 512, 2048),
    "inputs": (8, 32, 128, 512),
    "outputs": (1, 4, 16),
    "runs": (1, 4, 16),
    "steps": (500, 2000, 8000),
}
GPU_SIZES = SIZES | {"runs": (1, 16, 256, 4096), "steps": (500, 4000, 32_000)}
QUICK_SIZES = {"hidden": (8,), "inputs": (20,), "outputs": (1,), "runs": (1, 2), "steps": (100,)}
X_LABELS = {
    "hidden": "hidden units",
    "outputs": "outputs",
    "inputs": "inputs",
    "runs": "runs",
    "steps": "steps per run",
}
WHOLE_CASE = ("runs", "steps")
"""Quantities whose figure shows the seconds of the whole case, not those of a run-step."""
LOOKS = {
    "scan": ("#6a51a3", "o"),
    "chunked": ("#238b45", "D"),
    "kernel": ("#d94801", "^"),
    "auto": ("#fdae6b", "v"),
    "plain jax": ("#a8a8a8", "s"),
}
OTHER_LOOK = ("#3182bd", "P")


class Point(NamedTuple):
    """One size, and how long a contender took with it."""

    quantity: str
    value: int
    row: Row


def grown_case(quantity: str, value: int, learner: str, scale: Scale) -> Case:
    """GEOFF's sizes with one changed to `value`; the step size falls with the hidden units, so that no run diverges."""
    sizes = {"inputs": 20, "hidden": scale.hidden(500), "outputs": 1} | {quantity: value}
    network = cp.Network(sizes["inputs"], sizes["hidden"], sizes["outputs"])
    runs = value if quantity == "runs" else scale.runs(1056 if scale.gpu else 4)
    weights = network.inputs * network.hidden * (1 + network.outputs)
    affordable = int((1e11 if scale.gpu else 4e8) / runs / weights) // RECORD_EVERY * RECORD_EVERY
    default = scale.run_length(2000 if quantity == "runs" else max(500, min(20_000, affordable)))
    steps = value if quantity == "steps" else default
    generator = np.random.default_rng(0)
    x = generator.integers(2, size=(steps, network.inputs)).astype(np.float32)
    y = generator.normal(size=(steps, network.outputs)).astype(np.float32)
    learners = {learner: LEARNERS[learner](network, 0.1 / network.hidden)}
    return Case(learner, learners, CachedStream(cp.Arrays(x, y), steps), runs, PLAIN_JAX)


def measure(engines: Sequence[str], repeats: int, scale: Scale) -> list[Point]:
    sizes = QUICK_SIZES if scale.quick else GPU_SIZES if scale.gpu else SIZES
    jobs = [
        (quantity, value, learner)
        for quantity, values in sizes.items()
        for learner in ("crossprop", *(["crossprop-projected"] if quantity == "outputs" else []))
        for value in values
    ]
    ceilings, points = measure_ceilings(scale.quick), []
    print_machine(Console(), ceilings, scale.quick)
    with bar("growth", len(jobs), unit="cases") as advance:
        for quantity, value, learner in jobs:
            rows = time_case("growth", grown_case(quantity, value, learner, scale), engines, repeats, ceilings)
            points += [Point(quantity, value, row) for row in rows]
            advance(1)
    return points


def draw(path: Path, points: list[Point], quick: bool) -> None:
    """One quantity: a line per contender and learner."""
    from matplotlib.figure import Figure

    quantity = points[0].quantity
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    timed = [point for point in points if point.row.seconds]
    learners = list(dict.fromkeys(point.row.case.name for point in timed))
    for learner, contender in dict.fromkeys((point.row.case.name, point.row.contender) for point in timed):
        line = [point for point in timed if (point.row.case.name, point.row.contender) == (learner, contender)]
        whole = quantity in WHOLE_CASE
        cost = [point.row.case_seconds if whole else 1e6 * point.row.seconds_per_run_step for point in line]
        colour, mark = LOOKS.get(contender, OTHER_LOOK)
        style = f"{mark}{'-:'[learners.index(learner)]}"
        label = contender if len(learners) == 1 else f"{contender}, {learner}"
        axes.plot([point.value for point in line], cost, style, color=colour, label=label, linewidth=1.6, markersize=5)
    _label(axes, points, quick)
    figure.legend(loc="outside lower center", ncols=min(len(axes.lines), 4 // len(learners)), frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def _label(axes: Any, points: list[Point], quick: bool) -> None:
    from matplotlib.ticker import LogLocator

    quantity, case = points[0].quantity, points[0].row.case
    sizes = {"inputs": case.network.inputs, "hidden": case.network.hidden, "outputs": case.network.outputs}
    network = "-".join("?" if name == quantity else f"{size}" for name, size in sizes.items())
    beside = f"{case.stream.steps:,} steps" if quantity == "runs" else f"{case.runs:,} run{'s' * (case.runs > 1)}"
    values = sorted({point.value for point in points})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.08)
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel(X_LABELS[quantity])
    axes.set_ylabel("seconds" if quantity in WHOLE_CASE else "microseconds per run-step")
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"exact crossprop, {network}, {beside}{QUICK * quick}", fontsize=10)


def main(arguments: Sequence[str] | None = None) -> list[Point]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=["auto", *ENGINES], default=[*ENGINES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("growth"), metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything works")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    scale = Scale(options.quick, jax.default_backend() != "cpu", steps=None)
    points = measure(options.engines, options.repeats, scale)
    reasons = dict.fromkeys((point.row.contender, point.row.reason) for point in points if point.row.reason)
    for contender, reason in reasons:
        say(Console(), f"{contender}: not timed everywhere, {reason}.")
    for quantity in dict.fromkeys(point.quantity for point in points):
        path = options.out / f"growth-{quantity}.png"
        draw(path, [point for point in points if point.quantity == quantity], options.quick)
        say(Console(), f"Wrote {path}.")
    return points


if __name__ == "__main__":
    main()
