"""Checks of arguments: each raises an error that names the argument, the value given and what was expected."""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


def is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float | None = None,
    optional: bool = False,
) -> None:
    """`value` is a finite real number in range, or an array of such numbers. Traced values are not checked."""
    if is_traced(value) or (optional and value is None):
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.ndarray | jax.Array):
        raise TypeError(f"{name} must be a number, got {value!r}")
    for each in np.asarray(value, float).ravel().tolist():
        fits = math.isfinite(each)
        fits &= above is None or each > above
        fits &= low is None or each >= low
        fits &= high is None or each <= high
        if not fits:
            raise ValueError(f"{name} must be {_range(above, low, high)}, got {each!r}")


def _range(above: float | None, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    if above is not None:
        return f"a finite number above {above:g}"
    return "a finite number" if low is None else f"a finite number, at least {low:g}"


def scalar(name: str, value: Any, **limits: Any) -> None:
    """`value` is a number and not an array."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number(name, value, **limits)


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if int(value) < low or (high is not None and int(value) > high):
        limit = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {limit}, got {value}")


def flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def choice(name: str, value: Any, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value in choices:
        return
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}{hint}")


def shape(name: str, value: Any, expected: tuple[int, ...]) -> None:
    if np.shape(value) != expected:
        raise ValueError(f"{name} must have shape {expected}, got {np.shape(value)}")


def finite(name: str, value: np.ndarray, start: int = 0) -> None:
    """`value` holds finite numbers only; its first row is row `start` of the user's array."""
    if not np.isfinite(value).all():
        first, *rest = map(int, np.argwhere(~np.isfinite(value))[0])
        where = (start + first, *rest)
        raise ValueError(f"{name} must be finite, got {value[(first, *rest)]} at index {where}")
