"""Blocks on a cluster: each is a task of Dask distributed, and its records go back to the process that keeps them.

Workers need no shared disk. The scheduler gives the tasks of a lost worker to another one.
"""

import asyncio
import platform
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import jax

from crossprop._version import __version__
from crossprop.engines import ENGINES
from crossprop.engines.protocol import RunOptions
from crossprop.execution import DevicePool
from crossprop.experiments.blocks import Block, BlockResult, engines_of, run_blocks, steps_of
from crossprop.experiments.spec import SweepSpec
from crossprop.experiments.workers import VERSIONS, OtherCode, Workers, difference
from crossprop.network import float_type
from crossprop.progress import bar
from crossprop.source_identity import code_identity
from crossprop.streams.base import Stream
from crossprop.variables import functions

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT = 5
"""Seconds to reach a scheduler."""
SECONDS_TO_WAIT, SECONDS_TO_LOOK = 0.02, 2.0
"""Seconds between two looks for finished tasks, and between two looks for workers that joined or left."""
FEWEST, PER_THREAD = 16, 2
"""Tasks under way: this many per thread of a worker, and at least a few, since a cluster may grow with its work."""
RETRIES = 2
"""How often a task that fails, say for lack of a worker's memory, is tried again."""

_pools: dict[str, DevicePool] = {}
"""Pools by worker in this process: all tasks of a worker share its pool, and so its threads."""


@contextmanager
def connected(
    cluster: Any, blocks: Sequence[Block], spec: SweepSpec, progress: bool | None
) -> Iterator[Workers | None]:
    """The workers of a scheduler, after a check that they have the same versions and can run the blocks. A client that
    was given stays open; None is no cluster."""
    if cluster is None:
        yield None
        return
    with _client(cluster) as client:
        _check_versions(client)
        with nullcontext() if client.nthreads() else bar("waiting for a worker", 1, progress, "workers", "none yet"):
            workers = Workers(client)
            widths(workers, blocks, spec.options, spec.engine)
        yield workers


def _client(cluster: Any) -> "AbstractContextManager[Client]":
    try:
        from distributed import Client
    except ImportError:
        raise ModuleNotFoundError(
            f"cluster={cluster!r} needs Dask, which is not installed here: pip install 'crossprop[cluster]'"
        ) from None
    if isinstance(cluster, Client):
        return nullcontext(cluster)
    if not isinstance(cluster, str) or not cluster:
        raise TypeError(f"cluster must be an address such as 'tcp://host:8786', or a dask Client, got {cluster!r}")
    try:
        _check_scheduler(cluster)
        return Client(cluster, timeout=TIMEOUT, set_as_default=False)
    except Exception as problem:  # what is there may answer anything
        raise ConnectionError(
            f"cluster must be the address of a Dask scheduler that runs, such as tcp://host:8786, got {cluster!r}: "
            f"{str(problem) or 'it does not answer'}"
        ) from None


def _check_scheduler(address: str) -> None:
    """An error if no scheduler is at an address. A Dask client would wait forever for some of what may be there, and
    would leave its threads behind."""
    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop, as in a notebook
        kind = thread.submit(lambda: asyncio.run(asyncio.wait_for(_kind(address), TIMEOUT))).result()
    if kind != "Scheduler":
        raise ConnectionError(f"it is a Dask {kind}")


async def _kind(address: str) -> str:
    from distributed.core import rpc

    async with rpc(address, timeout=TIMEOUT) as peer:
        identity: Any = await peer.identity()
        return str(identity["type"])


def widths(workers: Workers, blocks: Sequence[Block], options: RunOptions, engine: str) -> dict[Any, int]:
    """How many runs of each structure go side by side on a worker; waits for the first worker. An error says why the
    engine cannot run one of them there."""
    kinds = {jax.tree.structure(block.learner): _without_stream(block)._replace(seeds=[]) for block in blocks}
    while True:
        task = workers.submit(_widths, list(kinds.values()), options, engine, _setting())
        try:
            return dict(zip(kinds, task.result(), strict=True))
        except Exception as problem:
            if not workers.are_at_fault(task, problem):
                raise


def _without_stream(block: Block) -> Block:
    """What is sent with every task; streams are sent once."""
    return block._replace(stream=None)  # pyright: ignore[reportArgumentType]


def run_blocks_on_cluster(
    workers: Workers, blocks: Sequence[Block], options: RunOptions, engine: str, on_steps: Callable[[int], None]
) -> Generator[tuple[int, BlockResult], None, None]:
    """As `run_blocks`, on the workers of a cluster. Few blocks are under way at a time; progress is by block."""
    from distributed import as_completed

    sender = _Sender(workers, options, engine)
    groups = deque(_groups(blocks, widths(workers, blocks, options, engine), len(workers.threads)))
    going: dict[Future, list[int]] = {}
    done = as_completed(loop=workers.client.loop)
    try:
        while groups or going:
            most = max(FEWEST, PER_THREAD * sum(workers.threads.values()))
            while groups and len(going) < most:
                numbers = groups.popleft()
                task = sender.send([blocks[number] for number in numbers])
                going[task] = numbers
                done.add(task)
            for task in _ended(done, workers, going):
                numbers = going.pop(task)
                try:
                    results = _result(task)
                except Exception as problem:
                    if not workers.are_at_fault(task, problem):
                        raise
                    sender.forget_streams()
                    groups.append(numbers)
                    continue
                workers.succeeded = True
                for number, result in zip(numbers, results, strict=True):
                    on_steps(len(blocks[number].seeds) * steps_of(blocks[number], options))
                    yield number, result
            workers.refresh()
    finally:
        workers.client.cancel(list(going))


