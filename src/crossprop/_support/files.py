"""The folders of the package, and atomic writes."""

import errno
import gzip
import hashlib
import json
import mmap
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """The user's cache folder for crossprop: `$CROSSPROP_CACHE`, or `crossprop` in `$XDG_CACHE_HOME` or `~/.cache`. A
    user without a home folder gets one that is removed when the process ends, and a warning."""
    if folder := os.environ.get("CROSSPROP_CACHE"):
        return Path(folder)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crossprop"
    except RuntimeError:
        return Path(_temporary_cache().name)


@cache
def _temporary_cache() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="crossprop-")
    warnings.warn(
        f"there is no home folder: compiled programs and data sets are kept in {folder.name} until this process ends. "
        "Set CROSSPROP_CACHE to a folder of your own",
        stacklevel=3,
    )
    return folder


def why_not_private(folder: Path) -> str | None:
    """Why others could put files into a folder, or None; it is made if it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as problem:
        return f"it cannot be made: {problem}"
    if not hasattr(os, "getuid"):  # Windows, where a user's folders are the user's alone
        return None
    if about.st_uid != os.getuid():
        return f"it belongs to another user, number {about.st_uid}"
    if about.st_mode & 0o022:
        return f"other users can write to it, mode {about.st_mode & 0o777:o}"
    return None


def bound_folder(folder: Path, ending: str, most: int) -> None:
    """If the files in a folder with this ending take more than `most` bytes, removes those least recently used until
    the rest takes half of that."""
    files: list[tuple[float, int, str]] = []
    with os.scandir(folder) as entries:  # there can be many thousands
        for entry in entries:
            with suppress(FileNotFoundError):  # another process removed it
                about = entry.stat(follow_symlinks=False)
                if entry.name.endswith(ending):
                    files.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    left = sum(size for _, size, _ in files)
    if left <= most:
        return
    for _, size, path in sorted(files):
        if left <= most // 2:
            break
        Path(path).unlink(missing_ok=True)
        left -= size


HOSTILE = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""Errors that a reader of JSON raises if the content is not what it expects."""
PART = ".part"
"""Ends the name of a file that is not complete yet."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers where there is no room for a file; such errors do not name it."""
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)
"""Error numbers of file systems without locks, as Lustre and NFS can be mounted."""
DAMAGED = "damaged"
"""The folder of damaged files that were put aside."""


@contextmanager
def atomic_write(path: Path, make_folder: bool = True) -> Iterator[Path]:
    """Yields a path to write a file to. It replaces `path` on success and is removed on failure.

    The data is on the disk before it gets its name, so a crash leaves either the old or the new contents.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}{PART}")
    try:
        yield scratch
        to_disk(scratch)
        scratch.replace(path)
    except OSError as problem:
        if problem.errno not in DISK_FULL and problem.filename not in (scratch, str(scratch)):
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
    finally:
        scratch.unlink(missing_ok=True)


def put_aside(path: Path, folder: Path) -> Path:
    """Moves a damaged file into `folder`, under a name that is not taken, and returns where it is now."""
    folder.mkdir(exist_ok=True)
    names = chain([path.name], (f"{path.name}.{number}" for number in count(1)))
    target = next(folder / name for name in names if not (folder / name).exists())
    return path.rename(target)


def write_json(path: Path, contents: dict[str, Any]) -> None:
    """Writes a JSON object with its SHA-256, completely or not at all."""
    contents = json.loads(json.dumps(contents, allow_nan=False))  # as it is read: keys that are numbers become texts
    with atomic_write(path) as scratch:
        scratch.write_text(json.dumps(contents | {"sha256": _digest(contents)}, indent=1))


def read_json(path: Path, most: int = 2**30) -> dict[str, Any]:
    """Reads what `write_json` wrote, at most so many bytes. A ValueError names a file that is damaged or foreign."""
    try:
        contents = json.loads(read_file(path, most))
        if contents.pop("sha256", None) != _digest(contents):
            raise ValueError("its checksum differs from its contents")
    except HOSTILE as problem:
        raise ValueError(f"{path} is damaged, or crossprop did not write it: {problem}") from None
    return contents


def _digest(contents: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def read_file(path: Path, most: int) -> bytes:
    """The contents of a file, decompressed if its name ends in .gz. A ValueError if they are more than `most` bytes."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} holds more than the {most:,} bytes that are expected")
    return content


def to_disk(path: Path) -> None:
    """Waits until a file is on the disk, if the file system can."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, *UNSUPPORTED):
            raise OSError(problem.errno, problem.strerror, str(path)) from problem
    finally:
        os.close(number)


def check_writable(name: str, folder: Path) -> None:
    """Raises a ValueError if `folder`, which need not exist yet, cannot be written to. Creates nothing."""
    there = folder
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        with tempfile.NamedTemporaryFile(dir=there, suffix=PART) as scratch:
            scratch.write(bytes(mmap.PAGESIZE))  # a full disk still takes names
            scratch.flush()
    except OSError as problem:
        why = f"{there}: {problem.strerror}"  # the error itself names a file of no interest
        raise ValueError(f"{name} must be a folder that can be written to, got {str(folder)!r}: {why}") from None


def release_pages(values: Any) -> None:
    """Releases the pages of a memory-mapped array that were read, so that memory does not grow with the file."""
    mapped = getattr(values, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
