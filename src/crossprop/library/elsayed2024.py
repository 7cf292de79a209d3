"""Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning": input-permuted MNIST."""

from crossprop.experiments.findings import HIGHER, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Runs
from crossprop.experiments.papers import read_paper
from crossprop.library import permuted

LEARNERS = ADAM, CLIPPED = "Adam", "clipped Adam"
TASKS, TASK = 300, 50_000
PUBLISHED_END = {ADAM: 82.75, CLIPPED: 90.82}
PUBLISHED_MEAN = {ADAM: 85.45, CLIPPED: 90.76}
"""Accuracies in percent over the last ten tasks, and over all, in the authors' logs."""
POINTS, KEPT = 1.0, 1.0
"""A published accuracy is met, and plasticity kept, within this many points."""


def _as_published(runs: Runs) -> list[Finding]:
    if len(runs.visits) < TASKS or runs.steps[-1] < TASKS * TASK:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    found = []
    for name in LEARNERS:
        accuracy = 100 * (1 - runs.curve("error", name))
        for words, values, published in (
            ("over the last ten tasks", accuracy[:, -10:].mean(axis=1), PUBLISHED_END[name]),
            ("over all tasks", accuracy.mean(axis=1), PUBLISHED_MEAN[name]),
        ):
            part = f"{name} {words} is as published"
            found.append(runs.near(f"the accuracy of {name} in percent {words}", values, published, POINTS, part=part))
    return found


PAPER = read_paper(
    "elsayed2024",
    find={
        "E1": lambda runs: [permuted.loses(runs, ADAM, HIGHER, "Adam misclassifies more at the end")],
        "E2": lambda runs: [
            permuted.loses(runs, CLIPPED, Bounds(high=KEPT), f"with clipping it loses less than {KEPT:g} point"),
            permuted.worse(runs, ADAM, CLIPPED, "without clipping it is worse at the end"),
        ],
        "E3": lambda runs: [
            permuted.worse(runs, ADAM, CLIPPED, "without clipping it misclassifies more", permuted.OVER_ALL)
        ],
        "E4": _as_published,
    },
    numbers=globals() | {"TASK_ERRORS": permuted.TASK_ERRORS},
    says=lambda points: f"{abs(points):.1f} points {'more' if points > 0 else 'less'} than at first",
)
