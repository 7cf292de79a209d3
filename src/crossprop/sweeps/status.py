"""How far a sweep has come, from its store alone."""

from pathlib import Path
from typing import NamedTuple

from crossprop.sweeps.store import Folder, read_asked, writer


class Progress(NamedTuple):
    """The runs of one learner; the time left is None where nothing tells it yet."""

    learner: str
    done: int
    missing: int
    diverged: int
    seconds_left: float | None


class Status(NamedTuple):
    """How far every learner has come, and the process that is at it now, if there is one."""

    learners: list[Progress]
    writer: str | None


def status(store: str | Path) -> Status:
    """How much of what a store was last asked for is done, how much is missing, and how long that may take. The fresh
    seeds of the best setting are among it, where an evaluation was asked for."""
    asked, kept = read_asked(Path(store)), Folder(Path(store)).blocks
    learners = []
    for grid in asked.grids:
        tuning, fresh = set(grid.seeds), set(grid.evaluation)
        mine = [block for block in kept if block.name == grid.name]
        runs = [
            run
            for block in mine
            if block.identity in grid.points
            for run in zip(block.seeds.tolist(), block.diverged_at.tolist(), strict=True)
        ]
        diverged_at = [at for seed, at in runs if seed in tuning] + [at for seed, at in runs if seed in fresh][
            : len(fresh)
        ]
        missing = len(grid.points) * len(tuning) + len(fresh) - len(diverged_at)
        known = mine or kept
        seconds = sum(block.seconds for block in known) / sum(len(block.seeds) for block in known) if known else None
        left = 0.0 if not missing else seconds and missing * seconds
        learners.append(Progress(grid.name, len(diverged_at), missing, sum(at >= 0 for at in diverged_at), left))
    return Status(learners, writer(Path(store)))
