"""Locks: one process at a time writes to a folder, and others can ask which.

The operating system releases a lock when its process ends, however it ends. Where the file system cannot lock, as
Lustre and NFS can be mounted, a second file is the lock: one process can create it, and its name is in it.
"""

import errno
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from crossprop._support.files import PART, UNSUPPORTED

SECONDS_TO_WRITE = 1.0
"""Seconds after which a lock file that is still empty belongs to nobody."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks a file for this process, whose name is in it meanwhile. The operating system releases the lock when the
    process ends, however it ends. On a file system without such locks a second file is one: `_lock_file`."""
    with _opened_lock(path, os.O_RDWR | os.O_CREAT) as file:
        try:
            _lock(file, path)
        except OSError as problem:
            if problem.errno not in UNSUPPORTED:
                raise
            held = _lock_file(path)
        else:
            held = _named(file)
        with held:
            yield


def _lock(file: TextIO, path: Path) -> None:
    while not try_lock(file):
        if not try_lock(file, shared=True):  # another writer has it
            raise _locked_by(file.read() or "another process", path)  # which has not written its name yet
        # Readers are asking after a writer that was killed. Without its name they have nothing to ask.
        file.truncate(0)
        unlock(file)
        time.sleep(0.001)


@contextmanager
def _named(file: TextIO) -> Iterator[None]:
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.truncate()
    yield
    file.truncate(0)


def _locked_by(holder: str, path: Path, remedy: str = "") -> BlockingIOError:
    return BlockingIOError(
        f"{path.parent} is being written to by {holder}: wait for it to end, or choose another folder{remedy}"
    )


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """A lock where the file system has none: a file that one process can create, with the process in it. If that was
    killed, the next one on the same machine takes the file away; from another machine nobody can know."""
    held = lock_file(path)
    while not _create(held, f"{platform.node()}\n{_process(os.getpid())}"):
        contents = _contents(held)
        if contents is None:  # it was released
            continue
        if (holder := _running(contents)) is not None:
            raise _locked_by(holder, path, f". If that process is gone, remove {held}")
        aside = held.with_name(f"{held.name}-{os.getpid()}-{threading.get_ident()}{PART}")
        with suppress(FileNotFoundError):  # another process was faster
            held.rename(aside)
            if (taken := _contents(aside)) is not None and taken != contents:
                _create(held, taken)  # another process was faster, and locked it again
            aside.unlink()
    try:
        yield
    finally:
        held.unlink(missing_ok=True)


def lock_file(path: Path) -> Path:
    """The file that is a lock in place of `path` where the file system cannot lock it."""
    return path.with_name(f"{path.name}-holder{PART}")


def _create(path: Path, contents: str) -> bool:
    """Creates a file, unless there is one."""
    try:
        with path.open("x") as file:
            file.write(contents)
    except FileExistsError:
        return False
    return True


def _contents(path: Path) -> str | None:
    """The machine and the process in a lock file; "" if its process was killed before it wrote them, None without the
    file."""
    begun = time.monotonic()
    while time.monotonic() - begun < SECONDS_TO_WRITE:
        try:
            if contents := path.read_text():
                return contents
        except FileNotFoundError:
            return None
        time.sleep(0.01)
    return ""


def _running(contents: str) -> str | None:
    """The process that a lock file names, unless it was one of this machine and has ended."""
    machine, _, process = contents.partition("\n")
    number = process.partition(" ")[0]
    ended = not number.isdecimal() or (machine == platform.node() and process != _process(int(number)))
    return None if ended else f"process {number} on {machine}"


def _process(number: int) -> str | None:
    """The number of a process and when it began, which tells it from an earlier one of that number; None if there is no
    such process."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # another user's
        pass
    try:
        return f"{number} {Path(f'/proc/{number}/stat').read_text().rpartition(')')[2].split()[19]}"
    except OSError:  # not Linux
        return f"{number} "


def lock_holder(path: Path) -> str | None:
    """The process that has locked a file, if one has. The question makes no writer fail that is about to begin."""
    try:
        with _opened_lock(path, os.O_RDONLY) as file:
            holder = file.read()
            if holder and not try_lock(file, shared=True):
                return holder
    except FileNotFoundError:
        return None
    except OSError as problem:
        if problem.errno not in UNSUPPORTED:
            raise
    contents = _contents(lock_file(path))
    return contents and _running(contents)


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
