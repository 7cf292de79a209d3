"""Tables in the order in which they were recorded: Elec2 and Covertype, whose distribution drifts, and temperatures."""

import io
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, archive

MEASURED = 10
"""Columns of Covertype that are measurements; the others say which soil and wilderness it is, by 0 and 1."""
FIRST, LAST = np.datetime64("1931-01-01"), np.datetime64("2023-12-01")
"""The first day on which all stations measured, and the first that the files do not have."""
MISSING = 9

ELEC2, COVERTYPE, TEMPERATURES = archive("elec2"), archive("covertype"), archive("temperatures")


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
    x[:, :MEASURED] = standardized(table[:, :MEASURED])[0]
    return DataSet("covertype", x, table[:, -1].astype(np.int64) - 1, 7)


class Moments(NamedTuple):
    """Of each column so far: how many numbers it has, their mean, and the sum of their squared deviations."""

    count: Any = 0.0
    mean: Any = 0.0
    squares: Any = 0.0


def standardized(
    values: np.ndarray, so_far: Moments | None = None, *, before: bool = False
) -> tuple[np.ndarray, np.ndarray, Moments]:
    """Every row of `values (rows, size)` standardised by the standard deviation up to it and the mean up to it, or
    `before` it; the means up to each row; and the moments after the last one. A missing number, NaN, becomes 0."""
    count, mean, squares = so_far or Moments()
    is_there = ~np.isnan(values)
    first = np.take_along_axis(values, is_there.argmax(axis=0)[None], axis=0)[0]
    centre = np.where(count > 0, mean, np.nan_to_num(first))  # sums of squares of numbers far from 0 lose digits
    centred = np.where(is_there, values - centre, 0.0)
    many = count + np.cumsum(is_there, axis=0)
    means = np.cumsum(centred, axis=0) / np.maximum(many, 1)
    variance = np.maximum((squares + np.cumsum(centred**2, axis=0)) / np.maximum(many, 1) - means**2, 0)
    taken = (means * many - centred) / np.maximum(many - 1, 1) if before else means
    standard = np.zeros_like(centred)
    np.divide(centred - taken, np.sqrt(variance), out=standard, where=is_there & (variance > 0))
    after = Moments(many[-1], centre + means[-1], variance[-1] * many[-1])
    return standard, np.where(many > 0, centre + means, 0), after


def _table(archive: Archive, name: str, dtype: type) -> np.ndarray:
    return np.loadtxt(io.BytesIO(archive.content(name)), dtype, delimiter=",")


@cache
def temperatures() -> tuple[np.ndarray, np.ndarray]:
    """The days from 1931 to 2023, counted from 0, and the mean temperatures of three British stations on each, in
    degrees Celsius: Central England, Oxford and Wick. One that is missing is that of the day before.

    Klein Tank and others (2002), "Daily dataset of 20th-century surface air temperature and precipitation series for
    the European Climate Assessment". Data and metadata are at www.ecad.eu, free to use if this source is acknowledged.
    """
    days, columns = np.arange(FIRST, LAST), []
    for name in TEMPERATURES.files:
        lines = TEMPERATURES.content(name).decode("latin-1").partition("SOUID,    DATE")[2].splitlines()[1:]
        rows = np.array([line.split(",") for line in lines if line.strip()])
        dates = rows[:, 2].astype(int)
        day = np.array([f"{date // 10000}-{date // 100 % 100:02}-{date % 100:02}" for date in dates], "datetime64[D]")
        kept = (day >= FIRST) & (day < LAST) & (rows[:, 4].astype(int) != MISSING)
        at = np.zeros(len(days), int)
        at[(day[kept] - FIRST).astype(int)] = np.flatnonzero(kept)
        columns.append(rows[np.maximum.accumulate(at), 3].astype(float) / 10)
    return (days - FIRST).astype(int), np.stack(columns, axis=1)
