"""Execution: runs in batches of one structure, on every core or device there is."""

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop import _checks as check
from crossprop._files import cache_folder
from crossprop.engines import ENGINES, choose
from crossprop.engines.segments import Probes, Run, RunResult
from crossprop.learners import Learner
from crossprop.streams.base import Life, Stream


def keys(seed: int) -> tuple[jax.Array, jax.Array]:
    """All that a seed means: `(stream_key, initial_key)`, for `stream.sample` and for `learner.init`."""
    check.integer("seed", seed, low=0, high=2**32 - 1)
    stream_key, initial_key = _split(np.uint32(seed))
    return stream_key, initial_key


def key_data(seeds: Iterable[int]) -> dict[int, np.ndarray]:
    """The data of `keys`, a row each, of many seeds at once."""
    chosen = list(seeds)
    return dict(zip(chosen, np.asarray(_split_all(np.array(chosen, np.uint32))), strict=True))


@jax.jit
def _split_all(seeds: jax.Array) -> jax.Array:
    return jax.random.key_data(jax.vmap(_split)(seeds))


@jax.jit
def _split(seed: Any) -> jax.Array:
    return jax.random.split(jax.random.key(seed, impl="threefry2x32"))


class Cell(NamedTuple):
    """One run to be executed."""

    learner: Learner
    stream: Stream
    seed: int


class DevicePool:
    """Where runs go side by side: one batch to each of so many threads of a CPU, two to every other device."""

    def __init__(self, threads: int | None = None):
        places = devices()
        self.count = threads or cores() if places[0].platform == "cpu" else 2 * len(places)
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for slot in range(self.count):
            self.free.put(places[slot % len(places)])


def engine_for(engine: str, learner: Learner, probes: Probes = (), what: str = "the learner") -> str:
    """The engine by name that runs this learner here: by device, sizes and rule. An error says why one cannot."""
    check.choice("engine", engine, ("auto", *ENGINES))
    platform = devices()[0].platform
    if engine == "auto":
        return choose(learner, platform, probes)
    reason = ENGINES[engine].why_unsupported(learner, platform, probes)
    if reason is not None:
        raise ValueError(f"engine={engine!r} cannot run {what}: {reason}")
    return engine


def execute(
    cells: Sequence[Cell],
    record_every: int,
    engines: Sequence[str],
    probes: Probes = (),
    hear: Callable[[int, int, float], None] = lambda cell, steps, seconds: None,
    slots: DevicePool | None = None,
) -> Generator[tuple[int, RunResult], None, None]:
    """Runs the cells, each on the engine named beside it, and yields each one's number and records, as they get done.

    Runs go in batches of one structure, as many side by side as their engine takes: on a CPU one run to a thread, a
    thread to a core. XLA works outside of Python's lock, so that keeps all cores busy with one compiled program, and a
    run's numbers cannot depend on its neighbours. `hear` is told of a cell's steps and the seconds they took. `slots`
    that others use as well bound what runs at a time in all of them together.
    """
    _use_compilation_cache()
    batches = _batches(cells, engines)
    data = key_data({cell.seed for cell in cells})
    lives = _Lives(cells, data)
    stop = threading.Event()

    # What the caller set with JAX's context managers holds for its own thread alone; the workers are told of it.
    wide, slots = jax.config.values["jax_enable_x64"], slots or DevicePool()

    def live(batch: list[int]) -> list[RunResult]:
        device = slots.free.get()
        try:
            with jax.enable_x64(wide), jax.default_device(device):
                return live_here(batch, device.platform)
        finally:
            slots.free.put(device)

    def live_here(batch: list[int], platform: str) -> list[RunResult]:
        began = time.perf_counter()

        def after_segment(steps: int) -> None:
            nonlocal began
            if stop.is_set():
                raise _Stopped
            now = time.perf_counter()
            for number in batch:
                hear(number, steps, (now - began) / len(batch))
            began = now

        runs = [Run(cells[i].learner, lives.take(cells[i]), data[cells[i].seed][1]) for i in batch]
        lived = ENGINES[engines[batch[0]]].live(runs, platform, record_every, probes, after_segment)
        return [each._replace(state=None) for each in lived]  # what it would take to give them is kept no longer

    with ThreadPoolExecutor(slots.count) as pool:
        futures: dict[Future[list[RunResult]], list[int]] = {}
        try:
            futures = {pool.submit(live, batch): batch for batch in batches}
            for future in as_completed(futures):
                yield from zip(futures.pop(future), future.result(), strict=True)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def devices() -> list[Any]:
    """Where runs go: the device that the user chose, or all that there are."""
    chosen = jax.config.values["jax_default_device"]
    if chosen is None:
        return jax.local_devices()
    return [chosen] if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)


def _batches(cells: Sequence[Cell], engines: Sequence[str]) -> list[list[int]]:
    """The cells' numbers, those of one structure together, as many to a batch as their engine takes."""
    groups: dict[Any, list[int]] = {}
    widths: dict[Any, int] = {}
    batches: list[list[int]] = []
    platform = devices()[0].platform
    steps = {which: len(stream.schedule) for which, stream in {id(cell.stream): cell.stream for cell in cells}.items()}
    structures = {
        which: jax.tree.structure(learner)
        for which, learner in {id(cell.learner): cell.learner for cell in cells}.items()
    }
    for number, (cell, engine) in enumerate(zip(cells, engines, strict=True)):
        structure = (engine, structures[id(cell.learner)], steps[id(cell.stream)])
        if structure not in widths:
            widths[structure] = ENGINES[engine].width(cell.learner, platform)
        group = groups.setdefault(structure, [])
        if not group:
            batches.append(group)
        group.append(number)
        if len(group) == widths[structure]:
            del groups[structure]
    return batches


class _Stopped(Exception):
    """Another run failed, or the user interrupted: this one ends at its segment."""


class _Lives:
    """The life of each stream and seed: sampled once, lent to all cells, let go after the last of them."""

    def __init__(self, cells: Sequence[Cell], data: dict[int, np.ndarray]):
        self.data = data
        self.left = Counter((id(cell.stream), cell.seed) for cell in cells)
        self.locks = {which: threading.Lock() for which in self.left}
        self.lives: dict[tuple[int, int], Life] = {}

    def take(self, cell: Cell) -> Life:
        which = id(cell.stream), cell.seed
        with self.locks[which]:
            if which not in self.lives:
                self.lives[which] = _sample(cell.stream, self.data[cell.seed][0])
            self.left[which] -= 1
            return self.lives[which] if self.left[which] else self.lives.pop(which)


def _sample(stream: Stream, key: np.ndarray) -> Life:
    life, steps = stream.sample(jax.random.wrap_key_data(jnp.asarray(key))), len(stream.schedule)
    check.shape("the stream's x", life.pool[:1], (1, stream.inputs))
    check.shape("the stream's order", life.order, (steps,))
    check.shape("the stream's y", life.y, (steps, stream.outputs))
    if life.order.min() < 0 or life.order.max() >= len(life.pool):
        raise ValueError(
            f"the stream's order must hold rows of its pool, 0 to {len(life.pool) - 1}, "
            f"got {life.order.min()} to {life.order.max()}"
        )
    check.finite("the stream's x", life.pool)
    check.finite("the stream's y", life.y)
    return life


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _use_compilation_cache() -> None:
    """Keeps compiled programs from one process to the next, unless the user has a cache of their own."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        compilation_cache.reset_cache()
