"""Locks: one process at a time writes to a folder, and others can ask which one.

The operating system releases a lock when its process ends, however it ends.
"""

import errno
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from crossprop._support.files import UNSUPPORTED
from crossprop._support.warning import warn


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks a file for this process, and writes its name there meanwhile. On a file system without locks, as Lustre and
    NFS can be mounted, it warns that a second process would not be stopped."""
    with _opened_lock(path, os.O_RDWR | os.O_CREAT) as file:
        try:
            _lock(file, path)
        except OSError as problem:
            if problem.errno not in UNSUPPORTED:
                raise
            warn(f"{path.parent} is on a file system without locks: let no second process write to it")
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.truncate()
        yield
        file.truncate(0)


def _lock(file: TextIO, path: Path) -> None:
    while not try_lock(file):
        if not try_lock(file, shared=True):  # another writer has it
            holder = file.read() or "another process"  # which has not written its name yet
            raise BlockingIOError(
                f"{path.parent} is being written to by {holder}: wait for it to end, or choose another folder"
            )
        # Only readers hold the lock: they ask about a writer that was killed. Without its name they do not ask.
        file.truncate(0)
        unlock(file)
        time.sleep(0.001)


def lock_holder(path: Path) -> str | None:
    """The process that has locked a file, or None. Asking never makes a writer fail."""
    try:
        with _opened_lock(path, os.O_RDONLY) as file:
            holder = file.read()
            return holder if holder and not try_lock(file, shared=True) else None
    except FileNotFoundError:
        return None
    except OSError as problem:
        if problem.errno not in UNSUPPORTED:
            raise
        return None


def _opened_lock(path: Path, flags: int) -> TextIO:
    try:
        number = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        raise ValueError(f"{path} must be a file of its own, got a symbolic link, which is not followed") from None
    return os.fdopen(number, "r+" if flags & os.O_RDWR else "r")


def try_lock(file: TextIO, shared: bool = False) -> bool:
    """Locks the file until it is closed, unless another process has locked it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    return True


def unlock(file: TextIO) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)
