"""The store of a sweep: a folder of blocks, each written completely or not at all, and the sweep they belong to.

- `store.json`: the schema, what all blocks have in common, and the grid of every learner as of the last call.
- `blocks/*.nc`: the blocks. What is done is what is here, and whole.
- `damaged`: blocks that were not whole, or not of this store, put aside by the next sweep that wrote here.
- `lock`: held while a sweep writes. The operating system lets go of it when the process ends, however it ends.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from secrets import token_hex

from crossprop._support.array_files import HOSTILE, DamagedFile
from crossprop._support.files import DAMAGED, PART, check_writable, put_aside, read_json, to_disk, write_json
from crossprop._support.locks import locked
from crossprop._support.warning import warn
from crossprop._version import __version__
from crossprop.arguments import check_count
from crossprop.descriptions import learner_info
from crossprop.experiments.blocks import Block, BlockResult
from crossprop.experiments.grid import SCHEMA, STREAM, Grid
from crossprop.experiments.labelled import file_name, read_block, read_records, write_block

MOST_NAMED = 5
"""Most damaged files that one warning names."""
MOVED = "the store was moved or deleted"
CONTINUES = "the same sweep goes on from there"


class Store:
    """The blocks of a sweep, and its grids: on disk, held by this process, or with no path in memory alone. The records
    of blocks on disk are read when they are needed."""

    def __init__(
        self, path: Path | None = None, number: str = "", grids: Sequence[Grid] = (), blocks: Sequence[BlockResult] = ()
    ):
        self.path, self.number, self.grids, self.blocks = path, number, list(grids), list(blocks)

    def add(self, block: Block, result: BlockResult, seconds: float) -> None:
        result = replace(result, seconds=seconds, store=self.number)
        if self.path is not None:
            path = self.path / "blocks" / file_name(block.identity, block.seeds)
            with _named_errors(path):
                write_block(path, block, result)
            result = replace(result, records=partial(read_records, path))
        self.blocks.append(result)

    def take_up(self, grids: Sequence[Grid]) -> None:
        """Continues with these grids, which may have grown. A ValueError if the store holds another sweep; nothing is
        written then."""
        if self.path is None:
            return
        _check_same(self.path, self.grids, grids)
        earlier = {grid.name: grid for grid in self.grids}
        judged = {grid.name: {*grid.evaluation, *earlier.get(grid.name, grid).evaluation} for grid in grids}
        judged = {grid.name: sorted(judged[grid.name].difference(grid.seeds)) for grid in grids}
        grown = earlier | {grid.name: replace(grid, evaluation=judged[grid.name]) for grid in grids}
        _warn_of_edits(self.path, earlier, grids)
        common = grids[0].common
        self.grids = [replace(grid, common=common) for grid in grown.values()]
        _write_header(self.path, self.number, self.grids)


@contextmanager
def open_for_writing(path: Path, grids: Sequence[Grid]) -> Iterator[Store]:
    """The store, for this process alone. A folder that is no store, or holds another sweep, is left as it is. Damaged
    blocks are put aside."""
    _check_own(path)
    check_writable("store", path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / "lock"):
        number, before = read_header(path) if (path / "store.json").exists() else (None, [])
        number, blocks, damaged = _read_blocks(path, number)
        if not before:  # if there are blocks, `store.json` was lost, and they say what they have in common
            about = blocks[0].about if blocks else grids[0].common
            before = [replace(grid, common={name: about.get(name) for name in grid.common}) for grid in grids]
        store = Store(path, number, before, blocks)
        store.take_up(grids)
        for stray in (*path.glob(f".*{PART}"), *path.glob(f"blocks/.*{PART}")):
            stray.unlink()
        (path / "blocks").mkdir(exist_ok=True)
        for each in damaged:
            put_aside(each, path / DAMAGED)
        _warn(f"files were put aside in {path / DAMAGED}", damaged, "What this sweep needs of them is run again")
        try:
            yield store
        finally:
            if (path / "blocks").is_dir():  # it can have been moved
                to_disk(path / "blocks")


def read_store(path: Path) -> tuple[list[Grid], list[BlockResult]]:
    """The grids of the last call, and all blocks. One warning names files that are damaged."""
    number, grids = read_header(path)
    _, blocks, damaged = _read_blocks(path, number)
    _warn("files were left out", damaged, "The same sweep puts them aside and runs their blocks again")
    return grids, blocks


def read_header(path: Path) -> tuple[str, list[Grid]]:
    """The number of a store, which all of its blocks have, and the grids of the last call. A ValueError if there is no
    store, or one of another schema."""
    file = path / "store.json"
    try:
        stored = read_json(file)
    except OSError as problem:
        of_run = (path / "records.nc").is_file()
        why = "it has the records of one run, records.nc" if of_run else f"{file}: {problem.strerror}"
        raise ValueError(f"{str(path)!r} must be a folder that a sweep wrote: {why}") from None
    if stored.get("schema") != SCHEMA:
        raise ValueError(f"{file} has schema {stored.get('schema')!r}, this version of crossprop reads {SCHEMA}")
    try:
        grids = [Grid(name, **grid, common=stored["common"]) for name, grid in stored["learners"].items()]
        for grid in grids:
            _check_grid(grid)
        if not grids:
            raise ValueError("there are no learners")
        if not isinstance(stored["store"], str):
            raise TypeError("store must be a text")
        return stored["store"], grids
    except HOSTILE as problem:
        raise ValueError(f"{file} is damaged: {problem!r}") from None


def _check_grid(grid: Grid) -> None:
    """Raises any error if a grid from a file is none."""
    seeds = [*grid.seeds, *grid.evaluation]
    if not all(type(seed) is int for seed in (*seeds, grid.common["record_every"])):
        raise TypeError("seeds and record_every must be integers")
    if not all(isinstance(sha256, str) for sha256 in grid.code.values()):
        raise TypeError("code must be texts")
    check_count(grid.name, math.prod(map(len, grid.over.values())) * len(seeds))
    learner_info(grid.learner)
    if unknown := {*grid.over}.difference(grid.base):
        raise ValueError(f"{grid.name} has no {min(unknown)}")
    list(grid.points)


def _read_blocks(path: Path, store: str | None) -> tuple[str, list[BlockResult], dict[Path, str]]:
    """The store's number, its blocks, and what is wrong with files that are none of them. If `store` is None, it is the
    number that most blocks have."""
    blocks: dict[Path, BlockResult] = {}
    damaged: dict[Path, str] = {}
    for file in sorted((path / "blocks").glob("[!.]*.nc")):
        try:
            blocks[file] = read_block(file)
        except DamagedFile as problem:
            damaged[file] = str(problem)
        except FileNotFoundError:  # put aside meanwhile
            continue
    if store is None:
        ((store, _),) = Counter(block.store for block in blocks.values()).most_common(1) or [(token_hex(8), 0)]
    foreign = {file: f"{file} is a block of another store" for file, block in blocks.items() if block.store != store}
    return store, [block for file, block in blocks.items() if file not in foreign], damaged | foreign


def _warn(done: str, damaged: dict[Path, str], then: str) -> None:
    """One warning for all damaged files."""
    if damaged:
        named = list(damaged.values())[:MOST_NAMED]
        named += [f"and {len(damaged) - MOST_NAMED} more"] * (len(damaged) > MOST_NAMED)
        warn(f"{done}, because they are not whole or not of this store: {'; '.join(named)}. {then}")


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or problem) if path.parent.is_dir() else MOVED
        text = f"{path} cannot be written: {reason}. What was written before is kept, and {CONTINUES}"
        raise OSError(problem.errno, text) from problem


def _write_header(path: Path, number: str, grids: Sequence[Grid]) -> None:
    shared = ("name", "common")
    learners = {
        grid.name: {name: value for name, value in asdict(grid).items() if name not in shared} for grid in grids
    }
    contents = {"schema": SCHEMA, "crossprop": __version__, "store": number, "common": grids[0].common}
    with _named_errors(path / "store.json"):
        write_json(path / "store.json", contents | {"learners": learners})


def _warn_of_edits(path: Path, earlier: dict[str, Grid], grids: Sequence[Grid]) -> None:
    """One warning that names the code that was edited since the last sweep."""
    edited: dict[str, None] = {}
    for grid in grids:
        before = earlier.get(grid.name, grid).code
        for name in {*before, *grid.code}:
            if before.get(name) != grid.code.get(name):
                edited[f"learners[{grid.name!r}]" if name == "learner" else name] = None
    if edited:
        warn(f"{path} was written by other code of {', '.join(sorted(edited))}: what that gave is kept, but not used")


def _check_own(path: Path) -> None:
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    foreign = {name for name in names if name not in ("lock", "blocks", DAMAGED) and not name.endswith(PART)}
    if foreign and "store.json" not in names:
        raise ValueError(
            f"store must be a new folder or one that a sweep wrote, got {str(path)!r}, which holds {min(foreign)!r}"
        )


def _check_same(path: Path, there: Sequence[Grid], here: Sequence[Grid]) -> None:
    """A ValueError that names the difference, if the two sweeps cannot share a store."""
    differences = [(name, there[0].common.get(name), value) for name, value in here[0].common.items()]
    for old, new in product(there, here):
        fixed = [field for field in new.base if field not in old.over and field not in new.over]
        for field in fixed if old.name == new.name else [each for each in fixed if each.startswith(STREAM)]:
            name = field if field.startswith(STREAM) else f"learners.{new.name}.{field}"
            differences.append((name, old.base.get(field), new.base[field]))
    here_too = {grid.name for grid in here}
    for old, new in product(there, here[:1]):
        for name in {*old.code, *new.code} - {"learner"} if old.name not in here_too else ():
            if old.code.get(name) != new.code.get(name):
                raise ValueError(
                    f"{path} holds another sweep, which is kept: learners[{old.name!r}] was run with other code of "
                    f"{name}. Run it again in this sweep, or choose another folder"
                )
    for name, stored, wanted in differences:
        if stored != wanted:
            raise ValueError(
                f"{path} holds another sweep, which is kept: {name} is {stored!r} there and {wanted!r} here. Choose "
                "another folder"
            )
