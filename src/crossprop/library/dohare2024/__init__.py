"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": its claims, and the words of its page."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.questions import (
    DOES_NOT,
    HOLDS,
    IN_PART,
    INTERVALS,
    STRICT,
    Answer,
    Headline,
    Leads,
    Question,
)
from crossprop.experiments.words import stated
from crossprop.library import permuted
from crossprop.library.dohare2024.plans import (
    ENDS,
    LINEAR,
    LOWEST,
    RATES,
    STEP_SIZES,
    TASKS,
    continual_name,
    continual_plan,
    mnist_plan,
    name_of,
    regression_plan,
)
from crossprop.library.paper import Paper
from crossprop.library.permuted import TASK_ERRORS
from crossprop.statistics import paired_ratio

WITHIN = 0.1
"""How far from a published value counts as met, as a share of it."""
BINS, EARLY_BINS = 5, 10
CHANGE = "error at the end / at first"
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PUBLISHED_ACCURACY = {"backprop 0.01": 90.1, "backprop 0.003": 93.7, "backprop 0.001": 94.0}
POINTS = 0.5
PLAIN = {activation: name_of(activation, STEP_SIZES[0]) for activation in ("relu", "tanh")}
RELU = [name_of("relu", step_size) for step_size in STEP_SIZES]


def _error(when: str, of: Callable[[np.ndarray], np.ndarray]) -> Quantity:
    """The errors of a learner, from its curves `(seed, bin)`."""
    return Quantity(f"error {when}", f"error {when}", lambda runs, name: of(runs.curve("loss", name)))


def _lowest(curve: np.ndarray) -> np.ndarray:
    """The error of each run in the bin of the first ten in which the mean error is lowest."""
    return curve[:, curve[:, :EARLY_BINS].mean(axis=0).argmin()]


IN_FIRST_BIN = _error("in the first bin", lambda curve: curve[:, 0])
AT_FIRST = _error("at first", lambda curve: curve[:, :BINS].mean(axis=1))
AT_ITS_LOWEST = _error("at its lowest", _lowest)
AT_END = _error("at the end", lambda curve: curve[:, -BINS:].mean(axis=1))
OVER_ALL = _error("over all examples", lambda curve: curve)


# Slowly-changing regression.


def _as_published(published: dict[str, float], of: Quantity, runs: Runs) -> list[Finding]:
    runs.need(["loss"], [*published])
    when = of.name.removeprefix("error ")
    return [
        runs.near(
            f"{name}'s {of.name}",
            of.values(runs, name),
            value,
            WITHIN * value,
            part=f"{name} {when} is within {WITHIN:.0%}",
        )
        for name, value in published.items()
    ]


def _larger_steps_lose_more(runs: Runs) -> list[Finding]:
    runs.need(["loss"], RELU)
    found = []
    for larger, smaller in pairwise(RELU):
        found += [
            runs.ratio(
                IN_FIRST_BIN, smaller, larger, MORE_TIMES, f"{larger} is better than {smaller} in the first bin"
            ),
            runs.ratio(AT_END, larger, smaller, MORE_TIMES, f"{larger} is worse than {smaller} at the end"),
        ]
    return found


def _change(runs: Runs, name: str, bounds: Bounds, part: str = "", note: str = "") -> Finding:
    """The ratio of the error at the end to the error at first."""
    end, first = (of.values(runs, name) for of in (AT_END, AT_FIRST))
    ratio = paired_ratio(end, first, runs.level)
    said = stated(f"{name}'s error at the end is {{}} times that at first", ratio)
    return Finding(CHANGE, name, "", *ratio, len(end), bounds=bounds, part=part, said=said, note=note)


def _loses_plasticity(runs: Runs) -> list[Finding]:
    runs.need(["loss"], [*LOWEST])
    return [_change(runs, name, MORE_TIMES, f"{name}'s error is higher at the end") for name in LOWEST]


def _worse_than_linear(runs: Runs) -> list[Finding]:
    runs.need(["loss"], [*RELU[:2], LINEAR])
    return [runs.ratio(AT_END, name, LINEAR, MORE_TIMES, f"{name} is worse") for name in RELU[:2]]


def _continual_keeps_plasticity(runs: Runs) -> list[Finding]:
    by_rate = [continual_name("relu", rate) for rate in RATES]
    tanh = continual_name("tanh", RATES[1])
    runs.need(["loss"], [*PLAIN.values(), *by_rate, tanh])
    best, note = runs.best(OVER_ALL, by_rate, "rate for ReLU")
    kept, found = Bounds(high=KEPT), []
    for plain, name in zip(PLAIN.values(), (best, tanh), strict=True):
        found += [
            _change(runs, name, kept, f"{name} does not lose plasticity", note),
            runs.ratio(AT_END, plain, name, MORE_TIMES, f"{plain}, by backprop, ends worse"),
        ]
    found += [_change(runs, name, MORE_TIMES) for name in PLAIN.values()]
    return found + [_change(runs, name, kept) for name in by_rate if name != best]


