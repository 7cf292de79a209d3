"""Examples that are rows of tables."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support.files import release_pages
from crossprop.network import float_type
from crossprop.seeds import keys, keys_of
from crossprop.streams.base import Pool, PoolStream

NUMBERS_ON_DEVICE = 2**30
"""Tables with more numbers than this stay on the host, and a segment's examples are sent."""


class Tables:
    """Examples that are rows of tables, in any order. A table on the device may concatenate those of `of` seeds, of
    which this is number `number`."""

    seeds = 1

    def __init__(self, stream: PoolStream, pool: Pool, number: int = 0, of: int = 1):
        self.stream, self.pool = stream, pool
        self.counts = tuple(len(table) // of for table in pool[:2])
        self.begins = tuple(number * count for count in self.counts)

    def rows(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of x and y of a segment."""
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

    def take(self, start: int, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = (np.zeros((1, length, table.shape[1]), float_type()) for table in self._on_host)
        for out, table, rows in zip((x[0], y[0]), self._on_host, self.rows(start, count), strict=True):
            if table.dtype == out.dtype and table.flags.c_contiguous:  # otherwise `take` copies the whole table
                np.take(table, rows, axis=0, out=out[:count], mode="clip")  # "clip" writes without a buffer
            else:
                out[:count] = table[rows]
            release_pages(table)
        return x, y


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
