"""Execution: runs in batches of one structure, on every core or device there is."""

import itertools
import os
import queue
import re
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from crossprop._support import checks as check
from crossprop._support import forks, interrupts, xla
from crossprop._support.files import bound_folder, cache_folder, why_not_private
from crossprop._support.formats import about, plural
from crossprop._support.programs import make_room
from crossprop._support.transfers import to_device
from crossprop.checkpoints import Checkpoints
from crossprop.engines import ENGINES, choose
from crossprop.engines.feed import Feed, Loaded, SharedTables
from crossprop.engines.protocol import Batch, Run, RunOptions, RunResult
from crossprop.engines.segments import compiler_options
from crossprop.engines.session import Session
from crossprop.learners.base import Learner
from crossprop.network import float_type
from crossprop.source_identity import drop_outdated_programs
from crossprop.streams.iterator import Iterator as IteratorStream
from crossprop.variables import Variable

SECONDS_TO_INTERRUPT = 0.2
"""Seconds between checks for a Ctrl-C that Python lost."""
ITERATOR_SEGMENT = 1024
"""Examples of an iterator that all runs learn from before the next ones are taken."""
MOST_CACHED = 2**30
"""Bytes of compiled programs on disk; beyond, the least recently used are removed."""
HARMLESS_FLAGS = ("--xla_force_host_platform_device_count", "--xla_dump")
LEAST_SECONDS_CACHED = 0.1
"""Programs that compile faster are not kept on disk."""
LONG = 30
"""Seconds; a command that takes longer prints an estimate first."""


class DevicePool:
    """Slots for batches that run in parallel: one per thread of a CPU, or two per device elsewhere."""

    def __init__(self, threads: int | None = None):
        places = devices()
        self.count = threads or cores() if places[0].platform == "cpu" else 2 * len(places)
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for slot in range(self.count):
            self.free.put(places[slot % len(places)])


def engine_for(
    engine: str,
    learner: Learner,
    observed: tuple[Variable, ...] = (),
    what: str = "the learner",
) -> str:
    """The name of the engine for this learner on this machine. An error says why one cannot run it."""
    check.choice("engine", engine, ("auto", *ENGINES))
    drop_outdated_programs(learner)  # the choice depends on its code
    platform = devices()[0].platform
    if engine == "auto":
        return choose(learner, platform, observed)
    reason = ENGINES[engine].why_unsupported(learner, platform, observed)
    if reason is not None:
        raise ValueError(f"engine={engine!r} cannot run {what}: {reason}")
    return engine


