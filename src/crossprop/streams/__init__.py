"""The streams, one a file, and the registry of streams by name."""

from functools import partial

from crossprop import datasets
from crossprop.registry import Registry
from crossprop.streams.arrays import Arrays as Arrays
from crossprop.streams.base import Pool as Pool
from crossprop.streams.base import PoolStream as PoolStream
from crossprop.streams.base import Sample as Sample
from crossprop.streams.base import Stream as Stream
from crossprop.streams.geoff import Geoff as Geoff
from crossprop.streams.iterator import Iterator as Iterator
from crossprop.streams.label_shift import LabelShift as LabelShift
from crossprop.streams.slowly_changing import SlowlyChanging as SlowlyChanging
from crossprop.streams.tracking import Tracking as Tracking


def _label_shift(data: str, tasks: str = "ABC", examples: int | None = None, shuffle: bool = True) -> LabelShift:
    """`LabelShift` over a data set by name, shuffled by default."""
    return LabelShift(getattr(datasets, data)(), tasks, examples, shuffle)


STREAMS: Registry[Stream] = Registry(
    "crossprop.streams",
    {
        "geoff": Geoff,
        "tracking": Tracking,
        "slowly-changing": SlowlyChanging,
        "digits": partial(_label_shift, "digits"),
        "mnist5k": partial(_label_shift, "mnist5k"),
        "mnist": partial(_label_shift, "mnist"),
    },
)
"""Every stream by name, as `STREAMS[name](tasks="AB")`: the command line and TOML files take streams from here, with
the arguments of the registered class or function. Register one with `STREAMS["moons"] = Moons`, or in a package by an
entry point of the group `crossprop.streams`."""
