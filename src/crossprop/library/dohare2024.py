"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": regression, and permuted MNIST."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.papers import read_paper
from crossprop.library import permuted

BINS, EARLY_BINS = 5, 10
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PLAIN = ("ReLU 0.01", "tanh 0.01")
CONTINUAL_RELU = ("continual ReLU 1e-5", "continual ReLU 1e-4", "continual ReLU 1e-3")
"""Continual backprop by its rate."""


def _error(when: str, of: Callable[[np.ndarray], np.ndarray]) -> Quantity:
    """The errors of a learner, from its curves `(seed, bin)`."""
    return Quantity(f"error {when}", f"error {when}", lambda runs, name: of(runs.curve("loss", name)))


def _lowest(curve: np.ndarray) -> np.ndarray:
    """The error of each run in the bin of the first ten in which the mean error is lowest."""
    return curve[:, curve[:, :EARLY_BINS].mean(axis=0).argmin()]


AT_FIRST = _error("at first", lambda curve: curve[:, :BINS].mean(axis=1))
AT_END = _error("at the end", lambda curve: curve[:, -BINS:].mean(axis=1))
OVER_ALL = _error("over all examples", lambda curve: curve)
CHANGE = Quantity("error at the end / at first", "", AT_END.values, before=AT_FIRST.values)
OTHERS = (_error("in the first bin", lambda curve: curve[:, 0]), _error("at its lowest", _lowest))
ACCURACY = Quantity("accuracy", "", lambda runs, name: 100 - permuted.at_end(runs, name))
MEASURES = {each.name: each for each in (AT_END, CHANGE, *OTHERS, ACCURACY)} | permuted.MEASURES


def _change(runs: Runs, name: str, bounds: Bounds, part: str = "", note: str = "") -> Finding:
    """The ratio of the error at the end to the error at first."""
    end, first = (of.values(runs, name) for of in (AT_END, AT_FIRST))
    says = f"{name}'s error at the end is {{}} times that at first"
    return runs.change(CHANGE.name, name, end, first, bounds, says, part=part, note=note)


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


def _loses_more(runs: Runs, a: str, b: str, part: str) -> Finding:
    return runs.difference(permuted.LOST, a, b, HIGHER, f"{a} loses {{}} than {b}", part=part)


def _larger_steps_lose_more(runs: Runs) -> list[Finding]:
    """The learners by backprop have the largest step size first."""
    names = runs.matching("backprop *")
    if len(names) < 2:
        raise CannotDecide("the records hold no backprop with several step sizes")
    return [_loses_more(runs, a, b, f"{a} loses more than {b}") for a, b in pairwise(names)]


def _continual_loses_less(runs: Runs) -> list[Finding]:
    name, *_ = runs.matching("continual *")
    plain = name.replace("continual", "backprop")
    says = f"at the end {plain} misclassifies {{}} than {name}"
    return [
        _loses_more(runs, plain, name, "backprop loses more"),
        runs.difference(permuted.AT_END, plain, name, HIGHER, says, part="backprop is worse at the end"),
    ]


PAPER = read_paper(
    "dohare2024",
    MEASURES,
    find={"D6": _continual_keeps_plasticity, "D8": _larger_steps_lose_more, "D9": _continual_loses_less},
    numbers={"TASK_ERRORS": permuted.TASK_ERRORS, "KEPT": KEPT},
    says=lambda times: f"at the end {times:.2g} times its error at first",
)
