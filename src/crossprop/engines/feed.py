"""Feeds examples to runs, one segment at a time: rows of tables, or examples that a stream deals in order.

The parts of a feed are `Tables`, `Dealt` and `Loaded`: `take(start, count, length)` gives `count` examples and padding,
`(seeds, length, ...)`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support.programs import program
from crossprop._support.transfers import SentTable, sent, to_device
from crossprop.engines.dealing import Dealt, StreamKey
from crossprop.engines.protocol import Run
from crossprop.engines.tables import NUMBERS_ON_DEVICE, Tables, tables_at_once, tables_of
from crossprop.network import float_type
from crossprop.streams.base import PoolStream, Stream

SEGMENTS_SENT = 16
"""The most segments whose row numbers are sent at a time."""
ROW_NUMBERS_SENT = 2**22
"""The most row numbers that are sent at a time, unless one segment has more."""


class Examples(NamedTuple):
    """Examples of a segment for several runs, with shared data stored once."""

    pool: Any
    """`(examples, inputs)`"""
    rows: Any
    """`(seeds, steps)`: rows of `pool`"""
    y: Any
    """`(seeds, steps, outputs)`"""


class Feed:
    """The examples of some runs: one row of `x` and `y` per stream and seed. `place` is the row of each run."""

    def __init__(self, parts: Sequence[Any], place: np.ndarray):
        self.parts, self.place = parts, place

    @classmethod
    def of(cls, runs: Sequence[Run], tables: "Callable[[Run], Tables] | None" = None) -> "Feed":
        """The examples of some runs, from the first one on. `tables` makes those of a run on a `PoolStream`."""
        seeds: dict[Any, dict[int, int]] = {}
        found: dict[Any, Any] = {}
        places: list[tuple[Any, int]] = []
        for run in runs:
            if isinstance(run.stream, PoolStream):
                part = tables(run) if tables is not None else tables_of(run.stream, run.seed)
                found[id(part)] = part
                places.append((id(part), 0))
            else:
                which = StreamKey(run.stream)
                known = seeds.setdefault(which, {})
                places.append((which, known.setdefault(run.seed, len(known))))
        parts = found | {which: Dealt(which, [*known]) for which, known in seeds.items()}
        begins = dict(zip(parts, np.cumsum([0, *(part.seeds for part in parts.values())]), strict=False))
        return cls([*parts.values()], np.array([begins[which] + row for which, row in places], np.int32))

    def take(self, start: int, count: int, segment: int = 0, length: int = 0) -> tuple[Any, Any]:
        """`count` examples from number `start` on, padded to `length`: `x` and `y`, `(seeds, length, ...)`.

        Where a `segment` begins, all of it is dealt if the stream has it, so that one program deals all segments.
        """
        steps = self.parts[0].stream.steps
        if segment and start % segment == 0 and (steps is None or start + segment <= steps):
            count = segment
        taken = [part.take(start, count, max(length, count)) for part in self.parts]
        if len(taken) == 1:
            return taken[0]
        joined = jnp.concatenate if isinstance(taken[0][0], jax.Array) else np.concatenate
        x, y = (joined(values) for values in zip(*taken, strict=True))
        return x, y


class SharedFeed:
    """The examples of runs side by side on one device: `segment` steps at a time, padded to `length`; `y` is padded to
    `outputs`. They stop at the step `stop`, if that is known.

    Tables are kept on the device, if they fit. The host then sends row numbers alone, once for all pools with the same
    index. Otherwise examples are sent or dealt for every segment.
    """

    def __init__(self, feed: Feed, segment: int, length: int, outputs: int, stop: int | None):
        self.feed, self.segment, self.length, self.outputs, self.stop = feed, segment, length, outputs, stop
        is_table = lambda part: isinstance(part, Tables) and not isinstance(part.pool.x, np.memmap)
        tables = [part for part in feed.parts if is_table(part)]
        sizes = {id(table): table.size for part in tables for table in part.pool[:2]}
        self.on_device = len(tables) == len(feed.parts) and sum(sizes.values()) <= NUMBERS_ON_DEVICE
        if not self.on_device:
            return
        self.x, x_begins = _on_device([part.pool.x for part in tables])
        self.y, y_begins = _on_device([part.pool.y for part in tables], partial(_widened, outputs))
        begins = np.array([part.begins for part in tables]).T + np.array([x_begins, y_begins])
        which = [(id(part.stream), id(part.pool.index)) for part in tables]
        self.orders = dict(zip(which, tables, strict=True))
        number = {order: at for at, order in enumerate(self.orders)}
        order = np.array([number[order] for order in which])
        self.begins, self.order = to_device((begins.astype(np.int32), order.astype(np.int32)))
        self.rows, self.sent = np.zeros((2, 0, 0), np.int32), range(0)

    def take(self, start: int, count: int) -> Examples:
        if not self.on_device:
            taken = self.feed.take(start, count, self.segment, self.length)
            x, y = (each if isinstance(each, jax.Array) else to_device(each) for each in taken)
            rows = np.arange(len(x) * self.length, dtype=np.int32).reshape(len(x), self.length)
            return Examples(x.reshape(-1, x.shape[-1]), to_device(rows), _widened(self.outputs, y))
        at = start - self.sent.start
        if at < 0 or at + count > len(self.sent) or at + self.length > self.rows.shape[-1]:
            self._send(start, count)
            at = 0
        found = _looked_up(self.y.array, self.rows, at, self.order, self.begins, count, self.length)
        return Examples(self.x.array, *found)

    def _send(self, start: int, count: int) -> None:
        """Sends the row numbers of several segments at once, since a transfer waits for running programs."""
        segments = max(1, min(SEGMENTS_SENT, ROW_NUMBERS_SENT // (2 * len(self.orders) * self.length)))
        ahead = count if self.stop is None else max(count, min(segments * self.length, self.stop - start))
        rows = np.zeros((2, len(self.orders), segments * self.length), np.int32)
        for at, part in enumerate(self.orders.values()):
            rows[:, at, :ahead] = part.rows(start, ahead)
        self.rows, self.sent = to_device(rows), range(start, start + ahead)


def _on_device(
    tables: Sequence[Any], prepare: Callable[[Any], Any] = lambda table: table
) -> tuple[SentTable, list[int]]:
    """Tables joined into one on the device, and where each begins; an array that is given twice is there once."""
    distinct = {id(table): table for table in tables}
    begins = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    prepared = [prepare(table) for table in distinct.values()]
    joined = jnp.concatenate if isinstance(prepared[0], jax.Array) else np.concatenate
    table = prepared[0] if len(prepared) == 1 else joined(prepared)
    return sent(table), [begins[id(table)] for table in tables]


def _widened(columns: int, table: Any) -> Any:
    if table.shape[-1] == columns and table.dtype == float_type():
        return table
    pad = jnp.pad if isinstance(table, jax.Array) else np.pad
    return pad(table.astype(float_type()), [(0, 0)] * (table.ndim - 1) + [(0, columns - table.shape[-1])])


@partial(program, static_argnames="length")
def _looked_up(
    y: jax.Array, rows: Any, at: Any, order: jax.Array, begins: jax.Array, count: Any, length: int
) -> tuple[jax.Array, jax.Array]:
    given = jnp.arange(length) < count
    x_rows, y_rows = lax.dynamic_slice_in_dim(rows, at, length, axis=2)[:, order] + begins[..., None]
    y_rows = jnp.where(given, y_rows, len(y))
    return jnp.where(given, x_rows, 0), jnp.take(y, y_rows, axis=0, mode="fill", fill_value=0)


@program
def expanded(examples: Examples, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`x (runs, steps, inputs)` and `y (runs, steps, outputs)` of runs at these places."""
    rows, y = examples.rows[place], examples.y[place]
    return examples.pool[rows].astype(y.dtype), y


