"""Every learner equals a literal, slow transcription of its equations, at every depth."""

import itertools
import os
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
import reference
from coverage import RULES, begun, covering, distance, drawn, live
from crossprop.network import ACTIVATIONS, LOSSES

pytestmark = pytest.mark.usefixtures("quick_compilation")
INPUTS, STEPS = 2, 200


FACTORS = {
    "rule": [
        (rule, layers)
        for rule, (_, options, _) in RULES.items()
        for layers in ((None,) if options is None else ("top", "all"))
    ],
    "activation": ACTIVATIONS,
    "hidden": (3, (), (3,), (4, 3), (3, 4, 3)),
    "optimizer": ("sgd", "momentum", "rmsprop", "adam", "adadelta"),
    "outputs": (1, 3, 10),
    "loss": LOSSES,
    "bias": (False, True),
    "layer_norm": (False, True),
    "memory_step_size": (None, 0.006),
    "step_size_of_each_layer": (False, True),
}
STRENGTH = 3 if os.environ.get("CROSSPROP_FULL_GRID") == "1" else 2
"""The grid has every combination of the values of any two factors; of any three in the full grid, and so every
combination of any two for every rule."""


GRID = list(covering(FACTORS, STRENGTH))


def test_any_two_factors_of_the_grid_meet_in_every_combination():
    for one, other in itertools.combinations(FACTORS, 2):
        met = {(row[one], row[other]) for row in GRID}
        assert met == set(itertools.product(FACTORS[one], FACTORS[other]))


@pytest.fixture(autouse=True)
def few_programs_at_a_time():
    """A process can hold only so many compiled programs before the system refuses it more memory maps."""
    yield
    live.clear_cache()


@pytest.mark.parametrize(("rule", "layers"), FACTORS["rule"])
@pytest.mark.usefixtures("x64")
def test_learner_equals_the_transcription_of_its_equations(rule, layers):
    for row in GRID:
        if row["rule"] == (rule, layers):
            for hyperparameters in RULES[rule][2]:
                compare(rule, layers, row, hyperparameters)


def compare(rule, layers, row, hyperparameters):
    """One learner of the grid beside its transcription; one hidden layer by number in float32 as well."""
    hidden, optimizer, memory_step_size = row["hidden"], row["optimizer"], row["memory_step_size"]
    build, further, _ = RULES[rule]
    names = ("outputs", "activation", "loss", "bias", "layer_norm")
    net = cp.Network.paper(INPUTS, hidden, **{name: row[name] for name in names})
    size = 0.0005 if optimizer == "momentum" else 0.003  # crossprop of linear units diverges soon
    options = {"step_size": size, "optimizer": optimizer, "incoming_step_size": size / 2} | hyperparameters
    if row["step_size_of_each_layer"] and isinstance(hidden, tuple):
        options["incoming_step_size"] = (size / 2, 2 * size, size)[: len(hidden)]
    if further is not None:
        options |= {"layers": layers} | further
        if rule.startswith("crossprop"):
            options["memory_step_size"] = memory_step_size
    learner, (x, y) = build(net, **options), reference.examples(net, STEPS, seed=net.outputs)
    tolerances = {jnp.float64: 1e-9} | ({} if isinstance(hidden, tuple) else {jnp.float32: 1e-3})
    start, lived = live(learner, drawn(learner, seed=net.outputs), x, y, tuple(tolerances))
    judged = reference.live_from(start, net, rule, x, y, **options)
    assert all(np.isfinite(values).all() for values in (judged.loss, judged.outgoing, *judged.incoming)), row
    for (dtype, tolerance), (final, losses) in zip(tolerances.items(), lived, strict=True):
        assert final.outgoing.dtype == losses.dtype == dtype
        for one, other in reference.pairs(final, losses, judged):
            assert (one is None) == (other is None), row
            close = one is None or distance(one, other) < tolerance
            assert close or (dtype == jnp.float32 and is_chaotic(learner, x, y)), (row, dtype)