# Permuted MNIST.


def _step_size(name: str) -> float:
    return float(name.rpartition(" ")[2])


def _by_backprop(runs: Runs, least: int) -> list[str]:
    """The learners by backprop, the largest step size first."""
    names = sorted((each for each in runs.learners if each.startswith("backprop ")), key=_step_size, reverse=True)
    if len(names) < least:
        raise CannotDecide("the records hold no backprop with several step sizes")
    runs.need(["error"], names)
    return names


def _accuracy_falls(runs: Runs) -> list[Finding]:
    part = "{} misclassifies more at the end"
    return [permuted.loses(runs, name, HIGHER, part.format(name)) for name in _by_backprop(runs, 1)]


def _loses_more(runs: Runs, a: str, b: str, part: str) -> Finding:
    return runs.difference(permuted.LOST, a, b, HIGHER, f"{a} loses {{}} than {b}", part=part)


def _larger_steps_lose_more_points(runs: Runs) -> list[Finding]:
    return [_loses_more(runs, a, b, f"{a} loses more than {b}") for a, b in pairwise(_by_backprop(runs, 2))]


def _continual_loses_less(runs: Runs) -> list[Finding]:
    _by_backprop(runs, 1)
    name = next((each for each in runs.learners if each.startswith("continual ")), None)
    if name is None:
        raise CannotDecide("the records hold no continual backprop")
    plain = name_of("backprop", _step_size(name))
    runs.need(["error"], [name, plain])
    return [
        _loses_more(runs, plain, name, "backprop loses more"),
        permuted.worse(runs, plain, name, "backprop is worse at the end"),
    ]


def _accuracy_as_published(runs: Runs) -> list[Finding]:
    if len(runs.visits) < TASKS or not {*PUBLISHED_ACCURACY} <= {*runs.learners}:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    runs.need(["error"], [*PUBLISHED_ACCURACY])
    return [
        runs.near(
            f"{name}'s accuracy in percent at the end",
            100 - permuted.at_end(runs, name),
            value,
            POINTS,
            part=f"{name} ends with {value:g}%",
        )
        for name, value in PUBLISHED_ACCURACY.items()
    ]


BINNED = "Errors are means over bins of 20,000 examples. At first: the first five bins; at the end: the last five. "
CLAIMS = (
    Question(
        "D1",
        "regression",
        "Backprop's error on slowly-changing regression ends where the paper's figures show it.",
        f"{BINNED}The errors at the end lie within {WITHIN:.0%} of those read off the figures, a part each:"
        f" {', '.join(f'{name} {value:g}' for name, value in ENDS.items())}.{INTERVALS}",
        partial(_as_published, ENDS, AT_END),
    ),
    Question(
        "D2",
        "regression",
        "Before it rises, backprop's error is what the paper's figures show.",
        f"{BINNED}In the bin of the first ten with the lowest mean error over runs, the errors lie within {WITHIN:.0%}"
        " of the lowest ones read off the figures, a part each:"
        f" {', '.join(f'{name} {value:g}' for name, value in LOWEST.items())}. tanh's curve leaves the axes, which end"
        f" at 0.4: its value is where the lines on both sides meet.{INTERVALS}",
        partial(_as_published, LOWEST, AT_ITS_LOWEST),
    ),
    Question(
        "D3",
        "regression",
        "The larger the step size, the lower the error at first, and the higher at the end.",
        f"{BINNED}For ReLU, four parts: step size 0.01 has a lower error than 0.003, and 0.003 than 0.001, in the first"
        f" bin; at the end each has a higher one (ratios above 1).{STRICT}",
        _larger_steps_lose_more,
    ),
    Question(
        "D4",
        "regression",
        "Backprop loses plasticity: its error is higher at the end than at first.",
        f"{BINNED}A part each for {', '.join(LOWEST)}: the error at the end is higher than at first (ratio above 1)."
        f"{STRICT}",
        _loses_plasticity,
    ),
    Question(
        "D5",
        "regression",
        "With the larger step sizes, ReLU ends worse than a linear unit.",
        f"{BINNED}Two parts: ReLU with step sizes 0.01 and 0.003 has a higher error at the end than the linear unit"
        f" (ratio above 1).{STRICT}",
        _worse_than_linear,
    ),
    Question(
        "D6",
        "continual",
        "Continual backprop does not lose plasticity where backprop does.",
        f"{BINNED}Step size 0.01. For ReLU, with the rate of {', '.join(f'{rate:g}' for rate in RATES)} that has the"
        f" lowest error over all examples, and for tanh, with {RATES[1]:g}, two parts each: the error at the end is"
        f" less than {KEPT:g} times that at first, and backprop's at the end is higher (ratio above 1).{STRICT}",
        _continual_keeps_plasticity,
    ),
    Question(
        "D7",
        "mnist",
        "On online permuted MNIST, backprop's accuracy falls over the tasks.",
        f"{TASK_ERRORS}A part for each step size: what is lost is above 0.{INTERVALS}",
        _accuracy_falls,
    ),
    Question(
        "D8",
        "mnist",
        "On online permuted MNIST, larger step sizes lose more.",
        f"{TASK_ERRORS}A part for each neighbouring pair of step sizes: the larger one loses more (difference above 0)."
        f"{INTERVALS}",
        _larger_steps_lose_more_points,
    ),
    Question(
        "D9",
        "mnist",
        "On online permuted MNIST, continual backprop keeps its accuracy where backprop does not.",
        f"{TASK_ERRORS}Two parts, at the same step size: backprop loses more, and misclassifies more at the end"
        f" (differences above 0).{INTERVALS}",
        _continual_loses_less,
    ),
    Question(
        "D10",
        "mnist",
        "On online permuted MNIST, backprop's accuracy ends where the paper's figure shows it.",
        f"{TASK_ERRORS}With {TASKS} tasks, the accuracies at the end lie within {POINTS:g} points of those read off the"
        f" figure: {', '.join(f'{name} {value:g}%' for name, value in PUBLISHED_ACCURACY.items())}.{INTERVALS}",
        _accuracy_as_published,
    ),
)
LEADS: Leads = {
    "D4": {
        HOLDS: "Backprop loses plasticity: {}",
        DOES_NOT: "Backprop does not lose plasticity here: {}",
        IN_PART: "Whether backprop loses plasticity is settled in part only: {}",
        None: "Whether backprop loses plasticity is not settled: {}",
    },
    "D1": {
        HOLDS: "Its errors end where they were published to end: {}",
        DOES_NOT: "Its errors do not end where they were published to end: {}",
        None: "Where its errors end: {}",
    },
    "D6": {
        HOLDS: "Continual backprop does not: {}",
        DOES_NOT: "Continual backprop does no better: {}",
        IN_PART: "Whether continual backprop keeps it is settled in part only: {}",
        None: "Whether continual backprop keeps it is not settled: {}",
    },
    "D7": {
        HOLDS: "On permuted MNIST backprop loses plasticity as well: {}",
        DOES_NOT: "On permuted MNIST backprop does not lose plasticity: {}",
        None: "On permuted MNIST: {}",
    },
    "D9": {
        HOLDS: "There, too, continual backprop keeps more of it: {}",
        DOES_NOT: "There continual backprop does not keep more of it: {}",
        IN_PART: "Whether continual backprop keeps more of it there is settled in part only: {}",
        None: "Whether continual backprop keeps more of it there is not settled: {}",
    },
}


