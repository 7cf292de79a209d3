"""Random draws that depend on the number of a step or period only, so that examples can be dealt in any parts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

WORD = 32


def by_number(key: Key[Array, ""], numbers: Int[Array, " count"], draw: Callable[[Any], Any]) -> Any:
    """`draw(key)` for each number, with the key folded with it: arrays `(count, ...)`."""
    return jax.vmap(lambda number: draw(jax.random.fold_in(key, number)))(numbers)


def coins(key: Key[Array, ""], size: int) -> Int[Array, " {size}"]:
    """Fair coins, 0 or 1, thirty-two from each word of random bits."""
    words = jax.random.bits(key, (-(-size // WORD),), jnp.uint32)
    places = jnp.arange(size)
    return ((words[places // WORD] >> (places % WORD).astype(jnp.uint32)) & 1).astype(int)


def rows_of_periods(period: int, count: int) -> int:
    """How many periods `count + 1` steps can touch at most."""
    return -(-count // period) + 1


def flipped(
    key: Key[Array, ""], bits: Int[Array, " size"], first: Int[Array, ""], rows: int
) -> Int[Array, "{rows} size"]:
    """The bits of `rows` periods. Period `first` has these bits; in each later one a bit, drawn uniformly, flips."""
    draw = partial(jax.random.randint, shape=(), minval=0, maxval=len(bits))
    which = by_number(key, first + jnp.arange(1, rows), draw)
    flips = jnp.concatenate([bits[None], (which[:, None] == jnp.arange(len(bits))[None]).astype(int)])
    return jnp.cumsum(flips, axis=0) % 2
