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
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from crossprop._version import __version__
from crossprop.engines import ENGINES
from crossprop.engines.protocol import RunOptions
from crossprop.execution import DevicePool
from crossprop.experiments.blocks import Block, BlockResult, engines_of, run_blocks
from crossprop.experiments.spec import SweepSpec
from crossprop.network import float_type
from crossprop.progress import bar
from crossprop.source_identity import code_identity
from crossprop.streams.base import Stream
from crossprop.variables import functions

if TYPE_CHECKING:
    from distributed import Client, Future

VERSIONS = ("crossprop", "jax", "python")
"""Packages that workers must have in the version of this process."""
TIMEOUT = 5
"""Seconds to reach a scheduler."""
SECONDS_TO_WAIT = 0.02
"""Seconds between two looks for finished tasks."""
FEWEST, PER_THREAD = 16, 2
"""Tasks under way: this many per thread of a worker, and at least a few, since a cluster may grow with its work."""
RETRIES = 2
"""Retries of a task that fails, for example for lack of a worker's memory."""

_pools: dict[str, DevicePool] = {}
"""Pools by worker in this process: all tasks of a worker share its pool, and so its threads."""


class Workers(NamedTuple):
    """The workers of a cluster, and how many runs of each structure go side by side on one of them."""

    client: "Client"
    widths: Mapping[Any, int]


def _check_versions(client: "Client") -> None:
    """A ValueError that names a machine with other versions than this process."""
    versions: Any = client.get_versions(packages=list(VERSIONS))
    for where, its in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
        if isinstance(its, dict) and (reason := _difference(its["packages"], versions["client"]["packages"])):
            raise ValueError(f"cluster must have the versions of this process on every machine, got {where}: {reason}")


def _difference(there: Mapping[str, str | None], here: Mapping[str, str | None]) -> str | None:
    """The first version in which a worker differs from this process; of Python's, only the first two numbers count."""
    for name in VERSIONS:
        its, own = (str(each.get(name) or "none") for each in (there, here))
        if name == "python":
            its, own = (".".join(each.split(".")[:2]) for each in (its, own))
        if its != own:
            return f"it has {name} {its}, and this process has {own}"
    return None


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
        kinds = {jax.tree.structure(block.learner): _without_stream(block)._replace(seeds=[]) for block in blocks}
        with nullcontext() if client.nthreads() else bar("waiting for a worker", 1, progress, "workers", "none yet"):
            task = client.submit(_widths, [*kinds.values()], spec.options, spec.engine, _setting(), pure=False)
            widths = dict(zip(kinds, task.result(), strict=True))
        yield Workers(client, widths)


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


def _without_stream(block: Block) -> Block:
    """The message of a task; streams are sent once."""
    return block._replace(stream=None)  # pyright: ignore[reportArgumentType]


def run_blocks_on_cluster(
    workers: Workers, blocks: Sequence[Block], options: RunOptions, engine: str, on_steps: Callable[[int], None]
) -> Generator[tuple[int, BlockResult], None, None]:
    """As `run_blocks`, on the workers of a cluster. Few blocks are under way at a time; progress is by block."""
    client, setting = workers.client, _setting()
    counts: Any = client.nthreads()  # a coroutine in Dask's types only
    groups = deque(_groups(blocks, workers.widths, len(counts)))
    going: dict[Future, list[int]] = {}
    """The blocks of each task."""
    streams: dict[int, Future] = {}
    codes: dict[Any, dict[str, str]] = {}

    def submit(numbers: list[int]) -> "Future":
        group = [blocks[number] for number in numbers]
        for block in group:
            if id(block.stream) not in streams:
                streams[id(block.stream)] = _send_stream(client, block.stream)
            if (which := _which_code(block)) not in codes:
                codes[which] = _code(block, options)
        theirs, bare = [streams[id(block.stream)] for block in group], [_without_stream(block) for block in group]
        of_group = [codes[_which_code(block)] for block in group]
        given = bare, theirs, of_group, options, engine, setting
        return client.submit(_run_there, *given, retries=RETRIES, pure=False)

    try:
        while groups or going:
            threads: Any = client.nthreads()
            most = max(FEWEST, PER_THREAD * sum(threads.values()))
            while groups and len(going) < most:
                numbers = groups.popleft()
                going[submit(numbers)] = numbers
            while not (done := [task for task in going if task.done()]):
                time.sleep(SECONDS_TO_WAIT)
            for task in done:
                numbers = going.pop(task)
                for number, result in zip(numbers, _result(client, task), strict=True):
                    on_steps(blocks[number].total_steps(options))
                    yield number, result
    finally:
        client.cancel(list(going))


def _send_stream(client: "Client", stream: Stream) -> "Future":
    """A stream, once for all blocks that use it. It is a task, so that it comes back when its worker is lost."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(_stream, stream, pure=False)


def _which_code(block: Block) -> Any:
    return jax.tree.structure(block.learner), id(block.stream)


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


def _result(client: "Client", task: "Future") -> list[BlockResult]:
    """The result of a task. If it failed, a worker that joined with other versions is named first."""
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
    except Exception:
        _check_versions(client)
        raise


def _setting() -> dict[str, Any]:
    """The versions and code that workers must share with the caller."""
    return {"versions": _versions(), "x64": float_type() == "float64"}


def _versions() -> dict[str, str]:
    return {"crossprop": __version__, "jax": jax.__version__, "python": platform.python_version()}


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
                raise ValueError(
                    f"cluster must have workers with the code of this process, got {worker.address}: it imports other "
                    f"code of the {other[0]}"
                )
        done = dict(run_blocks(whole, options, engine, stop_if_cancelled, pool))
    return [done[number] for number in range(len(blocks))]


@contextmanager
def _as_caller(setting: dict[str, Any]) -> Iterator[None]:
    from distributed import get_worker

    if reason := _difference(_versions(), setting["versions"]):
        raise ValueError(
            f"cluster must have the versions of this process on every machine, got {get_worker().address}: {reason}"
        )
    with jax.enable_x64(setting["x64"]):
        yield
