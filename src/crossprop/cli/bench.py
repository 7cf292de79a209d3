"""`crossprop bench`: examples per second of a few learners on this machine, by engine."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import jax
import numpy as np
from rich.console import Console
from tyro.conf import arg

from crossprop._support import checks as check
from crossprop._support.files import atomic_write, check_writable
from crossprop._support.formats import plural
from crossprop.cli.console import command_line, new_table, say
from crossprop.cli.flags import QUIET, Unset
from crossprop.engines import ENGINES
from crossprop.experiments.facts import machine
from crossprop.learners import LEARNERS
from crossprop.network import Network
from crossprop.running import run
from crossprop.streams import Arrays

RECORD_EVERY = 50
STEPS = 5000
MAX_STEPS = 200_000
"""Examples of MNIST's size that fit into a gigabyte."""


WORKLOADS = {
    "geoff": (Network.paper(20, 500), ("crossprop", "backprop"), 30),
    "mnist": (
        Network.paper(784, 1024, 10, loss="softmax", incoming_scale=0.1, outgoing_scale=0.1),
        ("crossprop-approx", "backprop"),
        1,
    ),
}
"""The network, the learners and the number of runs, by name."""


@dataclass(frozen=True)
class Bench:
    """Count the examples per second of a few learners on this machine, by engine.

    The workload geoff has the sizes 20-500-1 and 30 runs, mnist 784-1024-10 and one run; the examples are random.

    Example: crossprop bench --workloads geoff --out benchmark
    """

    out: Path = Path("benchmark")
    """Folder for bench.json."""
    workloads: Annotated[tuple[str, ...], arg(help=f"Some of {', '.join(WORKLOADS)}.")] = tuple(WORKLOADS)
    engines: Annotated[
        tuple[str, ...], QUIET, arg(help=f"Some of auto, {', '.join(ENGINES)}; default: all that can run the learner.")
    ] = ()
    steps: Annotated[Unset[int], arg(help=f"Examples per run, a multiple of {RECORD_EVERY}; default: {STEPS}.")] = None
    repeats: int = 5
    """Timings of each engine after a warm-up; their median counts."""

    def __post_init__(self):
        for name in self.workloads:
            check.choice("workloads", name, WORKLOADS)
        for name in self.engines:
            check.choice("engines", name, ("auto", *ENGINES))
        check.integer("repeats", self.repeats, low=1)
        if self.steps is not None:
            check.integer("steps", self.steps, low=RECORD_EVERY, high=MAX_STEPS)
            if self.steps % RECORD_EVERY:
                raise ValueError(f"steps must be a multiple of {RECORD_EVERY}, the steps per record, got {self.steps}")


def time_engines(flags: Bench, clock: Callable[[], float] = time.perf_counter) -> None:
    """Times everything, prints a table, and writes `bench.json`."""
    check_writable("out", flags.out)
    steps, rows, table = flags.steps or STEPS, [], new_table("", "", "")
    table.add_column("examples/s", justify="right")
    for workload in flags.workloads:
        network, learners, runs = WORKLOADS[workload]
        sizes = "-".join(map(str, (network.inputs, *network.hidden, network.outputs)))
        say(f"{workload}: {sizes}, {plural(runs, 'run')} of {steps:,} examples")
        for learner in learners:
            for engine, seconds in _seconds(flags, workload, learner, steps, clock).items():
                row = {"workload": workload, "learner": learner, "engine": engine, "runs": runs, "steps": steps}
                rows.append(row | {"seconds": seconds, "examples_per_second": runs * steps / median(seconds)})
                table.add_row(workload, learner, engine, f"{rows[-1]['examples_per_second']:,.0f}")
    Console().print(table)
    content = {"schema": 5, "command": command_line(), **machine(), "record_every": RECORD_EVERY, "rows": rows}
    with atomic_write(flags.out / "bench.json") as scratch:
        scratch.write_text(json.dumps(content, indent=1, allow_nan=False))
    say(f"Wrote bench.json to {flags.out}.")


def _seconds(flags: Bench, workload: str, name: str, steps: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """The seconds of each engine, by turns, so that other work on the machine slows all of them alike."""
    network, _, runs = WORKLOADS[workload]
    learner, stream, platform = LEARNERS[name](network, 5e-4), examples(network, steps), jax.default_backend()
    engines = flags.engines or [
        engine for engine in ENGINES if ENGINES[engine].why_unsupported(learner, platform) is None
    ]
    seconds: dict[str, list[float]] = {engine: [] for engine in engines}
    for turn in range(1 + flags.repeats):
        for engine in engines:
            began = clock()
            run(learner, stream, runs, RECORD_EVERY, engine, progress=False)
            if turn:  # the first call compiles
                seconds[engine].append(clock() - began)
    return seconds


def examples(network: Network, steps: int) -> Arrays:
    """Random examples, a fifth of whose inputs are on."""
    random = np.random.default_rng(0)
    x = (random.random((steps, network.inputs)) < 0.2).astype(np.float32)
    if network.loss == "softmax":
        return Arrays(x, random.integers(network.outputs, size=steps), classes=network.outputs)
    return Arrays(x, random.normal(size=(steps, network.outputs)).astype(np.float32))
