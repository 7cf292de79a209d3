"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": regression, and permuted MNIST."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.papers import paper_table, read_paper
from crossprop.library import permuted

LINEAR = "linear 0.01"
ENDS, LOWEST = (paper_table("dohare2024")["experiments"]["regression"]["published"][when] for when in ("end", "lowest"))
"""Published errors at the end, and in the bin where they are lowest."""
TASKS = 800


# Claims.


WITHIN = 0.1
"""Largest relative difference to a published value that counts as equal."""
BINS, EARLY_BINS = 5, 10
CHANGE = "error at the end / at first"
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PUBLISHED_ACCURACY = {"backprop 0.01": 90.1, "backprop 0.003": 93.7, "backprop 0.001": 94.0}
POINTS = 0.5
PLAIN = ("ReLU 0.01", "tanh 0.01")
RELU = ("ReLU 0.01", "ReLU 0.003", "ReLU 0.001")
CONTINUAL_RELU = ("continual ReLU 1e-5", "continual ReLU 1e-4", "continual ReLU 1e-3")
"""Continual backprop by its rate."""


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
    says = f"{name}'s error at the end is {{}} times that at first"
    return runs.change(CHANGE, name, end, first, bounds, says, part=part, note=note)


def _continual_keeps_plasticity(runs: Runs) -> list[Finding]:
    best, note = runs.best(OVER_ALL, CONTINUAL_RELU, "rate for ReLU")
    kept, found = Bounds(high=KEPT), []
    for plain, name in zip(PLAIN, (best, "continual tanh 1e-4"), strict=True):
        found += [
            _change(runs, name, kept, f"{name} does not lose plasticity", note),
            runs.ratio(AT_END, plain, name, MORE_TIMES, f"{plain}, by backprop, ends worse"),
        ]
    found += [_change(runs, name, MORE_TIMES) for name in PLAIN]
    return found + [_change(runs, name, kept) for name in CONTINUAL_RELU if name != best]


# Permuted MNIST.


def _step_size(name: str) -> float:
    return float(name.rpartition(" ")[2])


def _by_backprop(runs: Runs, least: int) -> list[str]:
    """The learners by backprop, the largest step size first."""
    names = sorted((each for each in runs.learners if each.startswith("backprop ")), key=_step_size, reverse=True)
    if len(names) < least:
        raise CannotDecide("the records hold no backprop with several step sizes")
    return names


def _loses_more(runs: Runs, a: str, b: str, part: str) -> Finding:
    return runs.difference(permuted.LOST, a, b, HIGHER, f"{a} loses {{}} than {b}", part=part)


def _continual_loses_less(runs: Runs) -> list[Finding]:
    _by_backprop(runs, 1)
    name = next((each for each in runs.learners if each.startswith("continual ")), None)
    if name is None:
        raise CannotDecide("the records hold no continual backprop")
    plain = f"backprop {_step_size(name):g}"
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


PAPER = read_paper(
    "dohare2024",
    find={
        "D1": partial(_as_published, ENDS, AT_END),
        "D2": partial(_as_published, LOWEST, AT_ITS_LOWEST),
        "D3": _larger_steps_lose_more,
        "D4": lambda runs: [_change(runs, name, MORE_TIMES, f"{name}'s error is higher at the end") for name in LOWEST],
        "D5": lambda runs: [runs.ratio(AT_END, name, LINEAR, MORE_TIMES, f"{name} is worse") for name in RELU[:2]],
        "D6": _continual_keeps_plasticity,
        "D7": lambda runs: [
            permuted.loses(runs, name, HIGHER, f"{name} misclassifies more at the end")
            for name in _by_backprop(runs, 1)
        ],
        "D8": lambda runs: [
            _loses_more(runs, a, b, f"{a} loses more than {b}") for a, b in pairwise(_by_backprop(runs, 2))
        ],
        "D9": _continual_loses_less,
        "D10": _accuracy_as_published,
    },
    numbers=globals() | {"TASK_ERRORS": permuted.TASK_ERRORS},
    says=lambda times: f"at the end {times:.2g} times its error at first",
)
