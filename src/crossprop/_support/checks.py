"""Checks of arguments: each raises an error that names the argument, the value given and what was expected.

NumPy's numbers, and its arrays and JAX's with no axes, are numbers. Booleans, strings, dates, complex numbers and
fractions are not.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

SHOWN = 300
"""Characters of a value that an error shows."""


def is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)


def shown(value: Any) -> str:
    """A value in an error: its `repr`, cut short if it is long."""
    try:
        text = repr(value)
    except Exception as problem:  # such as an integer with more digits than Python prints
        if isinstance(value, int):
            return f"a whole number of {value.bit_length()} bits"
        return f"an object of {type(value)} that cannot be shown: {problem}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def plain(value: Any) -> Any:
    """A number of NumPy, or an array without axes that holds one, as Python's own number; anything else as it is."""
    if isinstance(value, np.generic | np.ndarray | jax.Array) and not is_traced(value) and np.ndim(value) == 0:
        if getattr(value.dtype, "kind", "") == "m":  # a duration, which NumPy counts among the integers
            return value
        if jnp.issubdtype(value.dtype, np.bool_):
            return bool(value)
        if jnp.issubdtype(value.dtype, np.integer):
            return int(value)
        if jnp.issubdtype(value.dtype, np.floating):
            return float(value)
    return value


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float | None = None,
    optional: bool = False,
) -> None:
    """`value` is a finite real number in range, or an array of such numbers. Traced values are not checked.

    The number must not become 0 or infinite in JAX's float type either.
    """
    if is_traced(value) or (optional and value is None):
        return
    value = plain(value)
    is_array = isinstance(value, np.ndarray | jax.Array) and np.ndim(value) > 0
    if is_array and not (jnp.issubdtype(value.dtype, np.integer) or jnp.issubdtype(value.dtype, np.floating)):
        raise TypeError(f"{name} must be a number, got an array of {value.dtype}")
    if isinstance(value, bool) or not (is_array or isinstance(value, int | float)):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    for each in np.asarray(value, float).ravel().tolist() if is_array else [value]:
        try:
            as_float = float(each)
        except OverflowError:
            raise ValueError(f"{name} must be {_range(above, low, high)}, got {shown(each)}") from None
        fits = np.isfinite(as_float)
        fits &= above is None or each > above
        fits &= low is None or each >= low
        fits &= high is None or each <= high
        if not fits:
            raise ValueError(f"{name} must be {_range(above, low, high)}, got {shown(each)}")
        _check_precision(name, as_float)


def _check_precision(name: str, value: float) -> None:
    """A ValueError for a number that float32 would silently round to 0 or infinity."""
    limits = jnp.finfo(jax.dtypes.canonicalize_dtype(float))
    if 0 < abs(value) < float(limits.tiny) or abs(value) > float(limits.max):
        becomes = "0" if abs(value) < 1 else "infinite"
        raise ValueError(
            f"{name} must be a number that {limits.dtype} can hold, got {value!r}, which would be {becomes}: "
            "turn JAX's x64 on, or take another number"
        )


def _range(above: float | None, low: float | None, high: float | None) -> str:
    if high is not None:
        return f"between {low:g} and {high:g}" if low is not None else f"above {above or 0:g} and at most {high:g}"
    if above is not None:
        return f"a finite number above {above:g}"
    return "a finite number" if low is None else f"a finite number, at least {low:g}"


def scalar(name: str, value: Any, **limits: Any) -> float:
    """`value` is a number and not an array; returned as Python's."""
    value = plain(value)
    if is_traced(value) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    number(name, value, **limits)
    return value


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """`value` is a whole number in range; returned as Python's."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    if value < low or (high is not None and value > high):
        limit = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {limit}, got {shown(value)}")
    return value


def flag(name: str, value: Any) -> bool:
    """`value` is True or False; returned as Python's."""
    value = plain(value)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def path(name: str, value: Any, what: str) -> Path:
    """`value` is a path that an operating system can have; returned as a `Path`."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be {what}, got {shown(value)}")
    if "\0" in str(value) or not is_text(str(value), "surrogateescape"):
        raise ValueError(f"{name} must be {what}, got {str(value)!r}, which no path can be")
    return Path(value)


def is_text(value: str, errors: str = "strict") -> bool:
    """Whether a string can be written to a file."""
    try:
        value.encode(errors=errors)
    except UnicodeEncodeError:
        return False
    return True


def choice(name: str, value: Any, choices: Iterable[str], further: str = "") -> None:
    """A ValueError for a value that is not one of `choices`; `further` describes what else is accepted."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(value[:SHOWN], choices, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = ", ".join(map(repr, choices)) + f", or {further}" * bool(further)
    raise ValueError(f"{name} must be one of {known}, got {shown(value)}{hint}")


