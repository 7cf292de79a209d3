r"""Foresight for JAX networks of your own, in equinox, flax or plain functions, with any optax optimizer.

`foresight_dense` and `foresight_conv` are a layer's product with its weights; in the backward pass the error goes down
through $W + a v$ instead of $W$, and the gradient of $W$ is unchanged. `keep_moves` is an optimizer that also keeps
$v$, a fading sum of the steps that it took. See `crossprop.Foresight` for the rule.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from crossprop._support import checks as check


def foresight_dense(x: Any, weights: Any, moves: Any, ahead: float | Array = 1.0) -> Array:
    """`x @ weights`, whose error goes down to `x` through `weights + ahead * moves`.

    **Arguments:**

    - `x`: `(..., inputs)`. `weights`: `(inputs, outputs)`, as flax has them; those of an equinox layer are transposed.
    - `moves`: shaped like `weights`, from the state of `keep_moves`. Nothing is differentiated by it.
    - `ahead`: how far to look ahead, in sums of past steps; 0 is backprop.

    ```python
    hidden = jnp.tanh(foresight_dense(x, weights, moves) + bias)
    ```
    """
    if jnp.ndim(weights) != 2 or jnp.shape(x)[-1:] != jnp.shape(weights)[:1]:
        raise ValueError(
            "foresight_dense: x must have shape (..., inputs) and weights (inputs, outputs), got "
            f"{jnp.shape(x)} and {jnp.shape(weights)}"
        )
    return _through("foresight_dense", jnp.matmul, x, weights, moves, ahead)


def foresight_conv(
    x: Any,
    weights: Any,
    moves: Any,
    ahead: float | Array = 1.0,
    *,
    window_strides: Sequence[int] = (1, 1),
    padding: str | Sequence[tuple[int, int]] = "SAME",
    **options: Any,
) -> Array:
    """A convolution whose error goes down to `x` through `weights + ahead * moves`.

    **Arguments:** `x`, `weights`, `window_strides`, `padding` and the other options (`dimension_numbers`,
    `feature_group_count`, `lhs_dilation` for transposed ones, ...) as in `jax.lax.conv_general_dilated`; `moves` and
    `ahead` as in `foresight_dense`.

    ```python
    hidden = jax.nn.relu(foresight_conv(images, kernel, moves, dimension_numbers=("NHWC", "HWIO", "NHWC")))
    ```
    """
    convolve = partial(jax.lax.conv_general_dilated, window_strides=tuple(window_strides), padding=padding, **options)
    return _through("foresight_conv", convolve, x, weights, moves, ahead)


class MovesState(NamedTuple):
    """The state of `keep_moves`."""

    moves: Any
    """Fading sums of steps, shaped like the parameters."""
    inner: optax.OptState


def keep_moves(
    optimizer: optax.GradientTransformation, horizon: float | Array = 1000.0
) -> optax.GradientTransformationExtraArgs:
    """An optimizer that takes the steps of another one and keeps their fading sum, in `state.moves`.

    **Arguments:**

    - `optimizer`: any of optax. Put this around everything that changes a step, and inside `optax.MultiSteps`.
    - `horizon`: over how many steps past ones fade, at least 1.

    ```python
    optimizer = keep_moves(optax.adam(1e-3), horizon=1000)
    state = optimizer.init(parameters)
    ```
    """
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(f"optimizer must be an optax transformation, got {check.shown(optimizer)}")
    check.number("horizon", horizon, low=1)
    inner = optax.with_extra_args_support(optimizer)

    def init(params: Any) -> MovesState:
        return MovesState(jax.tree.map(jnp.zeros_like, params), inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, MovesState]:
        updates, kept = inner.update(updates, state.inner, params, **extra)
        fade = lambda moves, step: (1 - 1 / horizon) * moves + jnp.asarray(step)
        return updates, MovesState(jax.tree.map(fade, state.moves, updates), kept)

    return optax.GradientTransformationExtraArgs(init, update)


def _through(name: str, product: Callable[..., Array], x: Any, weights: Any, moves: Any, ahead: Any) -> Array:
    x, weights, moves = jnp.asarray(x), jnp.asarray(weights), jnp.asarray(moves)
    check.number("ahead", ahead)
    if moves.shape != weights.shape:
        raise ValueError(f"{name}: moves must have the shape of weights, {weights.shape}, got {moves.shape}")
    if jnp.ndim(ahead):
        raise ValueError(f"{name}: ahead must be one number, got an array of shape {jnp.shape(ahead)}")
    return _passed(product, x, weights, moves, jnp.asarray(ahead, weights.dtype))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _passed(product: Callable[..., Array], x: Array, weights: Array, moves: Array, ahead: Array) -> Array:
    return product(x, weights)


def _forward(product: Callable[..., Array], x: Array, weights: Array, moves: Array, ahead: Array) -> Any:
    return product(x, weights), (x, weights, moves, ahead)


def _backward(product: Callable[..., Array], kept: Any, error: Array) -> tuple[Array, ...]:
    x, weights, moves, ahead = kept
    (to_weights,) = jax.linear_transpose(lambda weights: product(x, weights), weights)(error)
    (to_x,) = jax.linear_transpose(lambda x: product(x, weights + ahead * moves), x)(error)
    return to_x, to_weights, jnp.zeros_like(moves), jnp.zeros_like(ahead)


_passed.defvjp(_forward, _backward)
