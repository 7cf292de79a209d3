"""A block as a file in netCDF-3, which plain xarray opens, and which takes a millisecond to write.

The attribute `crc32` is the checksum of the whole file, computed with eight zeros in its place. The attribute `about`
holds all that the records depend on, apart from the seeds; a hash of it and the first seed are the file's name.
"""

import json
import zlib
from functools import partial
from io import BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.running import further_dims
from crossprop.sweeps.blocks import Block, BlockResult, StoredBlock, scores_of
from crossprop.sweeps.grid import SCHEMA, identity, value_label

if TYPE_CHECKING:
    from scipy.io import netcdf_file

HEADER = ("seed", "step", "window", "task", "diverged_at")
MADE_WITH = ("schema", "crossprop", "jax", "engine", "device")
UNKNOWN = b"00000000"
"""Stands in the place of the checksum while it is computed."""
CHECKSUM = b"\0\0\0\x05crc32\0\0\0\0\0\0\x02\0\0\0\x08"
"""The bytes in netCDF-3 before the value of an attribute `crc32` that has eight characters."""


class DamagedBlock(ValueError):
    """A file that is not the block that its name says, whole."""


def file_name(identity: str, seeds: Any) -> str:
    """The name of a block's file."""
    return f"{identity}-{seeds[0]}.nc"


def write_block(path: Path, block: Block, result: BlockResult, seconds: float, store: str) -> None:
    from scipy.io import netcdf_file

    with BytesIO() as contents:
        file = netcdf_file(contents, "w")
        file.crc32 = UNKNOWN
        file.createDimension("seed", len(block.seeds))
        file.createDimension("step", len(result.step))
        for name, values in result.records.items():
            further = further_dims(name, values.ndim - 2)
            for dim, size in zip(further, values.shape[2:], strict=True):
                file.createDimension(dim, size)
            _put(file, name, values, ("seed", "step", *further))
        _put(file, "diverged_at", result.diverged_at.astype(np.int32), ("seed",))
        _put(file, "seed", np.array(block.seeds, np.uint32).view(np.int32), ("seed",), _Unsigned="true")
        _put(file, "step", result.step.astype(np.int32), ("step",))
        _put(file, "window", result.window.astype(np.int32), ("step",))
        _put(file, "task", result.task.astype(np.int32), ("step",))
        for name, value in ({"learner": block.name} | block.point).items():
            _put_scalar(file, name, value_label(value))
        file.coordinates = " ".join(["learner", "window", "task", *block.point])
        file.about = json.dumps(block.about)
        file.store = store
        file.seconds = np.float64(seconds)
        for name in MADE_WITH:
            setattr(file, name, result.made_with[name])
        file.flush()
        data = bytearray(contents.getvalue())
    place, checksum = _checksum(data)
    data[place : place + len(checksum)] = checksum
    path.write_bytes(data)


def _put(file: "netcdf_file", name: str, values: np.ndarray, dims: tuple[str, ...], **attributes: Any) -> None:
    variable = file.createVariable(name, values.dtype, dims)
    variable[...] = values
    for attribute, value in attributes.items():
        setattr(variable, attribute, value)


def _put_scalar(file: "netcdf_file", name: str, value: Any) -> None:
    if isinstance(value, str):
        letters = np.frombuffer(value.encode() or b" ", "S1")
        file.createDimension(f"{name}_length", len(letters))
        _put(file, name, letters, (f"{name}_length",), _Encoding="utf-8")
    elif isinstance(value, bool):
        _put(file, name, np.array(value, np.int8), (), dtype="bool")
    else:
        _put(file, name, np.array(value, np.float64), ())


def _checksum(data: bytes | bytearray) -> tuple[int, bytes]:
    """Where the checksum of a file is, and what it must be."""
    place = data.index(CHECKSUM) + len(CHECKSUM)
    whole = memoryview(data)
    found = zlib.crc32(whole[place + len(UNKNOWN) :], zlib.crc32(UNKNOWN, zlib.crc32(whole[:place])))
    return place, f"{found:08x}".encode()


def read_block(path: Path) -> StoredBlock:
    """The block in a file, without its records. A `DamagedBlock` says what is wrong with it, an OSError that it cannot
    be read."""
    try:
        with _opened(path) as file:
            values = {name: _native(file.variables[name][:]) for name in HEADER}
            scores = scores_of(_records(file), values["window"], values["task"], values["diverged_at"])
            texts = {name: getattr(file, name) for name in ("about", "store", "seconds", *MADE_WITH)}
        made: dict[str, Any]
        made = {name: value.decode() if isinstance(value, bytes) else value.item() for name, value in texts.items()}
        about, seeds = json.loads(made.pop("about")), values["seed"].view(np.uint32).astype(np.int64)
        whose = identity(about)
        name = file_name(whose, seeds)
    except (KeyError, AttributeError, TypeError, IndexError) as problem:
        raise DamagedBlock(f"{path} is no block of schema {SCHEMA}: {problem!r}") from None
    if path.name != name:
        raise DamagedBlock(f"{path} is another block than its name says, {name}")
    return StoredBlock(
        identity=whose,
        about=about,
        seeds=seeds,
        diverged_at=values["diverged_at"],
        step=values["step"],
        window=values["window"],
        task=values["task"],
        seconds=made.pop("seconds"),
        store=made.pop("store"),
        made_with=made,
        records=partial(read_records, path),
        scores=scores,
    )


def read_records(path: Path) -> dict[str, np.ndarray]:
    with _opened(path) as file:
        return {name: _native(values) for name, values in _records(file).items()}


def _records(file: "netcdf_file") -> dict[str, np.ndarray]:
    return {name: each[:] for name, each in file.variables.items() if each.dimensions[:2] == ("seed", "step")}


def _opened(path: Path) -> "netcdf_file":
    """The file in memory, after a check that it is whole."""
    from scipy.io import netcdf_file

    try:
        if not S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise DamagedBlock(f"{path} is no plain file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, f"{path} cannot be read: {problem.strerror}") from None
    if CHECKSUM not in data:
        raise DamagedBlock(f"{path} has no checksum, or its beginning is damaged")
    place, expected = _checksum(data)
    if (found := data[place : place + len(expected)]) != expected:
        raise DamagedBlock(f"{path} is damaged: its checksum is {expected.decode()}, not {found!r}")
    return netcdf_file(BytesIO(data), mmap=False)


def _native(values: np.ndarray) -> np.ndarray:
    """A copy in the machine's byte order; the file's is big-endian."""
    return values.astype(values.dtype.newbyteorder("="))
