"""Foresight as functions for JAX networks of others: by hand, the same runs as our own learner, and in equinox."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop.jax import foresight_conv, foresight_dense, keep_moves

pytestmark = pytest.mark.usefixtures("quick_compilation")
RANDOM = np.random.default_rng(0)
CONVOLUTIONS = {
    "plain": ((2, 4, 7, 8), (6, 4, 3, 3), {}),
    "strided": ((2, 4, 7, 8), (6, 4, 3, 3), {"window_strides": (2, 2), "padding": "VALID"}),
    "grouped": ((2, 4, 7, 8), (6, 2, 3, 2), {"feature_group_count": 2, "rhs_dilation": (1, 2)}),
    "transposed": ((2, 4, 5, 5), (6, 4, 3, 3), {"lhs_dilation": (2, 2), "padding": ((2, 2), (2, 2))}),
    "one dimension": ((2, 4, 9), (6, 4, 3), {"window_strides": (1,), "dimension_numbers": ("NCW", "OIW", "NCW")}),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", [*CONVOLUTIONS, "dense"])
def test_the_error_goes_down_through_the_weights_to_come(kind):
    """To `x` as through other weights, to the weights as without foresight, and to nothing else."""
    if kind == "dense":
        shapes, plain, ahead_of = ((3, 2, 5), (5, 4)), jnp.matmul, foresight_dense
    else:
        *shapes, options = CONVOLUTIONS[kind]
        options = {"window_strides": (1, 1), "padding": "SAME"} | options
        plain, ahead_of = partial(jax.lax.conv_general_dilated, **options), partial(foresight_conv, **options)
    x, weights, moves = (RANDOM.normal(size=shape) for shape in (*shapes, shapes[1]))
    outputs, back = jax.vjp(ahead_of, x, weights, moves, 1.5)
    error = RANDOM.normal(size=outputs.shape)
    expected, plain_back = jax.vjp(plain, x, weights)
    np.testing.assert_array_equal(outputs, expected)
    to_x, to_weights, to_moves, to_ahead = back(error)
    np.testing.assert_allclose(to_weights, plain_back(error)[1], rtol=1e-10)
    np.testing.assert_allclose(to_x, jax.vjp(plain, x, weights + 1.5 * moves)[1](error)[0], rtol=1e-10)
    assert not to_moves.any() and not to_ahead.any() and not np.allclose(to_x, plain_back(error)[0])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_run_is_that_of_our_own_deep_learner(optimizer):
    network = cp.Network(5, (7, 6), 3, loss="softmax", bias=True)
    learner = cp.Foresight(network, 0.05, ahead=2.0, horizon=20.0, optimizer=optimizer)
    state = learner.init(jax.random.key(0))
    x, y = RANDOM.normal(size=(100, 5)), np.eye(3)[RANDOM.integers(3, size=100)]
    theirs = keep_moves({"sgd": optax.sgd, "adam": optax.adam}[optimizer](0.05), horizon=20)
    weights = [*state.incoming, state.outgoing.T]

    def loss_of(weights, moves, x, y):
        for layer, (own, move) in enumerate(zip(weights, moves, strict=True)):
            x = foresight_dense(jnp.append(x if layer == 0 else jnp.tanh(x), 1.0), own, move, 2.0)
        return -jnp.sum(y * jax.nn.log_softmax(x))

    def step(carry, example):
        weights, kept = carry
        loss, gradients = jax.value_and_grad(loss_of)(weights, kept.moves, *example)
        updates, kept = theirs.update(gradients, kept, weights)
        return (optax.apply_updates(weights, updates), kept), loss

    (weights, _), losses = jax.jit(partial(jax.lax.scan, step))((weights, theirs.init(weights)), (x, y))
    state, outcomes = cp.live(learner, state, x, y)
    np.testing.assert_allclose(losses, outcomes.loss, rtol=1e-9)
    for own, expected in zip(weights, [*state.incoming, state.outgoing.T], strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)


def test_an_equinox_network_learns_with_it_and_without_it_as_backprop():
    class Net(eqx.Module):
        layers: list

        def __call__(self, x, moves, ahead):
            for own, moved in zip(self.layers, moves.layers, strict=True):
                x = foresight_dense(jnp.tanh(x), own.weight.T, moved.weight.T, ahead) + own.bias
            return x

    keys = jax.random.split(jax.random.key(0))
    model = Net([eqx.nn.Linear(4, 6, key=keys[0]), eqx.nn.Linear(6, 2, key=keys[1])])
    optimizer = keep_moves(optax.sgd(0.3), horizon=10)
    x, y = jnp.asarray(RANDOM.normal(size=(4,))), jnp.ones(2)

    @eqx.filter_jit
    def trained(model, ahead):
        kept = optimizer.init(eqx.filter(model, eqx.is_array))
        for _ in range(3):
            gradients = jax.grad(lambda model, moves: jnp.sum((model(x, moves, ahead) - y) ** 2))(model, kept.moves)
            updates, kept = optimizer.update(gradients, kept, model)
            model = eqx.apply_updates(model, updates)
        return model

    def plain(model):
        for _ in range(3):
            loss = lambda model: jnp.sum((model.layers[1](jnp.tanh(model.layers[0](jnp.tanh(x)))) - y) ** 2)
            model = jax.tree.map(lambda weight, gradient: weight - 0.3 * gradient, model, jax.grad(loss)(model))
        return model.layers[0].weight

    np.testing.assert_allclose(trained(model, 0.0).layers[0].weight, plain(model), rtol=1e-5, atol=1e-6)
    assert not np.allclose(trained(model, 2.0).layers[0].weight, plain(model), atol=1e-3)


def test_a_flax_network_passes_its_error_through_the_weights_to_come():
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x, moves):
            for layer, size in enumerate((6, 2)):
                kernel = self.param(f"kernel{layer}", linen.initializers.lecun_normal(), (x.shape[-1], size))
                x = jnp.tanh(
                    foresight_dense(x, kernel, jnp.zeros_like(kernel) if moves is None else moves[f"kernel{layer}"])
                )
            return x

    x, net = jnp.asarray(RANDOM.normal(size=(3, 4))), Net()
    params = net.init(jax.random.key(0), x, None)["params"]
    optimizer = keep_moves(optax.sgd(0.3), horizon=10)
    kept = optimizer.init(params)
    loss_of = lambda params, moves: jnp.sum(net.apply({"params": params}, x, moves) ** 2)
    updates, kept = optimizer.update(jax.grad(loss_of)(params, kept.moves), kept, params)
    params = optax.apply_updates(params, updates)
    plain, ahead = jax.grad(loss_of)(params, None), jax.grad(loss_of)(params, kept.moves)
    np.testing.assert_allclose(ahead["kernel1"], plain["kernel1"], rtol=1e-6)
    assert not np.allclose(ahead["kernel0"], plain["kernel0"], rtol=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: foresight_dense(np.ones(3), np.ones((3, 2)), np.ones((2, 3))),
            ValueError,
            "moves must have the shape",
        ),
        (
            lambda: foresight_dense(np.ones(3), np.ones((2, 3)), np.ones((2, 3))),
            ValueError,
            r"weights \(inputs, outputs\), got \(3,\) and \(2, 3\)",
        ),
        (lambda: foresight_dense(np.ones(3), np.ones((3, 2)), np.ones((3, 2)), np.ones(2)), ValueError, "one number"),
        (
            lambda: foresight_dense(np.ones(3), np.ones((3, 2)), np.ones((3, 2)), "far"),
            TypeError,
            "ahead must be a number",
        ),
        (lambda: keep_moves("adam"), TypeError, "optimizer must be an optax transformation, got 'adam'"),
        (lambda: keep_moves(optax.sgd(0.1), 0.5), ValueError, "horizon must be a finite number, at least 1, got 0.5"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
