"""The claims of Dohare et al. (2024) about slowly-changing regression and permuted MNIST, and their rules."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from crossprop._support.formats import span
from crossprop.library import permuted, rules
from crossprop.library.dohare2024.plans import (
    ENDS,
    LINEAR,
    LOWEST,
    RATES,
    STEP_SIZES,
    TASKS,
    continual_name,
    name_of,
)
from crossprop.library.measures import Quantity, Runs
from crossprop.library.permuted import TASK_ERRORS
from crossprop.library.story import Headline, Leads
from crossprop.library.texts import INTERVALS, STRICT
from crossprop.library.verdicts import (
    DOES_NOT,
    HOLDS,
    IN_PART,
    MORE_TIMES,
    Bounds,
    CannotDecide,
    Claim,
    Finding,
    Judge,
    Judgement,
    Number,
    Part,
    Verdict,
    joint_level,
)

if TYPE_CHECKING:
    import xarray

WITHIN = 0.1
"""How far from a published value counts as met, as a share of it."""
BINS, EARLY_BINS = 5, 10
CHANGED = "error at the end / at first, "
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PUBLISHED_ACCURACY = {"backprop 0.01": 90.1, "backprop 0.003": 93.7, "backprop 0.001": 94.0}
POINTS = 0.5


# Slowly-changing regression.


def _lowest(runs: Runs, name: str) -> np.ndarray:
    """The error of each run in the bin of the first ten in which the mean error is lowest."""
    curve = runs.curve("loss", name)[:, :EARLY_BINS]
    return curve[:, curve.mean(axis=0).argmin()]


def _at_first(runs: Runs, name: str) -> np.ndarray:
    return runs.curve("loss", name)[:, :BINS].mean(axis=1)


def _in_first_bin(runs: Runs, name: str) -> np.ndarray:
    return runs.curve("loss", name)[:, 0]


def _at_end(runs: Runs, name: str) -> np.ndarray:
    return runs.curve("loss", name)[:, -BINS:].mean(axis=1)


def _checked(records: "xarray.Dataset", names: Sequence[str]) -> Runs:
    return Runs(records).need(["loss"], names)


def _as_published(published: dict[str, float], when: str, of: Callable[[Runs, str], np.ndarray]) -> Judge:
    def judge(records: "xarray.Dataset") -> Judgement:
        runs, level = _checked(records, [*published]), joint_level(len(published))
        parts = tuple(
            Part(
                f"{name} {when} is within {WITHIN:.0%}",
                (rules.near(f"{name}'s error {when}", of(runs, name), value, WITHIN * value, level),),
            )
            for name, value in published.items()
        )
        return Judgement(parts, runs.seeds)

    return judge


def _quantity(runs: Runs, when: str, of: Callable[[Runs, str], np.ndarray]) -> Quantity:
    return Quantity(runs, f"error {when}", f"error {when}", lambda name: of(runs, name))


def _larger_steps_lose_more(records: "xarray.Dataset") -> Judgement:
    names = [name_of("relu", each) for each in STEP_SIZES]
    runs, level = _checked(records, names), joint_level(4)
    first, end = _quantity(runs, "in the first bin", _in_first_bin), _quantity(runs, "at the end", _at_end)
    parts = []
    for larger, smaller in pairwise(names):
        parts += [
            Part(
                f"{larger} is better than {smaller} in the first bin",
                (first.times(smaller, larger, level, MORE_TIMES),),
            ),
            Part(f"{larger} is worse than {smaller} at the end", (end.times(larger, smaller, level, MORE_TIMES),)),
        ]
    return Judgement(parts, runs.seeds)


def _change(runs: Runs, name: str, level: float, bounds: Bounds) -> Finding:
    """The ratio of the error at the end to the error at first."""
    values = {"at the end": _at_end(runs, name), "at first": _at_first(runs, name)}
    quantity = Quantity(runs, name, "error", lambda when: values[when])
    found = quantity.times("at the end", "at first", level, bounds)
    number = Number(f"{CHANGED}{name}", found.number.mean, found.number.low, found.number.high)
    shown, between = span(number.interval)
    return Finding(number, bounds, f"{name}'s error at the end is {shown} times that at first{between}")


def _loses_plasticity(records: "xarray.Dataset") -> Judgement:
    runs, level = _checked(records, [*LOWEST]), joint_level(len(LOWEST))
    parts = tuple(
        Part(f"{name}'s error is higher at the end", (_change(runs, name, level, MORE_TIMES),)) for name in LOWEST
    )
    return Judgement(parts, runs.seeds)


def _worse_than_linear(records: "xarray.Dataset") -> Judgement:
    names = [name_of("relu", each) for each in STEP_SIZES[:2]]
    runs, level = _checked(records, [*names, LINEAR]), joint_level(len(names))
    end = _quantity(runs, "at the end", _at_end)
    parts = tuple(Part(f"{name} is worse", (end.times(name, LINEAR, level, MORE_TIMES),)) for name in names)
    return Judgement(parts, runs.seeds)


def _continual_keeps_plasticity(records: "xarray.Dataset") -> Judgement:
    plain = {each: name_of(each, STEP_SIZES[0]) for each in ("relu", "tanh")}
    by_rate = [continual_name("relu", rate) for rate in RATES]
    runs = _checked(records, [*plain.values(), *by_rate, continual_name("tanh", RATES[1])])
    best = min(by_rate, key=lambda name: runs.curve("loss", name).mean())
    continual = {"relu": best, "tanh": continual_name("tanh", RATES[1])}
    level, end = joint_level(4), _quantity(runs, "at the end", _at_end)
    parts = []
    for activation, name in continual.items():
        parts += [
            Part(f"{name} does not lose plasticity", (_change(runs, name, level, Bounds(high=KEPT)),)),
            Part(
                f"{plain[activation]}, by backprop, ends worse",
                (end.times(plain[activation], name, level, MORE_TIMES),),
            ),
        ]
    shown = [_change(runs, name, level, MORE_TIMES) for name in plain.values()]
    shown += [_change(runs, name, level, Bounds(high=KEPT)) for name in by_rate if name != best]
    return Judgement(parts, runs.seeds, shown, rules.edge_note("the best rate for ReLU", best, by_rate))


# Permuted MNIST.


def _step_size(name: str) -> float:
    return float(name.rpartition(" ")[2])


def _needed(records: "xarray.Dataset", least: int) -> tuple[Runs, list[str]]:
    """The runs, and the learners by backprop, the largest step size first."""
    runs = Runs(records)
    backprop = [name for name in runs.learners if name.startswith("backprop ")]
    names = sorted(backprop, key=_step_size, reverse=True)
    if len(names) < least:
        raise CannotDecide("the records hold no backprop with several step sizes")
    return runs.need(["error"], names), names


def _accuracy_falls(records: "xarray.Dataset") -> Judgement:
    runs, names = _needed(records, 1)
    level = joint_level(len(names))
    parts = tuple(
        Part(f"{name} misclassifies more at the end", (permuted.loses(runs, name, level, permuted.ABOVE_ZERO),))
        for name in names
    )
    return Judgement(parts, runs.seeds)


def _larger_steps_lose_more_points(records: "xarray.Dataset") -> Judgement:
    runs, names = _needed(records, 2)
    level = joint_level(len(names) - 1)
    parts = tuple(
        Part(f"{a} loses more than {b}", (permuted.loses_more(runs, a, b, level),)) for a, b in pairwise(names)
    )
    return Judgement(parts, runs.seeds)


def _continual_loses_less(records: "xarray.Dataset") -> Judgement:
    runs, _ = _needed(records, 1)
    name = next((each for each in runs.learners if each.startswith("continual ")), None)
    if name is None:
        raise CannotDecide("the records hold no continual backprop")
    plain = name_of("backprop", _step_size(name))
    runs.need(("error",), (name, plain))
    level = joint_level(2)
    parts = (
        Part("backprop loses more", (permuted.loses_more(runs, plain, name, level),)),
        Part("backprop is worse at the end", (permuted.worse(runs, plain, name, level),)),
    )
    return Judgement(parts, runs.seeds)


def _accuracy_as_published(records: "xarray.Dataset") -> Judgement:
    runs = Runs(records)
    if len(runs.visits) < TASKS or not {*PUBLISHED_ACCURACY} <= {*runs.learners}:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    runs.need(("error",), tuple(PUBLISHED_ACCURACY))
    level, parts = joint_level(len(PUBLISHED_ACCURACY)), []
    for name, value in PUBLISHED_ACCURACY.items():
        label, accuracy = f"{name}'s accuracy in percent at the end", 100 - permuted.at_end(runs, name)
        parts.append(Part(f"{name} ends with {value:g}%", (rules.near(label, accuracy, value, POINTS, level),)))
    return Judgement(parts, runs.seeds)


BINNED = "Errors are means over bins of 20,000 examples. At first: the first five bins; at the end: the last five. "
CLAIMS = (
    Claim(
        "D1",
        "regression",
        "Backprop's error on slowly-changing regression ends where the paper's figures show it.",
        f"{BINNED}The errors at the end lie within {WITHIN:.0%} of those read off the figures, a part each:"
        f" {', '.join(f'{name} {value:g}' for name, value in ENDS.items())}.{INTERVALS}",
        _as_published(ENDS, "at the end", _at_end),
    ),
    Claim(
        "D2",
        "regression",
        "Before it rises, backprop's error is what the paper's figures show.",
        f"{BINNED}In the bin of the first ten with the lowest mean error over runs, the errors lie within {WITHIN:.0%}"
        " of the lowest ones read off the figures, a part each:"
        f" {', '.join(f'{name} {value:g}' for name, value in LOWEST.items())}. tanh's curve leaves the axes, which end"
        f" at 0.4: its value is where the lines on both sides meet.{INTERVALS}",
        _as_published(LOWEST, "at its lowest", _lowest),
    ),
    Claim(
        "D3",
        "regression",
        "The larger the step size, the lower the error at first, and the higher at the end.",
        f"{BINNED}For ReLU, four parts: step size 0.01 has a lower error than 0.003, and 0.003 than 0.001, in the first"
        f" bin; at the end each has a higher one (ratios above 1).{STRICT}",
        _larger_steps_lose_more,
    ),
    Claim(
        "D4",
        "regression",
        "Backprop loses plasticity: its error is higher at the end than at first.",
        f"{BINNED}A part each for {', '.join(LOWEST)}: the error at the end is higher than at first (ratio above 1)."
        f"{STRICT}",
        _loses_plasticity,
    ),
    Claim(
        "D5",
        "regression",
        "With the larger step sizes, ReLU ends worse than a linear unit.",
        f"{BINNED}Two parts: ReLU with step sizes 0.01 and 0.003 has a higher error at the end than the linear unit"
        f" (ratio above 1).{STRICT}",
        _worse_than_linear,
    ),
    Claim(
        "D6",
        "continual",
        "Continual backprop does not lose plasticity where backprop does.",
        f"{BINNED}Step size 0.01. For ReLU, with the rate of {', '.join(f'{rate:g}' for rate in RATES)} that has the"
        f" lowest error over all examples, and for tanh, with {RATES[1]:g}, two parts each: the error at the end is"
        f" less than {KEPT:g} times that at first, and backprop's at the end is higher (ratio above 1).{STRICT}",
        _continual_keeps_plasticity,
    ),
    Claim(
        "D7",
        "mnist",
        "On online permuted MNIST, backprop's accuracy falls over the tasks.",
        f"{TASK_ERRORS}A part for each step size: what is lost is above 0.{INTERVALS}",
        _accuracy_falls,
    ),
    Claim(
        "D8",
        "mnist",
        "On online permuted MNIST, larger step sizes lose more.",
        f"{TASK_ERRORS}A part for each neighbouring pair of step sizes: the larger one loses more (difference above 0)."
        f"{INTERVALS}",
        _larger_steps_lose_more_points,
    ),
    Claim(
        "D9",
        "mnist",
        "On online permuted MNIST, continual backprop keeps its accuracy where backprop does not.",
        f"{TASK_ERRORS}Two parts, at the same step size: backprop loses more, and misclassifies more at the end"
        f" (differences above 0).{INTERVALS}",
        _continual_loses_less,
    ),
    Claim(
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


def headline(verdicts: Sequence[Verdict]) -> Headline | None:
    """The chart at the top: backprop, and continual backprop with its best rate, with ReLU."""
    found = {verdict.id: verdict for verdict in verdicts}.get("D6")
    times = {number.label.removeprefix(CHANGED): number.mean for number in found.numbers} if found else {}
    best = next((name for name in times if name.startswith("continual ReLU")), None)
    if best is None:
        return None
    names = {name_of("relu", STEP_SIZES[0]): "Backprop", best: "Replaces useless units"}
    notes = {name: f"{word}; at the end {times[name]:.2g} times its error at first" for name, word in names.items()}
    return Headline("continual", "loss", "Backprop and continual backprop", notes)
