"""A learner that is no credit rule, with a key and integers in its state, and what is recorded besides the loss."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop.arguments import checked_variables
from crossprop.engines import choose, chunked, scan
from crossprop.engines.gpu import kernel
from crossprop.engines.protocol import Batch, Run, RunOptions
from crossprop.variables import Variable
from own_learners import Replay, Sizes
from same import assert_same_records

STREAM = cp.Geoff(inputs=6, features=30, tasks="ABA", examples=40)
REPLAY = Replay(Sizes(6, 1), 0.01)
CLASS_NET = cp.Network(inputs=64, hidden=5, outputs=10, loss="softmax")
DIGITS = cp.LabelShift(cp.datasets.digits(), tasks="AB", examples=50)
METRICS = {"far": lambda outcome, y: jnp.abs(outcome.outputs - y).max(), "ones": lambda outcome, y: 1}
PROBES = {"norms": lambda initial, state: jnp.linalg.norm(state.weights - initial.weights, axis=1)}

run = partial(cp.run, record_every=30, progress=False)

pytestmark = pytest.mark.usefixtures("quick_unless_full")


@pytest.fixture(scope="module")
def seven():
    return run({"replay": REPLAY}, STREAM, seeds=[7], metrics=METRICS, probes=PROBES)


def by_hand(learner, stream, seed):
    examples, state = stream.sample(cp.keys(seed)[0]), learner.init(cp.keys(seed)[1])
    states, outcomes = [state], []
    for x, y in zip(examples.x, examples.y, strict=True):
        state, outcome = learner.update(state, x, y)
        states.append(state)
        outcomes.append(outcome)
    return examples, states, outcomes


def windows(values, ends):
    return [values[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def test_run_equals_stepping_by_hand(seven):
    examples, states, outcomes = by_hand(REPLAY, STREAM, 7)
    one, ends = seven.isel(learner=0, seed=0), seven.step.values
    mean = [np.mean([outcome.loss for outcome in window]) for window in windows(outcomes, ends)]
    moved = np.array([states[end].weights - states[0].weights for end in ends])
    np.testing.assert_allclose(one.loss, mean, rtol=1e-5)
    np.testing.assert_allclose(one.drift_linear, np.linalg.norm(moved, axis=(1, 2)), rtol=1e-5)
    np.testing.assert_allclose(one.norms, np.linalg.norm(moved, axis=2), rtol=1e-4)
    assert one.norms.dims == ("step", "norms_0") and "incoming_drift" not in one
    far = [float(np.abs(o.outputs - y).max()) for o, y in zip(outcomes, examples.y, strict=True)]
    np.testing.assert_allclose(one.far, [np.mean(window) for window in windows(far, ends)], rtol=1e-5)
    assert one.ones.values.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("seeds", [range(5, 9), [9, 7]])
def test_seed_alone_equals_seed_among_others(seven, seeds):
    among = run({"replay": REPLAY}, STREAM, seeds=seeds, metrics=METRICS, probes=PROBES)
    assert_same_records(among.sel(seed=[7]), seven)


def test_a_diverging_run_spoils_no_other(seven):
    pair = {"wild": Replay(Sizes(6, 1), 1e3), "replay": REPLAY}
    records = run(pair, STREAM, seeds=[6, 7], metrics=METRICS, probes=PROBES)
    assert_same_records(records.sel(learner=["replay"], seed=[7]), seven)
    assert (records.diverged_at.sel(learner="wild") > 0).all() and np.isnan(
        records.far.sel(learner="wild")[:, -1]
    ).all()
    assert np.isnan(records.norms.sel(learner="wild")[:, -1]).all()


def test_side_by_side_it_is_the_same_in_any_company():
    observed = checked_variables(PROBES, METRICS, {"replay": REPLAY})

    def records(*learners):
        runs = [Run(learner, STREAM, seed) for learner, seed in learners]
        session = scan.start(Batch(runs, RunOptions(30, 120, observed=observed)), "gpu")
        session.advance(120)
        return session.results()

    (alone,) = records((REPLAY, 2))
    *_, among, _ = records((REPLAY, 0), (Replay(Sizes(6, 1), 1e3), 1), (REPLAY, 2), (REPLAY, 3))
    for name, values in alone.records.items():
        np.testing.assert_array_equal(among.records[name], values, err_msg=name)


def test_engines_for_credit_rules_refuse_it():
    for engine in (chunked, kernel):
        assert "needs a credit rule, a CreditRule, got Replay" in engine.why_unsupported(REPLAY, "gpu")
    with pytest.raises(
        ValueError, match=r"^engine='chunked' cannot run learners\['replay'\]: .* CreditRule, got Replay$"
    ):
        run(REPLAY, STREAM, engine="chunked")
    assert run(REPLAY, STREAM, seeds=1).attrs["engine"] == "scan"


def test_it_shares_a_call_with_credit_rules(seven):
    both = {"replay": REPLAY, "backprop": cp.Backprop(cp.Network(6, 4), 0.01)}
    records = run(both, STREAM, seeds=[7], metrics=METRICS)
    np.testing.assert_array_equal(records.far.sel(learner=["replay"]), seven.far)
    assert np.isnan(records.drift_linear.sel(learner="backprop")).all()
    assert np.isnan(records.incoming_drift.sel(learner="replay")).all()


# Metrics and probes on the engines.


@pytest.mark.parametrize("engine", ["scan", "chunked"])
def test_metrics_are_means_over_windows(engine):
    learner = cp.Crossprop(CLASS_NET, 0.01)
    metrics = {
        "confident": lambda outcome, y: jax.nn.softmax(outcome.outputs).max() > 0.2,
        "loss_squared": lambda outcome, y: outcome.loss**2,
        "label": lambda outcome, y: y.argmax(),
    }
    probes = {"state": lambda initial, state: state.outgoing}
    records = cp.run(learner, DIGITS, [3], 30, engine, probes, False, metrics=metrics).isel(learner=0, seed=0)
    examples, states, outcomes = by_hand(learner, DIGITS, 3)
    ends = records.step.values
    for name, metric in metrics.items():
        values = [float(metric(outcome, y)) for outcome, y in zip(outcomes, jnp.asarray(examples.y), strict=True)]
        np.testing.assert_allclose(records[name], [np.mean(w) for w in windows(values, ends)], rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(records.state, [states[end].outgoing for end in ends], rtol=1e-4, atol=1e-5)
    assert records.state.dims == ("step", "state_0", "state_1")


@pytest.mark.parametrize("engine", ["scan", "chunked"])
def test_metrics_of_any_real_type_are_averaged_in_the_type_of_the_loss(engine):
    values = {"whole": jnp.int32(2**31 - 1), "half": jnp.float16(60_000), "short": jnp.bfloat16(0.1), "truth": True}
    metrics = {name: lambda outcome, y, value=value: value for name, value in values.items()}
    records = cp.run(cp.Backprop(CLASS_NET, 0.01), DIGITS, [3], 30, engine, metrics=metrics, progress=False)
    for name, value in values.items():
        assert records[name].dtype == records.loss.dtype
        np.testing.assert_allclose(records[name][0, 0], float(value) + 0 * records.window, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("learner", [cp.Backprop(cp.Network(6, 4), 0.1), REPLAY], ids=["credit rule", "any"])
def test_plasticity_is_the_share_of_the_loss_that_learning_takes_away(learner):
    metrics = {"plasticity": cp.metrics.plasticity, "far": METRICS["far"]}
    records = cp.run(learner, STREAM, [3], 25, metrics=metrics, progress=False).isel(learner=0, seed=0)
    plain = cp.run(learner, STREAM, [3], 25, progress=False).isel(learner=0, seed=0)
    np.testing.assert_allclose(records.loss, plain.loss, rtol=1e-5)
    examples, states, outcomes = by_hand(learner, STREAM, 3)
    after = [
        float(((y - learner.predict(state, x)) ** 2).sum())
        for x, y, state in zip(examples.x, examples.y, states[1:], strict=True)
    ]
    share = [np.clip(1 - new / max(float(old.loss), 1e-8), 0, 1) for new, old in zip(after, outcomes, strict=True)]
    means = [np.mean(window) for window in windows(share, records.step.values)]
    np.testing.assert_allclose(records.plasticity, means, rtol=1e-3, atol=1e-4)
    assert 0 < np.mean(means) < 1


def test_the_chunked_engine_refuses_metrics_that_see_the_outcome_after_learning():
    learner = cp.Backprop(cp.Network(200, 4), 0.01)
    assert choose(learner, "cpu") == "chunked"
    assert choose(learner, "cpu", (Variable("plasticity", cp.metrics.plasticity, after=True),)) == "scan"


def test_the_kernel_engine_refuses_metrics():
    learner = cp.Backprop(cp.Network(6, 4), 0.01)
    reason = kernel.why_unsupported(learner, "gpu", checked_variables({}, METRICS, {"backprop": learner}))
    assert reason == "the kernel engine takes no probes or metrics, got far, ones"
