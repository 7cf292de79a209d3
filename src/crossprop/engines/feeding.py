"""How runs get at their examples: all that several of them share is kept once, and a segment's are dealt from it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from crossprop.network import float_type
from crossprop.streams.base import Life


class Lives(NamedTuple):
    """What some runs live through, all that is shared once."""

    pool: np.ndarray
    """`(examples, inputs)`"""
    order: np.ndarray
    """`(lives, steps)`, rows of `pool`"""
    y: np.ndarray
    """`(lives, steps, outputs)`"""
    place: np.ndarray
    """Which life is each run's."""

    @classmethod
    def of(cls, of_runs: Sequence[Life]) -> "Lives":
        lives = {id(life): life for life in of_runs}
        pools = {id(life.pool): life.pool for life in lives.values()}
        begins = dict(zip(pools, np.cumsum([0, *map(len, pools.values())]).tolist(), strict=False))
        number = {which: i for i, which in enumerate(lives)}
        return cls(
            next(iter(pools.values())) if len(pools) == 1 else np.concatenate([*pools.values()]),
            np.stack([life.order + begins[id(life.pool)] for life in lives.values()], dtype=np.int32),
            np.stack([life.y for life in lives.values()], dtype=float_type()),
            np.array([number[id(life)] for life in of_runs], np.int32),
        )


def deal_here(lives: Sequence[Life], size: int, more: int) -> Callable[[int, int], tuple[Any, Any]]:
    """How to get at the examples of a segment of one run on the host: `size` rows of x and y, and some more."""
    life = lives[0]
    x = np.zeros((size + more, life.pool.shape[1]), float_type())
    y = np.zeros((size + more, life.y.shape[1]), float_type())

    def deal(start: int, count: int) -> tuple[Any, Any]:
        rows = life.order[start : start + count]
        if life.pool.dtype == x.dtype:
            np.take(life.pool, rows, axis=0, out=x[:count], mode="clip")  # with no copy between
        else:
            x[:count] = life.pool[rows]
        y[:count] = life.y[start : start + count]
        return x, y

    return deal


def deal_there(lives: Sequence[Life], size: int, more: int) -> Callable[[int, int], tuple[Any, Any]]:
    """The same of several runs on another device, which is given all of their lives at once."""
    pool, order, y, place = Lives.of(lives)
    beyond = (0, -order.shape[1] % size + more)
    there = jax.device_put((pool, np.pad(order, [(0, 0), beyond]), np.pad(y, [(0, 0), beyond, (0, 0)]), place))
    return lambda start, count: _dealt(*there, start, size + more)


@partial(jax.jit, static_argnames="size")
def _dealt(pool, order, y, place, start, size):
    order, y = (lax.dynamic_slice_in_dim(each, start, size, axis=1)[place] for each in (order, y))
    return pool[order].astype(y.dtype), y