def is_chaotic(learner, x, y):
    """Whether rounding the first weights to float32 alters a run in float64, as layer norm over three units can."""
    weights = drawn(learner, seed=learner.network.outputs)
    rounded = jax.tree.map(lambda leaf: leaf.astype(np.float32).astype(float), weights)
    one, other = (live(learner, each, x, y, (jnp.float64,))[1][0][0] for each in (weights, rounded))
    return max(map(distance, map(np.asarray, jax.tree.leaves(one)), jax.tree.leaves(other))) > 1e-3


@pytest.mark.parametrize(
    ("activation", "loss", "layer_norm"), [("tanh", "softmax", True), ("leaky_relu", "squared", False)]
)
@pytest.mark.usefixtures("x64")
def test_deep_backprop_is_the_gradient(activation, loss, layer_norm):
    net = cp.Network.paper(3, (4, 5, 3), 2, activation, loss, bias=True, layer_norm=layer_norm)
    learner = cp.Backprop(net, step_size=1.0)
    state = begun(learner, **drawn(learner, seed=0))
    x, y = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.0])

    def descended(weights):
        *incoming, outgoing = weights
        features = jnp.append(x, 1.0)
        for matrix in incoming:
            z = features @ matrix
            if layer_norm:
                z = (z - z.mean()) / jnp.sqrt(z.var() + 1e-5)
            phi = jnp.tanh(z) if activation == "tanh" else jnp.where(z > 0, z, 0.01 * z)
            features = jnp.append(phi, 1.0)
        outputs = outgoing @ features
        return jnp.sum((y - outputs) ** 2) / 2 if loss == "squared" else -jax.nn.log_softmax(outputs) @ y

    before = [*state.incoming, state.outgoing]
    after, _ = learner.update(state, x, y)
    for old, new, gradient in zip(
        before, [*after.incoming, after.outgoing], jax.jit(jax.grad(descended))(before), strict=True
    ):
        assert np.linalg.norm(gradient) > 0
        np.testing.assert_allclose(new - old, -gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("hidden", "optimizer"),
    [
        *((4, "adam"), ((4, 3), "sgd")),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((4, "sgd"), ((4, 3), "adam"))),
    ],
)
def test_foresight_that_looks_nowhere_ahead_is_backprop_bit_for_bit(hidden, optimizer):
    net = cp.Network.paper(INPUTS, hidden, 3, "relu", "softmax", bias=True, layer_norm=True)
    (x, y), options = reference.examples(net, STEPS, seed=0), {"step_size": 0.01, "optimizer": optimizer}
    lives = []
    for learner in (cp.Backprop(net, **options), cp.Foresight(net, ahead=0.0, **options)):
        state, outcomes = cp.live(learner, learner.init(jax.random.key(0)), x, y)
        lives.append((state.incoming, state.outgoing, outcomes))
    jax.tree.map(np.testing.assert_array_equal, *lives)


@pytest.mark.parametrize("hidden", [4, (3, 4)])
@pytest.mark.usefixtures("x64")
def test_foresight_with_plain_steps_is_correlation(hidden):
    """Its v is alpha horizon times the running mean of delta phi, in every layer."""
    net, alpha, ahead, horizon = cp.Network.paper(INPUTS, hidden, 3, loss="softmax", bias=True), 0.05, 3.0, 25.0
    one = cp.Foresight(net, alpha, ahead=ahead, horizon=horizon)
    other = cp.Correlation(net, alpha, weight=ahead * alpha * horizon, horizon=horizon)
    x, y = reference.examples(net, STEPS, seed=2)
    weights = drawn(one, seed=0)
    (final, losses), (same, same_losses) = (live(each, weights, x, y, (jnp.float64,))[1][0] for each in (one, other))
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-8),
        (final.incoming, final.outgoing, losses),
        (same.incoming, same.outgoing, same_losses),
    )


