"""Inputs and targets that are normalised while learning."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import crossprop as cp
from crossprop.learners import WRAPPERS
from crossprop.testing import check_learner
from own_learners import Replay, Sizes

NET = cp.Network(inputs=3, hidden=4, outputs=2, bias=True)
CLASSES = cp.Network(inputs=3, hidden=4, outputs=3, bias=True, loss="softmax")
LEARNERS = {
    "credit rule": cp.Normalize(cp.Crossprop(NET, 0.05)),
    "decay": cp.Normalize(cp.Backprop(NET, 0.05, optimizer="adam"), decay=0.9),
    "classes": cp.Normalize(cp.Backprop(CLASSES, 0.05, replacement="redo")),
    "targets": cp.Normalize(cp.Foresight(NET, 0.05), decay=0.99, scale_targets=True),
    "twice": cp.Normalize(cp.Normalize(Replay(NET, 0.05)), decay=0.9),
}


class Echo(cp.Learner):
    """Answers with its inputs, and keeps the last target."""

    network: Sizes = eqx.field(static=True, default=Sizes(3, 3))

    def init(self, key):
        return np.zeros(3)

    def predict(self, state, x):
        return x

    def update(self, state, x, y):
        return y, cp.Outcome(((y - x) ** 2).sum(), x)

    def weights(self, state):
        return {}


def raw(count, seed=0):
    """Inputs of very different sizes, the last of which never changes, and targets far from 0."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(count, 3)) * [1e3, 1, 0] + [-5e4, 0.1, 7.3]
    return x, 300 + 40 * numbers.normal(size=(count, 3))


@pytest.mark.usefixtures("x64")
def test_inputs_are_those_of_the_standard_scaler():
    x, _ = raw(500)
    learner, scaler = cp.Normalize(Echo()), StandardScaler()
    state = learner.init(jax.random.key(0))
    for one in x:
        expected = scaler.partial_fit(one[None]).transform(one[None])[0]
        np.testing.assert_allclose(learner.predict(state, one), expected, rtol=1e-12, atol=1e-12)
        state, outcome = learner.update(state, one, one)
        np.testing.assert_allclose(outcome.outputs, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(state.inputs.mean, scaler.mean_, rtol=1e-12)
        np.testing.assert_allclose(state.inputs.variance, scaler.var_, rtol=1e-12, atol=1e-20)


@pytest.mark.usefixtures("x64")
def test_with_a_decay_statistics_are_weighted_sums():
    (x, y), learner = raw(60), cp.Normalize(Echo(), decay=0.9)
    state, _ = cp.live(learner, learner.init(jax.random.key(0)), x, y)
    weights = 0.9 ** np.arange(60)[::-1]
    mean = np.average(x, axis=0, weights=weights)
    np.testing.assert_allclose(state.inputs.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(
        state.inputs.variance, np.average((x - mean) ** 2, axis=0, weights=weights), rtol=1e-9, atol=1e-20
    )


@pytest.mark.usefixtures("x64")
def test_targets_are_normalised_and_outputs_are_in_their_units():
    (x, y), learner, scaler = raw(50), cp.Normalize(Echo(), scale_targets=True), StandardScaler()
    state = learner.init(jax.random.key(0))
    for step, (one, target) in enumerate(zip(x, y, strict=True)):
        before = (scaler.mean_, scaler.scale_) if step else (0, 1)
        state, outcome = learner.update(state, one, target)
        outputs = before[0] + before[1] * (one - state.inputs.mean) / state.inputs.deviation
        np.testing.assert_allclose(outcome.outputs, outputs, rtol=1e-12)
        np.testing.assert_allclose(outcome.loss, ((target - outputs) ** 2).sum(), rtol=1e-12)
        expected = scaler.partial_fit(target[None]).transform(target[None])[0]
        np.testing.assert_allclose(state.inner, expected, rtol=1e-12, atol=1e-12)


def test_a_constant_input_that_changes_is_at_most_ten_deviations_away():
    learner = cp.Normalize(Echo(), scale_targets=True)
    state, _ = cp.live(learner, learner.init(jax.random.key(0)), np.zeros((1000, 3)), np.zeros((1000, 3)))
    np.testing.assert_array_equal(learner._normalized(state.inputs, jnp.array([1.0, -1, 0]))[0], [10, -10, 0])
    state, _ = learner.update(state, np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(state.inner, [10, 10, 10])


def test_idbd_diverges_on_raw_inputs_and_learns_from_normalised_ones():
    x, _ = raw(3000)
    stream = cp.Arrays(x, x[:, :1] / 1e3 + 50 + 3 * x[:, 1:2])
    net = cp.Network(inputs=3, hidden=(), bias=True, outgoing_scale=0)
    idbd = cp.Backprop(net, 0.01, optimizer=cp.optimizers.idbd(meta_step_size=0.001))
    learners = {"raw": idbd, "normalised": cp.Normalize(idbd)}
    records = cp.run(learners, stream, seeds=1, record_every=100, progress=False)
    assert records.diverged_at.sel(learner="raw") >= 0 and records.diverged_at.sel(learner="normalised") == -1
    assert float(records.loss.sel(learner="normalised")[0, -1]) < 0.05


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name != "targets")) for name in LEARNERS]
)
@pytest.mark.usefixtures("quick_compilation")
def test_it_keeps_the_contract(name):
    check_learner(LEARNERS[name], learns=name != "twice")


def test_sweeps_reach_the_learner_inside():
    x, y = raw(40)
    learners = {"plain": cp.Backprop(NET, 0.1), "normalised": cp.Normalize(cp.Backprop(NET, 0.1), scale_targets=True)}
    axes = {"step_size": [0.1, 0.01], "normalised": {"decay": [0.9, 1.0], "network.hidden": [2, 3]}}
    found = cp.sweep(learners, cp.Arrays(x, y[:, :2]), axes, 2, 20, progress=False)["normalised"]
    assert [found.sizes[axis] for axis in ("decay", "step_size", "network.hidden", "seed")] == [2, 2, 2, 2]
    net = cp.Network(inputs=3, hidden=3, outputs=2, bias=True)
    alone = cp.Normalize(cp.Backprop(net, 0.01), decay=0.9, scale_targets=True)
    records = cp.run(alone, cp.Arrays(x, y[:, :2]), 2, 20, progress=False)
    chosen = found.sel({"step_size": 0.01, "decay": 0.9, "network.hidden": 3})
    np.testing.assert_array_equal(chosen.loss.transpose("seed", "step"), records.loss[0])
    assert records.rule.item() == "backprop"


@pytest.mark.parametrize(
    ("make", "message"),
    {
        "no learner": (lambda: cp.Normalize(NET), r"^learner must be a crossprop learner, got Network"),
        "classes": (
            lambda: cp.Normalize(LEARNERS["classes"], scale_targets=True),
            "^scale_targets must be False for classes, got True",
        ),
        "decay": (lambda: cp.Normalize(LEARNERS["decay"], decay=1.5), "^decay must be .* 1.5"),
    }.values(),
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_wrappers_are_known_by_name():
    assert WRAPPERS["normalize"] is cp.Normalize
