"""The runs of a page: sessions of the engines, advanced one short segment at a time, and the messages about them."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop import records as schema
from crossprop._support import interrupts, xla
from crossprop.configuration import configuration
from crossprop.descriptions import learner_info
from crossprop.engines import ENGINES
from crossprop.engines.feed import Feed
from crossprop.engines.protocol import Run, RunOptions
from crossprop.engines.segments import seconds_for
from crossprop.engines.session import Session
from crossprop.engines.tables import Tables, tables_of
from crossprop.execution import DevicePool, device_kind, devices, engine_for, open_session
from crossprop.experiments.charts import band, band_words, to_json
from crossprop.experiments.looks import looks
from crossprop.lab.code import as_command, as_python
from crossprop.lab.features import Features
from crossprop.lab.settings import Setting
from crossprop.network import Network
from crossprop.streams import PoolStream
from crossprop.variables import VARIABLES, window_ends

SEGMENT_SECONDS = 8e-3
"""About how long one run advances before it can be stopped."""
SHORTEST_SEGMENT = 100
FEATURES_EVERY = 0.3
"""Seconds between two pictures of the features."""
MOST_EXAMPLES = 2**32
"""Bytes of the examples that are kept for all pages together."""
SECONDS_TO_END = 3
"""Seconds that work has to end when the lab does."""
WAKE = 0.2
"""Seconds between two checks whether work was stopped, or a paused page goes on."""

Frame = dict[str, Any]
Closing = Callable[[], bool]

_counter: ContextVar["PageRuns | None"] = ContextVar("counter", default=None)


def _count_compilation() -> None:
    running = _counter.get()
    if running is not None:
        running.compiled += 1


xla.listen(xla.COMPILED, _count_compilation)


class Shared:
    """What all pages share: threads for the devices, the streams' examples, and the set of compiled programs."""

    def __init__(self, imports: tuple[str, ...] = (), closing: Closing = lambda: False) -> None:
        self.imports, self.closing = imports, closing
        self.pool = DevicePool()
        self.threads = ThreadPoolExecutor(self.pool.count, thread_name_prefix="crossprop-lab")
        self.tables: dict[tuple[str, int], Tables] = {}
        """The examples by stream and seed; those used longest ago come first."""
        self.programs: set[Any] = set()
        self.work: set[Future[Any]] = set()
        self.lock = threading.Lock()

    def tables_for(self, setting: Setting, run: Run) -> Tables:
        """The tables of a run's stream and seed, from the cache if they are in it."""
        key = setting.stream_name, run.seed
        with self.lock:
            tables = self.tables.pop(key, None) or tables_of(run.stream, run.seed)
            self.tables[key] = tables
            while len(self.tables) > 1 and self._size() > MOST_EXAMPLES:
                del self.tables[next(iter(self.tables))]
            return tables

    def _size(self) -> int:
        """The bytes of all examples, without those that are mapped from a file; a shared table counts once."""
        tables = (table for each in self.tables.values() for table in each.pool[:2])
        return sum({id(table): table.nbytes for table in tables if not isinstance(table, np.memmap)}.values())

    def new_programs(self, programs: Mapping[str, Any]) -> list[str]:
        """The names of the programs that are not compiled yet."""
        new = [name for name, program in programs.items() if program not in self.programs]
        self.programs.update(programs.values())
        return new

    async def on_device(self, running: "PageRuns", work: Callable[[], Any]) -> Any:
        """Does work of a page in a thread, on a device that is free."""

        def task() -> Any:
            device = self.pool.free.get()
            token = _counter.set(running)
            try:
                with interrupts.stopped_by(running.stop), jax.default_device(device):
                    return work()
            finally:
                _counter.reset(token)
                self.pool.free.put(device)

        done = self.threads.submit(task)
        self.work.add(done)
        done.add_done_callback(self.work.discard)
        waiting = asyncio.wrap_future(done)
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=WAKE)
                if self.closing():  # a compilation, which cannot be stopped, is left alone
                    raise interrupts.Stopped
            return waiting.result()
        finally:
            waiting.cancel()

    def close(self) -> bool:
        """Ends all work, and returns whether it has ended: a compilation cannot be stopped."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        return not wait([*self.work], SECONDS_TO_END).not_done


class Group(NamedTuple):
    """Runs of one learner that an engine executes together."""

    learner: str
    session: Session


class PageRuns:
    """The runs of one page: `frames` starts them and yields messages, until they end or `stop` is set."""

    def __init__(self, shared: Shared, setting: Setting):
        self.shared, self.setting = shared, setting
        self.engines = {name: engine_for("auto", each) for name, each in setting.learners.items()}
        self.segment = segment_of(setting.network, setting.record_every, setting.steps)
        self.stop, self.paused = threading.Event(), False
        self.compiled = 0
        self.sent = 0
        self.features: dict[str, Features] = {}

    async def frames(self) -> AsyncIterator[Frame]:
        """The messages to the page: `begin`, then `windows` and `features` repeatedly, and `end`."""
        began = time.perf_counter()
        yield self._begin()
        if new := self.shared.new_programs(self._programs()):
            yield {"kind": "compiling", "new": new}
        groups = await self._start(new)
        shown = -FEATURES_EVERY
        while not (self.stop.is_set() or self.shared.closing()):
            if self.paused:
                yield {"kind": "paused"}
                await asyncio.sleep(WAKE)
                began += WAKE
                continue
            await self._advance(groups)
            yield self._windows(groups, time.perf_counter() - began)
            done = groups[0].session.step == self.setting.steps
            if self._visit_ends(groups[0].session.step) or time.perf_counter() - shown > FEATURES_EVERY:
                shown = time.perf_counter()
                yield await self._look(groups)
            if done:
                yield {"kind": "end", "seconds": time.perf_counter() - began, "diverged": _diverged(groups)}
                return

    def _programs(self) -> dict[str, Any]:
        """Keys of the programs of the stream and of each learner: equal for settings that share a program."""
        setting, sizes = self.setting, (self.setting.stream.inputs, self.setting.stream.outputs)
        shared = (self.segment, (self.segment - 1) // setting.record_every, *sizes)
        return {"the stream": setting.stream_name} | {
            name: (jax.tree.structure(learner), self.engines[name], *shared)
            for name, learner in setting.learners.items()
        }

    def _begin(self) -> Frame:
        setting = self.setting
        learners = {name: configuration(each) for name, each in setting.learners.items()}
        infos = {name: learner_info(each) for name, each in learners.items()}
        ends = window_ends(setting.steps, setting.record_every)
        marks = schema.marks(ends, np.asarray(setting.stream.task(ends - 1)))
        return {
            "kind": "begin",
            "learners": [
                {"name": name, "engine": self.engines[name]} | look._asdict() for name, look in looks(infos).items()
            ],
            "steps": setting.steps,
            "record_every": setting.record_every,
            "seeds": len(setting.seeds),
            "band": band_words(len(setting.seeds)),
            "device": device_kind(),
            "tasks": [mark._asdict() for mark in marks],
            "python": as_python(setting, self.shared.imports),
            "command": as_command(setting, self.shared.imports),
        }

    async def _start(self, new: list[str]) -> list[Group]:
        setting, platform = self.setting, devices()[0].platform
        options = RunOptions(setting.record_every, setting.steps)

        def start(job: tuple[str, list[int]]) -> Group:
            name, seeds = job
            runs = [Run(setting.learners[name], setting.stream, seed) for seed in seeds]
            feed = Feed.of(runs, partial(self.shared.tables_for, setting))
            group = Group(name, open_session(self.engines[name], runs, options, feed, self.segment))
            if name in new and seeds[0] == setting.seeds[0]:
                # One run compiles each new program before the others need it.
                group.session.advance(self._until(0))
            return group

        found: list[Group] = []
        for first in (True, False):
            jobs: list[tuple[str, list[int]]] = []
            for name, learner in setting.learners.items():
                width = ENGINES[self.engines[name]].width(learner, platform)
                parts = [setting.seeds[at : at + width] for at in range(0, len(setting.seeds), width)]
                jobs += [(name, part) for part in (parts[:1] if first else parts[1:])]
            found += await self._for_each(start, jobs)
        order = list(setting.learners)
        return sorted(found, key=lambda group: order.index(group.learner))

    async def _for_each(self, work: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
        """Results of `work(thing)` for each thing, on the devices."""
        return await asyncio.gather(*(self.shared.on_device(self, partial(work, thing)) for thing in things))

    async def _advance(self, groups: list[Group]) -> None:
        """All runs go to the end of the next segment."""
        until = self._until(min(group.session.step for group in groups))

        def advance(group: Group) -> None:
            if group.session.step < until and not self.stop.is_set():
                group.session.advance(until - group.session.step)

        await self._for_each(advance, groups)

    def _until(self, step: int) -> int:
        """Where the next segment ends: with examples from a table at a task switch at the latest, and the first one
        early, to be seen sooner. Other streams are compiled for a number of examples, and deal whole segments."""
        setting, count = self.setting, self.segment
        if not isinstance(setting.stream, PoolStream):
            return min(step + count, setting.steps)
        if step == 0:
            count = min(count, max(1, count // setting.record_every // 4) * setting.record_every)
        until = min(step + count, setting.steps)
        tasks = np.asarray(setting.stream.task(np.arange(step, until)))
        return step + int(np.argmax(np.append(tasks != tasks[0], True)))

    def _windows(self, groups: list[Group], seconds: float) -> Frame:
        """The windows that were finished since the last frame: means over seeds, with their bands."""
        setting = self.setting
        step = groups[0].session.step
        ends = window_ends(setting.steps, setting.record_every)
        upto = int(np.searchsorted(ends, step, side="right"))
        curves: dict[str, dict[str, Any]] = {}
        for name in setting.learners if upto > self.sent else ():
            runs = [run for group in groups if group.learner == name for run in group.session.results()]
            for variable in runs[0].records:
                values = np.array([run.records[variable][self.sent : upto] for run in runs], np.float64)
                mean, low, high = band(values)
                line = {"mean": to_json(mean)}
                if len(runs) > 1:
                    line |= {"low": to_json(low), "high": to_json(high)}
                curves.setdefault(variable, {})[name] = line
        start, self.sent = self.sent, upto
        return {
            "kind": "windows",
            "from": start,
            "step": ends[start:upto].tolist(),
            "variables": variables(curves) if start == 0 else [],
            "curves": curves,
            "at": step,
            "rate": len(setting.learners) * len(setting.seeds) * step / seconds,
            "compiled": self.compiled,
        }

    def _visit_ends(self, step: int) -> bool:
        """Whether the next segment has another task, or there is none."""
        if step == self.setting.steps:
            return True
        tasks = np.asarray(self.setting.stream.task(np.array([step, self._until(step)]) - 1))
        return bool(tasks[0] != tasks[1])

    async def _look(self, groups: list[Group]) -> Frame:
        """The features of every learner's first run."""
        setting, step = self.setting, groups[0].session.step
        task = schema.task_label(int(np.asarray(setting.stream.task(np.array([step - 1])))[0]))
        ends = self._visit_ends(step)
        first = {group.learner: group.session for group in reversed(groups)}

        def look(name: str) -> Frame | None:
            if name not in self.features:
                run = Run(setting.learners[name], setting.stream, setting.seeds[0])
                feed = Feed.of([run], partial(self.shared.tables_for, setting))
                self.features[name] = Features(run, feed)
            return self.features[name].look(first[name].states()[0], task, ends)

        found = await self._for_each(look, setting.learners)
        return {"kind": "features", "at": step, "learners": dict(zip(setting.learners, found, strict=True))}


