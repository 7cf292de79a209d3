"""Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning": input-permuted MNIST."""

from crossprop.experiments.measures import Quantity
from crossprop.experiments.papers import read_paper
from crossprop.library import permuted


def _accuracy(tasks: int) -> Quantity:
    """The accuracy in percent over the last tasks, of all for 0."""
    return Quantity("", "", lambda runs, name: (100 * (1 - runs.curve("error", name)))[:, -tasks:].mean(axis=1))


ACCURACY = {"accuracy at the end": _accuracy(10), "accuracy over all tasks": _accuracy(0)}

PAPER = read_paper(
    "elsayed2024",
    permuted.MEASURES | ACCURACY,
    numbers={"TASK_ERRORS": permuted.TASK_ERRORS},
    says=lambda points: f"{abs(points):.1f} points {'more' if points > 0 else 'less'} than at first",
)
