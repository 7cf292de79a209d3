"""The store of a sweep: a folder of blocks, each written completely or not at all, and the sweep they belong to.

- `store.json`: the schema, what all blocks have in common, and the grid of every learner as of the last call.
- `blocks/*.nc`: the blocks. What is done is what is here.
- `lock`: held while a sweep writes. The operating system lets go of it when the process ends, however it ends.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path

from crossprop._files import PART, atomic_write, check_writable, lock_holder, locked, to_disk
from crossprop._version import __version__
from crossprop.sweeps.blocks import Block, BlockResult, StoredBlock
from crossprop.sweeps.grid import STREAM, Grid, after
from crossprop.sweeps.netcdf import read_block, read_records, write_block
from crossprop.sweeps.spec import StoreHeader

SCHEMA = 1
COMMON = ("record_every", "float_type", "steps", "probes", "metrics")
KEPT = "What was written before is kept, and the same sweep goes on from there"


class Memory:
    """Keeps blocks if there is no store."""

    def __init__(self):
        self.blocks: list[StoredBlock] = []

    def add(self, block: Block, result: BlockResult, seconds: float) -> None:
        self.blocks.append(StoredBlock.of(block, result, seconds, lambda: result.records))


class Folder:
    """A store on disk. Everything but the records of its blocks is in memory."""

    def __init__(self, path: Path):
        self.path = path
        self.blocks = [read_block(block) for block in sorted((path / "blocks").glob("[!.]*.nc"))]

    def add(self, block: Block, result: BlockResult, seconds: float) -> None:
        path = self.path / "blocks" / f"{block.identity}-{block.seeds[0]}.nc"
        with _named_errors(path), atomic_write(path) as scratch:
            write_block(scratch, block, result, seconds)
        self.blocks.append(StoredBlock.of(block, result, seconds, partial(read_records, path)))


@contextmanager
def open_for_writing(path: Path, header: StoreHeader) -> Iterator[Folder]:
    """The store, for this process alone. A folder that is no store, or holds another sweep, is left as it is."""
    _check_storable(header)
    _check_own(path)
    check_writable("store", path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / "lock"):
        before = read_header(path) if (path / "store.json").exists() else header
        _check_same(path, before, header)
        for stray in (*path.glob(f".*{PART}"), *path.glob(f"blocks/.*{PART}")):
            stray.unlink()
        (path / "blocks").mkdir(exist_ok=True)
        earlier = {grid.name: grid for grid in before.grids}
        grids = earlier | {grid.name: after(grid, earlier.get(grid.name, grid)) for grid in header.grids}
        _write_header(path, replace(header, grids=[*grids.values()]))
        try:
            yield Folder(path)
        finally:
            to_disk(path / "blocks")


def read_header(path: Path) -> StoreHeader:
    """What a store holds as of the last call. A ValueError if there is no store, or one of another schema."""
    try:
        stored = json.loads((path / "store.json").read_text())
        schema = stored["schema"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{str(path)!r} must be a folder that a sweep wrote: {problem}") from None
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema}, this version of crossprop reads {SCHEMA}")
    grids = [Grid(name, **grid) for name, grid in stored["learners"].items()]
    common = {"steps": None, "probes": {}, "metrics": {}} | {name: stored[name] for name in COMMON if name in stored}
    return StoreHeader(grids=grids, **common)


def writer(path: Path) -> str | None:
    """The process that writes to the store now, if there is one."""
    return lock_holder(path / "lock")


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        text = f"{path} cannot be written: {problem.strerror or problem}. {KEPT}"
        raise OSError(problem.errno, text) from problem


def _write_header(path: Path, header: StoreHeader) -> None:
    learners = {grid.name: asdict(grid) for grid in header.grids}
    for grid in learners.values():
        del grid["name"]
    common = {name: value for name, value in asdict(header).items() if name != "grids"}
    contents = {"schema": SCHEMA, "crossprop": __version__} | common | {"learners": learners}
    with _named_errors(path / "store.json"), atomic_write(path / "store.json") as scratch:
        scratch.write_text(json.dumps(contents, indent=1, allow_nan=False))


def _check_own(path: Path) -> None:
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    foreign = {name for name in names if name not in ("lock", "blocks") and not name.endswith(PART)}
    if foreign and "store.json" not in names:
        raise ValueError(
            f"store must be a new folder or one that a sweep wrote, got {str(path)!r}, which holds {min(foreign)!r}"
        )


def _check_storable(header: StoreHeader) -> None:
    """A lambda, or an object that shows its address, cannot be recognised in another process."""
    for kind in ("probes", "metrics"):
        for name, function in getattr(header, kind).items():
            if "<" in function:
                raise ValueError(
                    f"{kind}[{name!r}] must have a name of its own to be kept in a store, got {function}: define it at "
                    "the top of a module"
                )
    for grid in header.grids:
        for field, value in grid.base.items():
            if isinstance(value, str) and "<" in value:
                raise ValueError(
                    f"{field} of learners[{grid.name!r}] must have a name of its own to be kept in a store, "
                    f"got {value}: define it at the top of a module"
                )


def _check_same(path: Path, there: StoreHeader, here: StoreHeader) -> None:
    """A ValueError that names the difference, if the two sweeps cannot share a store."""
    differences = [(name, getattr(there, name), getattr(here, name)) for name in COMMON]
    for old, new in product(there.grids, here.grids):
        fixed = [field for field in new.base if field not in old.over and field not in new.over]
        for field in fixed if old.name == new.name else [each for each in fixed if each.startswith(STREAM)]:
            name = field if field.startswith(STREAM) else f"learners.{new.name}.{field}"
            differences.append((name, old.base.get(field), new.base[field]))
    for name, stored, wanted in differences:
        if stored != wanted:
            raise ValueError(
                f"{path} holds another sweep, which is kept: {name} is {stored!r} there and {wanted!r} here. Choose "
                "another folder"
            )
