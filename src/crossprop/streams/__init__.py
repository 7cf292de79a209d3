"""The streams, one a file, and the registry of streams by name."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crossprop import datasets
from crossprop._support import checks as check
from crossprop.network import PAPER
from crossprop.registry import Registry
from crossprop.streams.arrays import Arrays as Arrays
from crossprop.streams.atari import Atari as Atari
from crossprop.streams.base import Pool as Pool
from crossprop.streams.base import PoolStream as PoolStream
from crossprop.streams.base import Sample as Sample
from crossprop.streams.base import Stream as Stream
from crossprop.streams.class_pairs import ClassPairs as ClassPairs
from crossprop.streams.geoff import Geoff as Geoff
from crossprop.streams.iterator import Iterator as Iterator
from crossprop.streams.label_shift import LabelShift as LabelShift
from crossprop.streams.permuted_inputs import PermutedInputs as PermutedInputs
from crossprop.streams.random_labels import RandomLabels as RandomLabels
from crossprop.streams.random_walk import RandomWalk as RandomWalk
from crossprop.streams.returns import discounted as discounted
from crossprop.streams.slowly_changing import SlowlyChanging as SlowlyChanging
from crossprop.streams.table import is_table as is_table
from crossprop.streams.table import read_table as read_table
from crossprop.streams.traces import TraceConditioning as TraceConditioning
from crossprop.streams.traces import Traced as Traced
from crossprop.streams.traces import TracePatterning as TracePatterning
from crossprop.streams.tracking import Tracking as Tracking


def _in_order(data: str, examples: int | None = None) -> Arrays:
    """A table in the order in which it was recorded, one pass, the same for every seed."""
    table = datasets.DATA_SETS[data]()
    if examples is not None:
        examples = check.integer("examples", examples, low=1, high=len(table.y))
    return Arrays(table.x[:examples], table.y[:examples], classes=table.classes)


def _traced(stream: Any = "trace-conditioning", decays: Sequence[float] = (0.9, 0.97, 0.99)) -> Traced:
    """A stream, by its name or a table, whose inputs come with memory traces of themselves."""
    return Traced(STREAMS.made("stream", stream), decays)


def _temperatures(discounts: Sequence[float] = (0.5, 0.9, 0.97)) -> Arrays:
    """Daily mean temperatures of Central England, Oxford and Wick since 1931, and the season: the discounted mean of
    those that follow in Central England, for each discount. The unit is 10 degrees Celsius."""
    days, celsius = datasets.temperatures()
    angle = 2 * np.pi * days / 365.2425
    x = np.stack([*celsius.T / 10, np.sin(angle), np.cos(angle)], axis=1)
    return Arrays(x, discounted((1 - np.array(discounts)) * x[:, :1], discounts), kind="prediction")


PREDICTIONS: dict[str, Callable[..., Stream]] = {
    "random-walk": RandomWalk,
    "trace-conditioning": TraceConditioning,
    "trace-patterning": TracePatterning,
    "traced": _traced,
    "temperatures": _temperatures,
    "atari": Atari,
}
"""The streams of predictions; `traced` is one if the stream in it is."""

STREAMS: Registry[Stream] = Registry(
    "crossprop.streams",
    {
        "geoff": Geoff,
        "tracking": Tracking,
        "slowly-changing": SlowlyChanging,
        "permuted-inputs": PermutedInputs,
        "random-labels": RandomLabels,
        "class-pairs": ClassPairs,
        **PREDICTIONS,
        **{name: partial(LabelShift, name, shuffle=True) for name in datasets.DATA_SETS},
        **{name: partial(_in_order, name) for name in datasets.RECORDED},
    },
)
"""Every stream by name, as `STREAMS[name](tasks="AB")`: the command line and TOML files take streams from here, with
the arguments of the registered class or function. Register one with `STREAMS["moons"] = Moons`, or in a package by an
entry point of the group `crossprop.streams`."""


class Suited(NamedTuple):
    """A network and a step size with which backprop learns from a stream.

    `step_size` is that of plain steps in the network of this size. Unless it is `for_all`, other optimizers and wider
    networks have one of their own: `crossprop.specification.step_size_for`.
    """

    step_size: float
    hidden: tuple[int, ...] = (100,)
    network: Mapping[str, Any] = {}
    for_all: bool = False


SUITED: dict[str, Suited] = {
    "geoff": Suited(5e-4, (500,), PAPER, for_all=True),
    "tracking": Suited(2**-6),
    "slowly-changing": Suited(2**-5),
    "permuted-inputs": Suited(2**-5),
    "random-labels": Suited(2**-4),
    "digits": Suited(2**-4),
    "mnist5k": Suited(2**-6),
    "mnist": Suited(2**-6),
    "fashion": Suited(2**-6),
    "cifar10": Suited(2**-8),
    "elec2": Suited(2**-2),
    "covertype": Suited(2**-4),
}
"""Suited settings of each stream: for GEOFF the paper's, for the others found by `python tools/defaults.py`."""
SUITED_TO = {"squared": Suited(2**-8), "softmax": Suited(2**-5)}
"""Suited settings of any other stream, by loss."""
