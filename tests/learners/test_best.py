"""Several step sizes side by side, of which the one that has lately been best answers."""

import jax
import numpy as np
import pytest

import crossprop as cp
import reference
from crossprop.testing import check_learner
from own_learners import Replay

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network(inputs=3, hidden=4, outputs=2, bias=True)
CLASSES = cp.Network(inputs=3, hidden=(4, 5), outputs=3, loss="softmax", activation="sigmoid")
STEP_SIZES = (0.001, 0.03, 0.3)
LEARNERS = {
    "foresight": cp.Best(cp.Foresight(CLASSES, 0.01), STEP_SIZES),
    "adam, redo": cp.Best(cp.Backprop(NET, 0.01, optimizer="adam", replacement="redo"), (0.01, 0.05)),
    "one's own": cp.Best(Replay(NET), (0.01, 0.02)),
}


def judged(losses, outputs, horizon):
    """Losses and outputs of the answers, from those of every step size at every step."""
    means, answers = [0.0] * len(losses), []
    for step in range(len(losses[0])):
        best = means.index(min(means))
        answers.append((losses[best][step], outputs[best][step]))
        means = [mean * (1 - 1 / horizon) + own[step] / horizon for mean, own in zip(means, losses, strict=True)]
    return [np.array(column) for column in zip(*answers, strict=True)]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("net", "rule"), [(NET, "backprop"), (CLASSES, "foresight")], ids=["squared", "softmax"])
def test_it_answers_as_the_step_size_that_has_lately_been_best(net, rule):
    inner = {"backprop": cp.Backprop, "foresight": cp.Foresight}[rule](net, 1.0)
    learner, (x, y) = cp.Best(inner, STEP_SIZES, horizon=5.0), reference.examples(net, 60)
    state = learner.init(jax.random.key(0))
    lives = [reference.live_from(inner.init(jax.random.key(0)), net, rule, x, y, step_size=step) for step in STEP_SIZES]
    losses, outputs = judged([life.loss for life in lives], [life.outputs for life in lives], 5.0)
    state, outcomes = cp.live(learner, state, x, y)
    np.testing.assert_allclose(outcomes.loss, losses, rtol=1e-8)
    np.testing.assert_allclose(outcomes.outputs, outputs, rtol=1e-8)
    chosen = {min(range(3), key=lambda at: abs(lives[at].loss[step] - losses[step])) for step in range(60)}
    assert len(chosen) > 1
    np.testing.assert_allclose(state.inner.outgoing.T, lives[int(state.best)].outgoing, rtol=1e-8)


def test_a_copy_that_diverges_is_not_asked_again():
    learner = cp.Best(cp.Backprop(cp.Network(3, 4, activation="linear"), 0.1), (1e6, 0.001))
    x = np.random.default_rng(0).normal(size=(200, 3))
    records, states = cp.run(learner, cp.Arrays(x, x[:, 0]), 1, 100, return_states=True, progress=False)
    assert not np.isfinite(states["best"][0].losses[0]) and int(states["best"][0].best) == 1
    assert records.diverged_at.item() == -1 and np.isfinite(records.loss).all()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name != "foresight")) for name in LEARNERS]
)
def test_it_keeps_the_contract(name):
    check_learner(LEARNERS[name], learns=True)


def test_sweeps_reach_the_learner_inside_but_for_its_step_size():
    x, y = reference.examples(CLASSES, 40)
    stream = cp.Arrays(x, y.argmax(axis=1), classes=3)
    learners = {"plain": cp.Foresight(CLASSES, 0.01), "best": LEARNERS["foresight"]}
    axes = {"step_size": [0.1, 0.01], "ahead": [0.5, 2.0], "best": {"horizon": [10.0, 100.0]}}
    found = cp.sweep(learners, stream, axes, 2, 20, progress=False)["best"]
    assert found.loss.dims == ("ahead", "horizon", "seed", "step")
    alone = cp.Best(cp.Foresight(CLASSES, 0.01, ahead=2.0), STEP_SIZES, horizon=10.0)
    records = cp.run(alone, stream, 2, 20, progress=False)
    np.testing.assert_array_equal(found.loss.sel(ahead=2.0, horizon=10.0), records.loss[0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((NET,), TypeError, "^learner must be a crossprop learner, got Network"),
        ((cp.Backprop(NET, 0.1), ()), ValueError, r"^step_sizes must be a tuple of numbers, at least one, got \(\)"),
        ((cp.Backprop(NET, 0.1), (0.1, -1)), ValueError, r"^step_sizes\[1\] must be .* above 0, got -1"),
        ((cp.Backprop(NET, 0.1), (0.1,), 0.5), ValueError, "^horizon must be .* at least 1, got 0.5"),
        ((cp.Best(cp.Backprop(NET, 0.1)),), ValueError, "^learner must have a step_size, got Best"),
    ],
)
def test_mistakes_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        cp.Best(*arguments)
