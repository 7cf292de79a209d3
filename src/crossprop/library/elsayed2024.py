"""Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning": input-permuted MNIST."""

from collections.abc import Sequence
from functools import cache

from crossprop.datasets import DataSet
from crossprop.experiments.findings import HIGHER, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Runs
from crossprop.experiments.papers import Plan, Version, read_paper
from crossprop.experiments.questions import Answer, Headline
from crossprop.learners import Backprop
from crossprop.library import permuted
from crossprop.library.permuted import smaller
from crossprop.network import Network
from crossprop.optimizers import clip_weights
from crossprop.streams import PermutedInputs

LEARNERS = ADAM, CLIPPED = "Adam", "clipped Adam"
TASKS, TASK = 300, 50_000
PUBLISHED_END = {ADAM: 82.75, CLIPPED: 90.82}
PUBLISHED_MEAN = {ADAM: 85.45, CLIPPED: 90.76}
"""Accuracies in percent over the last ten tasks, and over all, in the authors' logs."""
POINTS, KEPT = 1.0, 1.0
"""A published accuracy is met, and plasticity kept, within this many points."""


@cache
def _centred(data: DataSet) -> DataSet:
    """The images with pixels from -1 to 1."""
    return DataSet(f"{data.name}, centred", 2 * data.x - 1, data.y, data.classes)


def mnist_plan(version: Version) -> Plan:
    """Input-permuted MNIST: Adam, with weight clipping and without."""
    full = version.size == "full"
    data = _centred(version.mnist() if full else smaller(version.mnist()))
    tasks, examples = version.tasks or version.pick(4, 100, TASKS), version.pick(50, 5000, TASK)
    width, seeds = version.pick(8, 60, 300), version.seeds or version.pick(2, 5, 30)
    step_size = version.pick(1e-3, 1e-3, 1e-4)
    network = Network(data.x.shape[1], (width, width // 2), 10, "leaky_relu", "softmax", True, "pytorch", "pytorch")
    learners = {
        ADAM: Backprop(network, step_size, optimizer="adam"),
        CLIPPED: Backprop(network, step_size, optimizer=clip_weights(1.0, base="adam")),
    }
    numbers = {"step_size": step_size, "size": len(data.y), "width": width, "half": width // 2}
    return permuted.plan(version, learners, PermutedInputs(data, tasks=tasks, examples=examples), seeds, numbers)


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


def _headline(answers: Sequence[Answer]) -> Headline:
    findings = [each for answer in answers for each in answer.findings]
    lost = {each.learner: each.mean for each in findings if each.quantity == permuted.LOST.name}
    notes = {ADAM: "Weights free", CLIPPED: "Weights kept within bounds"}
    for name, points in lost.items():
        notes[name] += f"; {abs(points):.1f} points {'more' if points > 0 else 'less'} than at first"
    return Headline("mnist", "error", "Adam with weight clipping and without", notes)


PAPER = read_paper(
    "elsayed2024",
    plans={"mnist": mnist_plan},
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
    headline=_headline,
    numbers=globals() | {"TASK_ERRORS": permuted.TASK_ERRORS},
    takes=("tasks",),
)
