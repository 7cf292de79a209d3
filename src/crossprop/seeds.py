"""The keys of a seed: one for the stream, one for the initial weights."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support import xla


def keys(seed: int) -> tuple[jax.Array, jax.Array]:
    """The two keys of a seed: `(stream_key, initial_key)`, for `stream.begin` and for `learner.init`."""
    check.integer("seed", seed, low=0, high=2**32 - 1)
    with xla.partitionable_keys():
        return _split(np.uint32(seed))


def keys_of(seeds: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """The keys of several seeds, as two arrays of keys."""
    with xla.partitionable_keys():
        return _split_all(np.array(seeds, np.uint32))


def _keys(seed: Any) -> tuple[jax.Array, jax.Array]:
    data = jnp.stack([jnp.zeros((), jnp.uint32), seed])  # `jax.random.key` would add the user's offset of seeds
    both = jax.random.split(jax.random.wrap_key_data(data, impl="threefry2x32"))
    return both[0], both[1]


_split, _split_all = jax.jit(_keys), jax.jit(jax.vmap(_keys))
