"""Files from outside, read in memory and time that their own size bounds."""

import gzip
import math
import os
import zipfile
from pathlib import Path
from typing import IO

import numpy as np


def read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of an archive that `np.savez` wrote, by name. Whatever is in the file, they are no larger than it is.

    A damaged archive raises errors of many kinds.
    """
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("it is compressed, which np.savez does not do")
        if sum(entry.file_size for entry in entries) > size:
            raise ValueError("it claims to hold more than its size")
        return {entry.filename.removesuffix(".npy"): _read_array(archive, entry) for entry in entries}


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as member:
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{entry.filename} has version {version} of NumPy's format")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(member)
        if dtype.hasobject:
            raise ValueError(f"{entry.filename} holds Python objects")
        data = member.read()
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(f"{entry.filename} does not hold the array that its header describes")
        if not data:
            return np.empty(shape, dtype)
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy()


def read_file(path: Path, most: int) -> bytes:
    """The contents of a file, decompressed if its name ends in .gz. A ValueError if they are more than `most` bytes."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} holds more than the {most:,} bytes that are expected")
    return content
