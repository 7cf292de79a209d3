"""Matrix products with the examples of a block, as GPU programs that skip runs without examples.

A library's product takes as long for a batch that is mostly padding as for a full one, and its rounding may depend on
the batch. Here each run has its own programs, which return at once if the run is padding.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.gpu.layout import power
from crossprop.engines.gpu.support import pl, triton


class Tile(NamedTuple):
    """What a program computes at a time: units and inputs; its warps, and how many tiles of inputs are prefetched."""

    units: int
    inputs: int
    warps: int
    stages: int


ROWS = Tile(64, 32, 4, 3)
CHANGES = Tile(64, 32, 4, 1)
TILES_OF_CHANGES = 8
"""Tiles per program. With one each, padding runs would launch many programs that do nothing."""
DISTANCES = Tile(8, 128, 4, 1)
FEWEST_EXAMPLES = 16
"""The least size of a product."""
PRECISION = lax.DotAlgorithmPreset.TF32_TF32_F32_X3
"""On tensor cores, each number as two of 10 bits: as precise as float32 products."""


def rows_of(inputs: jax.Array, matrices: list[jax.Array], count: Any, interpret: bool) -> list[jax.Array]:
    """`inputs (examples, inputs)` times each matrix `(units, inputs)` transposed; undefined if `count` is 0."""
    examples, width = inputs.shape
    tile = ROWS._replace(units=min(ROWS.units, max(power(max(map(len, matrices))), FEWEST_EXAMPLES)))
    ends = np.cumsum([-(-len(matrix) // tile.units) for matrix in matrices]).tolist()

    def program(count_ref: Any, x_ref: Any, *refs: Any) -> None:
        for matrix_ref, out_ref, begin, end in zip(
            refs[: len(matrices)], refs[len(matrices) :], [0, *ends[:-1]], ends, strict=True
        ):
            number = pl.program_id(0) - begin
            is_own = (number >= 0) & (number < end - begin) & (count_ref[...] > 0)
            pl.when(is_own)(partial(multiply, x_ref, matrix_ref, out_ref, number))

    def multiply(x_ref: Any, matrix_ref: Any, out_ref: Any, number: Any) -> None:
        at = pl.ds(number * tile.units, tile.units)
        is_unit = _within(at, matrix_ref.shape[0])

        def add(number: Any, total: jax.Array) -> jax.Array:
            span = pl.ds(number * tile.inputs, tile.inputs)
            is_input = _within(span, width)[None, :]
            x = _load(x_ref.at[:, span], jnp.broadcast_to(is_input, (examples, tile.inputs)))
            matrix = _load(matrix_ref.at[at, span], is_unit[:, None] & is_input)
            return total + _dot(x, matrix, ((1,), (1,)), interpret)

        nothing = jnp.zeros((examples, tile.units), inputs.dtype)
        total = lax.fori_loop(0, -(-width // tile.inputs), add, nothing)
        triton.store(out_ref.at[:, at], total, mask=jnp.broadcast_to(is_unit[None, :], total.shape))

    made = pl.pallas_call(
        program,
        out_shape=[jax.ShapeDtypeStruct((examples, len(matrix)), inputs.dtype) for matrix in matrices],
        grid=(ends[-1],),
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="rows",
    )(jnp.asarray(count, jnp.int32), inputs, *matrices)
    return [*made]


class Change(NamedTuple):
    """A sum of matrices `(units, inputs)`, each with its scale `(units,)`, to which the outer products of the inputs of
    some examples and of `given (examples, units)` are added, each with its weight. A matrix may be a stack of them,
    with a stack of scales."""

    matrices: list[jax.Array]
    scales: list[jax.Array]
    given: jax.Array
    weights: jax.Array


def changed(change: Change, inputs: jax.Array, count: Any, interpret: bool) -> jax.Array:
    """The sum; the first matrix, as it was, if `count` is 0."""
    examples, width = inputs.shape
    units = len(change.scales[0])
    tile = CHANGES._replace(units=min(CHANGES.units, max(power(units), FEWEST_EXAMPLES)))
    across = -(-width // tile.inputs)
    programs = -(-across // TILES_OF_CHANGES)
    leaves, structure = jax.tree.flatten(change)

    def program(count_ref: Any, x_ref: Any, *refs: Any) -> None:
        own, out_ref = jax.tree.unflatten(structure, refs[:-1]), refs[-1]
        at = pl.ds(pl.program_id(0) // programs * tile.units, tile.units)
        begin = pl.program_id(0) % programs * TILES_OF_CHANGES
        is_unit = _within(at, units)

        @pl.when(count_ref[...] > 0)
        def _() -> None:
            given = _load(own.given.at[:, at], jnp.broadcast_to(is_unit[None, :], (examples, tile.units)))
            weighed = given * own.weights[...][:, None]

            def change_tile(number: Any, carry: Any) -> Any:
                span = pl.ds(number * tile.inputs, tile.inputs)
                is_input = _within(span, width)
                mask = is_unit[:, None] & is_input[None, :]
                x = _load(x_ref.at[:, span], jnp.broadcast_to(is_input[None, :], (examples, tile.inputs)))
                total = _dot(weighed, x, ((0,), (0,)), interpret)
                for matrix, scale in zip(own.matrices, own.scales, strict=True):
                    total = total + _scaled(matrix, scale, at, span, mask)
                triton.store(out_ref.at[at, span], total, mask=mask)
                return carry

            lax.fori_loop(begin, jnp.minimum(begin + TILES_OF_CHANGES, across), change_tile, 0)

    def _scaled(matrix: Any, scale: Any, at: Any, span: Any, mask: jax.Array) -> jax.Array:
        one = lambda *which: (
            _load(matrix.at[*which, at, span], mask) * _load(scale.at[*which, at], _within(at, units))[:, None]
        )
        if matrix.ndim == 2:
            return one()
        nothing = jnp.zeros((tile.units, tile.inputs), inputs.dtype)
        return lax.fori_loop(0, matrix.shape[0], lambda k, total: total + one(k), nothing)

    return pl.pallas_call(
        program,
        out_shape=jax.ShapeDtypeStruct(change.matrices[0].shape, inputs.dtype),
        grid=(-(-units // tile.units) * programs,),
        input_output_aliases={2: 0},
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="changes",
    )(jnp.asarray(count, jnp.int32), inputs, *leaves)


def distances(now: jax.Array, before: jax.Array, width: int, alive: Any, interpret: bool) -> jax.Array:
    """The distances of some tiles of the first `width` columns of two matrices `(units, inputs)`."""
    units, tile = len(now), DISTANCES

    def program(alive_ref: Any, now_ref: Any, before_ref: Any, out_ref: Any) -> None:
        at = pl.ds(pl.program_id(0) * tile.units, tile.units)
        is_unit = _within(at, units)[:, None]

        def add(number: Any, total: jax.Array) -> jax.Array:
            span = pl.ds(number * tile.inputs, tile.inputs)
            mask = is_unit & _within(span, width)[None, :]
            return total + (_load(now_ref.at[at, span], mask) - _load(before_ref.at[at, span], mask)) ** 2

        turns = alive_ref[...].astype(jnp.int32) * -(-width // tile.inputs)
        total = lax.fori_loop(0, turns, add, jnp.zeros((tile.units, tile.inputs), now.dtype))
        out_ref[pl.program_id(0)] = jnp.sqrt(jnp.sum(total))

    tiles = -(-units // tile.units)
    return pl.pallas_call(
        program,
        out_shape=jax.ShapeDtypeStruct((tiles,), now.dtype),
        grid=(tiles,),
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="distances",
    )(jnp.asarray(alive, jnp.int32), now, before)


def _within(span: Any, size: int) -> jax.Array:
    return span.start + lax.iota(jnp.int32, span.size) < size


def _load(ref: Any, mask: jax.Array) -> jax.Array:
    return triton.load(ref, mask=mask, other=0)


def _dot(left: jax.Array, right: jax.Array, contracted: tuple[tuple[int], tuple[int]], interpret: bool) -> jax.Array:
    precision = lax.Precision.HIGHEST if interpret else PRECISION
    return lax.dot_general(left, right, (contracted, ((), ())), precision=precision)