@pytest.mark.usefixtures("x64")
def test_correlation_climbs_its_objective_on_average():
    """With all weights held still, the mean of what `weight` adds to the direction of U is the gradient, by finite
    differences, of J = 1/2 sum_jk E[delta_k phi_j]^2, delta held fixed."""
    net, weight = cp.Network.paper(INPUTS, 4, 3), 7.0
    x, y = reference.examples(net, STEPS, seed=3)
    learner = cp.Correlation(net, 1.0, weight=weight, horizon=STEPS)
    state = begun(learner, **drawn(learner, seed=1))
    u, w = np.asarray(state.incoming[0]), np.asarray(state.outgoing).T
    delta = y - np.tanh(x @ u) @ w
    mean = (np.tanh(x @ u).T @ delta / STEPS).T
    state = state._replace(layers=(state.layers[0]._replace(memory=jnp.asarray(mean)),))
    step = jax.jit(jax.vmap(lambda rule, x, y: rule.update(state, x, y)[0].incoming[0] - u, (None, 0, 0)))
    found = np.mean(step(learner, x, y) - step(replace(learner, weight=0.0), x, y), axis=0) / weight

    def objective(u):
        return np.sum((np.tanh(x @ u).T @ delta / STEPS) ** 2) / 2

    def slope(i, j):
        nudge = np.zeros_like(u)
        nudge[i, j] = 1e-5
        return (objective(u + nudge) - objective(u - nudge)) / 2e-5

    gradient = [[slope(i, j) for j in range(u.shape[1])] for i in range(len(u))]
    assert np.linalg.norm(gradient) > 1e-3
    np.testing.assert_allclose(found, gradient, rtol=1e-6, atol=1e-9)


def meter(step_size):
    """Plain steps that also keep the sum of all gradients."""

    def update(gradients, total, _):
        return jax.tree.map(lambda g: -step_size * g, gradients), jax.tree.map(jnp.add, total, gradients)

    return optax.GradientTransformation(lambda weights: jax.tree.map(jnp.zeros_like, weights), update)


@pytest.mark.parametrize("hidden", [4, (3, 4)])
@pytest.mark.usefixtures("x64")
def test_exact_crossprop_credits_an_example_with_the_way_that_outgoing_weights_will_go(hidden):
    """Summed over a run in which U stands still, the direction of U is

    sum_s phi'_j(s) x_i(s) sum_k delta_k(s) [sum_{t>s} D_j(s,t) alpha phi_j(t) delta_k(t)],

    where D_j(s,t) is the product of 1 - alpha phi_j^2 between s and t.
    """
    alpha, still = 0.05, 1e-300  # too small a step to change a number of ordinary size
    net = cp.Network.paper(INPUTS, hidden, 3)
    learner, (x, y) = (
        cp.Crossprop(net, alpha, incoming_step_size=still, optimizer=meter),
        reference.examples(net, STEPS, seed=1),
    )
    start, [(final, _)] = live(learner, drawn(learner, seed=0), x, y, (jnp.float64,))
    jax.tree.map(np.testing.assert_array_equal, start.incoming, final.incoming)
    *below, top = (np.asarray(matrix) for matrix in start.incoming)
    for matrix in below:
        x = np.tanh(x @ matrix)
    phi, outgoing, delta = np.tanh(x @ top), np.asarray(start.outgoing).T, np.zeros_like(y)
    for t in range(STEPS):
        delta[t] = y[t] - phi[t] @ outgoing
        outgoing = outgoing + alpha * np.outer(phi[t], delta[t])
    summed = np.zeros_like(top)
    for s in range(STEPS):
        ahead, discount = np.zeros((4, 3)), np.ones(4)
        for t in range(s + 1, STEPS):
            ahead += discount[:, None] * alpha * np.outer(phi[t], delta[t])
            discount *= 1 - alpha * phi[t] ** 2
        summed += np.outer(x[s], (1 - phi[s] ** 2) * (ahead @ delta[s]))
    total = np.asarray(final.layers[-1].optimizer)
    assert distance(-total, summed) < 1e-9
