"""Records on disk: one netCDF-3 file, which plain xarray opens, with the CRC-32 of its bytes behind them.

The header names every array and where it lies, so a file that is not as long as its header says is refused unread, and
nothing read takes more memory than a few times the size of the file. Readers of netCDF ignore what follows the arrays.
"""

import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop._support.files import atomic_write
from crossprop._support.memory import check_memory
from crossprop.running import SCHEMA

if TYPE_CHECKING:
    import xarray

MAGIC = b"CDF\x02\0\0\0\0"
"""netCDF-3 with 64-bit offsets, and no records in its own sense, along an unlimited dimension."""
DIMENSION, VARIABLE, ATTRIBUTE = 10, 11, 12
"""Tags of the lists in the header."""
TYPES = {1: np.dtype("i1"), 2: np.dtype("S1"), 4: np.dtype(">i4"), 5: np.dtype(">f4"), 6: np.dtype(">f8")}
CODES = {dtype: code for code, dtype in TYPES.items()}
MOST_HEADER = 2**26
"""Bytes of a header."""
MOST_DIMS = 32

Variables = Mapping[str, tuple[Sequence[str], Any]]
"""Dims and values by name."""


class DamagedFile(ValueError):
    """A file that is not whole, or that crossprop did not write."""


class Contents(NamedTuple):
    """What is in a file. Integers are int64, whatever they were."""

    variables: dict[str, tuple[tuple[str, ...], np.ndarray]]
    attributes: dict[str, Any]


def write_records(path: str | Path, records: "xarray.Dataset") -> None:
    """Writes records that `run` returned to the file `path`, completely or not at all."""
    variables = {str(name): (each.dims, each.values) for name, each in records.variables.items()}
    coordinates = " ".join(str(name) for name in records.coords if name not in records.dims)
    with atomic_write(Path(path)) as scratch:
        write_arrays(scratch, variables, records.attrs | {"coordinates": coordinates})


def read_records(path: str | Path) -> "xarray.Dataset":
    """Reads records that `write_records` wrote. A ValueError names the file if it is damaged or something else."""
    import xarray

    variables, attributes = read_arrays(Path(path))
    if attributes.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {attributes.get('schema')}, this version of crossprop reads {SCHEMA}")
    try:
        coordinates = attributes.pop("coordinates").split()
        return xarray.Dataset(variables, attrs=attributes).set_coords(coordinates)
    except (ValueError, LookupError, AttributeError) as problem:
        raise DamagedFile(f"{path} does not hold records: {problem}") from None


def check_replaceable(path: str | Path, experiment: dict[str, str], steps: int | None = None) -> None:
    """Raises a ValueError that names the difference if `path` holds anything but records of the same experiment, of as
    many steps if they are given."""
    if not Path(path).exists():
        return
    records = read_records(path)
    stored = records.attrs
    if steps is not None:
        experiment = experiment | {"steps": json.dumps(steps)}
        stored = stored | {"steps": json.dumps(int(records.step[-1]) if "step" in records else None)}
    for name, value in experiment.items():
        if stored.get(name) != value:
            try:
                there = json.loads(stored.get(name, "null"))
            except (ValueError, TypeError, RecursionError) as problem:
                raise DamagedFile(f"{path} does not hold records: {name} is no JSON: {problem}") from None
            where, there, here = _difference(name, there, json.loads(value))
            raise ValueError(
                f"{path} holds records of another experiment, which are kept: {where} is {there!r} there and {here!r} "
                "here. Choose another folder"
            )


