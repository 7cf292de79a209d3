"""Elsayed et al. (2024), "Weight clipping for deep continual and reinforcement learning": input-permuted MNIST."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from crossprop.datasets import DataSet
from crossprop.learners import Backprop, Learner
from crossprop.library import permuted, rules
from crossprop.library.measures import Runs
from crossprop.library.paper import Paper, Version
from crossprop.library.permuted import TASK_ERRORS, smaller
from crossprop.library.plans import Plan, Setting
from crossprop.library.story import Headline, Leads
from crossprop.library.texts import INTERVALS
from crossprop.library.verdicts import (
    DOES_NOT,
    HOLDS,
    Bounds,
    CannotDecide,
    Claim,
    Judgement,
    Part,
    Verdict,
    joint_level,
)
from crossprop.network import Network
from crossprop.optimizers import clip_weights
from crossprop.streams import PermutedInputs

if TYPE_CHECKING:
    import xarray

ADAM, CLIPPED = "Adam", "clipped Adam"
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
    learners: dict[str, Learner] = {
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


def _checked(records: "xarray.Dataset") -> Runs:
    return Runs(records).need(["error"], [ADAM, CLIPPED])


def _adam_falls(records: "xarray.Dataset") -> Judgement:
    runs = _checked(records)
    found = permuted.loses(runs, ADAM, joint_level(1), permuted.ABOVE_ZERO)
    return Judgement((Part("Adam misclassifies more at the end", (found,)),), runs.seeds)


def _clipping_keeps(records: "xarray.Dataset") -> Judgement:
    runs, level = _checked(records), joint_level(2)
    parts = (
        Part(
            f"with clipping it loses less than {KEPT:g} point",
            (permuted.loses(runs, CLIPPED, level, Bounds(high=KEPT)),),
        ),
        Part("without clipping it is worse at the end", (permuted.worse(runs, ADAM, CLIPPED, level),)),
    )
    return Judgement(parts, runs.seeds)


def _clipping_is_better(records: "xarray.Dataset") -> Judgement:
    runs = _checked(records)
    found = permuted.worse(runs, ADAM, CLIPPED, joint_level(1), "over all tasks")
    return Judgement((Part("without clipping it misclassifies more", (found,)),), runs.seeds)


def _as_published(records: "xarray.Dataset") -> Judgement:
    runs = Runs(records)
    if len(runs.visits) < TASKS or runs.steps[-1] < TASKS * TASK:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    _checked(records)
    level = joint_level(4)
    accuracy = {name: 100 * (1 - runs.curve("error", name)) for name in (ADAM, CLIPPED)}
    parts = []
    for name, curve in accuracy.items():
        for words, values, published in (
            ("over the last ten tasks", curve[:, -10:].mean(axis=1), PUBLISHED_END[name]),
            ("over all tasks", curve.mean(axis=1), PUBLISHED_MEAN[name]),
        ):
            found = rules.near(f"the accuracy of {name} in percent {words}", values, published, POINTS, level)
            parts.append(Part(f"{name} {words} is as published", (found,)))
    return Judgement(parts, runs.seeds)


CLAIMS = (
    Claim(
        "E1",
        "mnist",
        "On input-permuted MNIST, Adam loses accuracy over the tasks.",
        f"{TASK_ERRORS}What Adam loses is above 0.{INTERVALS}",
        _adam_falls,
    ),
    Claim(
        "E2",
        "mnist",
        "With weight clipping, Adam does not lose accuracy.",
        f"{TASK_ERRORS}Two parts: Adam with weight clipping loses less than {KEPT:g} point, and Adam without it"
        f" misclassifies more at the end (difference above 0).{INTERVALS}",
        _clipping_keeps,
    ),
    Claim(
        "E3",
        "mnist",
        "Over all tasks, Adam with weight clipping is more accurate than Adam.",
        f"{TASK_ERRORS}Over all tasks, Adam misclassifies more than Adam with weight clipping (difference above 0)."
        f"{INTERVALS}",
        _clipping_is_better,
    ),
    Claim(
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


def _headline(verdicts: Sequence[Verdict]) -> Headline:
    lost = {number.label: number.mean for verdict in verdicts for number in verdict.numbers}
    notes = {}
    for name, word in ((ADAM, "Weights free"), (CLIPPED, "Weights kept within bounds")):
        points = lost.get(f"points lost, {name}")
        told = "" if points is None else f"; {abs(points):.1f} points {'more' if points > 0 else 'less'} than at first"
        notes[name] = f"{word}{told}"
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
