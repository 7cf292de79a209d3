"""Linear predictors: against their equations in scalars, each other, and the program of SwiftTD's authors."""

import math

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop.learners import PREDICTORS
from crossprop.testing import check_learner
from reference_td import examples

NET = cp.Network(4, (), 1, bias=False, outgoing_scale=0)
TWO = cp.Network(3, (), 2, bias=True)


def true_online(x, y, a, trace):
    """Van Seijen et al. (2016), algorithm 1: V and V' by the same weights, V_old from the last step."""
    w, z, v_old, values = [0.0] * len(x[0]), [0.0] * len(x[0]), 0.0, []
    for t in range(len(x)):
        dot = lambda one, other: sum(i * j for i, j in zip(one, other, strict=True))
        v_new = dot(w, x[t])
        if t:
            last, fade = x[t - 1], (y[t - 1][1] if t > 1 else 0.0) * trace
            v = dot(w, last)
            zx = dot(z, last)
            z = [fade * z_i + (1 - a * fade * zx) * x_i for z_i, x_i in zip(z, last, strict=True)]
            delta = y[t][0] + y[t][1] * v_new - v
            w = [
                w_i + a * (delta + v - v_old) * z_i - a * (v - v_old) * x_i
                for w_i, z_i, x_i in zip(w, z, last, strict=True)
            ]
        values.append(v_new)
        v_old = v_new
    return values, w


def tidbd(x, y, a, trace, meta):
    """Kearney et al. (2018), algorithm 1."""
    n = len(x[0])
    w, z, h, beta, values = [0.0] * n, [0.0] * n, [0.0] * n, [math.log(a)] * n, []
    for t in range(len(x)):
        values.append(sum(w[i] * x[t][i] for i in range(n)))
        if t:
            last, fade = x[t - 1], (y[t - 1][1] if t > 1 else 0.0) * trace
            delta = y[t][0] + y[t][1] * values[t] - sum(w[i] * last[i] for i in range(n))
            for i in range(n):
                beta[i] += meta * delta * last[i] * h[i]
                alpha = math.exp(beta[i])
                z[i] = z[i] * fade + last[i]
                w[i] += alpha * delta * z[i]
                h[i] = h[i] * max(0.0, 1 - alpha * last[i] * z[i]) + alpha * delta * z[i]
    return values, w


def lived(learner, x, y):
    state, outcomes = cp.live(learner, learner.init(jax.random.key(0)), x, y)
    return state, np.asarray(outcomes.outputs)


@pytest.mark.parametrize("trace", [0.0, 0.9])
@pytest.mark.usefixtures("x64")
def test_true_online_td_and_tidbd_equal_their_equations_in_scalars(trace):
    x, y = examples(NET, steps=200)
    judged = {
        cp.TrueOnlineTD(NET, 0.1, trace=trace): true_online(x.tolist(), y.tolist(), 0.1, trace),
        cp.TIDBD(NET, 0.05, trace=trace, meta_step_size=0.02): tidbd(x.tolist(), y.tolist(), 0.05, trace, 0.02),
    }
    for learner, (values, weights) in judged.items():
        state, outputs = lived(learner, x, y)
        np.testing.assert_allclose(outputs[:, 0], values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.weights[0], weights, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_where_two_of_them_are_one():
    x, y = examples(TWO, steps=200)
    same = [
        (cp.SwiftTD(TWO, 0.01, meta_step_size=0, bound=1e9), cp.TrueOnlineTD(TWO, 0.01)),
        (cp.TIDBD(TWO, 0.01, meta_step_size=0), cp.TD(cp.Backprop(TWO, 0.01), trace=0.9)),
        (cp.TrueOnlineTD(TWO, 0.01, trace=0), cp.TD(cp.Backprop(TWO, 0.01))),
    ]
    for one, other in same:
        np.testing.assert_allclose(lived(one, x, y)[1], lived(other, x, y)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_swift_td_predicts_as_the_program_of_its_authors(kind):
    swifttd = pytest.importorskip("swifttd")
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(5000, 40)) / 7
    x = (np.argsort(x, axis=1) < 5 if kind == "sparse" else x).astype(np.float32)  # 5 of 40 inputs are on
    cumulants = (x[:, 0] > 0.1) & (np.roll(x, 2, axis=0)[:, 1] > 0)
    y = cp.discounted(cumulants, 0.9)
    options = {"lambda_": 0.9, "alpha": 1e-2, "gamma": 0.9, "epsilon": 1e-8, "eta": 0.1, "decay": 0.99}
    theirs = swifttd.SwiftTDNonSparse(40, **options, meta_step_size=1e-3, eta_min=1e-10)
    expected = [theirs.step(row, float(cumulant)) for row, cumulant in zip(x.tolist(), cumulants, strict=True)]
    network = cp.Network(40, (), 1, bias=False, outgoing_scale=0)
    _, outputs = lived(cp.SwiftTD(network, 1e-2, trace=0.9, bound=0.1, decay=0.99), x, y)
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=0, atol=1e-5)
    assert np.ptp(expected[-1000:]) > 0.1


