"""Networks of linear threshold units on bits, by counting bits in words. The numbers are whole: the same everywhere."""

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from crossprop.network import float_type
from crossprop.streams.drawing import WORD

WRITTEN_OUT = 8
"""Features that a pass over the examples counts, which then stay in a core's registers."""


def threshold_outputs(x: Any, incoming: Any, matches: Any, outgoing: Any) -> Float[Array, "steps 1"]:
    """The sum of the outgoing weights of the features that fire, for each row of `x`.

    Inputs are 0 or 1, incoming weights -1 or +1, outgoing ones whole. A feature fires where more inputs than its
    `matches` are 1 with a weight of +1, or 0 with a weight of -1."""
    rows, columns, weights = _words(x > 0), _words(incoming.T > 0), outgoing.astype(jnp.int32)
    most = len(incoming) - matches.astype(jnp.int32)

    def add(feature: Any, total: Array) -> Array:
        differ = sum(lax.population_count(row ^ column[feature]) for row, column in zip(rows, columns, strict=True))
        return total + jnp.where(jnp.int32(differ) < most[feature], weights[feature], 0)

    total = lax.fori_loop(0, len(most), add, jnp.zeros(len(x), jnp.int32), unroll=WRITTEN_OUT)
    return total.astype(float_type())[:, None]


def _words(bits: Array) -> list[Array]:
    """The bits of each row in words, the first places of all rows in the first array."""
    places = [bits[:, at : at + WORD].astype(jnp.uint32) for at in range(0, bits.shape[1], WORD)]
    shifted = [own << jnp.arange(own.shape[1], dtype=jnp.uint32)[None] for own in places]
    return [jnp.sum(own, axis=1, dtype=jnp.uint32) for own in shifted]