class Executor:
    """Executes runs, each on its engine.

    Runs go in batches of one structure, as many side by side as their engine takes. On a CPU a batch is one run and
    every core has a thread: XLA releases Python's lock, so one compiled program keeps all cores busy, and a run's
    numbers cannot depend on its neighbours.

    **Arguments:**

    - `on_progress`: called with a run's number, the steps it just took and the seconds they took.
    - `pool`: the devices to use; sharing one bounds what runs at a time in several executors together.
    - `checkpoints`: where batches are saved from time to time, and taken up from.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        engines: Sequence[str],
        options: RunOptions,
        *,
        on_progress: Callable[[int, int, float], None] = lambda run, steps, seconds: None,
        pool: DevicePool | None = None,
        checkpoints: Checkpoints | None = None,
    ):
        self.runs, self.engines, self.options = runs, engines, options
        self.on_progress, self.checkpoints = on_progress, checkpoints
        drop_outdated_programs(*{id(each): each for run in runs for each in (run.learner, run.stream)}.values())
        drop_outdated_programs(*(variable.of for variable in options.observed))
        self.pool = pool or DevicePool()
        self.stop = threading.Event()
        # JAX's context managers hold for the caller's thread alone, so workers have to set it again.
        self.x64 = float_type() == "float64"

    def results(self) -> Generator[tuple[int, RunResult], None, None]:
        """The number and the result of every run, as they finish."""
        batches = _batches(self.runs, self.engines, self.options, self.pool.count)
        iterators = {id(run.stream) for run in self.runs if isinstance(run.stream, IteratorStream)}
        with ThreadPoolExecutor(self.pool.count) as threads:
            try:
                if iterators:
                    yield from self._in_step(threads, batches)
                else:
                    yield from self._independently(threads, batches)
            finally:
                self.stop.set()
                threads.shutdown(cancel_futures=True)

    def _independently(self, threads: ThreadPoolExecutor, batches: list[list[int]]) -> Iterator[tuple[int, RunResult]]:
        tables = SharedTables(self.runs, at_once=devices()[0].platform != "cpu" and len(devices()) == 1)

        def one(batch: list[int]) -> list[RunResult]:
            session = self._open(batch, tables.feed([self.runs[i] for i in batch]))
            if self.checkpoints is not None:
                self.checkpoints.restore(batch[0], session)
            self._finish(session, batch)
            return session.results()

        done: queue.SimpleQueue[tuple[list[int], Future[list[RunResult]]]] = queue.SimpleQueue()
        for batch in batches:
            future = threads.submit(self._on_device, one, batch)
            future.add_done_callback(lambda future, batch=batch: done.put((batch, future)))
            del future  # its result goes with it
        for _ in batches:
            batch, future = self._next(done)
            yield from zip(batch, future.result(), strict=True)

    def _next(self, done: "queue.SimpleQueue[Any]") -> Any:
        while True:
            interrupts.check()
            try:
                return done.get(timeout=SECONDS_TO_INTERRUPT)
            except queue.Empty:
                continue

    def _finish(self, session: Session, batch: list[int]) -> None:
        steps = session.batch.stop
        assert steps is not None
        while session.step < steps:
            self._advance(session, batch, session.next_count(steps))
            if self.checkpoints is not None:
                self.checkpoints.save(batch[0], session, done=session.step == steps)

    def _in_step(self, threads: ThreadPoolExecutor, batches: list[list[int]]) -> Iterator[tuple[int, RunResult]]:
        """All batches go through the same examples together, since an iterator gives them once."""
        stream = self.runs[0].stream
        assert isinstance(stream, IteratorStream)
        source, limit = Loaded(stream), self.options.stop(stream)
        size = ITERATOR_SEGMENT if limit is None else min(ITERATOR_SEGMENT, limit)
        start = lambda batch: self._open(batch, Feed([source], np.zeros(len(batch), np.int32)), size)
        sessions = list(threads.map(lambda batch: self._on_device(start, batch), batches))
        with stream.batches(size, limit) as examples:
            for x, y in examples:
                interrupts.check()
                count = len(x) if limit is None else min(len(x), limit - sessions[0].step)
                source.x, source.y = x[:count], y[:count]
                advance = lambda pair, count=count: self._on_device(self._advance, *pair, count)
                list(threads.map(advance, zip(sessions, batches, strict=True)))
                if sessions[0].step == limit:
                    break
        if sessions[0].step == 0 or (limit is not None and sessions[0].step < limit):
            wanted = "at least one example" if limit is None else f"{limit} examples"
            spent = "; what was read before, such as a generator, gives nothing again" * (not sessions[0].step)
            raise ValueError(f"the stream's iterable must give {wanted}, got {sessions[0].step}{spent}")
        for session, batch in zip(sessions, batches, strict=True):
            yield from zip(batch, session.results(), strict=True)

    def _open(self, batch: list[int], feed: Feed, segment: int | None = None) -> Session:
        return open_session(self.engines[batch[0]], [self.runs[i] for i in batch], self.options, feed, segment)

    def _advance(self, session: Session, batch: list[int], count: int) -> None:
        interrupts.check()
        began = time.perf_counter()
        session.advance(count)
        seconds = (time.perf_counter() - began) / len(batch)
        for number in batch:
            self.on_progress(number, count, seconds)

    def _on_device(self, work: Callable[..., Any], *arguments: Any) -> Any:
        device = self.pool.free.get()
        try:
            with (
                interrupts.stopped_by(self.stop),
                jax.enable_x64(self.x64),
                xla.partitionable_keys(),
                jax.default_device(device),
            ):
                return work(*arguments)
        finally:
            self.pool.free.put(device)


def open_session(
    engine: str, runs: Sequence[Run], options: RunOptions, feed: Feed | None = None, segment: int | None = None
) -> Session:
    """Begins a batch of runs of one structure. `feed` has their examples, `segment` the steps of a segment."""
    if make_room():
        bound_compilation_cache()
    runs = [run if run.start is None else run._replace(start=to_device(run.start)) for run in runs]
    return ENGINES[engine].start(Batch(runs, options, feed, segment), devices()[0].platform)


def devices() -> list[Any]:
    """The devices for runs: the one that the user chose, or all local ones."""
    forks.check()
    chosen = xla.setting("jax_default_device")
    if chosen is None:
        try:
            return jax.local_devices()
        except (AssertionError, RuntimeError) as problem:
            asked = xla.setting("jax_platforms")
            raise ValueError(f"JAX_PLATFORMS must name a platform that has a device, got {asked!r}") from problem
    return [chosen] if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)


def device_kind() -> str:
    """The kind of the devices for runs. On another kind, numbers are rounded in another way."""
    device = devices()[0]
    vectors = compiler_options(device.platform).get("xla_cpu_prefer_vector_width")
    return device.device_kind if vectors is None else f"{device.device_kind} with vectors of {vectors} bits"


def compiler_flags() -> str:
    """Flags that the user gives to XLA's compiler: they may change the numbers of runs."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    return " ".join(sorted(flag for flag in flags if not flag.startswith(HARMLESS_FLAGS)))


