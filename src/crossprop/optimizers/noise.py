"""Random numbers as those of JAX, drawn quickly on a CPU: Threefry written out.

For a CPU JAX compiles its generator, Threefry, into a loop that goes through memory at each of five turns. Written out,
it is computed in registers, in a quarter of the time."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from crossprop._support import xla

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS_OF_FOUR = 5


def normal_like(key: Any, tree: Any) -> Any:
    """Standard normal numbers shaped like a tree, with another key for every leaf."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    drawn = [normal(leaf_key, leaf.shape, leaf.dtype) for leaf_key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """`jax.random.normal(key, shape, dtype)`, the same numbers."""
    if not _is_by_threefry(key, shape, dtype):
        return jax.random.normal(key, shape, dtype)
    least = np.nextafter(np.float32(-1), np.float32(0))
    return np.float32(math.sqrt(2)) * lax.erf_inv(jnp.maximum(least, uniform(key, shape, dtype) * (1 - least) + least))


def uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """`jax.random.uniform(key, shape, dtype)`, the same numbers."""
    if not _is_by_threefry(key, shape, dtype):
        return jax.random.uniform(key, shape, dtype)
    bits = _threefry_bits(jax.random.key_data(key), shape)
    return lax.bitcast_convert_type(bits >> 9 | jnp.uint32(0x3F800000), jnp.float32) - 1


def _is_by_threefry(key: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    is_key, partitionable = jnp.issubdtype(key.dtype, jax.dtypes.prng_key), xla.setting("jax_threefry_partitionable")
    by_threefry = is_key and str(jax.random.key_impl(key)) == "threefry2x32"
    return bool(partitionable) and by_threefry and dtype == jnp.float32 and math.prod(shape) < 2**32


def _threefry_bits(key: Array, shape: tuple[int, ...]) -> Array:
    """`jax.random.bits`: Threefry-2x32 of 20 rounds, whose counters are the places of the numbers in their array.

    Salmon, Moraes, Dror and Shaw (2011), "Parallel Random Numbers: As Easy as 1, 2, 3"."""
    keys = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY)
    places = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    left, right = jnp.full(shape, keys[0]), places + keys[1]
    for turn in range(ROUNDS_OF_FOUR):
        for by in ROTATIONS[turn % 2]:
            left = left + right
            right = left ^ (right << by | right >> (32 - by))
        left, right = left + keys[(turn + 1) % 3], right + keys[(turn + 2) % 3] + jnp.uint32(turn + 1)
    return left ^ right
