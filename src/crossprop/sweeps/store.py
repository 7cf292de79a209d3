"""The store of a sweep: a folder of blocks, each written whole or not at all, and what was asked for.

- `store.json`: the schema, what all blocks have in common, and the grid of every learner as it was last asked for.
- `blocks/*.nc`: the blocks. What is done is what is here.
- `lock`: held while a sweep writes. The system lets go of it when the process ends, however it ends.
"""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple, TextIO

from crossprop._files import check_writable
from crossprop._version import __version__
from crossprop.sweeps.blocks import Block, BlockResult, StoredBlock, keep
from crossprop.sweeps.grid import STREAM, Grid, after
from crossprop.sweeps.netcdf import read_block, read_records, write_block

SCHEMA = 1
KEPT = "What was written before is kept, and the same sweep goes on from there"


class SweepSpec(NamedTuple):
    """What a store is to hold: what all its blocks have in common, and a grid for every learner."""

    record_every: int
    float_type: str
    grids: list[Grid]


class Memory:
    """In the place of a store where there is none."""

    def __init__(self):
        self.blocks: list[StoredBlock] = []

    def add(self, block: Block, finished: BlockResult, seconds: float) -> None:
        self.blocks.append(keep(block, finished, seconds, lambda: finished.records))


class Folder:
    """A store on disk: of its blocks all but the records is in memory."""

    def __init__(self, path: Path):
        self.path = path
        self.blocks = [read_block(block) for block in sorted((path / "blocks").glob("*.nc"))]

    def add(self, block: Block, finished: BlockResult, seconds: float) -> None:
        path = self.path / "blocks" / f"{block.identity}-{block.seeds[0]}.nc"
        with _durably(path) as scratch:
            write_block(scratch, block, finished, seconds)
        self.blocks.append(keep(block, finished, seconds, partial(read_records, path)))


@contextmanager
def open_for_writing(path: Path, asked: SweepSpec) -> Iterator[Folder]:
    """The store, for this process alone. A folder that is no store, or holds another sweep, is left as it is."""
    _check_storable(asked)
    _check_own(path)
    check_writable("store", path)
    with _locked(path):
        before = read_asked(path) if (path / "store.json").exists() else asked
        _check_same(path, before, asked)
        for stray in (*path.glob("store.json.part"), *path.glob("blocks/*.part")):
            stray.unlink()
        (path / "blocks").mkdir(exist_ok=True)
        earlier = {grid.name: grid for grid in before.grids}
        grids = earlier | {grid.name: after(grid, earlier.get(grid.name, grid)) for grid in asked.grids}
        _write_asked(path, asked._replace(grids=[*grids.values()]))
        try:
            yield Folder(path)
        finally:
            _to_disk(path / "blocks")


def read_asked(path: Path) -> SweepSpec:
    """What a store was last asked for. A ValueError where there is no store, or one of another schema."""
    try:
        stored = json.loads((path / "store.json").read_text())
        schema = stored["schema"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{str(path)!r} must be a folder that a sweep wrote: {problem}") from None
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema}, this version of crossprop reads {SCHEMA}")
    grids = [Grid(name, **grid) for name, grid in stored["learners"].items()]
    return SweepSpec(stored["record_every"], stored["float_type"], grids)


def writer(path: Path) -> str | None:
    """The process that writes to the store now, if there is one."""
    if not (path / "lock").exists():
        return None
    with (path / "lock").open() as file:
        return None if _lock(file, shared=True) else file.read()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with (path / "lock").open("a+") as file:
        if not _lock(file):
            file.seek(0)
            raise BlockingIOError(
                f"{path} is being written to by {file.read()}: wait for it to end, or choose another folder"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _lock(file: TextIO, shared: bool = False) -> bool:
    """Locks the file until it is closed, unless another process has locked it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    return True


def _to_disk(path: Path) -> None:
    """Waits until what was written is on the disk: before that, a file that has its name may still be empty."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _durably(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place when it is whole and on the disk."""
    scratch = path.with_name(f"{path.name}.part")
    try:
        yield scratch
        _to_disk(scratch)
        scratch.replace(path)
    except OSError as problem:
        text = f"{path} cannot be written: {problem.strerror or problem}. {KEPT}"
        raise OSError(problem.errno, text) from problem
    finally:
        scratch.unlink(missing_ok=True)


def _write_asked(path: Path, asked: SweepSpec) -> None:
    learners = {grid.name: asdict(grid) for grid in asked.grids}
    for grid in learners.values():
        del grid["name"]
    header = {
        "schema": SCHEMA,
        "crossprop": __version__,
        "record_every": asked.record_every,
        "float_type": asked.float_type,
    }
    with _durably(path / "store.json") as scratch:
        scratch.write_text(json.dumps(header | {"learners": learners}, indent=1, allow_nan=False))


def _check_own(path: Path) -> None:
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    foreign = {name for name in names if name not in ("lock", "blocks", "store.json.part")}
    if foreign and "store.json" not in names:
        raise ValueError(
            f"store must be a new folder or one that a sweep wrote, got {str(path)!r}, which holds {min(foreign)!r}"
        )


def _check_storable(asked: SweepSpec) -> None:
    """A lambda, or an object that shows its address, is not known again in another process."""
    for grid in asked.grids:
        for field, value in grid.base.items():
            if isinstance(value, str) and "<" in value:
                raise ValueError(
                    f"{field} of learners[{grid.name!r}] must have a name of its own to be kept in a store, "
                    f"got {value}: define it at the top of a module"
                )


def _check_same(path: Path, there: SweepSpec, here: SweepSpec) -> None:
    """A ValueError that names the difference, where what is asked for cannot stand beside what is there."""
    differences = [(name, getattr(there, name), getattr(here, name)) for name in ("record_every", "float_type")]
    for old, new in product(there.grids, here.grids):
        fixed = [field for field in new.base if field not in old.over and field not in new.over]
        for field in fixed if old.name == new.name else [each for each in fixed if each.startswith(STREAM)]:
            name = field if field.startswith(STREAM) else f"learners.{new.name}.{field}"
            differences.append((name, old.base.get(field), new.base[field]))
    for name, stored, asked in differences:
        if stored != asked:
            raise ValueError(
                f"{path} holds another sweep, which is kept: {name} is {stored!r} there and {asked!r} here. Choose "
                "another folder"
            )
