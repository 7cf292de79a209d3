"""Checkpoints of a long run: the same call goes on from them, bit for bit, even after `kill -9`."""

import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from crossprop._files import atomic_write, check_writable, locked
from crossprop.engines.protocol import Session

SECONDS = 10.0
"""A batch is saved when it is done, and when so many seconds have passed since it was last saved."""


class Checkpoints:
    """A folder with the state of every batch of a call."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.saved: dict[int, float] = {}

    def restore(self, number: int, session: Session) -> None:
        """Takes the batch up where it was last saved, if it was."""
        self.saved[number] = time.monotonic()
        path = self._path(number)
        if not path.exists():
            return
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                snapshot = dict(archive)
            session.restore(snapshot, int(snapshot.pop("step")))
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as problem:
            raise ValueError(f"{path} is damaged: delete it, and its runs begin again. {problem}") from None

    def save(self, number: int, session: Session, done: bool) -> None:
        """Saves the batch if it is done or was not saved for a while."""
        if not done and time.monotonic() - self.saved[number] < SECONDS:
            return
        with atomic_write(self._path(number)) as scratch, scratch.open("wb") as file:
            np.savez(file, step=session.step, **session.snapshot())  # pyright: ignore[reportArgumentType]
        self.saved[number] = time.monotonic()

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number}.npz"


@contextmanager
def open_checkpoints(folder: str | Path | None, call: dict[str, str]) -> Iterator[Checkpoints | None]:
    """The checkpoints of a call, for this process alone. A folder with those of another call is refused."""
    if folder is None:
        yield None
        return
    path = Path(folder)
    check_writable("checkpoint", path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / "lock"):
        described = path / "call.json"
        others = sorted(each.name for each in path.iterdir() if each.name not in ("lock", "call.json"))
        if not described.exists():
            foreign = [name for name in others if not name.startswith(".call.json")]
            if foreign:
                raise ValueError(f"checkpoint must be an empty folder or one that run wrote, got {str(path)!r}")
            with atomic_write(described) as scratch:
                scratch.write_text(json.dumps(call, indent=1))
        try:
            there = json.loads(described.read_text())
            differing = [name for name in call if there.get(name) != call[name]]
        except (ValueError, AttributeError) as problem:
            raise ValueError(f"{described} is damaged: {problem}") from None
        for name in differing:
            raise ValueError(
                f"checkpoint={str(path)!r} belongs to another call, which is kept: {name} is {there.get(name)} there "
                f"and {call[name]} here. Choose another folder"
            )
        yield Checkpoints(path)
