"""The grid of a sweep: its axes, and the learner and the stream at every point of it."""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from typing import Any

import jax
import numpy as np

from crossprop._support import checks as check
from crossprop.arguments import LABELS, TAKEN, check_count, check_fit
from crossprop.configuration import configuration
from crossprop.descriptions import nested
from crossprop.hyperparameters import given_for
from crossprop.learners import Learner
from crossprop.streams.base import Stream

NETWORK, STREAM = "network.", "stream."
HIDDEN = f"{NETWORK}hidden"
MOST_VALUES = 10_000
"""Values that `logspace` gives at most."""
SCHEMA = 3
"""The format of a store: that of its blocks, and of what identifies them."""


def logspace(start: float, stop: float, base: float = 10) -> list[float]:
    """`start` times powers of `base`, up to `stop`, which is one of them.

    ```python
    logspace(2**-3, 2**-1, base=2)  # [0.125, 0.25, 0.5]
    logspace(0.003, 0.3)  # [0.003, 0.03, 0.3]
    ```
    """
    base = float(check.scalar("base", base, above=1))
    start = float(check.scalar("start", start, above=0))
    stop = float(check.scalar("stop", stop, low=start))
    last = round((math.log(stop) - math.log(start)) / math.log(base))
    if last >= MOST_VALUES:
        raise ValueError(f"base must give at most {MOST_VALUES:,} values, got {base!r}, which gives {last + 1:,}")
    if not math.isclose(stop, start * base**last, rel_tol=1e-9):
        near = f"{start * base**last:g}"
        raise ValueError(f"stop must be {start:g} times a power of base {base:g}, such as {near}, got {stop!r}")
    if base.is_integer():
        power = Fraction(int(base)) ** round(math.log(start, base))
        first = power if math.isclose(power, start, rel_tol=1e-9) else Fraction(repr(start))  # as it was written
        return [float(first * int(base) ** place) for place in range(last + 1)]
    return [start * (stop / start) ** (place / (last or 1)) for place in range(last + 1)]


@dataclass(frozen=True)
class Grid:
    """The sweep of one learner in JSON's types: the arguments of the learner and the stream, the axes, the seeds of
    every setting, those set aside to evaluate the best, and what all learners of the sweep have in common."""

    name: str
    learner: dict[str, Any]
    stream: dict[str, Any]
    over: dict[str, list[Any]]
    seeds: list[int]
    evaluation: list[int] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    """The identity of code that the package does not define: of `learner`, `stream`, and probes and metrics by name."""
    common: dict[str, Any] = field(default_factory=dict)
    table: str = ""
    """What `read_table` found in the file of the stream; no record depends on it."""

    def __post_init__(self):
        over = {axis: [plain_value(value) for value in values] for axis, values in self.over.items()}
        object.__setattr__(self, "over", over)

    @property
    def record_every(self) -> int:
        """The steps of a window."""
        return self.common["record_every"]

    @cached_property
    def base(self) -> dict[str, Any]:
        """Every field by the name of its axis, with the value it has unless an axis gives another."""
        network = {NETWORK + name: value for name, value in [*nested(self.learner)][-1]["network"].items()}
        return self._own | network | {STREAM + name: value for name, value in self.stream.items()}

    @property
    def _own(self) -> dict[str, Any]:
        """The fields of the learner, and of one that it is around; of a part such as an optimizer, its name and its
        fields."""
        own: dict[str, Any] = {}
        for depth, learner in enumerate(nested(self.learner)):
            for name, value in learner.items():
                if name in ("network", "learner"):
                    continue
                axis = name if name not in own else f"{name} {depth}"
                part = value if isinstance(value, dict) and "type" in value else None
                own[axis] = value if part is None else part["type"]
                own |= {f"{axis}.{field}": each for field, each in (part or {}).items() if field != "type"}
        return own

    @cached_property
    def points(self) -> dict[str, dict[str, Any]]:
        """The values of the axes at every point, in the order of the axes, by the identity of the point's setting."""
        points = [dict(zip(self.over, values, strict=True)) for values in itertools.product(*self.over.values())]
        return {identity(self.about(point)): point for point in points}

    def about(self, point: dict[str, Any]) -> dict[str, Any]:
        """All that the records of a point depend on, apart from the seeds."""
        return {"schema": SCHEMA, "learner": self.name, "setting": self.base | point, "code": self.code, **self.common}


