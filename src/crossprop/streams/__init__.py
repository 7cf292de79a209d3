"""The streams, one a file, and the registry of streams by name."""

from functools import partial
from typing import Literal, get_args

from crossprop import _checks as check
from crossprop import datasets
from crossprop.registry import Registry
from crossprop.streams.arrays import Arrays as Arrays
from crossprop.streams.base import Pool as Pool
from crossprop.streams.base import PoolStream as PoolStream
from crossprop.streams.base import Sample as Sample
from crossprop.streams.base import Stream as Stream
from crossprop.streams.base import Tasks
from crossprop.streams.geoff import Geoff as Geoff
from crossprop.streams.iterator import Iterator as Iterator
from crossprop.streams.label_shift import LabelShift as LabelShift
from crossprop.streams.permuted_inputs import PermutedInputs as PermutedInputs
from crossprop.streams.random_labels import RandomLabels as RandomLabels
from crossprop.streams.slowly_changing import SlowlyChanging as SlowlyChanging
from crossprop.streams.tracking import Tracking as Tracking


def _label_shift(data: str, tasks: str = "ABC", examples: int | None = None, shuffle: bool = True) -> LabelShift:
    """`LabelShift` over a data set by name, shuffled by default."""
    return LabelShift(getattr(datasets, data)(), tasks, examples, shuffle)


ByName = Literal["digits", "mnist5k", "mnist"]


def _permuted_inputs(
    data: ByName = "mnist5k", tasks: Tasks | int | None = 800, examples: int | None = None
) -> PermutedInputs:
    """A labelled data set whose inputs are in another random order in every task; labels stay as they are."""
    return PermutedInputs(_named(data), tasks, examples)


def _random_labels(
    data: ByName = "mnist5k", tasks: Tasks | int | None = 50, images: int | None = 1200, passes: int = 400
) -> RandomLabels:
    """Some images of a data set, drawn once per run, with labels drawn anew for every task."""
    return RandomLabels(_named(data), tasks, images, passes)


def _named(data: str) -> datasets.DataSet:
    check.choice("data", data, get_args(ByName))
    return getattr(datasets, data)()


STREAMS: Registry[Stream] = Registry(
    "crossprop.streams",
    {
        "geoff": Geoff,
        "tracking": Tracking,
        "slowly-changing": SlowlyChanging,
        "permuted-inputs": _permuted_inputs,
        "random-labels": _random_labels,
        "digits": partial(_label_shift, "digits"),
        "mnist5k": partial(_label_shift, "mnist5k"),
        "mnist": partial(_label_shift, "mnist"),
    },
)
"""Every stream by name, as `STREAMS[name](tasks="AB")`: the command line and TOML files take streams from here, with
the arguments of the registered class or function. Register one with `STREAMS["moons"] = Moons`, or in a package by an
entry point of the group `crossprop.streams`."""
