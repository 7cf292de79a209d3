"""`crossprop bench`: examples per second of a few learners on this machine, beside the same loops in NumPy."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import numpy as np
from typing_extensions import Doc

from crossprop._support import checks as check
from crossprop._support.files import atomic_write, check_writable
from crossprop._support.flags import QUIET, Unset
from crossprop._support.formats import plural
from crossprop.engines import ENGINES
from crossprop.experiments.facts import machine
from crossprop.learners import LEARNERS, Learner
from crossprop.network import Network
from crossprop.running import run
from crossprop.seeds import keys
from crossprop.streams import Arrays

if TYPE_CHECKING:
    from rich.table import Table

RECORD_EVERY = 50
STEP_SIZE = 5e-4
MAX_STEPS = 200_000
"""Examples of MNIST's size that fit into a gigabyte."""
NUMPY_STEPS = 500
"""NumPy is timed on this many examples of one run."""
NUMPY = "numpy"


class Workload(NamedTuple):
    network: Network
    learners: tuple[str, ...]
    runs: int
    steps: int


WORKLOADS = {
    "geoff": Workload(Network(20, 500), ("crossprop", "backprop"), runs=30, steps=5000),
    "mnist": Workload(
        Network(784, 1024, 10, loss="softmax", incoming_scale=0.1, outgoing_scale=0.1),
        ("crossprop-approx", "backprop"),
        runs=1,
        steps=5000,
    ),
}


class Row(NamedTuple):
    """The seconds that an engine or NumPy took for `runs` runs of `steps` examples, one number per repeat."""

    workload: str
    learner: str
    contender: str
    runs: int
    steps: int
    seconds: tuple[float, ...]

    @property
    def examples_per_second(self) -> float:
        return self.runs * self.steps / median(self.seconds)


@dataclass(frozen=True)
class Benchmark:
    """Count the examples per second of a few learners on this machine: each engine, beside NumPy.

    The workload geoff has the sizes 20-500-1 and 30 runs, mnist 784-1024-10 and one run; the examples are random.

    Example: crossprop bench --workloads geoff --out benchmark
    """

    out: Path = Path("benchmark")
    """Folder for bench.json."""
    workloads: Annotated[tuple[str, ...], Doc(f"Of {', '.join(WORKLOADS)}.")] = tuple(WORKLOADS)
    engines: Annotated[
        tuple[str, ...], QUIET, Doc(f"Of auto, {', '.join(ENGINES)}; default: all that can run the learner.")
    ] = ()
    steps: Annotated[
        Unset[int], Doc(f"Examples per run, a multiple of {RECORD_EVERY}; default: what suits the workload.")
    ] = None
    repeats: int = 5
    """Timings of each contender after a warm-up; their median counts."""

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
        """Times everything, prints a table, and writes `bench.json`, which names `command`."""
        from rich.console import Console

        check_writable("out", self.out)
        console = Console()
        rows: list[Row] = []
        for name in self.workloads:
            workload = WORKLOADS[name]
            network, steps = workload.network, self.steps or workload.steps
            sizes = "-".join(map(str, (network.inputs, *network.hidden, network.outputs)))
            console.print(f"{name}: {sizes}, {plural(workload.runs, 'run')} of {steps:,} examples", highlight=False)
            for learner in workload.learners:
                rows += time_learner(name, learner, steps, self.engines, self.repeats)
        console.print(table(rows))
        write_rows(self.out / "bench.json", rows, command)
        console.print(f"Wrote bench.json to {self.out}.", soft_wrap=True, markup=False, highlight=False)
        return rows


def time_learner(
    workload: str,
    name: str,
    steps: int,
    engines: Sequence[str],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Row]:
    """Times engines and NumPy in turns, so that other work on the machine slows all of them alike."""
    network, _, runs, _ = WORKLOADS[workload]
    learner = LEARNERS[name](network, STEP_SIZE)
    stream = examples(network, steps)
    calls: dict[str, Callable[[], Any]] = {
        engine: partial(run, learner, stream, runs, RECORD_EVERY, engine, progress=False)
        for engine in engines or supporting(learner)
    }
    calls[NUMPY] = partial(numpy_loop, name, learner, examples(network, min(steps, NUMPY_STEPS)))
    seconds: dict[str, list[float]] = {contender: [] for contender in calls}
    with _one_thread():
        for turn in range(1 + repeats):
            for contender, call in calls.items():
                began = clock()
                call()
                if turn:  # the first call compiles
                    seconds[contender].append(clock() - began)
    work = dict.fromkeys(calls, (runs, steps)) | {NUMPY: (1, min(steps, NUMPY_STEPS))}
    return [Row(workload, name, contender, *work[contender], tuple(taken)) for contender, taken in seconds.items()]


