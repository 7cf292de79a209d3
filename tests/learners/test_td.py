"""Predictions over time: every rule with and without traces, against the same in scalars."""

from functools import partial

import jax
import numpy as np
import pytest

import crossprop as cp
import reference_optimizers
from crossprop.learners import LEARNERS
from crossprop.testing import check_learner
from own_learners import Replay
from reference import pairs, parts
from reference_td import examples, live_td

RULES = {
    "crossprop": {"eta": 0.3},
    "crossprop-approx": {"eta": 0.3},
    "crossprop-sum": {},
    "foresight": {"ahead": 5.0, "horizon": 20.0},
    "backprop": {},
    "frozen": {},
}
NETS = {
    "linear": cp.Network(3, (), 1, bias=True),
    "one": cp.Network(3, 4, 1),
    "two outputs": cp.Network(3, 4, 2, bias=True, activation="sigmoid"),
    "deep": cp.Network(3, (4, 3), 1, bias=True, layer_norm=True),
}


def judged(rule, net, start, x, y, **options):
    incoming, outgoing, *_ = parts(start)
    same = {name: getattr(net, name) for name in ("activation", "bias", "layer_norm")}
    return live_td(rule, **same, incoming=incoming, outgoing=outgoing, x=x, y=y, **options)


def assert_equal(learner, rule, net, **options):
    x, y = examples(net)
    start = learner.init(jax.random.key(1))
    final, outcomes = cp.live(learner, start, x, y)
    expected = judged(rule, net, start.inner, x, y, **options)
    np.testing.assert_allclose(outcomes.outputs, expected.outputs, rtol=1e-9, atol=1e-9)
    for ours, theirs in pairs(final.inner, outcomes.loss, expected):
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    return expected


@pytest.mark.parametrize("trace", [0.0, 0.9])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("x64", "quick_compilation")
def test_every_rule_equals_its_equations_in_scalars(rule, net, trace):
    if net == "linear" and rule != "backprop":
        pytest.skip("without hidden units all rules are one")
    options = RULES[rule]
    layers = {"layers": "all"} if rule.startswith("crossprop") else {}
    inner = LEARNERS[rule](NETS[net], 0.05, **options, **layers)
    assert_equal(cp.TD(inner, trace=trace), rule, NETS[net], step_size=0.05, trace=trace, **options)


@pytest.mark.usefixtures("x64", "quick_compilation")
def test_obgd_bounds_the_step_of_the_traces():
    net = NETS["deep"]
    learner = cp.TD(cp.Backprop(net, 1.0, optimizer=cp.optimizers.obgd(kappa=2)), trace=0.8)
    made = partial(reference_optimizers.ObGD, kappa=2)
    assert_equal(learner, "backprop", net, step_size=1.0, trace=0.8, network_optimizer=made)


@pytest.mark.usefixtures("x64")
def test_the_trace_fades_by_the_incoming_discount():
    """Where the discount is 0 at the end of what is predicted, its cumulant still reaches all earlier observations."""
    net, x = cp.Network(3, (), 1, bias=False), np.eye(3)
    y = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0]], float)  # x_2 begins anew, with a cumulant of 1 for x_0 and x_1
    learner = cp.TD(cp.Backprop(net, 0.5), trace=0.8)
    start = learner.init(jax.random.key(0))
    state, _ = cp.live(learner, start, x, y)
    np.testing.assert_allclose(state.inner.outgoing, [[0.4, 0.5, 0]], rtol=1e-12)
    x, y = examples(net)
    ours = cp.live(learner, start, x, y)[1].outputs
    wrong, right = (
        judged("backprop", net, start.inner, x, y, step_size=0.5, trace=0.8, fade_by=by).outputs
        for by in ("outgoing", "incoming")
    )
    assert np.allclose(ours, right, rtol=1e-9) and np.abs(ours - wrong).max() > 0.01


@pytest.mark.usefixtures("x64")
def test_a_replaced_unit_loses_its_traces():
    net = cp.Network(3, 4, 2, bias=True)
    learner = cp.TD(cp.Backprop(net, 0.01, replacement=cp.ContinualReplacement(rate=0.5, maturity=1)), trace=0.9)
    x, y = examples(net, steps=4)
    state, replaced = learner.init(jax.random.key(0)), False
    for one_x, one_y in zip(x, y, strict=True):
        before, (state, _) = state.inner.outgoing, learner.update(state, one_x, one_y)
        for unit in np.flatnonzero(
            (np.asarray(state.inner.outgoing)[:, :4] == 0).all(axis=0) & (before[:, :4] != 0).all(axis=0)
        ):
            replaced = True
            for into, out in state.inner.optimizer[0]:
                assert not into[:, unit].any() and not out[:, unit].any()
                assert into.any() and out.any()
    assert replaced


def test_records_say_which_error_the_loss_is():
    net = cp.Network(3, 4, 1)
    x, y = examples(net)
    stream = cp.Arrays(x, y, kind="prediction")
    records = cp.run(cp.TD(cp.Backprop(net, 0.05)), stream, 1, 15, progress=False)
    assert records.known.values[0, 0].tolist() == [1, 0, 1, 1]
    assert np.isfinite(records.loss).all()


