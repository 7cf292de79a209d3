"""Arrays in files, and files from outside, read in memory and time that their own size bounds."""

import gzip
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from crossprop._support.files import atomic_write


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays to an archive of NumPy, completely or not at all."""
    with atomic_write(path) as scratch, scratch.open("wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays that `write_arrays` wrote, by name. Whatever is in the file, they are no larger than it is, and the
    CRC-32 of each is right.

    A damaged archive raises errors of many kinds.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("it is compressed, which np.savez does not do")
        if sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size:
            raise ValueError("it claims to hold more than its size")
        return {entry.filename.removesuffix(".npy"): _read_array(archive, entry) for entry in entries}


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read():  # to the end, where the CRC-32 is compared
            raise ValueError(f"{entry.filename} does not hold the array that its header describes")
        return array


def read_file(path: Path, most: int) -> bytes:
    """The contents of a file, decompressed if its name ends in .gz. A ValueError if they are more than `most` bytes."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} holds more than the {most:,} bytes that are expected")
    return content
