"""Hyperparameters: fields of learners and of their parts, with their default, range, scale and help.

Numbers are leaves of the pytree; choices, whole numbers, flags, names and functions are its structure.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
from jax import Array

from crossprop._support import checks as check

Hyperparameter = float | Array
Result = TypeVar("Result")

LONGEST = 0.999999
"""The largest decay of a running mean: nearer to 1, new values are lost in float32."""


@dataclass(frozen=True)
class Facts:
    """The facts about a hyperparameter, for checks, flags, help, sliders and the growth of grids."""

    default: Any
    help: str = ""
    """One line, without a full stop. It explains a default of None."""
    low: float | None = None
    above: float | None = None
    high: float | None = None
    scale: Literal["log", "linear", "symlog", "decay"] | None = None
    """The scale on which it is varied: by factors, by differences, by factors of either sign, or by factors of its
    distance from 1. None is "log" with a lower bound and "symlog" without."""
    backprop_at: float | None = None
    """The value at which the rule is backprop."""
    whole: bool = False
    by_layer: bool = False
    """Whether it can be a tuple with one number per hidden layer."""
    choices: tuple[str, ...] = ()

    @property
    def limits(self) -> tuple[float, ...]:
        """The ends of its range that it can take."""
        return tuple(limit for limit in (self.low, self.high) if limit is not None)

    @property
    def is_static(self) -> bool:
        """Whether it is structure of the pytree rather than a leaf."""
        return self.whole or bool(self.choices) or isinstance(self.default, bool)

    def check(self, name: str, value: Any) -> None:
        """A ValueError or TypeError unless this is a value of the hyperparameter."""
        if value is None and self.default is None:
            return
        if self.choices:
            check.choice(name, value, self.choices)
        elif isinstance(self.default, bool):
            check.flag(name, value)
        elif self.whole:
            check.integer(name, value, low=int(self.low or 0), high=None if self.high is None else int(self.high))
        elif self.by_layer and isinstance(value, tuple):
            for at, each in enumerate(value):
                self._check_number(f"{name}[{at}]", each)
        else:
            self._check_number(name, value)

    def _check_number(self, name: str, value: Any) -> None:
        check.number(name, value, above=self.above, low=self.low, high=self.high)


def hyperparameter(*, default: Any = MISSING, kw_only: bool = False, **known: Any) -> Any:
    """A field for a hyperparameter, with keyword arguments of `Facts`.

    It is a number, or None if that is its default, or one of `choices`; a whole number with `whole`, and a flag if its
    default is one. Integers and NumPy's numbers become floats, so that 1 and 1.0 share a compiled program. Arrays of
    JAX stay as they are.
    """
    facts = Facts(default, **known)
    options = {"default": default} if default is not MISSING else {}
    return eqx.field(
        converter=check.plain if facts.is_static else as_numbers,
        static=facts.is_static,
        kw_only=kw_only,
        metadata={"facts": facts},
        **options,
    )


def known(default: Any, **facts: Any) -> dict[str, Any]:
    """Metadata for a dataclass's own field: keyword arguments of `Facts`."""
    return {"facts": Facts(default, **facts)}


def parameter(default: Any, **facts: Any) -> Any:
    """A field of a stream, with keyword arguments of `Facts`. A stream's `__post_init__` calls `check_parameters`."""
    return field(default=default, metadata=known(default, **facts))


def check_parameters(stream: Any) -> None:
    """Checks the fields of a stream that are a `parameter`; numbers of NumPy become Python's."""
    for name, facts in hyperparameters(type(stream)).items():
        value = check.plain(getattr(stream, name))
        if type(facts.default) is float:
            check.scalar(name, value)
        facts.check(name, value)
        object.__setattr__(stream, name, value)


def hyperparameters(cls: Any) -> dict[str, Facts]:
    """The facts about the hyperparameters of a dataclass, by name."""
    return {field.name: field.metadata["facts"] for field in fields(cls) if "facts" in field.metadata}


class Checked(eqx.Module):
    """A module that checks its hyperparameters when it is made."""

    def __check_init__(self):
        for name, facts in hyperparameters(type(self)).items():
            facts.check(name, getattr(self, name))


def as_numbers(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(as_numbers, value))
    number = value if isinstance(value, jax.Array) else check.plain(value)
    return float(number) if type(number) is int and abs(number) < 2**1023 else number


def memory_step_size_field() -> Any:
    return hyperparameter(default=None, above=0, help="Step size of the memory; default: that of the layer above")


def layers_field(default: str) -> Any:
    return hyperparameter(
        default=default,
        choices=("top", "all"),
        kw_only=True,
        help="Hidden layers of a deep network that follow the rule: top or all",
    )


MOST_STRUCTURES = 256
_by_structure: list[dict[Any, Any]] = []


def by_structure(function: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Decorator that caches `function(learner)` by the learner's structure: for sizes and other results that do not
    depend on the values of hyperparameters."""
    known: dict[Any, tuple[Result]] = {}
    _by_structure.append(known)

    @wraps(function)
    def of_structure(learner: Any) -> Result:
        key = jax.tree.structure(learner), jax.dtypes.canonicalize_dtype(float)
        found = known.get(key)  # once: another thread may clear it
        if found is None:
            if len(known) >= MOST_STRUCTURES:
                known.clear()
            found = known[key] = (function(learner),)
        return found[0]

    return of_structure


def forget_structures() -> None:
    """Clears these caches, after an edit of the code of a learner."""
    for known in _by_structure:
        known.clear()


@jax.tree_util.register_static
class Name(str):
    """A string that JAX takes for structure, not for a number."""


def given_for(value: Any) -> Any:
    """The name or function by which an object is shown, compared and described, if it has one; else the object."""
    return getattr(value, "__given__", value)