LEARNERS_HERE = {
    "trace": cp.TD(cp.Crossprop(NETS["two outputs"], 0.05), trace=0.9),
    "no trace": cp.TD(cp.Backprop(NETS["one"], 0.05, optimizer=cp.optimizers.upgd(), replacement="redo")),
    "any learner": cp.TD(Replay(NETS["one"], 0.05)),
    "normalised": cp.Normalize(cp.TD(cp.Foresight(NETS["deep"], 0.05), trace=0.9)),
    "normalised inside": cp.TD(cp.Normalize(cp.Hindsight(NETS["one"], 0.05, delay=3), scale_targets=True)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name != "trace")) for name in LEARNERS_HERE]
)
@pytest.mark.usefixtures("quick_compilation")
def test_it_keeps_the_contract(name):
    check_learner(LEARNERS_HERE[name])


def test_sweeps_go_over_trace_and_step_size():
    net = cp.Network(3, 4, 1)
    stream = cp.Arrays(*examples(net), kind="prediction")
    axes = {"trace": [0, 0.9], "step_size": [0.1, 0.01]}
    found = cp.sweep({"td": cp.TD(cp.Backprop(net, 0.5))}, stream, axes, 2, 20, progress=False)["td"]
    alone = cp.run(cp.TD(cp.Backprop(net, 0.01), trace=0.9), stream, 2, 20, progress=False)
    chosen = found.sel(trace=0.9, step_size=0.01).transpose("seed", "step")
    np.testing.assert_array_equal(chosen.loss, alone.loss[0])


MISTAKES = {
    "no learner": (lambda: cp.TD(NETS["one"]), "^learner must be a crossprop learner, got Network"),
    "classes": (lambda: cp.TD(cp.Backprop(cp.Network(3, 4, 2, loss="softmax"), 0.1)), "^learner must have targets and"),
    "twice": (lambda: cp.TD(LEARNERS_HERE["trace"]), "^learner must have targets and squared loss"),
    "trace": (
        lambda: cp.TD(Replay(NETS["one"], 0.1), trace=0.5),
        "^trace must be 0 for a learner that is no credit rule",
    ),
    "trace too high": (lambda: cp.TD(cp.Backprop(NETS["one"], 0.1), trace=2), "^trace must be .* 2"),
    "scaled": (lambda: cp.Normalize(LEARNERS_HERE["trace"], scale_targets=True), "^scale_targets must be False for a"),
    "stream of targets": (
        lambda: cp.run(LEARNERS_HERE["trace"], cp.Geoff(inputs=3)),
        r"^learners\['td'\] predicts, which",
    ),
    "learner of targets": (
        lambda: cp.run(cp.Backprop(NETS["one"], 0.1), cp.Arrays(*examples(NETS["one"]), kind="prediction")),
        r"^learners\['backprop'\] must be a learner that predicts, such as crossprop.TD",
    ),
    "after learning": (
        lambda: cp.run(
            cp.TD(cp.Backprop(NETS["one"], 0.1)),
            cp.Arrays(*examples(NETS["one"]), kind="prediction"),
            metrics={"plasticity": cp.metrics.plasticity},
        ),
        r"^metrics\['plasticity'\] sees the outcome after learning",
    ),
    "pairs": (
        lambda: cp.Arrays(np.zeros((3, 2)), np.zeros((3, 2)), kind="prediction"),
        "^y must be a cumulant, a discount",
    ),
    "cumulant": (
        lambda: cp.Arrays(np.zeros((2, 2)), np.array([[0, 1, np.nan], [np.nan, 1, 0]]), kind="prediction"),
        r"^y must be finite, got nan at index \(1, 0\)$",
    ),
    "discount": (
        lambda: cp.Arrays(np.zeros((2, 2)), np.array([[0, 1, np.nan], [0, 1.5, 0]]), kind="prediction"),
        r"^y must have discounts between 0 and 1, got 1.5 at index \(1, 1\)$",
    ),
    "discount in a pass": (
        lambda: cp.live(LEARNERS_HERE["no trace"], None, np.zeros((1, 3)), np.array([[0, -1.0, 0]])),
        r"^y must have discounts between 0 and 1, got -1.0 at index \(0, 1\)$",
    ),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_returns_of_what_was_recorded():
    cumulants, discounts = np.array([9.0, 1, 2, 3, 4]), np.array([[0.5], [0.5], [0.0], [0.5], [0.5]])
    y = cp.discounted(cumulants, discounts)
    np.testing.assert_array_equal(y[:, :2], np.stack([cumulants, discounts[:, 0]], axis=1))
    np.testing.assert_array_equal(y[:, 2], [1 + 0.5 * 2, 2, np.nan, np.nan, np.nan])
    two = cp.discounted(np.ones(100), [0.0, 0.5])
    assert two.shape == (100, 6) and two[0].tolist() == [1, 0, 1, 1, 0.5, pytest.approx(2)]
    assert np.isnan(two[:, 2]).sum() == 1 and np.isnan(two[:, 5]).sum() == 20  # 0.5 ** 20 is below a millionth


@pytest.mark.parametrize(
    ("cumulants", "discounts", "message"),
    [
        (np.zeros((3, 2)), np.zeros(3), r"^discounts must be .* got shape \(3,\) for cumulants of shape \(3, 2\)$"),
        (np.zeros(3), np.zeros(3), r"^discounts must be of shape \(steps, 1\) .* got shape \(3,\)"),
        (np.zeros(1), np.zeros((3, 1)), "^cumulants must have a row for each of 3 steps of discounts, got 1$"),
        (np.zeros(3), 1.5, "^discounts must be between 0 and 1, got 1.5$"),
        (np.array(["a"]), 0.5, "^cumulants must be numbers"),
        (np.array([1.0, np.inf]), 0.5, "^cumulants must be finite"),
    ],
)
def test_mistakes_in_what_was_recorded_are_named(cumulants, discounts, message):
    with pytest.raises(ValueError, match=message):
        cp.discounted(cumulants, discounts)
