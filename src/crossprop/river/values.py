"""Checks of the features and targets that River gives."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from river.utils import dataframe

from crossprop._support import checks as check

LARGEST = 1e38
"""The largest number that a feature or a target may be."""
ENCODE = ": encode it first, such as by river.preprocessing.OneHotEncoder"
FILL = ": fill it in first, such as by river.preprocessing.StatImputer"


def finite_number(name: str, value: Any, hint: str = "") -> float:
    number = value if type(value) is float else check.plain(value)
    if number is None or (isinstance(number, float) and math.isnan(number)):
        raise ValueError(f"{name} must be a number, got {check.shown(value)}{hint and FILL}")
    if not isinstance(number, int | float):
        raise TypeError(f"{name} must be a number, got {check.shown(value)}{hint}")
    if not -LARGEST <= number <= LARGEST:
        raise ValueError(f"{name} must be a finite number, at most {LARGEST:g}, got {check.shown(value)}")
    return float(number)


def check_features(x: Any) -> None:
    if not isinstance(x, Mapping):
        raise TypeError(f"x must be a dict of features, got {check.shown(x)}")
    for name, value in x.items():
        finite_number(f"x[{name!r}]", value, ENCODE)


def check_frame(frame: Any) -> None:
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind.is_boolean()):
            raise TypeError(f"X[{name!r}] must be numbers, got {kind}{ENCODE}")
    values = dataframe.to_numpy(frame)
    if not (np.abs(values) <= LARGEST).all():
        row, column = np.argwhere(~(np.abs(values) <= LARGEST))[0]
        finite_number(f"X[{frame.columns[column]!r}][{row}]", float(values[row, column]), ENCODE)


def checked_frame(X: Any, y: Any) -> tuple[Any, list[Any]]:
    frame, targets = dataframe.into_frame(X), dataframe.into_series(y).to_list()
    if len(frame) != len(targets):
        raise ValueError(f"X and y must have as many rows as each other, got {len(frame)} and {len(targets)}")
    check_frame(frame)
    return frame, targets
