"""The form of the checks: each tests one promise, and reports what it found instead."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.engines.session import plain_numbers

Check = Callable[[Any], None]


class _Found(Exception):
    """What a check found that breaks its promise."""


def require(condition: Any, found: str) -> None:
    if not condition:
        raise _Found(found)


def promise(checks: dict[str, Check], name: str) -> Callable[[Check], Check]:
    """Decorator for a check, one of `checks` under this name, whose docstring is the promise that it tests."""

    def kept(check: Check) -> Check:
        @wraps(check)
        def checked(thing: Any) -> None:
            try:
                check(thing)
            except _Found as found:
                raise AssertionError(f"{type(thing).__name__}: {check.__doc__} Found: {found}") from None
            except Exception as problem:
                found = f"{type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"
                raise AssertionError(f"{type(thing).__name__}: {check.__doc__} Found: {found}") from problem

        checks[name] = checked
        return checked

    return kept


def named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path) or "it": leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def require_same(one: Any, other: Any, what: str) -> None:
    for name, a, b in _pairs(one, other, what):
        require(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), f"{what} differ: {name} {a} and {b}")


def require_close(one: Any, other: Any, what: str) -> None:
    """Equal but for rounding; whole numbers, bools and keys exactly."""
    for name, a, b in _pairs(one, other, what):
        if a.dtype.kind in "buiO":
            same = np.array_equal(a, b)
        else:
            a, b = a.astype(float), b.astype(float)
            same = np.allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, np.abs(a).max(initial=0)), equal_nan=True)
        require(same, f"{what} differ: {name} {a} and {b}")


def _pairs(one: Any, other: Any, what: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    leaves, others = named(one), jax.tree.leaves(other)
    require(jax.tree.structure(one) == jax.tree.structure(other), f"{what} differ in structure")
    for (name, a), b in zip(leaves.items(), others, strict=True):
        require(np.shape(a) == np.shape(b), f"{what} differ: {name} has shapes {np.shape(a)} and {np.shape(b)}")
        yield name, np.asarray(plain_numbers(a)), np.asarray(plain_numbers(b))


def require_floats(name: str, value: Any, shape: tuple[int, ...] | None) -> None:
    array = isinstance(value, jax.Array | np.ndarray | np.generic)
    require(array and jnp.issubdtype(value.dtype, jnp.floating), f"{name} is {value!r}, no array of floats")
    require(shape is None or value.shape == shape, f"{name} has shape {np.shape(value)}, not {shape}")