def _headline(answers: Sequence[Answer]) -> Headline | None:
    """The chart at the top: backprop, and continual backprop with its best rate, with ReLU."""
    changes = [each for answer in answers if answer.id == "D6" for each in answer.findings if each.quantity == CHANGE]
    times = {each.learner: each.mean for each in changes}
    best = next((name for name in times if name.startswith("continual ReLU")), None)
    if best is None:
        return None
    names = {PLAIN["relu"]: "Backprop", best: "Replaces useless units"}
    notes = {name: f"{word}; at the end {times[name]:.2g} times its error at first" for name, word in names.items()}
    return Headline("continual", "loss", "Backprop and continual backprop", notes)


PAPER = Paper(
    source='Dohare et al. (2024), "Loss of plasticity in deep continual learning", Nature',
    title="Loss of plasticity, reproduced",
    intro=(
        "A network that learns online with backprop is good at first, and then worse than at first: it loses "
        "plasticity. Dohare et al. (2024) show this on long streams of changing tasks, and that continual backprop, "
        "which replaces the least useful units all the time, goes on learning. This page reruns slowly-changing "
        "regression and online permuted MNIST."
    ),
    small=(
        "Version for two cores: slowly-changing regression as in the paper with fewer runs; permuted MNIST in a small "
        "form, 5,000 images of 14x14 pixels and three layers of 50 units"
    ),
    plans={"regression": regression_plan, "continual": continual_plan, "mnist": mnist_plan},
    claims=CLAIMS,
    leads=LEADS,
    terms={
        "slowly-changing regression": "20 bits, of which 15 change only every 10,000 examples; the target is a fixed "
        "network of 100 threshold units, the learner a network of 5 hidden units.",
        "online permuted MNIST": "images of digits, each shown once a task; in every task the pixels have another "
        "order.",
        "plasticity": "the ability to go on learning.",
        "continual backprop": "backprop that replaces the least useful mature units, a few at a time. Its rate is the "
        "share of them that is replaced per example.",
        "linear": "a linear unit, which cannot lose plasticity.",
        "bin": "20,000 examples; an error is the mean squared error over a bin.",
        "at first, at the end": "over the first and over the last five bins, 100,000 examples each.",
        "step size": "as the authors give it, for the squared error. Its gradient is twice that of half the squared "
        "error, which this package's learners descend: these have twice the step size.",
        "seed": "one run: its target, examples and initial weights. All learners get the same seeds, so they are "
        "compared in pairs.",
    },
    headline=_headline,
    takes_tasks=True,
)
