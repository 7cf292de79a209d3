"""The file format of records, blocks of stores, checkpoints and saved learners: netCDF-3, which xarray opens.

After the arrays, where netCDF readers do not look, come an index of them in JSON, its length, and the CRC-32 of the
whole. `read_arrays` uses these alone: it refuses a file whose size is not what the index says before it reads the rest,
and needs no more memory than a few times the size of the file.
"""

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, NamedTuple

import numpy as np

from crossprop._support.files import HOSTILE, atomic_write
from crossprop._support.memory import check_memory

MAGIC = b"CDF\x02\0\0\0\0"
"""netCDF-3 with 64-bit offsets and no unlimited dimension."""
DIMENSION, VARIABLE, ATTRIBUTE = 10, 11, 12
"""Tags of the lists in the header."""
TYPES = {"i1": 1, "S1": 2, ">i4": 4, ">u4": 4, ">f4": 5, ">f8": 6}
"""netCDF's numbers of the types in which arrays are stored."""
MOST_INDEX = 2**26
LENGTHS = 12
"""Bytes at the end of a file: the length of the index and the CRC-32."""

Variables = Mapping[str, tuple[Sequence[str] | None, Any]]
"""Dims and values by name. Without dims it is an array of a state, which may have any type and size."""


class DamagedFile(ValueError):
    """A file that is not whole, or that crossprop did not write."""


class Contents(NamedTuple):
    """The contents of a file."""

    variables: dict[str, tuple[tuple[str, ...], np.ndarray]]
    attributes: dict[str, Any]


class _Array(NamedTuple):
    """An entry of the index: how an array is stored, and which type it has; `shape` if it is stored as bytes."""

    dims: Sequence[str]
    sizes: Sequence[int]
    stored: str
    type: str
    shape: Sequence[int] | None = None

    @property
    def bytes(self) -> int:
        """Its bytes in the file, where the next array begins at a multiple of 4."""
        return _padded(math.prod(self.sizes) * np.dtype(self.stored).itemsize)


# Writing


def write_arrays(path: Path, variables: Variables, attributes: Mapping[str, Any], make_folder: bool = True) -> None:
    """Writes arrays, and attributes that are numbers or texts, completely or not at all.

    The attribute `coordinates` names the coordinates that are no dims, with spaces between them.
    """
    stored = {name: _stored(name, dims, np.asarray(values)) for name, (dims, values) in variables.items()}
    arrays = {name: array for name, (array, _) in stored.items()}
    attributes = {name: _checked(name, value) for name, value in attributes.items()}
    begin = len(_header(arrays, attributes, 0))
    index = json.dumps({"begin": begin, "arrays": arrays, "attributes": attributes}).encode()
    if len(index) > MOST_INDEX:
        raise ValueError(f"the attributes of records must take at most {MOST_INDEX:,} bytes, got {len(index):,}")
    parts = (values.astype(array.stored).tobytes().ljust(array.bytes, b"\0") for array, values in stored.values())
    checksum = 0
    with atomic_write(path, make_folder) as scratch, scratch.open("wb") as file:
        for part in chain([_header(arrays, attributes, begin)], parts, [index, _number(len(index), 8)]):
            checksum = zlib.crc32(part, checksum)
            file.write(part)
        file.write(_number(checksum))


def _stored(name: str, dims: Sequence[str] | None, values: np.ndarray) -> tuple[_Array, np.ndarray]:
    """An array as netCDF-3 can hold it."""
    kind, whole, shape = values.dtype.kind, values.dtype.name, None
    if dims is not None and 0 in values.shape:
        raise ValueError(f"{name} must not be empty to be written, got the shape {values.shape}")
    axes = [f"{name}_{axis}" for axis in range(values.ndim)] if dims is None else [*dims]
    low, high = (int(values.min()), int(values.max())) if kind in "iu" and values.size else (-math.inf, math.inf)
    if kind in "OTU" and all(isinstance(each, str) for each in values.ravel().tolist()):
        values = np.asarray(np.char.encode(values.astype(str), "utf-8"))[..., None].view("S1")
        axes, stored, whole = [*axes, f"{name}_length"], "S1", "text"
    elif kind == "b" and values.size:
        stored = "i1"
    elif kind == "f" and 4 <= values.itemsize <= 8 and values.size:
        stored = f">f{values.itemsize}"
    elif -(2**31) <= low <= high < 2**31:
        stored = ">i4"
    elif 0 <= low <= high < 2**32:
        stored = ">u4"
    elif dims is None:
        stored, axes, shape = "i1", [f"{name}_bytes"], values.shape
        values = np.frombuffer(values.tobytes() + b"\0", "i1")  # one more, since no array of netCDF may be empty
    else:
        raise ValueError(f"{name} must hold texts, bools, floats or integers of 32 bits to be written, got {whole}")
    return _Array(axes, values.shape, stored, whole, shape), values


