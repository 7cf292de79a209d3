"""Checkpoints of a long run: the same call goes on from them, bit for bit, even after `kill -9`."""

import hashlib
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np

from crossprop._files import DAMAGED, PART, atomic_write, check_writable, put_aside, read_json, write_json
from crossprop._locks import locked
from crossprop._warning import warn
from crossprop.engines.protocol import Session

SECONDS = 10.0
"""Seconds between two saves of a batch; it is also saved when it is done."""
DIGEST = 32
"""Bytes of the checksum at the end of a file."""


class Checkpoints:
    """A folder with the state of every batch of a call. Each file ends with a checksum of its contents, its number and
    the call."""

    def __init__(self, folder: Path, call: dict[str, str]):
        self.folder = folder
        self.call = json.dumps(call, sort_keys=True).encode()
        self.saved: dict[int, float] = {}

    def restore(self, number: int, session: Session) -> None:
        """Takes the batch up where it was last saved, if it was. A damaged file is put aside."""
        self.saved[number] = time.monotonic()
        path = self._path(number)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        try:
            if data[-DIGEST:] != self._checksum(number, memoryview(data)[:-DIGEST]):
                raise ValueError("its checksum differs from its contents")
            with np.load(BytesIO(data[:-DIGEST]), allow_pickle=False) as archive:
                snapshot = dict(archive)
            step = int(snapshot.pop("step"))
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as problem:
            aside = put_aside(path, self.folder / DAMAGED)
            warn(f"{path} is damaged: {problem}. It is now {aside}, and its runs begin again")
            return
        session.restore(snapshot, step)

    def save(self, number: int, session: Session, done: bool) -> None:
        """Saves the batch if it is done or was not saved for a while."""
        if not done and time.monotonic() - self.saved[number] < SECONDS:
            return
        contents = BytesIO()
        np.savez(contents, step=session.step, **session.snapshot())  # pyright: ignore[reportArgumentType]
        with atomic_write(self._path(number)) as scratch, scratch.open("wb") as file:
            file.write(contents.getbuffer())
            file.write(self._checksum(number, contents.getbuffer()))
        self.saved[number] = time.monotonic()

    def _checksum(self, number: int, contents: memoryview) -> bytes:
        found = hashlib.sha256(contents)
        found.update(f"batch {number} of ".encode() + self.call)
        return found.digest()

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
        others = sorted(each.name for each in path.iterdir() if each.name not in ("lock", "call.json", DAMAGED))
        if not described.exists():
            foreign = [name for name in others if not name.endswith(PART)]
            if foreign:
                raise ValueError(f"checkpoint must be an empty folder or one that run wrote, got {str(path)!r}")
            write_json(described, call)
        there = read_json(described)
        for name in {**call, **there}:
            if there.get(name) != call.get(name):
                raise ValueError(
                    f"checkpoint={str(path)!r} belongs to another call, which is kept: {name} is {there.get(name)} "
                    f"there and {call.get(name)} here. Choose another folder"
                )
        try:
            yield Checkpoints(path, call)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"what is in {path} is kept, and the same call goes on from there") from None
