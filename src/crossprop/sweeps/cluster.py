"""Blocks on a cluster: each is a task of Dask distributed, and its records go back to the process that keeps them.

Workers need no shared disk. The scheduler gives the tasks of a lost worker to another one.
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
from crossprop.execution import DevicePool, Plan
from crossprop.progress import bar
from crossprop.streams.base import Stream
from crossprop.sweeps.blocks import Block, BlockResult, engines_of, run_blocks, steps_of
from crossprop.sweeps.spec import SweepSpec

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT = 5
"""Seconds to reach a scheduler."""
FEWEST, PER_THREAD = 16, 2
"""Tasks under way: this many per thread of a worker, and at least a few, since a cluster may grow with its work."""
RETRIES = 2
"""How often a task that fails, say for lack of a worker's memory, is tried again."""

_pools: dict[str, DevicePool] = {}
"""By worker in this process: all tasks of a worker share its pool, and so its threads."""


@contextmanager
def connected(
    cluster: Any, blocks: Sequence[Block], spec: SweepSpec, progress: bool | None
) -> "Iterator[Client | None]":
    """A client of the scheduler, after a check that its workers have the same versions and can run the blocks. A client
    that was given stays open; None is no cluster."""
    if cluster is None:
        yield None
        return
    with _client(cluster) as client:
        _check_versions(client)
        with nullcontext() if _threads(client) else bar("waiting for a worker", 1, progress, "workers", "none yet"):
            widths(client, blocks, spec.plan, spec.engine)
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
    """A scheduler speaks first. A Dask client would wait forever for a peer that does not, and leave threads behind."""
    from distributed.comm.addressing import get_address_host_port, parse_address

    with socket.create_connection(get_address_host_port(address), TIMEOUT) as line:
        if parse_address(address)[0] == "tcp" and not line.recv(1):
            raise ConnectionError("the peer closed the connection")


def widths(client: "Client", blocks: Sequence[Block], plan: Plan, engine: str) -> dict[Any, int]:
    """How many runs of each structure go side by side on a worker; waits for the first worker. An error says why the
    engine cannot run one of them there."""
    kinds = {jax.tree.structure(block.learner): _without_stream(block)._replace(seeds=[]) for block in blocks}
    found = client.submit(_widths, list(kinds.values()), plan, engine, _setting(), pure=False)
    return dict(zip(kinds, found.result(), strict=True))


def _without_stream(block: Block) -> Block:
    """What is sent with every task; streams are sent once."""
    return block._replace(stream=None)  # pyright: ignore[reportArgumentType]


def run_blocks_on_cluster(
    client: "Client", blocks: Sequence[Block], plan: Plan, engine: str, on_steps: Callable[[int], None]
) -> Generator[tuple[int, BlockResult], None, None]:
    """As `run_blocks`, on the workers of a cluster. Few blocks are under way at a time; progress is by block."""
    from distributed import as_completed

    setting = _setting()
    groups = iter(_groups(blocks, widths(client, blocks, plan, engine), len(_threads(client))))
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
                bare = [_without_stream(block) for block in group]
                task = client.submit(_run_there, bare, theirs, plan, engine, setting, retries=RETRIES, pure=False)
                going[task] = numbers
                done.add(task)
            if not going:
                return
            task = next(done)
            for number, result in zip(going.pop(task), _result(task), strict=True):
                on_steps(len(blocks[number].seeds) * steps_of(blocks[number], plan))
                yield number, result
    finally:
        client.cancel(list(going))


def _threads(client: Any) -> dict[str, int]:
    """How many each worker has."""
    return client.nthreads()


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


def _send(client: "Client", stream: Stream) -> "Future":
    """The stream, once for all blocks that use it. It is a task, so that it comes back when its worker is lost."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(_stream, stream, pure=False)


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


def _versions() -> dict[str, str]:
    return {"crossprop": __version__, "jax": jax.__version__}


def _setting() -> dict[str, Any]:
    """What workers must have in common with the caller."""
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


def _widths(blocks: list[Block], plan: Plan, engine: str, setting: dict[str, Any]) -> list[int]:
    with _as_caller(setting):
        engines = engines_of(blocks, engine, plan.observers)
        platform = jax.default_backend()
        return [ENGINES[name].width(block.learner, platform) for name, block in zip(engines, blocks, strict=True)]


def _run_there(
    blocks: list[Block], streams: list[Stream], plan: Plan, engine: str, setting: dict[str, Any]
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
        done = dict(run_blocks(whole, plan, engine, stop_if_cancelled, pool))
    return [done[number] for number in range(len(blocks))]


@contextmanager
def _as_caller(setting: dict[str, Any]) -> Iterator[None]:
    from distributed import get_worker

    _check_same(get_worker().address, _versions(), setting["versions"])
    with jax.enable_x64(setting["x64"]):
        yield