@pytest.mark.parametrize("meta", [0.0, 0.02])
def test_td_lambda_and_tidbd_predict_as_alberta_framework(meta):
    """At one discount: with several, its trace fades by that of the coming step."""
    alberta = pytest.importorskip("alberta_framework")
    x, y = examples(NET, steps=300)
    x, y[:, 1] = x.astype(np.float32), 0.8
    theirs = alberta.TDLinearLearner(alberta.TDIDBD(0.05, meta, trace_decay=0.9))
    state, update, expected = theirs.init(4), jax.jit(theirs.update), [0.0]
    for before, after, (cumulant, discount, _) in zip(x[:-1], x[1:], y[1:].astype(np.float32), strict=True):
        expected.append(float(theirs.predict(state, after)[0]))
        state = update(state, before, cumulant, after, discount).state
    network = cp.Network(4, (), 1, bias=True, outgoing_scale=0)
    _, outputs = lived(cp.TIDBD(network, 0.05, trace=0.9, meta_step_size=meta), x, y)
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-4, atol=1e-5)
    if meta == 0:
        _, outputs = lived(cp.TD(cp.Backprop(network, 0.05), trace=0.9), x, y)
        np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected) > 0.1


def test_swift_td_stays_finite_where_an_input_is_large():
    x = np.stack([np.ones(300), 1000 * np.random.default_rng(0).normal(size=300)], axis=1)
    y = np.tile([1, 0.9, np.nan], (300, 1))
    state, outputs = lived(cp.SwiftTD(cp.Network(2, (), bias=False, outgoing_scale=0), 1e-3), x, y)
    assert np.isfinite(outputs).all() and state.kept.log_step_size.min() >= math.log(1e-10) - 1e-4


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name != "swift-td")) for name in PREDICTORS]
)
@pytest.mark.usefixtures("quick_compilation")
def test_it_keeps_the_contract(name):
    check_learner(PREDICTORS[name](TWO, **{} if name == "mean-return" else {"step_size": 0.05}))


@pytest.mark.parametrize("name", PREDICTORS)
def test_nothing_is_wrong_at_the_first_example_where_its_return_is_not_known(name):
    learner = PREDICTORS[name](cp.Network(3, ()), **{} if name == "mean-return" else {"step_size": 0.05})
    y = np.array([[5, 0.9, np.nan], [5, 0.9, np.nan]])
    _, outcomes = cp.live(learner, learner.init(jax.random.key(0)), np.ones((2, 3)), y)
    np.testing.assert_array_equal(outcomes.loss, [0, 25])


def test_what_they_are_made_with():
    assert cp.TIDBD(cp.Network(3, (5, 5), 1, incoming_scale=(1.0, 2.0)), 0.1).network.hidden == ()
    for make, message in {
        (lambda: cp.SwiftTD(3, 0.1)): "^network must be a crossprop.Network, got 3",
        (lambda: cp.SwiftTD(cp.Network(3, (), 2, loss="softmax"), 0.1)): "^network must have squared loss",
        (lambda: cp.SwiftTD(NET, 0.1, trace=1.5)): "^trace must be .* 1.5",
    }.items():
        with pytest.raises((TypeError, ValueError), match=message):
            make()
