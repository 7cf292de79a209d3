"""Sweeps: learners over grids of hyperparameters and seeds, kept in a store that survives any crash."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._support import interrupts as interrupts
from crossprop._support.interrupts import interruptible
from crossprop.engines.protocol import Metric, Probe
from crossprop.engines.segments import seconds_per_step
from crossprop.experiments.blocks import Block, BlockResult, build_blocks, missing, run_blocks
from crossprop.experiments.cluster import Workers, connected, run_blocks_on_cluster
from crossprop.experiments.evaluate import evaluation_blocks
from crossprop.experiments.evaluate import open_evaluation as open_evaluation
from crossprop.experiments.findings import compare as compare
from crossprop.experiments.grid import logspace as logspace
from crossprop.experiments.labelled import extended, labelled
from crossprop.experiments.spec import SweepSpec as SweepSpec
from crossprop.experiments.store import CONTINUES, Store, open_for_writing, read_store
from crossprop.learners.base import Learner
from crossprop.progress import bar
from crossprop.source_identity import warn_unknown
from crossprop.streams.base import Stream

if TYPE_CHECKING:
    import distributed
    import xarray

WRITERS = 4
"""Threads that write blocks: most of the time each waits for the disk."""


@interruptible()
def sweep(
    learners: Learner | Mapping[str, Learner],
    stream: Stream,
    over: Mapping[str, Any],
    seeds: int | Sequence[int] = 30,
    record_every: int = 50,
    engine: str = "auto",
    store: str | Path | None = None,
    progress: bool | None = None,
    evaluate: int | None = None,
    cluster: "str | distributed.Client | None" = None,
    *,
    steps: int | None = None,
    probes: Mapping[str, Probe] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> "dict[str, xarray.Dataset]":
    """Runs every learner on the stream at every point of a grid, with every seed.

    **Arguments:**

    - `learners`, `stream`, `seeds`, `record_every`, `engine`, `steps`, `probes`, `metrics`: as for `run`.
    - `over`: values by axis. An axis is a hyperparameter of the learner, `network.` or `stream.` and one of their
      fields, or a hyperparameter of a part of the learner, such as `optimizer.meta_step_size`. Learners ignore axes
      they do not have. A learner's name, or a pattern such as `"*-adam"`, with a dict of axes gives axes to those
      learners only, in the place of common ones of the same name.
    - `store`: a folder that keeps what is done, block by block. What is in it is not run again, so the same call
      continues after a crash, and one with more seeds, values, axes or learners extends it. None keeps nothing.
    - `progress`: a bar (True), none (False), or a bar in a terminal only (None).
    - `evaluate`: run the best setting of every learner with this many fresh seeds, after the greatest of `seeds`, into
      the store. The best has the least mean loss (softmax: error) over `seeds` and all steps. `open_evaluation(store)`
      reads those runs; they are not among the records returned here.
    - `cluster`: the address of a Dask scheduler, or a client of one, whose workers run the blocks; only this process
      writes. None runs them here, on all cores or all GPUs.

    **Returns:** an `xarray.Dataset` for every learner by name, as `run`'s, with the axes as dims before `seed` and
    `step`; None is NaN there. Each run is the one that `run` gives for that learner, stream and seed, bit for bit.

    ```python
    net = Network(inputs=20, hidden=100)
    grid = {"step_size": logspace(2**-14, 2**-6, base=2), "eta": [0, 0.5, 1]}
    records = sweep({"crossprop": Crossprop(net, 1e-3), "backprop": Backprop(net, 1e-3)}, Geoff(), over=grid, seeds=4)
    records["crossprop"].loss.mean(["seed", "step"])
    ```
    """
    options = {"engine": engine, "store": store, "evaluate": evaluate, "steps": steps}
    spec = SweepSpec.of(learners, stream, over, seeds, record_every, probes=probes, metrics=metrics, **options)
    blocks = fill(spec, progress, cluster)
    return {grid.name: labelled(grid, blocks) for grid in spec.grids}


def open_sweep(store: str | Path) -> "dict[str, xarray.Dataset]":
    """All that is in a store, as `sweep` returns it. What is not there yet is NaN, and its `diverged_at` -2."""
    grids, blocks = read_store(Path(store))
    return {grid.name: labelled(extended(grid, blocks), blocks) for grid in grids}


@interruptible()
def fill(
    spec: SweepSpec,
    progress: bool | None = None,
    cluster: Any = None,
    on_start: Callable[[int, float], None] = lambda runs, core_seconds: None,
    *,
    tune: bool = True,
    into: Store | None = None,
) -> list[BlockResult]:
    """Runs what is missing of a sweep; all blocks that are there when it is done. `on_start` is called before work with
    the number of runs, and with about how many seconds they would take one core of a CPU. Without `tune`, only the best
    of the settings that are there is evaluated. `into` is the store if it is open already."""
    blocks = build_blocks(spec, spec.engine if cluster is None else "auto")
    if into is not None:
        into.take_up(spec.grids)
    if spec.store is not None:
        warn_unknown(spec.sources, f"store={str(spec.store)!r}")
    with (
        connected(cluster, blocks, spec, progress) as workers,
        opened(spec) if into is None else nullcontext(into) as store,
    ):
        try:
            if tune:
                _run(missing(blocks, store.blocks, spec.options), store, spec, on_start, progress, workers)
            if spec.evaluate:
                fresh = evaluation_blocks(spec.grids, blocks, store.blocks)
                _run(missing(fresh, store.blocks, spec.options), store, spec, on_start, progress, workers)
        except KeyboardInterrupt:
            if spec.store is None:
                raise
            raise KeyboardInterrupt(f"what is in {spec.store} is kept, and {CONTINUES}") from None
        return store.blocks


def opened(spec: SweepSpec) -> AbstractContextManager[Store]:
    """The sweep's store, for this process alone."""
    return nullcontext(Store()) if spec.store is None else open_for_writing(spec.store, spec.grids)


def _run(
    blocks: list[Block],
    store: Store,
    spec: SweepSpec,
    on_start: Callable[[int, float], None],
    progress: bool | None,
    workers: Workers | None,
) -> None:
    """Runs the blocks and writes each as soon as it is done. The seconds of all of them add up to the sweep's."""
    if not blocks:
        return
    runs, steps = sum(len(block.seeds) for block in blocks), [each.total_steps(spec.options) for each in blocks]
    on_start(runs, sum(count * seconds_per_step(each.learner) for count, each in zip(steps, blocks, strict=True)))
    run = run_blocks if workers is None else partial(run_blocks_on_cluster, workers)
    writing: deque[Future[None]] = deque()
    began = time.perf_counter()
    with (
        bar(f"{runs:,} runs", sum(steps), progress) as advance,
        ThreadPoolExecutor(WRITERS) as writers,
        closing(run(blocks, spec.options, spec.engine, advance)) as results,
    ):
        for number, result in results:
            interrupts.check()
            now = time.perf_counter()
            writing.append(writers.submit(store.add, blocks[number], result, now - began))
            began = now
            if len(writing) > WRITERS:
                writing.popleft().result()
        for each in writing:
            each.result()
