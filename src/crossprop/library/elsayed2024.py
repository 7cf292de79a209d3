"""Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning": input-permuted MNIST."""

from collections.abc import Sequence
from functools import cache

from crossprop.datasets import DataSet
from crossprop.experiments.findings import HIGHER, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Runs
from crossprop.experiments.questions import DOES_NOT, HOLDS, INTERVALS, Answer, Headline, Leads, Question
from crossprop.learners import Backprop
from crossprop.library import permuted
from crossprop.library.paper import Paper, Version
from crossprop.library.permuted import TASK_ERRORS, smaller
from crossprop.library.plans import Plan, Setting
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
    small = version.why()
    embedded = "the full set is not here" if full and not data.name.startswith("mnist,") else ""
    settings = (
        Setting("runs", str(seeds), "30", version.why_not(30, seeds)),
        Setting("tasks", str(tasks), str(TASKS), version.why_not(TASKS, tasks)),
        Setting("examples a task", f"{examples:,}", f"{TASK:,}", small),
        Setting("images", f"{len(data.y):,} of {data.x.shape[1]} pixels", "60,000 of 784 pixels", embedded or small),
        Setting("hidden units", f"{width} and {width // 2}, leaky ReLU", "300 and 150, leaky ReLU", small),
        Setting("step size of Adam", f"{step_size:g}", "0.0001", "" if full else "larger, as there are fewer examples"),
        Setting("clipping", "kappa 1", "kappa 1"),
        Setting("initial weights", "uniform up to one over the root of the fan-in, biases too", None, "PyTorch's"),
    )
    about = "Handwritten digits; in every task the pixels are in another order, so that nothing learned before helps."
    stream = PermutedInputs(data, tasks=tasks, examples=examples)
    return permuted.plan("Input-permuted MNIST", about, learners, stream, seeds, settings)


def _adam_falls(runs: Runs) -> list[Finding]:
    runs.need(["error"], LEARNERS)
    return [permuted.loses(runs, ADAM, HIGHER, "Adam misclassifies more at the end")]


def _clipping_keeps(runs: Runs) -> list[Finding]:
    runs.need(["error"], LEARNERS)
    return [
        permuted.loses(runs, CLIPPED, Bounds(high=KEPT), f"with clipping it loses less than {KEPT:g} point"),
        permuted.worse(runs, ADAM, CLIPPED, "without clipping it is worse at the end"),
    ]


def _clipping_is_better(runs: Runs) -> list[Finding]:
    runs.need(["error"], LEARNERS)
    return [permuted.worse(runs, ADAM, CLIPPED, "without clipping it misclassifies more", permuted.OVER_ALL)]


def _as_published(runs: Runs) -> list[Finding]:
    if len(runs.visits) < TASKS or runs.steps[-1] < TASKS * TASK:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    runs.need(["error"], LEARNERS)
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


CLAIMS = (
    Question(
        "E1",
        "mnist",
        "On input-permuted MNIST, Adam loses accuracy over the tasks.",
        f"{TASK_ERRORS}What Adam loses is above 0.{INTERVALS}",
        _adam_falls,
    ),
    Question(
        "E2",
        "mnist",
        "With weight clipping, Adam does not lose accuracy.",
        f"{TASK_ERRORS}Two parts: Adam with weight clipping loses less than {KEPT:g} point, and Adam without it"
        f" misclassifies more at the end (difference above 0).{INTERVALS}",
        _clipping_keeps,
    ),
    Question(
        "E3",
        "mnist",
        "Over all tasks, Adam with weight clipping is more accurate than Adam.",
        f"{TASK_ERRORS}Over all tasks, Adam misclassifies more than Adam with weight clipping (difference above 0)."
        f"{INTERVALS}",
        _clipping_is_better,
    ),
    Question(
        "E4",
        "mnist",
        "The accuracies are those of the authors' logs.",
        f"With {TASKS} tasks of {TASK:,} examples, the accuracies lie within {POINTS:g} point of those in the logs that"
        f" the authors published, four parts: over the last ten tasks {PUBLISHED_END[ADAM]:g}% for Adam and"
        f" {PUBLISHED_END[CLIPPED]:g}% with clipping, over all tasks {PUBLISHED_MEAN[ADAM]:g}% and"
        f" {PUBLISHED_MEAN[CLIPPED]:g}%.{INTERVALS}",
        _as_published,
    ),
)
LEADS: Leads = {
    "E1": {
        HOLDS: "Adam loses plasticity: {}",
        DOES_NOT: "Adam does not lose plasticity here: {}",
        None: "Whether Adam loses plasticity is not settled: {}",
    },
    "E2": {
        HOLDS: "With weight clipping it does not: {}",
        DOES_NOT: "With weight clipping it does as well: {}",
        None: "With weight clipping: {}",
    },
    "E3": {
        HOLDS: "Clipping pays: {}",
        DOES_NOT: "Clipping does not pay: {}",
        None: "Whether clipping pays is not settled: {}",
    },
}


def _headline(answers: Sequence[Answer]) -> Headline:
    findings = [each for answer in answers for each in answer.findings]
    lost = {each.learner: each.mean for each in findings if each.quantity == permuted.LOST.name}
    notes = {ADAM: "Weights free", CLIPPED: "Weights kept within bounds"}
    for name, points in lost.items():
        notes[name] += f"; {abs(points):.1f} points {'more' if points > 0 else 'less'} than at first"
    return Headline("mnist", "error", "Adam with weight clipping and without", notes)


PAPER = Paper(
    source='Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning"',
    title="Weight clipping, reproduced",
    intro=(
        "Networks that learn online for long often end up with large weights, and learn worse than at first. Elsayed "
        "et al. (2024) keep every weight within bounds that depend on its fan-in, and claim that this is enough to go "
        "on learning. This page reruns their experiment on input-permuted MNIST, with Adam."
    ),
    small=(
        "Version for two cores: 5,000 images of 14x14 pixels, 100 tasks of 5,000 examples and a network of 60 and 30 "
        "units, where the paper has 60,000 images, 300 tasks of 50,000 and 300 and 150 units"
    ),
    plans={"mnist": mnist_plan},
    claims=CLAIMS,
    leads=LEADS,
    terms={
        "input-permuted MNIST": "images of digits; in every task the pixels have another order.",
        "weight clipping": "after every step, weights and biases are clipped to kappa over the root of the fan-in.",
        "plasticity": "the ability to go on learning.",
        "at first, at the end": "over the first fifth of the tasks without the very first, and over the last tenth.",
        "seed": "one run: its examples and initial weights. Both learners get the same seeds, so they are compared in "
        "pairs.",
    },
    headline=_headline,
    takes_tasks=True,
)