def plain_value(value: Any) -> Any:
    """The value of an axis; a list of sizes, which JSON makes of a tuple, is a tuple."""
    return tuple(value) if isinstance(value, list) else value


def value_label(value: Any) -> Any:
    """The value of an axis as a coordinate: NaN for None, `256x128` for sizes of layers."""
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "()"
    return np.nan if value is None else value


def value_labels(values: Sequence[Any]) -> list[Any]:
    """The values of an axis as coordinates, all of them text if some are sizes of several layers."""
    labels = [value_label(value) for value in values]
    return [str(label) for label in labels] if any(isinstance(value, tuple) for value in values) else labels


def identity(about: dict[str, Any]) -> str:
    """A hash of all that records depend on: the same in every process, for a setting of 1 and of 1.0, and for one
    hidden layer given as 5 and as (5,)."""
    same = {field: float(value) if type(value) is int else value for field, value in about["setting"].items()}
    hidden = about["setting"].get(HIDDEN)
    same |= {HIDDEN: [hidden]} if type(hidden) is int else {}
    return hashlib.sha256(json.dumps(about | {"setting": same}, sort_keys=True).encode()).hexdigest()[:20]


def checked_grids(learners: dict[str, Learner], stream: Stream, over: Any, seeds: list[int]) -> list[Grid]:
    """A grid for every learner: the common axes that it has fields for, and those given under its name or a pattern
    such as `"*-adam"` that matches it. Later ones replace earlier ones of the same name."""
    if not isinstance(over, Mapping):
        raise TypeError(f"over must be a dict of values by axis, got {check.shown(over)}")
    common = {axis: values for axis, values in over.items() if not isinstance(values, Mapping)}
    own = {name: axes for name, axes in over.items() if isinstance(axes, Mapping)}
    axes = {name: _axes(learner, stream) for name, learner in learners.items()}
    for axis in common:
        check.choice("an axis in over", axis, dict.fromkeys(itertools.chain(*axes.values())))
    named = {key: [name for name in learners if name == key or fnmatchcase(name, key)] for key in own}
    for key, its in own.items():
        if not named[key]:
            check.choice("a learner with axes of its own in over", key, learners)
        for axis in its:
            check.choice(
                f"an axis in over[{key!r}]", axis, dict.fromkeys(axis for name in named[key] for axis in axes[name])
            )
    made_stream = configuration(stream)
    made_stream = made_stream if isinstance(made_stream, dict) else {"type": made_stream}
    grids = []
    for name, learner in learners.items():
        tables = [common, *(its for key, its in own.items() if name in named[key])]
        mine = {axis: values for table in tables for axis, values in table.items() if axis in axes[name]}
        checked = {axis: _checked_values(axis, values) for axis, values in mine.items()}
        points = math.prod(map(len, checked.values()))
        check_count(f"over has {points:,} settings of learners[{name!r}]", points * len(seeds))
        grids.append(
            Grid(name, configuration(learner), made_stream, checked, seeds, table=getattr(stream, "about", ""))
        )
    return grids


def _axes(learner: Learner, stream: Any) -> list[str]:
    """The axes that a learner can have on a stream: all fields, except names that the records use."""
    inner = getattr(learner, "learner", None)
    if isinstance(inner, Learner):
        mine = [field.name for field in fields(learner) if field.name != "learner"]
        return [*dict.fromkeys([*mine, *(axis for axis in _axes(inner, stream) if axis not in learner.replaces)])]
    own = [field.name for field in fields(learner) if field.name not in {"network", *TAKEN.difference(LABELS)}]
    for name in [*own]:
        part = given_for(getattr(learner, name))
        own += [f"{name}.{field.name}" for field in (fields(part) if is_dataclass(part) else ())]
    network = [NETWORK + field.name for field in fields(learner.network)]
    return own + network + [STREAM + field.name for field in (fields(stream) if is_dataclass(stream) else ())]