class SharedTables:
    """The tables of the streams and seeds of some runs: made once, dropped when the last run has taken them. If
    `at_once`, those of a batch are made together on the device."""

    def __init__(self, runs: Sequence[Run], at_once: bool):
        self.at_once, self.lock = at_once, threading.Lock()
        self.left = Counter((id(run.stream), run.seed) for run in runs)
        self.locks = {which: threading.Lock() for which in self.left}
        self.tables: dict[tuple[int, int], Tables] = {}

    def feed(self, runs: Sequence[Run]) -> Feed:
        """The examples of a batch."""
        if self.at_once and isinstance(stream := runs[0].stream, PoolStream):
            with self.lock:
                missing = {run.seed: None for run in runs if (id(stream), run.seed) not in self.tables}
                made = tables_at_once(stream, [*missing]) if missing else []
                self.tables |= {(id(stream), seed): tables for seed, tables in zip(missing, made, strict=True)}
        return Feed.of(runs, self._take)

    def _take(self, run: Run) -> Tables:
        which = id(run.stream), run.seed
        with self.locks[which]:
            if which not in self.tables:
                self.tables[which] = tables_of(run.stream, run.seed)
            self.left[which] -= 1
            return self.tables[which] if self.left[which] else self.tables.pop(which)


class Loaded:
    """The examples of a `crossprop.Iterator`, which all runs get at the same time."""

    seeds = 1

    def __init__(self, stream: Stream):
        self.stream, self.x, self.y = stream, np.zeros((0, 0)), np.zeros((0, 0))

    def take(self, start: int, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        more = ((0, max(length - len(self.x), 0)), (0, 0))
        return np.pad(self.x, more)[None], np.pad(self.y, more)[None]