def length(values: Any) -> int:
    """`len(values)`, or 2**63 - 1 for a longer range, where `len` raises an OverflowError."""
    try:
        return len(values)
    except OverflowError:
        return 2**63 - 1


def shape(name: str, value: Any, expected: tuple[int, ...]) -> None:
    if np.shape(value) != expected:
        raise ValueError(f"{name} must have shape {expected}, got {np.shape(value)}")


def finite(name: str, value: np.ndarray, start: int = 0) -> None:
    """`value` holds finite numbers only; its first row is row `start` of the user's array."""
    if not np.isfinite(value).all():
        first, *rest = map(int, np.argwhere(~np.isfinite(value))[0])
        where = (start + first, *rest)
        raise ValueError(f"{name} must be finite, got {value[(first, *rest)]} at index {where}")


def predictions(name: str, triples: np.ndarray, start: int = 0) -> None:
    """Rows of cumulants, discounts and returns hold finite numbers, but for returns that are NaN: those not known.
    Discounts are between 0 and 1."""
    known = np.array(triples)
    known[:, 2::3][np.isnan(known[:, 2::3])] = 0
    finite(name, known, start)
    wrong = np.argwhere((known[:, 1::3] < 0) | (known[:, 1::3] > 1))
    if len(wrong):
        row, column = map(int, wrong[0])
        where = (start + row, 3 * column + 1)
        raise ValueError(f"{name} must have discounts between 0 and 1, got {known[row, where[1]]} at index {where}")


def fits_float(name: str, value: np.ndarray, start: int = 0) -> None:
    """No finite number of `value` is infinite in JAX's float type."""
    largest = float(jnp.finfo(jax.dtypes.canonicalize_dtype(float)).max)
    if value.dtype.itemsize > 4 and np.abs(value).max(initial=0) > largest:
        first, *rest = map(int, np.argwhere(np.abs(value) > largest)[0])
        _check_precision(f"{name} at index {(start + first, *rest)}", float(value[(first, *rest)]))


def array(name: str, values: Any) -> np.ndarray:
    """Numbers or labels as an array of NumPy: from lists, arrays of any package, tensors, series and tables."""
    try:
        if isinstance(values, np.memmap):
            return values
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise ValueError("some values are masked")
        for method in ("detach", "cpu", "resolve_conj", "to_numpy"):  # torch's tensors, and what pandas has
            if not isinstance(values, np.ndarray) and callable(getattr(type(values), method, None)):
                values = getattr(values, method)()
        found = np.asarray(values)
    except Exception as problem:
        raise TypeError(f"{name} must be numbers, got {shown(values)}: {problem}") from None
    return _from_objects(found) if found.dtype.kind == "O" else found


def rows(name: str, values: Any, size: int, *, returns: bool = False) -> np.ndarray:
    """`values` is a table of finite numbers, `(examples, size)`; returned as an array of NumPy. With `returns`, they
    are `predictions`."""
    found = array(name, values)
    if found.dtype.kind not in "buif":
        raise TypeError(f"{name} must be numbers, got {found.dtype}")
    rows_shape(name, found, size)
    (predictions if returns else finite)(name, found)
    return found


def rows_shape(name: str, values: Any, size: int) -> None:
    if values.ndim != 2 or values.shape[1] != size:
        raise ValueError(f"{name} must have shape (examples, {size}), got {values.shape}")


def _from_objects(values: np.ndarray) -> np.ndarray:
    """An array of Python objects, as data frames have them, as one of texts or numbers if all are of one kind."""
    kinds = {type(plain(value)) for value in values.ravel().tolist()}
    if kinds == {str}:
        return values.astype(str)
    is_small = all(not isinstance(value, int) or abs(value) < 2**63 for value in values.ravel().tolist())
    if kinds in ({int}, {bool}, {float}, {int, float}) and is_small:
        return values.astype(kinds.pop() if len(kinds) == 1 else float)
    return values