def _checked_values(axis: str, values: Any) -> list[Any]:
    name = f"over[{axis!r}]"
    listed = values.tolist() if isinstance(values, np.ndarray | jax.Array) else values
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise TypeError(f"{name} must be a list of values, got {check.shown(values)}")
    if not listed:
        raise ValueError(f"{name} must not be empty, got {check.shown(values)}")
    check_count(name, check.length(listed))
    plain = [value.item() if isinstance(value, np.generic) else value for value in listed]
    if axis == HIDDEN:
        plain = [plain_value(value) for value in plain]
    for value in plain:
        sizes = axis == HIDDEN and isinstance(value, tuple) and all(type(each) is int for each in value)
        if value is not None and not sizes and not isinstance(value, bool | int | float | str):
            raise TypeError(f"{name} must hold numbers, strings, True, False or None, got {check.shown(value)}")
    one_layer = lambda value: value[0] if isinstance(value, tuple) and len(value) == 1 else value
    if len(set(map(one_layer, plain))) < len(plain):
        raise ValueError(f"{name} must not repeat a value, got {check.shown(values)}")
    return plain


def build(
    point: dict[str, Any], name: str, learner: Learner, stream: Stream, made: dict[Any, Any]
) -> tuple[Learner, Stream]:
    """The learner and the stream with the values of a point, checked. They are kept in `made`, and so are networks and
    streams, so that points with the same values share them."""
    which = (id(learner), id(stream), *point.items())
    if which in made:
        return made[which]
    own = {axis: value for axis, value in point.items() if not axis.startswith((NETWORK, STREAM))}

    def shared(thing: Any, prefix: str) -> Any:
        values = {axis.removeprefix(prefix): value for axis, value in point.items() if axis.startswith(prefix)}
        key = (id(thing), *values.items())
        if key not in made:
            made[key] = _replaced(thing, values)
        return made[key]

    try:
        stream = shared(stream, STREAM)
        learner = _replaced(learner, own | {"network": shared(learner.network, NETWORK)})
        check_fit({name: learner}, stream)
    except (ValueError, TypeError) as problem:
        if not point:
            raise
        values = ", ".join(f"{axis}={check.shown(value)}" for axis, value in point.items())
        raise type(problem)(f"over has {values} for learners[{name!r}]: {problem}") from None
    made[which] = learner, stream
    return learner, stream


def _replaced(thing: Any, values: dict[str, Any]) -> Any:
    """A copy with these values, checked; `optimizer.sigma` is a field of a part, and what a learner has no field for is
    for the one that it is around. Integers become floats for float fields: the compiler tells them apart."""
    if isinstance(inner := getattr(thing, "learner", None), Learner):
        own = {field.name for field in fields(thing)}
        further = {name: value for name, value in values.items() if name not in own}
        values = {name: value for name, value in values.items() if name in own} | {"learner": _replaced(inner, further)}
    of_parts = {name: value for name, value in values.items() if "." in name}
    values = {name: value for name, value in values.items() if name not in of_parts}
    for name, value in of_parts.items():
        part, _, field = name.partition(".")
        whole = given_for(values.get(part, getattr(thing, part)))
        if not is_dataclass(whole) or field not in {each.name for each in fields(whole)}:
            raise ValueError(f"{part} {check.shown(whole)} has no {field}")
        values[part] = _replaced(whole, {field: value})
    if not values:
        return thing
    floats = {field for field in values if type(getattr(thing, field)) is float}
    return replace(
        thing,
        **{field: float(value) if field in floats and type(value) is int else value for field, value in values.items()},
    )
