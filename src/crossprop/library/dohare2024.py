"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": regression, and permuted MNIST."""

import numpy as np

from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import Quantity, Runs, quantity
from crossprop.experiments.papers import paper_table, read_paper
from crossprop.library import permuted

EARLY_BINS = 10
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PLAIN = ("ReLU 0.01", "tanh 0.01")
CONTINUAL_RELU = ("continual ReLU 1e-5", "continual ReLU 1e-4", "continual ReLU 1e-3")
"""Continual backprop by its rate."""


def _lowest(runs: Runs, name: str) -> np.ndarray:
    """The error of each run in the bin of the first ten in which the mean error is lowest."""
    curve = runs.curve("loss", name)
    return curve[:, curve[:, :EARLY_BINS].mean(axis=0).argmin()]


AT_END, CHANGE = (
    quantity(name, paper_table("dohare2024")["measures"][name])
    for name in ("error at the end", "error at the end / at first")
)
OVER_ALL = Quantity("error over all examples", "", lambda runs, name: runs.curve("loss", name))
MEASURES = permuted.MEASURES | {
    "error at its lowest": Quantity("error at its lowest", "", _lowest),
    "accuracy": Quantity("accuracy", "", lambda runs, name: 100 - permuted.at_end(runs, name)),
}


def _change(runs: Runs, name: str, bounds: Bounds, part: str = "", note: str = "") -> Finding:
    """The ratio of the error at the end to the error at first."""
    assert CHANGE.before is not None
    end, first = CHANGE.values(runs, name), CHANGE.before(runs, name)
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


def _continual_loses_less(runs: Runs) -> list[Finding]:
    name, *_ = runs.matching("continual *")
    plain = name.replace("continual", "backprop")
    says = f"at the end {plain} misclassifies {{}} than {name}"
    return [
        runs.difference(
            permuted.LOST, plain, name, HIGHER, f"{plain} loses {{}} than {name}", part="backprop loses more"
        ),
        runs.difference(permuted.AT_END, plain, name, HIGHER, says, part="backprop is worse at the end"),
    ]


PAPER = read_paper(
    "dohare2024",
    MEASURES,
    find={"D6": _continual_keeps_plasticity, "D9": _continual_loses_less},
)
