"""Where files are kept, and how they are written: whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder for crossprop: `$CROSSPROP_CACHE`, or `crossprop` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("CROSSPROP_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crossprop"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path beside `path` to write a file or folder to, which takes its place when all went well, else vanishes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield scratch / path.name
        if not path.is_dir():
            (scratch / path.name).replace(path)
            return
        path.rename(scratch / "replaced")
        try:
            (scratch / path.name).replace(path)
        except BaseException:
            (scratch / "replaced").rename(path)
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_writable(name: str, folder: Path) -> None:
    """Makes `folder` where it is missing; a ValueError where nothing can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise ValueError(f"{name} must be a folder that can be written to, got {str(folder)!r}: {problem}") from None
