"""Daily mean temperatures of three British stations, from the European Climate Assessment & Dataset."""

from functools import cache

import numpy as np

from crossprop.datasets.fetching import Archive, wheel

TEMPERATURES = Archive(
    "temperatures",
    "Daily temperatures",
    {
        "TG_SOUID100897.txt": "37b5116d7e9594266f09ba14a20623333cb523ed1c7cd3ce9f44132d21c77d0d",
        "TG_SOUID100929.txt": "28fa78eb5f420eac7c07578fd51a233297072c794a7be6a7e5a42e47f41822fb",
        "TG_SOUID100931.txt": "d44d9b73a6bb190d4a7eded5cd5e8847583e66d93c238f1049f6b1bd66825310",
    },
    2_500_000,
    (wheel("continual-foragax==0.58.0"),),
    examples="33,937",
    inputs=5,
)
FIRST, LAST = np.datetime64("1931-01-01"), np.datetime64("2023-12-01")
"""The first day on which all stations measured, and the first that the files do not have."""
MISSING = 9


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
