"""Feeds examples to runs, one segment at a time; data that several runs share are stored once.

A single run reads its source through a `RunFeed`; the runs of a batch on a device share a `TableFeed`, or else a
`StackedFeed`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop._support.programs import program
from crossprop._support.transfers import SentTable, sent, to_device
from crossprop.engines.sources import NUMBERS_ON_DEVICE, Source, Tables
from crossprop.network import float_type
from crossprop.streams.base import Stream

SEGMENTS_SENT = 16
"""Row numbers are sent for at most this many segments at a time;"""
ROW_NUMBERS_SENT = 2**22
"""for fewer segments if that would be more numbers than this, but for at least one."""


class Examples(NamedTuple):
    """Examples of a segment for several runs: what they share is there once."""

    pool: Any
    """`(examples, inputs)`"""
    rows: Any
    """`(sources, steps)`: rows of `pool`"""
    y: Any
    """`(sources, steps, outputs)`"""


class RunFeed:
    """The examples of one run, at the same place in memory in every segment: `size` rows, and `more` of padding."""

    def __init__(self, source: Source, size: int, more: int):
        self.source, self.size = source, size
        shapes = ((size + more, source.stream.inputs), (size + more, source.stream.outputs))
        self.buffers = tuple(np.zeros(shape, float_type()) for shape in shapes)

    def take(self, start: int, count: int) -> tuple[Any, Any]:
        x, y = self.buffers
        if isinstance(self.source, Tables):
            self.source.take_into(x, y, start, count)
            return x, y
        taken = self.source.take(start, _whole(self.source.stream, start, self.size, count))
        if isinstance(taken[0], jax.Array):
            return tuple(_only_padded(values, len(x)) for values in taken)  # pyright: ignore[reportReturnType]
        for buffer, values in zip((x, y), taken, strict=True):
            buffer[: values.shape[1]] = values[0]
        return x, y


def batch_feed(
    sources: Sequence[Source], size: int, more: int, outputs: int, stop: int | None
) -> "TableFeed | StackedFeed":
    """Feeds several runs on one device: `size` steps per segment, followed by `more` steps of padding; `y` is padded to
    `outputs`. They stop at the step `stop`, if that is known."""
    tables = [source for source in sources if isinstance(source, Tables) and not source.is_mapped]
    sizes = {id(table): table.size for source in tables for table in source.pool[:2]}
    if len(tables) == len(sources) and sum(sizes.values()) <= NUMBERS_ON_DEVICE:
        return TableFeed(tables, size + more, outputs, stop)
    return StackedFeed(sources, size, size + more, outputs)


class StackedFeed:
    """Examples of several sources, sent or dealt for every segment."""

    def __init__(self, sources: Sequence[Source], size: int, length: int, outputs: int):
        self.sources, self.size, self.length, self.outputs = sources, size, length, outputs

    def take(self, start: int, count: int) -> Examples:
        taken = [source.take(start, _whole(source.stream, start, self.size, count)) for source in self.sources]
        x = _joined([pair[0] for pair in taken], self.length, self.sources[0].stream.inputs)
        y = _joined([pair[1] for pair in taken], self.length, self.outputs)
        rows = np.arange(len(x) * self.length, dtype=np.int32).reshape(len(x), self.length)
        return Examples(x.reshape(-1, x.shape[-1]), to_device(rows), y)


class TableFeed:
    """Tables on the device. The host sends row numbers alone, once for all sources whose pools have the same index."""

    def __init__(self, sources: Sequence[Tables], length: int, outputs: int, stop: int | None):
        self.length, self.stop = length, stop
        self.x, x_begins = _on_device([source.pool.x for source in sources])
        self.y, y_begins = _on_device([source.pool.y for source in sources], partial(_widened, outputs))
        begins = np.array([source.begins for source in sources]).T + np.array([x_begins, y_begins])
        which = [(id(source.stream), id(source.pool.index)) for source in sources]
        self.orders = dict(zip(which, sources, strict=True))
        number = {order: at for at, order in enumerate(self.orders)}
        order = np.array([number[order] for order in which])
        self.begins, self.order = to_device((begins.astype(np.int32), order.astype(np.int32)))
        self.rows, self.sent = np.zeros((2, 0, 0), np.int32), range(0)

    def take(self, start: int, count: int) -> Examples:
        at = start - self.sent.start
        if at < 0 or at + count > len(self.sent) or at + self.length > self.rows.shape[-1]:
            self._send(start, count)
            at = 0
        found = _looked_up(self.y.array, self.rows, at, self.order, self.begins, count, self.length)
        return Examples(self.x.array, *found)

    def _send(self, start: int, count: int) -> None:
        """Sends the row numbers of several segments: a transfer waits for the programs that are under way."""
        segments = max(1, min(SEGMENTS_SENT, ROW_NUMBERS_SENT // (2 * len(self.orders) * self.length)))
        ahead = count if self.stop is None else max(count, min(segments * self.length, self.stop - start))
        rows = np.zeros((2, len(self.orders), segments * self.length), np.int32)
        for at, source in enumerate(self.orders.values()):
            rows[:, at, :ahead] = source.rows(start, ahead)
        self.rows, self.sent = to_device(rows), range(start, start + ahead)


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


def _whole(stream: Stream, start: int, size: int, count: int) -> int:
    """The examples to deal: a whole segment if it begins one and the stream has it, so that one program deals all."""
    whole = start % size == 0 and (stream.steps is None or start + size <= stream.steps)
    return size if whole else count


def _joined(values: Sequence[Any], length: int, size: int) -> jax.Array:
    """Arrays `(rows, steps, numbers)` of several sources as one, padded to `(rows, length, size)`."""
    padded = [_padded(each if isinstance(each, jax.Array) else to_device(each), length, size) for each in values]
    return padded[0] if len(padded) == 1 else jnp.concatenate(padded)


@partial(program, static_argnums=(1, 2))
def _padded(values: jax.Array, length: int, size: int) -> jax.Array:
    return jnp.pad(values, ((0, 0), (0, length - values.shape[1]), (0, size - values.shape[2])))


@partial(program, static_argnums=1)
def _only_padded(values: jax.Array, length: int) -> jax.Array:
    """The only row of `(1, steps, numbers)`, padded."""
    return jnp.pad(values[0], ((0, length - values.shape[1]), (0, 0)))


@program
def expanded(examples: Examples, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`x (runs, steps, inputs)` and `y (runs, steps, outputs)` of runs at these places."""
    rows, y = examples.rows[place], examples.y[place]
    return examples.pool[rows].astype(y.dtype), y