def _one_thread() -> AbstractContextManager[Any]:
    """NumPy's products on one thread, if threadpoolctl is installed: a step is too small to share."""
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def supporting(learner: Learner) -> list[str]:
    """The engines that can run a learner here."""
    platform = jax.default_backend()
    return [name for name, engine in ENGINES.items() if engine.why_unsupported(learner, platform) is None]


def examples(network: Network, steps: int) -> Arrays:
    """Random examples, a fifth of whose inputs are on."""
    random = np.random.default_rng(0)
    x = (random.random((steps, network.inputs)) < 0.2).astype(np.float32)
    if network.loss == "softmax":
        return Arrays(x, random.integers(network.outputs, size=steps), classes=network.outputs)
    return Arrays(x, random.normal(size=(steps, network.outputs)).astype(np.float32))


def numpy_loop(name: str, learner: Learner, stream: Arrays) -> np.ndarray:
    """The losses of one run with seed 0, as one would write the rule in NumPy."""
    data_key, initial_key = keys(0)
    sample = stream.sample(data_key)
    x, y = np.asarray(sample.x), np.asarray(sample.y, np.float32)
    initial: Any = learner.init(initial_key)
    u, w = np.array(initial.incoming[0]), np.array(initial.outgoing.T, order="C")
    memory = np.zeros((w.shape[1], *u.shape) if name == "crossprop" else w.shape, u.dtype)
    buffer = np.empty_like(u)
    step_size, losses = np.float32(STEP_SIZE), np.zeros(len(x), np.float32)
    for at, (inputs, target) in enumerate(zip(x, y, strict=True)):
        phi = np.tanh(inputs @ u)
        losses[at], delta = _error(phi @ w, target, learner.network.loss)
        slope, delta = 1 - phi**2, step_size * delta
        keep = 1 - step_size * phi**2
        if name == "crossprop":
            for h, step in zip(memory, delta, strict=True):
                u += np.multiply(h, step * phi, out=buffer)
                h *= keep
                h += np.multiply(inputs[:, None], step * slope, out=buffer)
        elif name == "crossprop-approx":
            u += np.multiply(inputs[:, None], (memory @ delta) * phi * slope, out=buffer)
            memory *= keep[:, None]
            memory += delta
        else:
            u += np.multiply(inputs[:, None], (w @ delta) * slope, out=buffer)
        w += np.outer(phi, delta)
    return losses


def _error(outputs: np.ndarray, target: np.ndarray, loss: str) -> tuple[Any, np.ndarray]:
    """The loss and the error of the outputs."""
    if loss == "squared":
        delta = target - outputs
        return delta @ delta, delta
    shares = np.exp(outputs - outputs.max())
    shares /= shares.sum()
    return -np.log(shares) @ target, target - shares


def times_numpy(row: Row, rows: Iterable[Row]) -> float:
    """How many times as many examples per second as NumPy takes with the same learner."""
    key = (row.workload, row.learner, NUMPY)
    (beside,) = (each for each in rows if (each.workload, each.learner, each.contender) == key)
    return row.examples_per_second / beside.examples_per_second


def table(rows: Sequence[Row]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table("", "", "", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("examples/s", justify="right")
    table.add_column("vs NumPy", justify="right")
    for row in rows:
        rate, ratio = f"{row.examples_per_second:,.0f}", f"{times_numpy(row, rows):.3g}x"
        table.add_row(row.workload, row.learner, row.contender, rate, ratio)
    return table


def write_rows(path: Path, rows: Sequence[Row], command: str) -> None:
    content = {
        "schema": 4,
        "command": command,
        **machine(),
        "record_every": RECORD_EVERY,
        "rows": [
            row._asdict() | {"examples_per_second": row.examples_per_second, "times_numpy": times_numpy(row, rows)}
            for row in rows
        ],
    }
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, allow_nan=False))
