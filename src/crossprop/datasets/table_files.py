"""Elec2 and Covertype: tables in the order in which they were recorded, whose distribution drifts."""

import io
from functools import cache

import numpy as np

from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, mirror, wheel

MIRROR = "https://raw.githubusercontent.com/scikit-multiflow/streaming-datasets/master/"
WHEEL = wheel(
    "scikit-multiflow==0.4.1",
    *("--python-version", "3.7", "--implementation", "cp", "--abi", "cp37m", "--platform", "manylinux1_x86_64"),
)
MEASURED = 10
"""Columns of Covertype that are measurements; the others say which soil and wilderness it is, by 0 and 1."""

ELEC2 = Archive(
    "elec2",
    "Elec2",
    {"elec.csv": "bcae2dad409d5ccd2003c61b087250b16eefa8505e0c8009709c5f1a4fc12aaa"},
    4_000_000,
    (mirror(MIRROR), WHEEL),
    examples="45,312",
    inputs=6,
    has_header=True,
)
COVERTYPE = Archive(
    "covertype",
    "Covertype",
    {"covtype.csv": "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945"},
    80_000_000,
    (mirror(MIRROR), WHEEL),
    examples="581,012",
    inputs=54,
    has_header=True,
)


@cache
def elec2() -> DataSet:
    """Electricity prices of New South Wales, 45,312 half hours from 1996 to 1998: up or down against the last day.

    Six inputs: the time of day, and prices, demands and the transfer between two states. Those who published the table
    have scaled them to 0 to 1 over all of it, and left the date out.

    Harries (1999), "Splice-2 comparative evaluation: electricity pricing".
    """
    table = _table(ELEC2, "elec.csv", np.float32)
    return DataSet("elec2", table[:, :-1], table[:, -1].astype(np.int64), 2)


@cache
def covertype() -> DataSet:
    """Forest cover, 581,012 patches of 30 x 30 m: which of seven kinds of trees grow there.

    54 inputs: ten measurements, and 44 inputs of 0 or 1 for soil and wilderness. A measurement is standardised by its
    mean and standard deviation up to and including its own row, so that nothing looks ahead.

    Blackard and Dean (1999), "Comparative accuracies of artificial neural networks and discriminant analysis".
    """
    table = _table(COVERTYPE, "covtype.csv", np.int16)
    x = table[:, :-1].astype(np.float32)
    x[:, :MEASURED] = standardized_so_far(table[:, :MEASURED])
    return DataSet("covertype", x, table[:, -1].astype(np.int64) - 1, 7)


def standardized_so_far(values: np.ndarray) -> np.ndarray:
    """Every row of `values (steps, size)` standardised by the mean and the standard deviation of all rows up to it."""
    count = np.arange(1, len(values) + 1)[:, None]
    centred = values - values[:1].astype(float)  # sums of squares of numbers far from 0 would lose digits
    mean = np.cumsum(centred, axis=0) / count
    variance = np.maximum(np.cumsum(centred**2, axis=0) / count - mean**2, 0)
    return np.divide(centred - mean, np.sqrt(variance), out=np.zeros_like(mean), where=variance > 1e-12)


def _table(archive: Archive, name: str, dtype: type) -> np.ndarray:
    return np.loadtxt(io.BytesIO(archive.content(name)), dtype, delimiter=",")
