"""Where files are kept, and how they are written: completely or not at all."""

import mmap
import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


def cache_folder() -> Path:
    """The user's cache folder for crossprop: `$CROSSPROP_CACHE`, or `crossprop` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("CROSSPROP_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crossprop"


PART = ".part"
"""Ends the name of a file or folder that is not complete yet."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a path to write a file or folder to. It replaces `path` on success and is removed on failure.

    The data is on the disk before it gets its name, so a crash leaves either the old or the new contents.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = f".{path.name}-{os.getpid()}-{threading.get_ident()}"
    scratch, replaced = path.with_name(own + PART), path.with_name(f"{own}-replaced{PART}")
    try:
        yield scratch
        to_disk(scratch)
        if path.is_dir():
            path.rename(replaced)
        try:
            scratch.replace(path)
        except BaseException:
            if replaced.exists():
                replaced.rename(path)
            raise
    finally:
        for each in (scratch, replaced):
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)


def to_disk(path: Path) -> None:
    """Waits until a file, or all files of a folder, are on the disk."""
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        number = os.open(each, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks a file for this process. The operating system releases the lock when the process ends, however it ends."""
    with path.open("a+") as file:
        if not try_lock(file):
            file.seek(0)
            raise BlockingIOError(
                f"{path.parent} is being written to by {file.read()}: wait for it to end, or choose another folder"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def try_lock(file: TextIO, shared: bool = False) -> bool:
    """Locks the file until it is closed, unless another process has locked it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    return True


def check_writable(name: str, folder: Path) -> None:
    """Creates `folder` if it is missing. Raises a ValueError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise ValueError(f"{name} must be a folder that can be written to, got {str(folder)!r}: {problem}") from None


def release_pages(values: Any) -> None:
    """Releases the pages of a memory-mapped array that were read, so that memory does not grow with the file."""
    mapped = getattr(values, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