def _ended(done: Any, workers: Workers, going: "Mapping[Future, list[int]]") -> "list[Future]":
    """Waits until tasks are done, or left without a worker that may run them, and returns those."""
    looked = time.monotonic()
    while not done.has_ready():
        time.sleep(SECONDS_TO_WAIT)
        if time.monotonic() - looked > SECONDS_TO_LOOK:
            workers.refresh()
            if stranded := workers.cancel_stranded(going):
                return stranded
            looked = time.monotonic()
    ready = []
    while done.has_ready():
        ready.append(next(done))
    return [task for task in ready if task in going]


class _Sender:
    """Sends blocks to workers: each stream once, and the identity of the user's own code that a worker must have."""

    def __init__(self, workers: Workers, options: RunOptions, engine: str):
        self.workers, self.options, self.engine = workers, options, engine
        self.setting = _setting()
        self.streams: dict[int, Future] = {}
        self.codes: dict[Any, dict[str, str]] = {}

    def send(self, group: list[Block]) -> "Future":
        for block in group:
            if id(block.stream) not in self.streams:
                self.streams[id(block.stream)] = self._send_stream(block.stream)
        theirs = [self.streams[id(block.stream)] for block in group]
        codes = [self._code(block) for block in group]
        bare = [_without_stream(block) for block in group]
        arguments = bare, theirs, codes, self.options, self.engine, self.setting
        return self.workers.submit(_run_there, *arguments, retries=RETRIES)

    def forget_streams(self) -> None:
        """Streams are sent again with the next blocks: a worker that could not read one may have held it."""
        self.streams.clear()

    def _code(self, block: Block) -> dict[str, str]:
        which = jax.tree.structure(block.learner), id(block.stream)
        if which not in self.codes:
            self.codes[which] = _code(block, self.options)
        return self.codes[which]

    def _send_stream(self, stream: Stream) -> "Future":
        """The stream, once for all blocks that use it. It is a task, so that it comes back when its worker is lost."""
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.workers.submit(_stream, stream)


def _code(block: Block, options: RunOptions) -> dict[str, str]:
    """The identity of the user's own code that a worker imports."""
    given = {"learner": block.learner, "stream": block.stream, "variables": functions(options.observed)}
    found = {name: code_identity(value, imported=True) for name, value in given.items()}
    return {name: source.sha256 for name, source in found.items() if source is not None}


def _groups(blocks: Sequence[Block], widths: Mapping[Any, int], workers: int) -> list[list[int]]:
    """The blocks' numbers by task: one block, or on a device that takes many runs side by side, as many of one
    structure as fill it, but few enough to leave some for every worker."""
    share = sum(len(block.seeds) for block in blocks) / max(workers, 1)
    groups: list[list[int]] = []
    unfilled: dict[Any, list[int]] = {}
    for number, block in enumerate(blocks):
        structure = jax.tree.structure(block.learner)
        if structure not in unfilled:
            groups.append(unfilled.setdefault(structure, []))
        unfilled[structure].append(number)
        if sum(len(blocks[each].seeds) for each in unfilled[structure]) >= min(widths[structure], share):
            del unfilled[structure]
    return groups


def _result(task: "Future") -> list[BlockResult]:
    from distributed import KilledWorker

    try:
        return task.result()
    except KilledWorker as lost:
        raise ConnectionError(
            f"a block was abandoned after {lost.allowed_failures + 1} workers died running it. Do they have too little "
            "memory?"
        ) from None
    except CancelledError:
        raise ConnectionError("the scheduler was lost, or the tasks were cancelled there") from None


def _setting() -> dict[str, Any]:
    """What workers must have in common with the caller."""
    return {"versions": _versions(), "x64": float_type() == "float64"}


def _versions() -> dict[str, str]:
    return {"crossprop": __version__, "jax": jax.__version__, "python": platform.python_version()}


def _check_versions(client: "Client") -> None:
    """An error if a machine that is there already has other versions."""
    versions: Any = client.get_versions(packages=list(VERSIONS))
    for where, its in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
        if reason := difference(its["packages"], versions["client"]["packages"]):
            raise ValueError(f"cluster must have the versions of this process on every machine, got {where}: {reason}")


# What runs on a worker.


def _stream(stream: Stream) -> Stream:
    return stream


def _widths(blocks: list[Block], options: RunOptions, engine: str, setting: dict[str, Any]) -> list[int]:
    with _as_caller(setting):
        engines = engines_of(blocks, engine, options.observed)
        platform = jax.default_backend()
        return [ENGINES[name].width(block.learner, platform) for name, block in zip(engines, blocks, strict=True)]


def _run_there(
    blocks: list[Block],
    streams: list[Stream],
    codes: list[dict[str, str]],
    options: RunOptions,
    engine: str,
    setting: dict[str, Any],
) -> list[BlockResult]:
    from distributed import get_worker

    worker = get_worker()
    pool = _pools.setdefault(worker.address, DevicePool(worker.state.nthreads))
    task = worker.state.tasks[worker.get_current_task()]

    def stop_if_cancelled(steps: int) -> None:
        if task.state == "cancelled":
            raise CancelledError

    whole = [block._replace(stream=stream) for block, stream in zip(blocks, streams, strict=True)]
    with _as_caller(setting):
        for block, code in zip(whole, codes, strict=True):
            if other := sorted(name for name, its in _code(block, options).items() if its != code.get(name)):
                raise OtherCode(worker.address, f"it imports other code of the {other[0]} than this process")
        done = dict(run_blocks(whole, options, engine, stop_if_cancelled, pool))
    return [done[number] for number in range(len(blocks))]


@contextmanager
def _as_caller(setting: dict[str, Any]) -> Iterator[None]:
    from distributed import get_worker

    if reason := difference(_versions(), setting["versions"]):
        raise OtherCode(get_worker().address, reason)
    with jax.enable_x64(setting["x64"]):
        yield
