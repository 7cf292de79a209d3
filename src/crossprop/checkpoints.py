"""Checkpoints of a long run: the same call continues from them, bit for bit, even after `kill -9`."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crossprop._support.array_files import DamagedFile, read_arrays, write_arrays
from crossprop._support.files import DAMAGED, PART, check_writable, put_aside, read_json, write_json
from crossprop._support.locks import locked
from crossprop._support.warning import warn
from crossprop.engines.session import Session

SECONDS = 10.0
"""Seconds between two saves of a batch; it is also saved when it is done."""


class Checkpoints:
    """A folder with the state of every batch of a call; each file names the batch and the call."""

    def __init__(self, folder: Path, call: dict[str, str]):
        self.folder = folder
        self.call = json.dumps(call, sort_keys=True)
        self.saved: dict[int, float] = {}

    def restore(self, number: int, session: Session) -> None:
        """Continues the batch where it was last saved, if it was. A damaged file is put aside."""
        self.saved[number] = time.monotonic()
        path = self._path(number)
        if not path.exists():
            return
        try:
            snapshot, about = read_arrays(path)
            if about.get("batch") != self._batch(number):
                raise DamagedFile(f"{path} is of another call or batch")
        except DamagedFile as problem:
            aside = put_aside(path, self.folder / DAMAGED)
            warn(f"{problem}. It is now {aside}, and its runs begin again")
            return
        session.restore({name: values for name, (_, values) in snapshot.items()}, about["step"])

    def save(self, number: int, session: Session, done: bool) -> None:
        """Saves the batch if it is done or was not saved for a while."""
        if not done and time.monotonic() - self.saved[number] < SECONDS:
            return
        arrays = {name: (None, values) for name, values in session.snapshot().items()}
        write_arrays(self._path(number), arrays, {"batch": self._batch(number), "step": session.step})
        self.saved[number] = time.monotonic()

    def _batch(self, number: int) -> str:
        return f"batch {number} of {self.call}"

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number}.nc"


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