def _checked(name: str, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value  # of records that plain xarray opened
    if not isinstance(value, str | int | float):
        raise TypeError(f"the attribute {name} must be a text or a number to be written, got {value!r}")
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise ValueError(f"the attribute {name} must be a whole number of 32 bits to be written, got {value}")
    return value


def _header(arrays: Mapping[str, _Array], attributes: Mapping[str, Any], begin: int) -> bytes:
    """The header of a netCDF-3 file whose first array begins at `begin`. Its length does not depend on `begin`."""
    sizes: dict[str, int] = {}
    for each in arrays.values():
        sizes |= zip(each.dims, each.sizes, strict=True)
    places = {dim: _number(place) for place, dim in enumerate(sizes)}
    described: list[bytes] = []
    for name, each in arrays.items():
        # From these attributes xarray knows the types that netCDF-3 does not have.
        mark = {"text": {"_Encoding": "utf-8"}, "bool": {"dtype": "bool"}}.get(each.type, {})
        mark = {"_Unsigned": "true"} if each.stored == ">u4" else mark
        dims = _number(len(each.dims)) + b"".join(places[dim] for dim in each.dims)
        size = _number(min(each.bytes, 2**32 - 4))  # nobody reads it
        place = _number(TYPES[each.stored]) + size + _number(begin, 8)
        described.append(_text(name) + dims + _attributes(mark) + place)
        begin += each.bytes
    dims = [_text(name) + _number(size) for name, size in sizes.items()]
    return MAGIC + _listed(DIMENSION, dims) + _attributes(attributes) + _listed(VARIABLE, described)


def _attributes(attributes: Mapping[str, Any]) -> bytes:
    entries: list[bytes] = []
    for name, value in attributes.items():
        if isinstance(value, str):
            entries.append(_text(name) + _number(TYPES["S1"]) + _text(value))
        else:
            stored = ">i4" if isinstance(value, int) else ">f8"
            entries.append(_text(name) + _number(TYPES[stored]) + _number(1) + np.array(value, stored).tobytes())
    return _listed(ATTRIBUTE, entries)


def _listed(tag: int, entries: Sequence[bytes]) -> bytes:
    return _number(tag if entries else 0) + _number(len(entries)) + b"".join(entries)


def _text(text: str) -> bytes:
    content = text.encode()
    return _number(len(content)) + content.ljust(_padded(len(content)), b"\0")


def _number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big")


def _padded(size: int) -> int:
    return size + -size % 4


# Reading


def read_arrays(path: Path) -> Contents:
    """Reads what `write_arrays` wrote. Raises a `DamagedFile` that says what is wrong, or an OSError."""
    try:
        if not S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise DamagedFile(f"{path} is no plain file")
        with path.open("rb") as file:
            with _named(path):
                first, arrays, attributes = _index(file)
            check_memory(str(path), 3 * os.fstat(file.fileno()).st_size)
            file.seek(0)
            data = file.read()
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, f"{path} cannot be read: {problem.strerror}") from None
    with _named(path):
        if zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "big"):
            raise ValueError("its checksum differs")
        begins = accumulate((each.bytes for each in arrays.values()), initial=first)
        both = zip(arrays.items(), begins, strict=False)
        return Contents({name: _read(each, data, begin) for (name, each), begin in both}, attributes)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except HOSTILE as problem:
        raise DamagedFile(f"{path} is damaged, or crossprop did not write it: {problem}") from None


def _index(file: IO[bytes]) -> tuple[int, dict[str, _Array], dict[str, Any]]:
    """The index of a file: where its arrays begin, the arrays and the attributes. One of the errors in `HOSTILE` if it
    does not describe the whole file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - LENGTHS, 0))
    length = int.from_bytes(file.read(8), "big")
    if not 0 < length <= min(size - LENGTHS, MOST_INDEX):
        raise ValueError("it has no index at its end")
    file.seek(size - LENGTHS - length)
    stored = json.loads(file.read(length))
    arrays = {name: _Array(*each) for name, each in stored["arrays"].items()}
    for name, each in arrays.items():
        if each.stored not in TYPES or not all(type(size) is int and size > 0 for size in each.sizes):
            raise ValueError(f"{name} is no array that crossprop writes")
    whole = stored["begin"] + sum(each.bytes for each in arrays.values()) + length + LENGTHS
    if size != whole:
        raise ValueError(f"it has {size:,} bytes, and its index describes {whole:,}")
    return stored["begin"], arrays, stored["attributes"]


def _read(array: _Array, data: bytes, begin: int) -> tuple[tuple[str, ...], np.ndarray]:
    dims, sizes, stored, name, shape = array
    values = np.frombuffer(data, stored, math.prod(sizes), begin).reshape(sizes)
    if name == "text":
        return tuple(dims[:-1]), np.asarray(np.char.decode(values.view(f"S{sizes[-1]}")[..., 0], "utf-8"))
    dtype = np.dtype(name)
    if shape is not None:
        return tuple(dims), np.frombuffer(values.tobytes()[:-1], dtype).reshape(shape)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"an array is of type {name}")
    return tuple(dims), values.astype(dtype)
