"""`crossprop sweep`, `crossprop status` and `crossprop plot`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from crossprop._support.formats import plural
from crossprop.cli.console import say, wrap
from crossprop.cli.flags import STREAM_HELP, ExperimentFlags, Unset
from crossprop.cli.tables import print_status
from crossprop.execution import expected_time
from crossprop.experiments import fill
from crossprop.experiments.sweep_page import plot
from crossprop.experiments.toml import read_spec
from crossprop.streams.table import is_table

OVER_HELP = (
    "An axis of the grid and its values. The axis is a hyperparameter, or network. or stream. and one of their fields. "
    "eta=0,0.5 is a list, network.hidden=100,64x64 one layer or two, step_size=2**-14..2**-6 the powers of 2 in a "
    "range, 1e-4..1e-1 the powers of 10. crossprop:eta=0,0.5 is an axis of one learner only."
)


@dataclass
class Sweep:
    """Run learners over a grid of hyperparameters, with many seeds, into a folder that survives any crash.

    The same command continues an interrupted sweep; with more seeds, values, axes or learners it extends it.

    It ends with the best setting of each learner and how it compares with backprop. The best of many settings looks
    better than it is, so --evaluate runs it again on fresh seeds. With eta=1 crossprop is backprop: leave 1 out of
    its axis.

    Examples:
      crossprop sweep --stream geoff --learners crossprop backprop --seeds 5
        --over step_size=2**-13..2**-9 --over eta=0,0.5 --store kept --evaluate 30
      crossprop sweep --stream digits --learners backprop --store kept-digits
        --over network.hidden=64,64x64
      crossprop sweep data.csv --target price --learners crossprop backprop
        --over step_size=2**-8..2**-4 --store kept-prices
    """

    experiment: ExperimentFlags
    file: Annotated[Positional[Unset[Path]], arg(metavar="[FILE]")] = None
    """A sweep in TOML, for which docs/sweeping.md has an example; flags override the file. Or a CSV or Parquet file to
    learn from, with --target."""
    stream: Annotated[Unset[str], arg(metavar="NAME", help=STREAM_HELP)] = None
    over: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="AXIS=VALUES", help=OVER_HELP)] = ()
    seeds: Unset[int] = None
    """Number of runs of each setting, with seeds 0, 1, 2 ...; default: 30."""
    steps: Unset[int] = None
    """Number of examples of a run; default: the whole stream. An endless stream needs it."""
    store: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder that keeps the records."""
    cluster: Annotated[Unset[str], arg(metavar="ADDRESS")] = None
    """Dask scheduler whose workers run the sweep, such as tcp://host:8786; default: on this machine."""
    evaluate: Unset[int] = None
    """Number of fresh seeds to run the best setting of every learner with; default: none."""


@dataclass
class Status:
    """Show the progress of a sweep: runs done, missing and diverged, the time left, and the best settings so far.

    Example: crossprop status geoff-sweep
    """

    store: Annotated[Path, arg(metavar="FOLDER")]
    """Folder that a sweep writes to."""


@dataclass
class Plot:
    """Draw the results of a sweep: sensitivity curves, heat maps, learning curves of the best, and one page.

    Examples:
      crossprop plot geoff-sweep
      crossprop plot geoff-sweep --format pdf --width 3.3
    """

    store: Annotated[Path, arg(metavar="FOLDER")]
    """Folder that a sweep wrote to."""
    out: Annotated[Unset[Path], arg(metavar="FOLDER")] = None
    """Folder for the figures and sweep.html; default: the folder plots in the store."""
    format: str = "png"
    """png, pdf or svg."""
    width: Unset[float] = None
    """Draw each chart in a file of its own, so many inches wide and without a title; default: charts side by side."""


def run_sweep(flags: Sweep) -> None:
    tables = flags.experiment.tables()
    file, stream = flags.file, flags.stream
    if is_table(str(file)) and stream is None:
        file, stream = None, str(file)
    if stream is not None:
        tables["stream"] = {"name": stream} | tables.get("stream", {})
    spec = read_spec(
        file,
        flags.over,
        flags.experiment.learner_flags(),
        **tables,
        seeds=flags.seeds,
        steps=flags.steps,
        store=flags.store,
        evaluate=flags.evaluate,
    )
    if spec.store is None:
        raise ValueError("store must be a folder for the records: give --store FOLDER, or store in the file")
    if about := getattr(spec.stream, "about", ""):
        wrap(about, aside=True)
    fill(spec, cluster=flags.cluster, on_start=partial(_announce, flags.cluster is None))
    print_status(spec.store)
    fresh = ", open_evaluation those of the fresh seeds." if spec.evaluate else "."
    say(f"The records are in {spec.store}: crossprop.open_sweep({str(spec.store)!r}) reads them{fresh}")


def _announce(here: bool, runs: int, core_seconds: float) -> None:
    """Tells how many runs there are to do, and how long they will take on this machine."""
    estimate = expected_time(core_seconds) if here else ""
    if estimate:
        estimate = f" {estimate} After Ctrl-C the same command goes on."
    wrap(f"{plural(runs, 'run')} to do.{estimate}")


def draw_plots(flags: Plot) -> None:
    for path in plot(flags.store, flags.out, flags.format, flags.width):
        say(f"Wrote {path}.")