def _batches(
    runs: Sequence[Run], engines: Sequence[str], options: RunOptions, structures_at_a_time: int
) -> list[list[int]]:
    """The numbers of the runs, those of one structure together, as many to a batch as their engine takes.

    Structures take turns, `structures_at_a_time` of them: each has a program of its own, and a core compiles one at a
    time.
    """
    alike: dict[Any, list[int]] = {}
    of_pair: dict[tuple[str, int, int], list[int]] = {}
    for number, (run, engine) in enumerate(zip(runs, engines, strict=True)):
        which = engine, id(run.learner), id(run.stream)
        if which not in of_pair:  # once for all seeds: to compare structures takes long
            structure = engine, jax.tree.structure(run.learner), options.stop(run.stream)
            of_pair[which] = alike.setdefault(structure, [])
        of_pair[which].append(number)
    batches, platform = [], devices()[0].platform
    for (engine, *_), numbers in alike.items():
        width = ENGINES[engine].width(runs[numbers[0]].learner, platform)
        batches.append([numbers[at : at + width] for at in range(0, len(numbers), width)])
    groups = [batches[at : at + structures_at_a_time] for at in range(0, len(batches), structures_at_a_time)]
    return [batch for group in groups for turn in itertools.zip_longest(*group) for batch in turn if batch is not None]


_warned: set[str] = set()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expected_time(core_seconds: float) -> str:
    """A sentence about the time of long work on this machine; empty for short work, and on GPUs."""
    seconds = core_seconds / cores()
    if seconds < LONG or jax.default_backend() != "cpu":
        return ""
    return f"This takes about {about(seconds)} on {plural(cores(), 'core')}."


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk for other processes, as the command line does.

    It turns on JAX's persistent compilation cache for the whole process: programs of your own that take more than 0.1 s
    to compile are kept, too. A cache that is set already (`jax_compilation_cache_dir`) stays.

    ```python
    cp.use_compilation_cache()
    ```
    """
    if xla.setting("jax_compilation_cache_dir") is None:
        folder = cache_folder() / "compiled"
        if (reason := why_not_private(folder)) is not None:
            if reason not in _warned:
                _warned.add(reason)
                remedy = "set CROSSPROP_CACHE to a folder of your own"
                warnings.warn(f"compiled programs are not kept in {folder}, since {reason}: {remedy}", stacklevel=2)
            return
        xla.cache_on_disk(str(folder), LEAST_SECONDS_CACHED)
        bound_compilation_cache()


def bound_compilation_cache() -> None:
    """Bounds the size of the cache on disk, unless it is the user's own. JAX's own bound needs a package for locks, and
    reads a file for every cached program before it writes one."""
    folder = cache_folder() / "compiled"
    if xla.setting("jax_compilation_cache_dir") == str(folder):
        bound_folder(folder, xla.CACHED, MOST_CACHED)


@contextmanager
def damaged_programs_removed() -> Iterator[None]:
    """Removes damaged programs, as a full disk leaves them, from the cache on disk; JAX would warn and keep them."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def remove_or_show(message: Any, *where: Any, **more: Any) -> None:
            found = re.match(xla.UNREADABLE, str(message))
            if found is None:
                show(message, *where, **more)
                return
            for path in (cache_folder() / "compiled").glob(f"{found[1]}-*"):
                path.unlink(missing_ok=True)

        warnings.showwarning = remove_or_show
        yield
