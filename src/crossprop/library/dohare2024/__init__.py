"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": its claims, and the words of its page."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.papers import read_paper
from crossprop.experiments.questions import Answer, Headline
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
    return [_change(runs, name, MORE_TIMES, f"{name}'s error is higher at the end") for name in LOWEST]


def _worse_than_linear(runs: Runs) -> list[Finding]:
    return [runs.ratio(AT_END, name, LINEAR, MORE_TIMES, f"{name} is worse") for name in RELU[:2]]


def _continual_keeps_plasticity(runs: Runs) -> list[Finding]:
    by_rate = [continual_name("relu", rate) for rate in RATES]
    tanh = continual_name("tanh", RATES[1])
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
    return [
        _loses_more(runs, plain, name, "backprop loses more"),
        permuted.worse(runs, plain, name, "backprop is worse at the end"),
    ]


def _accuracy_as_published(runs: Runs) -> list[Finding]:
    if len(runs.visits) < TASKS or not {*PUBLISHED_ACCURACY} <= {*runs.learners}:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
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


PAPER = read_paper(
    "dohare2024",
    plans={"regression": regression_plan, "continual": continual_plan, "mnist": mnist_plan},
    find={
        "D1": partial(_as_published, ENDS, AT_END),
        "D2": partial(_as_published, LOWEST, AT_ITS_LOWEST),
        "D3": _larger_steps_lose_more,
        "D4": _loses_plasticity,
        "D5": _worse_than_linear,
        "D6": _continual_keeps_plasticity,
        "D7": _accuracy_falls,
        "D8": _larger_steps_lose_more_points,
        "D9": _continual_loses_less,
        "D10": _accuracy_as_published,
    },
    headline=_headline,
    numbers=globals() | {"TASK_ERRORS": permuted.TASK_ERRORS},
    takes=("tasks",),
)
