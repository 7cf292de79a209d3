"""How runs get their examples: one segment after another, what several runs share only once.

A `Source` is one stream with one seed. On a CPU each run reads its own source (`RunFeed`); on other devices the runs of
a batch share theirs (`BatchFeed`).
"""

# pyright: reportIncompatibleVariableOverride=false
# (sources and streams narrow the types of attributes that never change)

import threading
from abc import ABC, abstractmethod
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
from crossprop._support.transfers import SentTable, arrived, sent
from crossprop.network import float_type
from crossprop.streams.base import Pool, PoolStream, Stream

SKIPPED = 4096
"""Examples dealt at a time to get to the place where a run goes on."""
RECENT = 2
"""Segments whose rows are kept."""
NUMBERS_ON_DEVICE = 2**30
"""Pools with more numbers than this stay on the host, and a segment's examples are sent."""
SEGMENTS_SENT = 16
"""Row numbers are sent for at most this many segments at a time;"""
ROW_NUMBERS_SENT = 2**22
"""for fewer segments if that would be more numbers than this, but for at least one."""


NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)
"""JAX's errors about a tracer where it needs a number."""


class Source(ABC):
    """The examples of one stream and seed. Sources with a place are read in order; `copy` gives a fresh reader."""

    stream: Stream

    @abstractmethod
    def take(self, start: int, count: int) -> tuple[Any, Any]:
        """`x` and `y` of `count` examples from number `start` on."""

    @abstractmethod
    def copy(self) -> "Source":
        """A reader of the same examples, at the first one."""


class PoolSource(Source):
    """Rows of tables, in any order. Tables on the device may hold the rows of several sources, one after another: `of`
    sources, of which this is the one with this `number`, counted from 0."""

    stream: PoolStream

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
        """The source's own tables, in memory."""
        own = zip(self.pool[:2], self.begins, self.counts, strict=True)
        return tuple(
            table if isinstance(table, np.ndarray) else np.asarray(table[begin : begin + count])
            for table, begin, count in own
        )

    @property
    def is_mapped(self) -> bool:
        return isinstance(self.pool.x, np.memmap)

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        x = np.empty((count, self.stream.inputs), float_type())
        y = np.empty((count, self.stream.outputs), float_type())
        self.take_into(x, y, start, count)
        return x, y

    def take_into(self, x: np.ndarray, y: np.ndarray, start: int, count: int) -> None:
        for out, table, rows in zip((x, y), self._on_host, self.rows(start, count), strict=True):
            if table.dtype == out.dtype and table.flags.c_contiguous:  # of others it would copy the whole table
                np.take(table, rows, axis=0, out=out[:count], mode="clip")  # without a copy in between
            else:
                out[:count] = table[rows]
            release_pages(table)

    def copy(self) -> "PoolSource":
        return self


class DealtSource(Source):
    """A stream that deals examples in order, on the device if JAX can trace it."""

    def __init__(self, stream: Stream, key: jax.Array):
        self.stream, self.key = stream, key
        self.place, self.step = stream.begin(key), 0
        self.traceable = is_traceable(stream, self.place)
        self.deal = _dealer(_Same(stream)) if self.traceable else stream.deal

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        self.skip_to(start)
        return self._deal(count)

    def skip_to(self, start: int) -> None:
        assert self.step <= start, "examples of a stream are taken in order"
        while self.step < start:
            count = min(SKIPPED, start - self.step)
            if isinstance(self.deal, Dealer):
                self.place, self.step = self.deal.skip(self.place, count), self.step + count
            else:
                self._deal(count)

    def _deal(self, count: int) -> tuple[Any, Any]:
        self.place, x, y = _triple(self.deal(self.place, count))
        self.step += count
        check_dealt(self.stream, x, y, (count,))
        if self.traceable:
            return x, y
        x, y = (np.asarray(values, float_type()) for values in (x, y))
        check.finite("the stream's x", x, self.step - count)
        check.finite("the stream's y", y, self.step - count)
        return x, y

    def copy(self) -> "DealtSource":
        return DealtSource(self.stream, self.key)


def _triple(dealt: Any) -> tuple[Any, Any, Any]:
    if not isinstance(dealt, tuple) or len(dealt) != 3:
        raise TypeError(f"the stream's deal must return (place, x, y), got {dealt!r}")
    return dealt


def check_dealt(stream: Stream, x: Any, y: Any, shape: tuple[int, ...]) -> None:
    for name, values, size in (("x", x, stream.inputs), ("y", y, stream.outputs)):
        check.shape(f"the stream's {name}", values, (*shape, size))


