"""`crossprop bench`: the engines timed against plain JAX, NumPy, PyTorch and alberta-framework, and the machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import jax
from typing_extensions import Doc

from crossprop import _checks as check
from crossprop._extras import missing, needs
from crossprop._files import check_writable
from crossprop.bench import growth
from crossprop.bench.floors import Ceilings, measure_ceilings
from crossprop.bench.growth import Point
from crossprop.bench.output import Results, compilation_table, notes, number, span, table, write_json
from crossprop.bench.peers import RECORD_EVERY
from crossprop.bench.timing import Row, time_case, time_compilation
from crossprop.bench.workloads import LONGEST, WORKLOADS, Scale
from crossprop.engines import ENGINES
from crossprop.progress import bar

if TYPE_CHECKING:
    from rich.console import Console

ON_CPU = ("geoff-30", "mnist", "growth")


@dataclass(frozen=True)
class Benchmark:
    """Time the engines against plain JAX, NumPy, PyTorch, alberta-framework and the best this machine can do.

    Example: crossprop bench --workloads geoff-30 mnist --out benchmark
    """

    out: Path = Path("benchmark")
    """Folder for bench.json, bench.png and the growth figures."""
    workloads: Annotated[tuple[str, ...], Doc(f"Of {', '.join(WORKLOADS)}; unset, those that suit the device.")] = ()
    engines: Annotated[tuple[str, ...], Doc(f"Of auto, {', '.join(ENGINES)}; unset, all.")] = ()
    steps: Annotated[int | None, Doc(f"Steps of a run, a multiple of {RECORD_EVERY}; unset, by device.")] = None
    repeats: int = 5
    """Number of timings of each, after a warm-up; the median counts."""
    quick: bool = False
    """Use tiny sizes, which show that everything works and say nothing about speed."""

    def __post_init__(self):
        for name in self.workloads:
            check.choice("workloads", name, WORKLOADS)
        for name in self.engines:
            check.choice("engines", name, ("auto", *ENGINES))
        check.integer("repeats", self.repeats, low=1)
        if self.steps is not None:
            check.integer("steps", self.steps, low=RECORD_EVERY, high=LONGEST)
            if self.steps % RECORD_EVERY:
                raise ValueError(f"steps must be a multiple of {RECORD_EVERY}, the steps of a record, got {self.steps}")

    def run(self, command: str = "crossprop bench") -> Results:
        """Times everything, prints a table per workload, and writes `bench.json`, which has `command`, and the
        figures."""
        from rich.console import Console

        check_writable("out", self.out)
        console = Console()
        scale = Scale(self.quick, jax.default_backend() != "cpu", self.steps)
        ceilings = measure_ceilings(self.quick)
        self._say(console, self._opening(ceilings))
        results = Results([], [], ceilings, command, self.quick)
        for name in self.workloads or (tuple(WORKLOADS) if scale.gpu else ON_CPU):
            if name == "growth":
                results.points.extend(self._growth(scale, ceilings, console))
            else:
                results.rows.extend(self._workload(name, scale, ceilings, console))
            write_json(self.out / "bench.json", results)
        lacking = missing("matplotlib")
        written = ["bench.json", *([] if lacking else self._draw(results))]
        self._say(console, f"Wrote {', '.join(written)} to {self.out}.")
        if lacking:
            self._say(console, f"No figures were drawn: {needs('bench.png', lacking, 'paper')}.")
        return results

    def _workload(self, name: str, scale: Scale, ceilings: Ceilings, console: "Console") -> list[Row]:
        cases = WORKLOADS[name].cases(scale)
        contenders = {case: (*self._engines(name), *case.peers) for case in cases}
        rows: list[Row] = []
        with bar(name, sum(map(len, contenders.values())), unit="timings") as advance:
            for case, names in contenders.items():
                if name == "compile":
                    rows += time_compilation(name, case, names, self.repeats)
                else:
                    rows += time_case(name, case, names, self.repeats, ceilings)
                advance(len(names))
        small = " (quick version)" * self.quick
        steps = span([case.stream.steps for case in cases])
        self._say(console, f"\n{name}: {WORKLOADS[name].about}{small}, {cases[0].size}, {steps} steps\n")
        console.print(compilation_table(rows) if name == "compile" else table(rows))
        for line in notes(rows):
            self._say(console, line)
        return rows

    def _growth(self, scale: Scale, ceilings: Ceilings, console: "Console") -> list[Point]:
        cases, engines = growth.cases(scale), self._engines("growth")
        with bar("growth", len(cases) * (1 + len(engines)), unit="timings") as advance:
            points = growth.grow(cases, engines, min(self.repeats, 3), ceilings, advance)
        sizes = "; ".join(f"{name} {span(values)}" for name, values in growth.sizes(scale).items())
        self._say(console, f"\ngrowth: {WORKLOADS['growth'].about}{' (quick version)' * self.quick}, {sizes}\n")
        for by, reason in dict.fromkeys((point.row.by, point.row.reason) for point in points if point.row.reason):
            self._say(console, f"{by}: not timed everywhere, {reason}.")
        return points

    def _engines(self, workload: str) -> tuple[str, ...]:
        return self.engines or WORKLOADS[workload].engines or tuple(ENGINES)

    def _draw(self, results: Results) -> list[str]:
        from crossprop.bench import charts

        drawn = charts.bars(self.out / "bench.png", results)
        return [*["bench.png"] * drawn, *(path.name for path in charts.growth(self.out, results))]

    def _opening(self, ceilings: Ceilings) -> str:
        small = "The quick version: tiny sizes, whose numbers mean nothing. " if self.quick else ""
        device = jax.devices()[0].device_kind
        reached = f"{number(2 * ceilings.operations)}FLOP/s of float32 and {number(ceilings.bytes)}B/s of memory"
        return f"{small}{device} reaches {reached}: the floor. Records every {RECORD_EVERY} steps, drift among them."

    @staticmethod
    def _say(console: "Console", text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False)
