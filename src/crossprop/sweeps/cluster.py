"""Blocks on a cluster: each a task of Dask distributed, its records sent back to the one process that keeps them.

A worker needs no disk of the caller's. The scheduler gives the tasks of a worker that is lost to another one.
"""

import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

import jax

from crossprop._version import __version__
from crossprop.engines import ENGINES
from crossprop.execution import DevicePool
from crossprop.progress import bar
from crossprop.streams.base import Stream
from crossprop.sweeps.blocks import Block, BlockResult, engines_of, lengths, live

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT = 5
"""Seconds to reach a scheduler."""
FEWEST, PER_THREAD = 16, 2
"""Tasks that are under way: so many for each thread of a worker, and some before there is any: a cluster may grow with
what it has to do."""
RETRIES = 2
"""A task that fails, for want of a worker's memory say, is given to a worker so many times again."""

_slots: dict[str, DevicePool] = {}
"""Of the workers in this process: all tasks of one share them, and so its threads."""


@contextmanager
def connected(cluster: Any, blocks: Sequence[Block], engine: str, progress: bool | None) -> "Iterator[Client | None]":
    """A client of the scheduler, once its workers are found to be like this process and fit to run the blocks. One
    that is given stays open; None is no cluster."""
    if cluster is None:
        yield None
        return
    with _client(cluster) as client:
        _check_versions(client)
        with nullcontext() if _threads(client) else bar("waiting for a worker", 1, progress, unit="workers"):
            widths(client, blocks, engine)
        yield client


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
        _check_speaks(cluster)
        return Client(cluster, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise ConnectionError(
            f"cluster must be the address of a Dask scheduler that runs, such as tcp://host:8786, got {cluster!r}: "
            f"{problem}"
        ) from None


def _check_speaks(address: str) -> None:
    """A Dask client would wait without end for one that is no scheduler, which speaks first, and leave threads behind
    when it fails."""
    from distributed.comm.addressing import get_address_host_port, parse_address

    with socket.create_connection(get_address_host_port(address), TIMEOUT) as line:
        if parse_address(address)[0] == "tcp" and not line.recv(1):
            raise ConnectionError("what is there hangs up")


def widths(client: "Client", blocks: Sequence[Block], engine: str) -> dict[Any, int]:
    """How many runs of each structure go side by side on a worker; where there is none yet, the first is waited for.
    An error says why the engine cannot run one of them there."""
    kinds = {jax.tree.structure(block.learner): block._replace(stream=None, seeds=[]) for block in blocks}
    asked = client.submit(_widths, list(kinds.values()), engine, _setting(), pure=False)
    return dict(zip(kinds, asked.result(), strict=True))


def live_there(
    client: "Client", blocks: Sequence[Block], record_every: int, engine: str, hear: Callable[[int], None]
) -> Generator[tuple[int, BlockResult], None, None]:
    """As `live`, on the workers of a cluster. Few blocks are under way at a time; `hear` is told of whole ones."""
    from distributed import as_completed

    steps, setting = lengths(blocks), _setting()
    groups = iter(_groups(blocks, widths(client, blocks, engine), len(_threads(client))))
    streams: dict[int, Future] = {}
    going: dict[Future, list[int]] = {}
    done = as_completed(loop=client.loop)
    try:
        while True:
            most = max(FEWEST, PER_THREAD * sum(_threads(client).values()))
            for numbers in islice(groups, max(0, most - len(going))):
                group = [blocks[number] for number in numbers]
                for block in group:
                    if id(block.stream) not in streams:
                        streams[id(block.stream)] = _send(client, block.stream)
                theirs = [streams[id(block.stream)] for block in group]
                bare = [block._replace(stream=None) for block in group]
                task = client.submit(_live, bare, theirs, record_every, engine, setting, retries=RETRIES, pure=False)
                going[task] = numbers
                done.add(task)
            if not going:
                return
            task = next(done)
            for number, finished in zip(going.pop(task), _result(task), strict=True):
                hear(len(blocks[number].seeds) * steps[number])
                yield number, finished
    finally:
        client.cancel(list(going))


def _threads(client: Any) -> dict[str, int]:
    """How many each worker has."""
    return client.nthreads()


def _groups(blocks: Sequence[Block], widths: Mapping[Any, int], workers: int) -> list[list[int]]:
    """The blocks' numbers: one to a task, or where a device takes many runs side by side, as many of one structure as
    fill it, but not more than leave every worker some."""
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


def _send(client: "Client", stream: Stream) -> "Future":
    """The stream, once for all blocks that live through it. As a task, for it comes back when its worker is lost."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(_stream, stream, pure=False)


def _result(task: "Future") -> list[BlockResult]:
    from distributed import KilledWorker

    try:
        return task.result()
    except KilledWorker as lost:
        raise ConnectionError(
            f"a block was given up, for {lost.allowed_failures + 1} workers in a row were lost with it. Have they "
            "too little memory?"
        ) from None
    except CancelledError:
        raise ConnectionError("the scheduler was lost, or the tasks were cancelled there") from None


def _versions() -> dict[str, str]:
    return {"crossprop": __version__, "jax": jax.__version__}


def _setting() -> dict[str, Any]:
    """What a worker has to have in common with the caller."""
    return {"versions": _versions(), "x64": jax.config.values["jax_enable_x64"]}


def _check_versions(client: "Client") -> None:
    told: Any = client.get_versions(packages=list(_versions()))
    for where, there in {"the scheduler": told["scheduler"], **told["workers"]}.items():
        _check_same(where, {name: there["packages"][name] for name in _versions()}, told["client"]["packages"])


def _check_same(where: str, there: Mapping[str, str | None], here: Mapping[str, str | None]) -> None:
    for name, version in there.items():
        if version != here[name]:
            raise ValueError(
                f"cluster must have the versions of this process, which has {name} {here[name]}: {where} has "
                f"{version or 'none'}"
            )


# What runs on a worker.


def _stream(stream: Stream) -> Stream:
    return stream


def _widths(blocks: list[Block], engine: str, setting: dict[str, Any]) -> list[int]:
    with _as_caller(setting):
        engines = engines_of(blocks, engine)
        platform = jax.default_backend()
        return [ENGINES[name].width(block.learner, platform) for name, block in zip(engines, blocks, strict=True)]


def _live(
    blocks: list[Block], streams: list[Stream], record_every: int, engine: str, setting: dict[str, Any]
) -> list[BlockResult]:
    from distributed import get_worker

    worker = get_worker()
    slots = _slots.setdefault(worker.address, DevicePool(worker.state.nthreads))
    task = worker.state.tasks[worker.get_current_task()]

    def hear(steps: int) -> None:
        if task.state == "cancelled":
            raise CancelledError

    whole = [block._replace(stream=stream) for block, stream in zip(blocks, streams, strict=True)]
    with _as_caller(setting):
        done = dict(live(whole, record_every, engine, hear, slots))
    return [done[number] for number in range(len(blocks))]


@contextmanager
def _as_caller(setting: dict[str, Any]) -> Iterator[None]:
    from distributed import get_worker

    _check_same(get_worker().address, _versions(), setting["versions"])
    with jax.enable_x64(setting["x64"]):
        yield