class BatchSource(Source):
    """The examples of a `crossprop.Iterator`, given batch by batch to all runs."""

    def __init__(self, stream: Stream):
        self.stream, self.x, self.y = stream, np.zeros((0, 0)), np.zeros((0, 0))

    def load(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        return self.x, self.y

    def copy(self) -> "BatchSource":
        return self


def source_of(stream: Stream, key: jax.Array) -> Source:
    """The examples of a run."""
    if not isinstance(stream, PoolStream):
        return DealtSource(stream, key)
    x, y, index = stream.pool(key)
    pool = Pool(np.asanyarray(x), np.asanyarray(y), index)
    for name, table, size in (("x", pool.x, stream.inputs), ("y", pool.y, stream.outputs)):
        check.shape(f"the stream's {name}", table[:1], (1, size))
        if table.flags.writeable and not isinstance(table, np.memmap):  # others were checked when they were made
            check.finite(f"the stream's {name}", table)
    return PoolSource(stream, pool)


def sources_of(stream: Stream, keys: np.ndarray) -> list[Source]:
    """The examples of several runs that share a device, given the data of their keys. They are made there, all at once,
    if the stream can do that."""
    wrapped = partial(jax.random.wrap_key_data, impl="threefry2x32")
    if isinstance(stream, PoolStream) and len(keys) * (stream.steps or 0) * stream.inputs <= NUMBERS_ON_DEVICE:
        # A program for every power of two or multiple of 32, so that not every number of runs has its own.
        many = -(-len(keys) // 32) * 32 if len(keys) > 32 else 1 << (len(keys) - 1).bit_length()
        pool = stream.pools(wrapped(jnp.asarray(np.resize(keys, (many, keys.shape[1])))))
        if pool is not None:
            for name, tables, size in (("x", pool.x, stream.inputs), ("y", pool.y, stream.outputs)):
                check.shape(f"the stream's {name}", tables[:, :1], (many, 1, size))
                if not jnp.isfinite(tables).all():
                    check.finite(f"the stream's {name}", np.asarray(tables))
            x, y = (tables.reshape(-1, tables.shape[-1]) for tables in pool[:2])
            return [PoolSource(stream, Pool(x, y, pool.index), number, many) for number in range(len(keys))]
    return [source_of(stream, key) for key in wrapped(jnp.asarray(keys))]


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


class _Same:
    """A stream as a key: equal streams share a program; one that cannot be hashed has its own."""

    def __init__(self, stream: Stream):
        self.stream = stream

    def __hash__(self) -> int:
        try:
            return hash(self.stream)
        except TypeError:
            return id(self.stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or hash(self) != hash(other):
            return False
        return self.stream is other.stream or (hash(self) != id(self.stream) and self.stream == other.stream)


class Dealer:
    """Compiled programs that deal the examples of a stream, for one run or for several."""

    def __init__(self, stream: Stream):
        self.stream = stream
        self.one = program(self._deal, static_argnums=1)
        self.several = program(self._deal_several, static_argnums=3)
        self.none = program(lambda place, count: self._deal(place, count)[0], static_argnums=1)

    def __call__(self, place: Any, count: int) -> tuple[Any, Any, Any]:
        changed, x, y = self.one(place, count)
        return eqx.combine(changed, place), x, y

    def skip(self, place: Any, count: int) -> Any:
        """The place after `count` examples, without making them."""
        return eqx.combine(self.none(place, count), place)

    def _deal(self, place: Any, count: int) -> tuple[Any, Any, Any]:
        """The place has None for what dealing hands on as it is, such as a table of examples: a program copies all that
        it returns."""
        after, x, y = _triple(self.stream.deal(place, count))
        if jax.tree.structure(after) != jax.tree.structure(place):
            forms = f"{jax.tree.structure(after)} after {jax.tree.structure(place)}"
            raise TypeError(
                f"the place that the stream's deal returns must have the form of the one given, got {forms}"
            )
        changed = jax.tree.map(lambda new, old: None if new is old else new, after, place)
        return changed, jnp.asarray(x, float_type()), jnp.asarray(y, float_type())

    def _deal_several(self, numbers: Any, places: Any, shared: Any, count: int) -> tuple[Any, Any, Any]:
        """For places that are stacked, one after another, so that each is dealt as it would be alone. The numbers tell
        how many there are, since nothing else may differ."""
        return lax.map(lambda own: self._deal(eqx.combine(own[1], shared), count), (numbers, places))


@lru_cache(64)
def _dealer(same: _Same) -> Dealer:
    return Dealer(same.stream)


class DealtBatch:
    """Several places of one stream, whose examples one program deals."""

    def __init__(self, sources: Sequence[DealtSource], start: int):
        for source in sources:
            source.skip_to(start)
        self.stream, self.deal, self.step = sources[0].stream, _dealer(_Same(sources[0].stream)), start
        first, *others = (source.place for source in sources)
        is_shared = jax.tree.map(lambda leaf, *more: all(leaf is other for other in more), first, *others)
        self.shared = eqx.filter(first, is_shared)
        own = [eqx.filter(source.place, is_shared, inverse=True) for source in sources]
        self.places, self.count = jax.tree.map(lambda *leaves: jnp.stack(leaves), *own), len(sources)

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        """`x (sources, count, inputs)` and `y (sources, count, outputs)`."""
        assert start == self.step, "examples of a stream are taken in order"
        changed, x, y = self.deal.several(np.arange(self.count), self.places, self.shared, count)
        check_dealt(self.stream, x, y, (self.count, count))
        self.places, self.step = eqx.combine(changed, self.places), start + count
        return x, y


class Examples(NamedTuple):
    """Examples of a segment for several runs: what they share is there once."""

    pool: Any
    """`(examples, inputs)`"""
    rows: Any
    """`(sources, steps)`: rows of `pool`"""
    y: Any
    """`(sources, steps, outputs)`"""
    place: Any
    """`(runs,)`: each run's source"""


class RunFeed:
    """The examples of one run: `size` rows per segment, followed by `more` rows of padding."""

    def __init__(self, source: Source, size: int, more: int):
        self.source, self.more, self.size = source.copy(), more, size
        shapes = ((size + more, source.stream.inputs), (size + more, source.stream.outputs))
        self.buffers = tuple(np.zeros(shape, float_type()) for shape in shapes)

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        x, y = self.buffers
        if isinstance(self.source, PoolSource):
            self.source.take_into(x, y, start, count)
            return x, y
        taken = self.source.take(start, _dealt(self.source.stream, start, self.size, count))
        if isinstance(taken[0], jax.Array):
            return tuple(_padded(values, buffer.shape) for values, buffer in zip(taken, (x, y), strict=True))
        for buffer, values in zip((x, y), taken, strict=True):
            buffer[: len(values)] = values
        return x, y


def _dealt(stream: Stream, start: int, size: int, count: int) -> int:
    """The examples to deal: a whole segment if it begins one and the stream has it, so that one program deals all."""
    whole = start % size == 0 and (stream.steps is None or start + size <= stream.steps)
    return size if whole else count


@partial(program, static_argnames="shape")
def _padded(values: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.pad(values, [(0, to - size) for to, size in zip(shape, values.shape, strict=True)])


class BatchFeed:
    """The examples of several runs on one device: `size` steps per segment, followed by `more` steps of padding; `y` is
    padded to `outputs`. They stop at the step `stop`, if that is known."""

    def __init__(self, sources: Sequence[Source], size: int, more: int, outputs: int, stop: int | None = None):
        distinct = {id(source): source for source in sources}
        number = {which: i for i, which in enumerate(distinct)}
        self.place = arrived(np.array([number[id(source)] for source in sources], np.int32))
        self.size, self.more, self.outputs = size, more, outputs
        self.sources = [source.copy() for source in distinct.values()]
        pools = [source for source in self.sources if isinstance(source, PoolSource) and not source.is_mapped]
        tables = {id(table): table.size for source in pools for table in source.pool[:2]}
        small = sum(tables.values()) <= NUMBERS_ON_DEVICE
        self.pools = _Pools(pools, outputs, stop) if small and len(pools) == len(self.sources) else None
        self.batch: DealtBatch | None = None

    def take(self, start: int, count: int) -> Examples:
        length = self.size + self.more
        if self.pools is not None:
            return Examples(self.pools.x.array, *self.pools.take(start, count, length), self.place)
        x, y = self._taken(start, count)
        x = _stacked(x, (length, self.sources[0].stream.inputs))
        y = _stacked(y, (length, self.outputs))
        rows = np.arange(len(x) * length, dtype=np.int32).reshape(len(x), length)
        return Examples(x.reshape(-1, x.shape[-1]), arrived(rows), y, self.place)

    def _taken(self, start: int, count: int) -> tuple[Any, Any]:
        """`x` and `y` of every source."""
        counts = [_dealt(source.stream, start, self.size, count) for source in self.sources]
        dealt = [source for source in self.sources if isinstance(source, DealtSource) and source.traceable]
        if len({_Same(source.stream) for source in dealt}) == 1 and len(dealt) == len(self.sources):
            self.batch = self.batch or DealtBatch(dealt, start)
            return self.batch.take(start, counts[0])
        taken = [source.take(start, each) for source, each in zip(self.sources, counts, strict=True)]
        return [pair[0] for pair in taken], [pair[1] for pair in taken]


class _Pools:
    """The pools of several sources on the device. The host sends row numbers alone, once for all sources whose pools
    have the same index."""

    def __init__(self, sources: Sequence[PoolSource], outputs: int, stop: int | None):
        self.x, x_begins = _on_device([source.pool.x for source in sources])
        self.y, y_begins = _on_device([source.pool.y for source in sources], partial(_widened, outputs))
        begins = np.array([source.begins for source in sources]).T + np.array([x_begins, y_begins])
        which = [(id(source.stream), id(source.pool.index)) for source in sources]
        self.orders = dict(zip(which, sources, strict=True))
        number = {order: at for at, order in enumerate(self.orders)}
        order = np.array([number[order] for order in which])
        self.begins, self.order = arrived((begins.astype(np.int32), order.astype(np.int32)))
        self.rows, self.sent, self.stop = np.zeros((2, 0, 0), np.int32), range(0), stop

    def take(self, start: int, count: int, length: int) -> tuple[jax.Array, jax.Array]:
        """Rows of the table of x, `(sources, length)`, and targets, `(sources, length, outputs)`, which are padded."""
        at = start - self.sent.start
        if at < 0 or at + count > len(self.sent) or at + length > self.rows.shape[-1]:
            self._send(start, count, length)
            at = 0
        return _looked_up(self.y.array, self.rows, at, self.order, self.begins, count, length)

    def _send(self, start: int, count: int, length: int) -> None:
        """Sends the row numbers of several segments: a transfer waits for the programs that are under way."""
        segments = max(1, min(SEGMENTS_SENT, ROW_NUMBERS_SENT // (2 * len(self.orders) * length)))
        ahead = count if self.stop is None else max(count, min(segments * length, self.stop - start))
        rows = np.zeros((2, len(self.orders), segments * length), np.int32)
        for at, source in enumerate(self.orders.values()):
            rows[:, at, :ahead] = source.rows(start, ahead)
        self.rows, self.sent = arrived(rows), range(start, start + ahead)


def _on_device(
    tables: Sequence[Any], prepare: Callable[[Any], Any] = lambda table: table
) -> tuple[SentTable, list[int]]:
    """Tables as one on the device, and where each begins; those that are the same array are there once."""
    distinct = {id(table): table for table in tables}
    begins = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    prepared = [prepare(table) for table in distinct.values()]
    joined = jnp.concatenate if isinstance(prepared[0], jax.Array) else np.concatenate
    table = prepared[0] if len(prepared) == 1 else joined(prepared)
    return sent(table), [begins[id(table)] for table in tables]


def _widened(columns: int, table: Any) -> Any:
    pad = jnp.pad if isinstance(table, jax.Array) else np.pad
    return pad(table.astype(float_type()), ((0, 0), (0, columns - table.shape[1])))


@partial(program, static_argnames="length")
def _looked_up(
    y: jax.Array, rows: Any, at: Any, order: jax.Array, begins: jax.Array, count: Any, length: int
) -> tuple[jax.Array, jax.Array]:
    given = jnp.arange(length) < count
    x_rows, y_rows = lax.dynamic_slice_in_dim(rows, at, length, axis=2)[:, order] + begins[..., None]
    y_rows = jnp.where(given, y_rows, len(y))
    return jnp.where(given, x_rows, 0), jnp.take(y, y_rows, axis=0, mode="fill", fill_value=0)


def _stacked(values: Any, shape: tuple[int, int]) -> jax.Array:
    """Arrays of several sources as one, each padded to `shape`."""
    if isinstance(values, jax.Array):
        return _padded(values, (len(values), *shape))
    return jnp.stack([_padded(arrived(each), shape) for each in values])


@program
def expanded(examples: Examples) -> tuple[jax.Array, jax.Array]:
    """`x (runs, steps, inputs)` and `y (runs, steps, outputs)`."""
    rows, y = (each[examples.place] for each in (examples.rows, examples.y))
    return examples.pool[rows].astype(y.dtype), y
