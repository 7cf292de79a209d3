"""Sweeps: learners over grids of hyperparameters and seeds, kept in a store that survives any crash."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop import _checks as check
from crossprop.learners import Learner
from crossprop.network import float_type
from crossprop.progress import bar
from crossprop.running import check_fit, checked_learners, checked_seeds
from crossprop.streams.base import Stream
from crossprop.sweeps.blocks import Block, StoredBlock, build_blocks, lengths, live, missing
from crossprop.sweeps.cluster import connected, live_there
from crossprop.sweeps.evaluate import compare as compare
from crossprop.sweeps.evaluate import finals
from crossprop.sweeps.evaluate import open_evaluation as open_evaluation
from crossprop.sweeps.grid import checked_grids
from crossprop.sweeps.grid import logspace as logspace
from crossprop.sweeps.labelled import labelled, widened
from crossprop.sweeps.store import KEPT, Folder, Memory, SweepSpec, open_for_writing, read_asked

if TYPE_CHECKING:
    import distributed
    import xarray

WRITERS = 4
"""Blocks are written by so many threads: most of the time each waits for the disk."""


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
) -> "dict[str, xarray.Dataset]":
    """Lets every learner live through the stream at every point of a grid, with every seed.

    **Arguments:**

    - `learners`, `stream`, `seeds`, `record_every`, `engine`: as `run`.
    - `over`: values by axis. An axis is a hyperparameter of the learner, or `network.` or `stream.` and a field of
      those. A learner without that hyperparameter is not multiplied along it. Under a learner's name, a dict of axes
      of its own, which come before the common ones of the same name.
    - `store`: a folder that keeps what is done, block by block. What is in it already is not run again, so the same
      call goes on after a crash, and one with more seeds, values, axes or learners extends it. None keeps nothing.
    - `progress`: a bar (True), none (False), or a bar where a terminal shows it (None).
    - `evaluate`: how many fresh seeds, after the greatest of `seeds`, the best setting of every learner is run with,
      into the store: the one with the least mean loss (softmax: error) over `seeds` and all steps.
      `open_evaluation(store)` reads them; they are not among the records returned here.

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
    asked, kept = fill(learners, stream, over, seeds, record_every, engine, store, progress, evaluate, cluster)
    return {grid.name: labelled(grid, record_every, kept) for grid in asked.grids}


def open_sweep(store: str | Path) -> "dict[str, xarray.Dataset]":
    """All that is in a store, as `sweep` returns it. What is not there yet is NaN, and its `diverged_at` -2."""
    asked, kept = read_asked(Path(store)), Folder(Path(store)).blocks
    return {grid.name: labelled(widened(grid, kept), asked.record_every, kept) for grid in asked.grids}


def fill(
    learners: Any,
    stream: Any,
    over: Any,
    seeds: Any,
    record_every: Any,
    engine: str,
    store: str | Path | None,
    progress: bool | None = None,
    evaluate: int | None = None,
    cluster: Any = None,
) -> tuple[SweepSpec, list[StoredBlock]]:
    """`sweep`, short of reading the records back: what was asked for, and all blocks that are there when it is done."""
    named, chosen = checked_learners(learners), checked_seeds(seeds)
    check.integer("record_every", record_every, low=1)
    check_fit({}, stream)
    fresh = _fresh(chosen, evaluate, store)
    grids = [replace(grid, evaluation=fresh) for grid in checked_grids(named, stream, over, chosen)]
    asked = SweepSpec(int(record_every), str(float_type()), grids)
    blocks = build_blocks(asked.grids, named, stream, engine if cluster is None else "auto")
    with (
        connected(cluster, blocks, engine, progress) as client,
        nullcontext(Memory()) if store is None else open_for_writing(Path(store), asked) as place,
    ):
        try:
            if left := missing(blocks, place.blocks):
                _run(left, place, asked.record_every, engine, progress, client)
            if fresh and (left := missing(finals(grids, blocks, place.blocks), place.blocks)):
                _run(left, place, asked.record_every, engine, progress, client)
        except KeyboardInterrupt:
            if store is None:
                raise
            raise KeyboardInterrupt(f"{store}: {KEPT}") from None
        return asked, place.blocks


def _fresh(seeds: list[int], evaluate: Any, store: str | Path | None) -> list[int]:
    """The seeds that are set aside to evaluate the best settings."""
    if evaluate is None:
        return []
    check.integer("evaluate", evaluate, low=1, high=2**32 - 1 - max(seeds))
    if store is None:
        raise ValueError(f"evaluate={evaluate} needs a store, which keeps what it finds: give store a folder")
    return list(range(max(seeds) + 1, max(seeds) + 1 + evaluate))


def _run(
    blocks: list[Block], place: Memory | Folder, record_every: int, engine: str, progress: bool | None, client: Any
) -> None:
    """Runs the blocks and writes each as soon as it is done. The seconds of all of them add up to the sweep's."""
    runs = sum(len(block.seeds) for block in blocks)
    steps = sum(len(block.seeds) * steps for block, steps in zip(blocks, lengths(blocks), strict=True))
    run = live if client is None else partial(live_there, client)
    writing: deque[Future[None]] = deque()
    began = time.perf_counter()
    with (
        bar(f"{runs:,} runs", steps, progress) as advance,
        ThreadPoolExecutor(WRITERS) as writers,
        closing(run(blocks, record_every, engine, advance)) as lived,
    ):
        for number, finished in lived:
            now = time.perf_counter()
            writing.append(writers.submit(place.add, blocks[number], finished, now - began))
            began = now
            if len(writing) > WRITERS:
                writing.popleft().result()
        for each in writing:
            each.result()
