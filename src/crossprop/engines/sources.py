"""The examples of runs, by stream and seed: rows of tables, or examples that a stream deals in order."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support import checks as check
from crossprop._support.files import release_pages
from crossprop._support.programs import program
from crossprop.engines.protocol import Run
from crossprop.network import float_type
from crossprop.seeds import keys, keys_of
from crossprop.streams.base import Pool, PoolStream, Stream

SKIPPED = 4096
"""Examples dealt at a time to get to the place where a run goes on."""
RECENT = 2
"""Segments whose rows are kept."""
NUMBERS_ON_DEVICE = 2**30
"""Tables with more numbers than this stay on the host, and a segment's examples are sent."""
NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)
"""JAX's errors about a tracer where it needs a number."""


# Sources. `take(start, count)` gives `x` and `y` of `count` examples from number `start` on, `(rows, count, ...)`.


class Tables:
    """Examples that are rows of tables, in any order. A device table may concatenate those of several seeds; this is
    number `number` of `of`."""

    rows_of = 1

    def __init__(self, stream: PoolStream, pool: Pool, number: int = 0, of: int = 1):
        self.stream, self.pool, self.lock = stream, pool, threading.Lock()
        self.recent: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self.counts = tuple(len(table) // of for table in pool[:2])
        self.begins = tuple(number * count for count in self.counts)

    def rows(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of x and y of a segment; runs side by side ask for the same ones, so the last few are kept."""
        with self.lock:
            if (start, count) not in self.recent:
                while len(self.recent) >= RECENT:
                    self.recent.pop(next(iter(self.recent)))
                self.recent[start, count] = self._rows(start, count)
            return self.recent[start, count]

    def _rows(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.stream.rows(self.pool.index, np.arange(start, start + count))
        for name, chosen, most in zip("xy", rows, self.counts, strict=True):
            if chosen.min() < 0 or chosen.max() >= most:
                raise ValueError(
                    f"the stream's rows of {name} must be rows of its pool, 0 to {most - 1}, "
                    f"got {chosen.min()} to {chosen.max()}"
                )
        return rows

    @cached_property
    def _on_host(self) -> tuple[np.ndarray, ...]:
        parts = zip(self.pool[:2], self.begins, self.counts, strict=True)
        return tuple(
            table if isinstance(table, np.ndarray) else np.asarray(table[begin : begin + count])
            for table, begin, count in parts
        )

    @property
    def is_mapped(self) -> bool:
        return isinstance(self.pool.x, np.memmap)

    def take(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.empty((1, count, self.stream.inputs), float_type())
        y = np.empty((1, count, self.stream.outputs), float_type())
        self.take_into(x[0], y[0], start, count)
        return x, y

    def take_into(self, x: np.ndarray, y: np.ndarray, start: int, count: int) -> None:
        for out, table, rows in zip((x, y), self._on_host, self.rows(start, count), strict=True):
            if table.dtype == out.dtype and table.flags.c_contiguous:  # of others it would copy the whole table
                np.take(table, rows, axis=0, out=out[:count], mode="clip")  # without a copy in between
            else:
                out[:count] = table[rows]
            release_pages(table)


class Dealt:
    """Examples that a stream deals in order, for several seeds: on the device, by one program, if JAX can trace it."""

    def __init__(self, stream: Stream, seeds: Sequence[int]):
        self.stream, self.step, self.rows_of = stream, 0, len(seeds)
        self.places = [stream.begin(keys(seed)[0]) for seed in seeds]
        self.stacked: tuple[Any, Any] | None = None
        """What the places have in common, and the rest, stacked."""
        self.programs = dealing_programs(StreamKey(stream)) if is_traceable(stream, self.places[0]) else None

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        assert self.step <= start, "examples of a stream are taken in order"
        while self.step < start:
            self._skip(min(SKIPPED, start - self.step))
        self.step += count
        if self.programs is None:
            dealt = [self._deal_on_host(at, count) for at in range(self.rows_of)]
            x, y = (np.stack(values) for values in zip(*dealt, strict=True))
            return x, y
        if self.rows_of == 1:
            changed, x, y = self.programs.one(self.places[0], count)
            self.places = [eqx.combine(changed, self.places[0])]
        else:
            shared, places = self.stacked or self._stacked()
            changed, x, y = self.programs.several(np.arange(self.rows_of), places, shared, count)
            self.stacked = shared, eqx.combine(changed, places)
        row = lambda values: jax.ShapeDtypeStruct(values.shape[1:], values.dtype)
        check_dealt(self.stream, row(x), row(y), count)
        return x, y

    def _skip(self, count: int) -> None:
        """Goes on without the next examples."""
        assert self.stacked is None, "a run goes on at its beginning only"
        self.step += count
        for at, place in enumerate(self.places):
            if self.programs is None:
                self._deal_on_host(at, count)
            else:
                self.places[at] = eqx.combine(self.programs.none(place, count), place)

    def _deal_on_host(self, at: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        self.places[at], x, y = _dealt(self.stream, self.places[at], count)
        check_dealt(self.stream, x, y, count)
        x, y = (np.asarray(values, float_type()) for values in (x, y))
        check.finite("the stream's x", x, self.step - count)
        check.finite("the stream's y", y, self.step - count)
        return x, y

    def _stacked(self) -> tuple[Any, Any]:
        first, *others = self.places
        is_shared = jax.tree.map(lambda leaf, *more: all(leaf is other for other in more), first, *others)
        rest = [eqx.filter(place, is_shared, inverse=True) for place in self.places]
        self.places = []
        return eqx.filter(first, is_shared), jax.tree.map(lambda *leaves: jnp.stack(leaves), *rest)


class Loaded:
    """The examples of a `crossprop.Iterator`, which all runs are given at the same time."""

    rows_of = 1

    def __init__(self, stream: Stream):
        self.stream, self.x, self.y = stream, np.zeros((0, 0)), np.zeros((0, 0))

    def take(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        return self.x[None], self.y[None]


Source = Tables | Dealt | Loaded


class Sources(NamedTuple):
    """The distinct sources of some runs, and the place of every run among all of their rows."""

    distinct: Sequence[Source]
    place: np.ndarray


def open_sources(runs: Sequence[Run], tables: "Callable[[Run], Tables] | None" = None) -> Sources:
    """The examples of some runs from the first one on. `tables` gives those of a stream that has some."""
    shared, seeds = {}, {}
    places: list[tuple[Any, int]] = []
    for run in runs:
        if isinstance(run.stream, PoolStream):
            source = tables(run) if tables is not None else tables_of(run.stream, run.seed)
            shared[id(source)] = source
            places.append((id(source), 0))
        else:
            known = seeds.setdefault(StreamKey(run.stream), {})
            places.append((StreamKey(run.stream), known.setdefault(run.seed, len(known))))
    distinct = shared | {which: Dealt(which.stream, [*known]) for which, known in seeds.items()}
    begins = dict(zip(distinct, np.cumsum([0, *(source.rows_of for source in distinct.values())]), strict=False))
    return Sources([*distinct.values()], np.array([begins[which] + row for which, row in places], np.int32))


class SharedTables:
    """The tables of every stream and seed of some runs: made once, dropped when the last run has taken them. If
    `at_once`, those of a batch are made together on the device."""

    def __init__(self, runs: Sequence[Run], at_once: bool):
        self.at_once, self.lock = at_once, threading.Lock()
        self.left = Counter((id(run.stream), run.seed) for run in runs)
        self.locks = {which: threading.Lock() for which in self.left}
        self.tables: dict[tuple[int, int], Tables] = {}

    def open(self, runs: Sequence[Run]) -> Sources:
        """The sources of a batch."""
        if self.at_once:
            with self.lock:
                self._make(runs)
        return open_sources(runs, self._take)

    def _make(self, runs: Sequence[Run]) -> None:
        missing: dict[int, dict[int, PoolStream]] = {}
        for run in runs:
            if isinstance(run.stream, PoolStream) and (id(run.stream), run.seed) not in self.tables:
                missing.setdefault(id(run.stream), {})[run.seed] = run.stream
        for which, seeds in missing.items():
            made = tables_at_once(next(iter(seeds.values())), [*seeds])
            self.tables |= {(which, seed): tables for seed, tables in zip(seeds, made, strict=True)}

    def _take(self, run: Run) -> Tables:
        which = id(run.stream), run.seed
        with self.locks[which]:
            if which not in self.tables:
                self.tables[which] = tables_of(run.stream, run.seed)
            self.left[which] -= 1
            return self.tables[which] if self.left[which] else self.tables.pop(which)


def tables_of(stream: Any, seed: int) -> Tables:
    """The tables of one seed."""
    x, y, index = stream.pool(keys(seed)[0])
    pool = Pool(np.asanyarray(x), np.asanyarray(y), index)
    for name, table, size in (("x", pool.x, stream.inputs), ("y", pool.y, stream.outputs)):
        check.shape(f"the stream's {name}", table[:1], (1, size))
        if table.flags.writeable and not isinstance(table, np.memmap):  # others were checked when they were made
            check.finite(f"the stream's {name}", table)
    return Tables(stream, pool)


def tables_at_once(stream: PoolStream, seeds: Sequence[int]) -> list[Tables]:
    """The tables of several seeds, made on the device by one program if the stream can do that."""
    if len(seeds) * (stream.steps or 0) * stream.inputs <= NUMBERS_ON_DEVICE:
        # A program for every power of two or multiple of 32, so that not every number of runs has its own.
        many = -(-len(seeds) // 32) * 32 if len(seeds) > 32 else 1 << (len(seeds) - 1).bit_length()
        pool = stream.pools(keys_of(np.resize(seeds, many).tolist())[0])
        if pool is not None:
            for name, tables, size in (("x", pool.x, stream.inputs), ("y", pool.y, stream.outputs)):
                check.shape(f"the stream's {name}", tables[:, :1], (many, 1, size))
                if not jnp.isfinite(tables).all():
                    check.finite(f"the stream's {name}", np.asarray(tables))
            x, y = (tables.reshape(-1, tables.shape[-1]) for tables in pool[:2])
            return [Tables(stream, Pool(x, y, pool.index), number, many) for number in range(len(seeds))]
    return [tables_of(stream, seed) for seed in seeds]


# Programs that deal.


def is_traceable(stream: Stream, place: Any) -> bool:
    """Whether JAX can trace the stream's `deal`; one that uses NumPy or files is called on the host."""
    numbers = jax.Array | np.ndarray | np.generic | complex | float | int
    if not all(isinstance(leaf, numbers) for leaf in jax.tree.leaves(place)):
        return False
    try:
        jax.eval_shape(partial(stream.deal, count=1), place)
    except NOT_TRACEABLE:
        return False
    except Exception:
        # Other packages have errors of their own for a tracer. Whatever else is wrong shows here, too.
        stream.deal(place, 1)
        return False
    return True


class StreamKey:
    """A stream as a key: equal streams share a program; one that cannot be hashed has its own."""

    def __init__(self, stream: Stream):
        self.stream = stream

    def __hash__(self) -> int:
        try:
            return hash(self.stream)
        except TypeError:
            return id(self.stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamKey) or hash(self) != hash(other):
            return False
        return self.stream is other.stream or (hash(self) != id(self.stream) and self.stream == other.stream)


class DealingPrograms(NamedTuple):
    """Compiled programs that deal. The place that they return has None for leaves that `deal` returns unchanged, such
    as a table of examples, because XLA would copy them."""

    one: Any
    """`(place, count)` to a place and examples `(1, count, ...)`"""
    several: Any
    """The same for places that are stacked, but for what they share; their numbers tell how many there are, since
    nothing else may differ. They are dealt one after another, so that each is dealt as it would be alone."""
    none: Any
    """The place after `count` examples, without making them"""


@lru_cache(64)
def dealing_programs(which: StreamKey) -> DealingPrograms:
    """The programs of a stream."""

    def deal(place: Any, count: int) -> tuple[Any, Any, Any]:
        after, x, y = _dealt(which.stream, place, count)
        if jax.tree.structure(after) != jax.tree.structure(place):
            forms = f"{jax.tree.structure(after)} after {jax.tree.structure(place)}"
            raise TypeError(
                f"the place that the stream's deal returns must have the form of the one given, got {forms}"
            )
        changed = jax.tree.map(lambda new, old: None if new is old else new, after, place)
        return changed, jnp.asarray(x, float_type()), jnp.asarray(y, float_type())

    def one(place: Any, count: int) -> tuple[Any, Any, Any]:
        changed, x, y = deal(place, count)
        return changed, x[None], y[None]

    def several(numbers: Any, places: Any, shared: Any, count: int) -> tuple[Any, Any, Any]:
        return lax.map(lambda place: deal(eqx.combine(place[1], shared), count), (numbers, places))

    def none(place: Any, count: int) -> Any:
        return deal(place, count)[0]

    return DealingPrograms(
        program(one, static_argnums=1), program(several, static_argnums=3), program(none, static_argnums=1)
    )


def _dealt(stream: Stream, place: Any, count: int) -> tuple[Any, Any, Any]:
    dealt = stream.deal(place, count)
    if not isinstance(dealt, tuple) or len(dealt) != 3:
        raise TypeError(f"the stream's deal must return (place, x, y), got {dealt!r}")
    return dealt


def check_dealt(stream: Stream, x: Any, y: Any, count: int) -> None:
    """What a stream deals has the shapes that it says."""
    for name, values, size in (("x", x, stream.inputs), ("y", y, stream.outputs)):
        check.shape(f"the stream's {name}", values, (count, size))