def _difference(name: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """The first place where two configurations differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        if there.keys() != here.keys():
            return name, list(there), list(here)
        key = next(key for key in there if there[key] != here[key])
        return _difference(f"{name}.{key}", there[key], here[key])
    return name, there, here


class _Array(NamedTuple):
    """An array of a file; of its attributes some say which type it had."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    attributes: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Its bytes in the file."""
        return _padded(math.prod(self.shape) * self.dtype.itemsize)


# Writing


def write_arrays(path: Path, variables: Variables, attributes: Mapping[str, Any]) -> None:
    """Writes arrays of numbers, bools or texts, and attributes that are numbers or texts.

    The attribute `coordinates` names the coordinates that are no dims, with spaces between them.
    """
    encoded = {name: _encoded(name, tuple(dims), np.asarray(values)) for name, (dims, values) in variables.items()}
    arrays = {name: array for name, (array, _) in encoded.items()}
    header = _header(arrays, attributes, len(_header(arrays, attributes, 0)))
    if len(header) > MOST_HEADER:
        raise ValueError(f"the attributes of records must take at most {MOST_HEADER:,} bytes, got {len(header):,}")
    checksum = 0
    with path.open("wb") as file:
        for part in chain([header], (_bytes(array, values) for array, values in encoded.values())):
            checksum = zlib.crc32(part, checksum)
            file.write(part)
        file.write(_number(checksum))


def _encoded(name: str, dims: tuple[str, ...], values: np.ndarray) -> tuple[_Array, np.ndarray]:
    """An array as netCDF-3 can hold it, with the attributes from which xarray knows its type."""
    dtype, attributes = values.dtype, {}
    if 0 in values.shape:
        raise ValueError(f"{name} must not be empty to be written, got the shape {values.shape}")
    if dtype.kind in "OTU" and all(isinstance(each, str) for each in values.ravel().tolist()):
        values = np.asarray(np.char.encode(values.astype(str), "utf-8"))[..., None].view("S1")
        dims, dtype, attributes = (*dims, f"{name}_length"), TYPES[2], {"_Encoding": "utf-8"}
    elif dtype.kind == "b":
        dtype, attributes = TYPES[1], {"dtype": "bool"}
    elif dtype.kind == "f" and dtype.itemsize <= 8:
        dtype = TYPES[5 if dtype.itemsize <= 4 else 6]
    elif dtype.kind in "iu" and -(2**31) <= values.min() <= values.max() < 2**31:
        dtype = TYPES[4]
    elif dtype.kind in "iu" and 0 <= values.min() <= values.max() < 2**32:
        values, dtype, attributes = values.astype(np.uint32).view(np.int32), TYPES[4], {"_Unsigned": "true"}
    else:
        raise ValueError(f"{name} must hold texts, bools, floats or integers of 32 bits to be written, got {dtype}")
    return _Array(dims, values.shape, dtype, attributes), values


def _bytes(array: _Array, values: np.ndarray) -> bytes:
    return values.astype(array.dtype).tobytes().ljust(array.size, b"\0")


def _header(arrays: Mapping[str, _Array], attributes: Mapping[str, Any], begin: int) -> bytes:
    """The header of a file whose first array begins at `begin`, on which its length does not depend."""
    sizes: dict[str, int] = {}
    for each in arrays.values():
        sizes |= zip(each.dims, each.shape, strict=True)
    places = {dim: _number(place) for place, dim in enumerate(sizes)}
    described = []
    for name, each in arrays.items():
        dims = _number(len(each.dims)) + b"".join(places[dim] for dim in each.dims)
        size = _number(min(each.size, 2**32 - 4))  # nobody reads it
        place = _number(CODES[each.dtype]) + size + begin.to_bytes(8, "big")
        described.append(_text(name) + dims + _attributes(each.attributes) + place)
        begin += each.size
    dims = [_text(name) + _number(size) for name, size in sizes.items()]
    return MAGIC + _listed(DIMENSION, dims) + _attributes(attributes) + _listed(VARIABLE, described)


def _attributes(attributes: Mapping[str, Any]) -> bytes:
    entries = []
    for name, value in attributes.items():
        value = value.item() if isinstance(value, np.generic) else value  # of records that plain xarray opened
        if isinstance(value, str):
            entries.append(_text(name) + _number(CODES[TYPES[2]]) + _text(value))
        elif isinstance(value, int | float):
            number = np.array(value, TYPES[4 if isinstance(value, int) else 6])
            entries.append(_text(name) + _number(CODES[number.dtype]) + _number(1) + number.tobytes())
        else:
            raise TypeError(f"the attribute {name} must be a text or a number to be written, got {value!r}")
    return _listed(ATTRIBUTE, entries)


def _listed(tag: int, entries: Sequence[bytes]) -> bytes:
    return _number(tag if entries else 0) + _number(len(entries)) + b"".join(entries)


def _text(text: str) -> bytes:
    content = text.encode()
    return _number(len(content)) + content.ljust(_padded(len(content)), b"\0")


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _padded(size: int) -> int:
    return size + -size % 4


# Reading


def read_arrays(path: Path) -> Contents:
    """What `write_arrays` wrote. A `DamagedFile` says what is wrong with a file, an OSError that it cannot be read."""
    try:
        if not S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise DamagedFile(f"{path} is no plain file")
        with path.open("rb") as file:
            data, size = file.read(MOST_HEADER), os.fstat(file.fileno()).st_size
            with _named(path):
                header = _Header(data)
                arrays, attributes = header.parsed()
                end = header.at + sum(each.size for each in arrays.values())
                if size != end + 4:
                    raise ValueError(f"it has {size:,} bytes, and its header describes {end + 4:,}")
            check_memory(str(path), 3 * size)
            data += file.read()
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise OSError(problem.errno, f"{path} cannot be read: {problem.strerror}") from None
    with _named(path):
        if zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "big"):
            raise ValueError("its checksum differs")
        begins = accumulate((each.size for each in arrays.values()), initial=header.at)
        both = zip(arrays.items(), begins, strict=False)
        return Contents({name: _decoded(each, data, begin) for (name, each), begin in both}, attributes)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError) as problem:
        raise DamagedFile(f"{path} is damaged, or crossprop did not write it: {problem}") from None


