"""`crossprop bench`: times the engines against each other, against plain JAX and against this machine's limits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jax
from typing_extensions import Doc

from crossprop import _checks as check
from crossprop._extras import missing, needs
from crossprop._files import check_writable
from crossprop._flags import QUIET, Unset
from crossprop.bench.floors import measure_ceilings
from crossprop.bench.output import print_machine, print_workload, say, write_results
from crossprop.bench.peers import RECORD_EVERY
from crossprop.bench.timing import Row, time_workload
from crossprop.bench.workloads import MAX_STEPS, WORKLOADS, Scale
from crossprop.engines import ENGINES

ON_CPU = ("geoff-30", "mnist")
"""The workloads that are timed by default on a CPU; on a GPU, all of them."""


@dataclass(frozen=True)
class Benchmark:
    """Time the engines against each other, plain JAX, and what this machine can do at best.

    Example: crossprop bench --workloads geoff-30 mnist --out benchmark
    """

    out: Path = Path("benchmark")
    """Folder for bench.json and bench.png."""
    workloads: Annotated[
        tuple[str, ...], QUIET, Doc(f"Of {', '.join(WORKLOADS)}; unset, those that suit the device.")
    ] = ()
    engines: Annotated[
        tuple[str, ...], QUIET, Doc(f"Of auto, {', '.join(ENGINES)}; unset, those that suit the workload.")
    ] = ()
    steps: Annotated[
        Unset[int], Doc(f"Examples per run, a multiple of {RECORD_EVERY}; unset, what suits workload and device.")
    ] = None
    repeats: int = 5
    """Timings of each contender after a warm-up; their median is reported."""
    quick: bool = False
    """Tiny sizes, to check that everything works; the numbers say nothing about speed."""

    def __post_init__(self):
        for name in self.workloads:
            check.choice("workloads", name, WORKLOADS)
        for name in self.engines:
            check.choice("engines", name, ("auto", *ENGINES))
        check.integer("repeats", self.repeats, low=1)
        if self.steps is not None:
            if isinstance(self.steps, int) and self.steps % RECORD_EVERY:
                raise ValueError(f"steps must be a multiple of {RECORD_EVERY}, the steps per record, got {self.steps}")
            check.integer("steps", self.steps, low=RECORD_EVERY, high=MAX_STEPS)

    def run(self, command: str = "crossprop bench") -> list[Row]:
        """Times everything, prints a table per workload, and writes `bench.json`, which names `command`, and
        `bench.png`."""
        from rich.console import Console

        from crossprop.bench import charts

        check_writable("out", self.out)
        console = Console()
        scale = Scale(self.quick, jax.default_backend() != "cpu", self.steps)
        ceilings, rows = measure_ceilings(self.quick), []
        print_machine(console, ceilings, self.quick)
        for name in self.workloads or (tuple(WORKLOADS) if scale.gpu else ON_CPU):
            workload = WORKLOADS[name]
            engines = self.engines or workload.engines or tuple(ENGINES)
            timed = time_workload(name, workload.cases(scale), engines, self.repeats, ceilings)
            print_workload(console, workload.title, timed, self.quick)
            rows += timed
            write_results(self.out / "bench.json", rows, ceilings, command, self.quick)
        lacking = missing("matplotlib")
        drawn = not lacking and charts.draw_bars(self.out / "bench.png", rows, self.quick)
        say(console, f"Wrote bench.json{' and bench.png' * drawn} to {self.out}.")
        if lacking:
            say(console, f"No figure was drawn: {needs('bench.png', lacking, 'paper')}.")
        return rows
