"""Examples that a stream deals in order."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support import checks as check
from crossprop._support.programs import program
from crossprop.network import float_type
from crossprop.seeds import keys
from crossprop.streams.base import Stream

SKIPPED = 4096
"""Examples dealt at a time to get to the place where a run goes on."""
NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)
"""JAX's errors about a tracer where it needs a number."""


class StreamKey:
    """A stream as a key: equal streams share a program; one that cannot be hashed has its own."""

    def __init__(self, stream: Stream):
        self.stream = stream
        try:
            self.hash, self.by_value = hash(stream), True
        except TypeError:
            self.hash, self.by_value = id(stream), False

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamKey):
            return False
        return self.stream is other.stream or (self.by_value and other.by_value and self.stream == other.stream)


class Dealt:
    """Examples that a stream deals in order, for several seeds: on the device, by one program, if JAX can trace it."""

    def __init__(self, which: StreamKey, seeds: Sequence[int]):
        self.which, self.stream, self.seeds, self.step = which, which.stream, len(seeds), 0
        self.places: Any = [self.stream.begin(keys(seed)[0]) for seed in seeds]
        self.shared = None
        """Leaves that `deal` never changes and all places share, such as a table of examples; they are not copied."""
        kept = unchanged(self.stream, self.places[0])
        self.is_traced = kept is not None
        if self.is_traced:
            first, is_one = self.places[0], lambda same, leaf, *more: same and all(leaf is each for each in more)
            kept = jax.tree.map(is_one, kept, *self.places)
            rest = [eqx.filter(place, kept, inverse=True) for place in self.places]
            self.shared, self.places = eqx.filter(first, kept), jax.tree.map(lambda *leaves: jnp.stack(leaves), *rest)

    def take(self, start: int, count: int, length: int) -> tuple[Any, Any]:
        assert self.step <= start, "examples of a stream are taken in order"
        while self.step < start:
            self._next(min(SKIPPED, start - self.step), None)
        return self._next(count, length)

    def _next(self, count: int, length: int | None) -> Any:
        """The next examples; with no length they are not made."""
        self.step += count
        if self.is_traced:
            numbers = np.arange(self.seeds)
            changed, x, y = _deal(self.which, numbers, self.places, self.shared, count, length)
            self.places = eqx.combine(changed, self.places)
            return x, y
        made = []
        for at, place in enumerate(self.places):
            self.places[at], x, y = _dealt(self.stream, place, count)
            for name, values in (("x", x), ("y", y)):
                check.finite(f"the stream's {name}", np.asarray(values, float_type()), self.step - count)
            made.append([_padded(np.asarray(values, float_type()), length or count) for values in (x, y)])
        x, y = (np.stack(values) for values in zip(*made, strict=True))
        return x, y


@partial(program, static_argnums=(0, 4, 5))
def _deal(which: StreamKey, numbers: Any, places: Any, shared: Any, count: int, length: int | None) -> Any:
    """The next places, with None for leaves that `deal` returns unchanged, since XLA would copy them, and the examples.
    Seeds are dealt one after another, each as it would be alone. `numbers` are mapped over with the places, which may
    have no arrays left."""

    def one(numbered: Any) -> Any:
        changed, x, y = _changes(which.stream, eqx.combine(numbered[1], shared), count)
        if length is None:
            return changed, None, None
        return changed, *(_padded(jnp.asarray(values, float_type()), length) for values in (x, y))

    return lax.map(one, (numbers, places))


def unchanged(stream: Stream, place: Any) -> Any:
    """Which leaves of a place the stream's `deal` returns unchanged; None if JAX cannot trace it, as with NumPy or
    files: such a stream is called on the host."""
    numbers = jax.Array | np.ndarray | np.generic | complex | float | int
    if not all(isinstance(leaf, numbers) for leaf in jax.tree.leaves(place)):
        return None
    try:
        changed, _, _ = jax.eval_shape(partial(_changes, stream, count=1), place)
    except NOT_TRACEABLE:
        return None
    except Exception:
        # Other packages raise their own errors for a tracer. Any other mistake is raised again by this call.
        _dealt(stream, place, 1)
        return None
    return jax.tree.map(lambda leaf: leaf is None, changed, is_leaf=lambda leaf: leaf is None)


def _changes(stream: Stream, place: Any, count: int) -> tuple[Any, Any, Any]:
    """The next place, with None for unchanged leaves, and the examples."""
    after, x, y = _dealt(stream, place, count)
    before, form = jax.tree.structure(place), jax.tree.structure(after)
    if form != before:
        raise TypeError(
            f"the place that the stream's deal returns must have the form of the one given, got {form} after {before}"
        )
    return jax.tree.map(lambda new, old: None if new is old else new, after, place), x, y


def _dealt(stream: Stream, place: Any, count: int) -> tuple[Any, Any, Any]:
    """The next place and the examples, after a check of their shapes."""
    dealt = stream.deal(place, count)
    if not isinstance(dealt, tuple) or len(dealt) != 3:
        raise TypeError(f"the stream's deal must return (place, x, y), got {dealt!r}")
    for name, values, size in (("x", dealt[1], stream.inputs), ("y", dealt[2], stream.outputs)):
        check.shape(f"the stream's {name}", values, (count, size))
    return dealt


def _padded(values: Any, length: int) -> Any:
    pad = jnp.pad if isinstance(values, jax.Array) else np.pad
    return pad(values, ((0, length - len(values)), (0, 0)))
