"""The output folder of a reproduction: experiments whose records are in it are not run again."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossprop._support.files import check_writable
from crossprop.library.plans import Plan
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Folder:
    """Where a reproduction keeps what it did: experiments whose records are there already are not run again, unless by
    `force`."""

    path: Path
    say: Say
    engine: str
    force: bool
    checkpoints: bool = False
    """Whether runs are saved from time to time, so that the same command goes on after a crash."""

    def check(self, plans: Sequence[Plan] = ()) -> None:
        """Raises a ValueError if nothing can be written, or if there are records of another experiment by that name."""
        check_writable("out", self.path)
        for plan in plans:
            if self._store(plan).exists():  # else the data of its stream would be hashed for nothing
                check_replaceable(self._store(plan), plan.experiment())

    def run(self, plan: Plan) -> "xarray.Dataset":
        """The records of a plan, run unless they are there."""
        path, saved = self._store(plan), self.path / f"{plan.name}.checkpoint"
        if path.exists() and not self.force:
            self.say(f"{plan.name}: done before, in {path}")
            return read_records(path)
        expected = plan.expected()
        self.say(f"{plan.name}: running. {expected}".rstrip(". ") + "." * bool(expected))
        began = time.perf_counter()
        records = plan.run(self.engine, saved if self.checkpoints else None)
        shutil.rmtree(saved, ignore_errors=True)
        seconds = time.perf_counter() - began
        records.attrs["seconds"] = round(seconds, 1)
        write_records(path, records)
        self.say(f"{plan.name}: done in {seconds:.1f} s")
        return records

    def figures(self) -> Path:
        """The folder of the figures."""
        (self.path / "figures").mkdir(exist_ok=True)
        return self.path / "figures"

    def _store(self, plan: Plan) -> Path:
        return self.path / f"{plan.name}.nc"