class _Header:
    """Takes one part after another off a file's header. A ValueError or a LookupError if it is none."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def parsed(self) -> tuple[dict[str, _Array], dict[str, Any]]:
        """The arrays, in the order in which they follow the header, and the attributes."""
        if self.take(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin as such a file does")
        dims = self.listed(DIMENSION, lambda: (self.text(), self.number()))
        attributes = dict(self.listed(ATTRIBUTE, self.attribute))
        variables = self.listed(VARIABLE, lambda: self.variable(dims))
        end = self.at
        for name, each, begin in variables:
            if begin != end or 0 in each.shape:
                raise ValueError(f"{name} does not begin where the array before it ends")
            end += each.size
        return {name: each for name, each, _ in variables}, attributes

    def take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + _padded(count)
        if self.at > len(self.data):
            raise ValueError("it ends within its header")
        return self.data[start : start + count]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number()).decode()

    def dtype(self) -> np.dtype:
        if (code := self.number()) not in TYPES:
            raise ValueError(f"it has an array or an attribute of type {code}")
        return TYPES[code]

    def listed(self, tag: int, read: Callable[[], Any]) -> list[Any]:
        found, count = self.number(), self.number()
        if found != (tag if count else 0):
            raise ValueError("its header is none of netCDF-3")
        return [read() for _ in range(count)]

    def attribute(self) -> tuple[str, Any]:
        name, dtype, count = self.text(), self.dtype(), self.number()
        if dtype.kind == "S":
            return name, self.take(count).decode()
        if count != 1:
            raise ValueError(f"its attribute {name} is neither a text nor a number")
        return name, np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def variable(self, dims: Sequence[tuple[str, int]]) -> tuple[str, _Array, int]:
        name, count = self.text(), self.number()
        if count > MOST_DIMS:
            raise ValueError(f"{name} has {count} dims")
        own = [dims[self.number()] for _ in range(count)]
        attributes = dict(self.listed(ATTRIBUTE, self.attribute))
        dtype, _, begin = self.dtype(), self.number(), self.number(8)
        return name, _Array(tuple(dim for dim, _ in own), tuple(size for _, size in own), dtype, attributes), begin


def _decoded(array: _Array, data: bytes, begin: int) -> tuple[tuple[str, ...], np.ndarray]:
    dims, dtype = array.dims, array.dtype
    values = np.frombuffer(data, dtype, math.prod(array.shape), begin).reshape(array.shape)
    if dtype.kind == "S":
        if not dims:
            raise ValueError("a text has no length")
        return dims[:-1], np.asarray(np.char.decode(values.view(f"S{array.shape[-1]}")[..., 0], "utf-8"))
    if dtype.kind == "f":
        return dims, values.astype(dtype.newbyteorder("="))
    if array.attributes.get("dtype") == "bool":
        return dims, values.astype(bool)
    return dims, (values.astype(np.uint32) if "_Unsigned" in array.attributes else values).astype(np.int64)