def segment_of(network: Network, record_every: int, steps: int) -> int:
    """Steps of a segment: whole windows, or a divisor of one. They do not depend on learners and seeds, so that adding
    one compiles nothing for the others."""
    sizes = (network.inputs, *network.hidden, network.outputs)
    weights = sum(below * above for below, above in itertools.pairwise(sizes))
    most = max(SHORTEST_SEGMENT, int(SEGMENT_SECONDS / seconds_for(2 * weights)))  # with a memory for every weight
    if record_every <= most:
        return min(most // record_every * record_every, steps)
    return max(part for part in range(1, most + 1) if record_every % part == 0)


def variables(curves: Mapping[str, Any]) -> list[Frame]:
    """The variables in the order of their charts: first the one that learners are compared by."""
    names = [schema.measure(curves), *VARIABLES, *curves]
    described = [schema.describe(curves, name) for name in dict.fromkeys(names) if name in curves]
    return [{field: getattr(each, field) for field in ("name", "title", "unit", "log")} for each in described]


def _diverged(groups: list[Group]) -> dict[str, int]:
    """How many runs of each learner diverged."""
    found: dict[str, int] = {}
    for group in groups:
        gone = sum(result.diverged_at >= 0 for result in group.session.results())
        found[group.learner] = found.get(group.learner, 0) + gone
    return {name: count for name, count in found.items() if count}


def encoded(frame: Frame) -> bytes:
    """A frame as a line of JSON."""
    return json.dumps(frame, allow_nan=False, separators=(",", ":")).encode() + b"\n"
