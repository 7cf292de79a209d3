"""How far a sweep has come, from its store alone."""

from pathlib import Path
from typing import NamedTuple

from crossprop.experiments.store import read_store, writer


class LearnerStatus(NamedTuple):
    """The runs of one learner; the time left is None while it is unknown."""

    learner: str
    done: int
    missing: int
    diverged: int
    seconds_left: float | None


class Status(NamedTuple):
    """The progress of every learner, and the process that is writing to the store now, if any."""

    learners: list[LearnerStatus]
    writer: str | None


def status(store: str | Path) -> Status:
    """How much of the last call's sweep is done, how much is missing, and how long that may take. If it had an
    evaluation, the fresh seeds of the best settings count too."""
    grids, stored = read_store(Path(store))
    learners = []
    for grid in grids:
        tuning, fresh = set(grid.seeds), set(grid.evaluation)
        mine = [block for block in stored if block.name == grid.name]
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
        known = mine or stored
        seconds = sum(block.seconds for block in known) / sum(len(block.seeds) for block in known) if known else None
        left = 0.0 if not missing else seconds and missing * seconds
        learners.append(LearnerStatus(grid.name, len(diverged_at), missing, sum(at >= 0 for at in diverged_at), left))
    return Status(learners, writer(Path(store)))
