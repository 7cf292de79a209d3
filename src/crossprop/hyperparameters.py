"""Fields of learners and of their parts: numbers are leaves of the pytree, names and functions its structure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax import Array

from crossprop._support import checks as check

Hyperparameter = float | Array

LONGEST = 0.999999
"""The largest decay of a running mean: nearer to 1, float32 has no digits left for what is new."""


def hyperparameter(**options: Any) -> Any:
    """A field for a number or a tuple of them: integers and NumPy's numbers become floats, so that 1 and 1.0 are one
    learner to the compiler. Arrays of JAX stay as they are."""
    return eqx.field(converter=_as_numbers, **options)


def _as_numbers(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_numbers, value))
    number = value if isinstance(value, jax.Array) else check.plain(value)
    return float(number) if type(number) is int and abs(number) < 2**1023 else number


@jax.tree_util.register_static
class Name(str):
    """A string that JAX takes for structure, not for a number."""


@jax.tree_util.register_static
class Function:
    """A function that JAX takes for structure. It is called, compared, hashed and shown as the function itself."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.__qualname__ = getattr(function, "__qualname__", repr(function))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.function(*arguments, **options)

    def __eq__(self, other: object) -> bool:
        return self.function == unwrapped(other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


def unwrapped(value: Any) -> Any:
    """The function in a `Function`; anything else as it is."""
    return value.function if isinstance(value, Function) else value
