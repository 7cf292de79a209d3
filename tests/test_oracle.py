"""The oracle: its meta-gradient equals brute force, and what `follow` records are cosines with it."""

import jax
import numpy as np
import pytest

import crossprop as cp
import reference
from crossprop import oracle

pytestmark = pytest.mark.usefixtures("quick_compilation")
STEPS, STEP = 12, 1e-5


@pytest.fixture(autouse=True)
def few_programs_at_a_time():
    yield
    oracle._directions.clear_cache()
    oracle._window.clear_cache()


def matrices(state):
    return [np.asarray(matrix) for matrix in state.incoming]


def slopes(loss_of, incoming):
    """Minus the derivative of a loss by every incoming weight, by central differences."""
    found = [np.zeros_like(matrix) for matrix in incoming]
    for at, matrix in enumerate(incoming):
        for where in np.ndindex(*matrix.shape):
            losses = []
            for step in (STEP, -STEP):
                moved = [each.copy() for each in incoming]
                moved[at][where] += step
                losses.append(loss_of(moved))
            found[at][where] = (losses[1] - losses[0]) / (2 * STEP)
    return found


def distance(one, other):
    return np.linalg.norm(one - other) / np.linalg.norm(other)


@pytest.mark.parametrize(
    ("hidden", "optimizer", "activation", "loss", "bias", "layer_norm"),
    [
        (3, "adam", "sigmoid", "softmax", True, False),
        ((3, 4), "momentum", "tanh", "softmax", True, True),
        pytest.param((3, 2, 3), "rmsprop", "leaky_relu", "squared", True, False, marks=pytest.mark.long),
        pytest.param((3, 3), "adam", "tanh", "squared", False, True, marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("x64")
def test_the_meta_gradient_is_the_slope_of_the_loss_with_the_whole_past_replayed(
    hidden, optimizer, activation, loss, bias, layer_norm
):
    net = cp.Network.paper(2, hidden, 2, activation, loss, bias, layer_norm=layer_norm)
    learner, (x, y) = cp.Frozen(net, 0.1, optimizer=optimizer), reference.examples(net, STEPS)
    state = learner.init(jax.random.key(0))
    options = {"activation": activation, "loss": loss, "bias": bias, "layer_norm": layer_norm, "optimizer": optimizer}

    def last_loss(incoming):
        lived = reference.live(
            "frozen", incoming=incoming, outgoing=state.outgoing.T, x=x, y=y, step_size=0.1, **options
        )
        return lived.loss[-1] / (2 if loss == "squared" else 1)

    found = oracle.directions(learner, state, x, y)
    for whole, memory, expected in zip(found.whole, found.memory, slopes(last_loss, matrices(state)), strict=True):
        assert distance(whole[-1], expected) < 1e-5
        assert np.linalg.norm(memory[-1]) > 0.01 * np.linalg.norm(whole[-1])
    assert all(not np.any(part) for part in found.learner)


@pytest.mark.parametrize("hidden", [3, (3, 2)])
@pytest.mark.usefixtures("x64")
def test_the_meta_gradient_follows_the_incoming_weights_that_the_learner_had(hidden):
    net = cp.Network.paper(2, hidden, 2)
    learner, (x, y) = cp.Crossprop(net, 0.1, eta=0.5, incoming_step_size=0.3), reference.examples(net, STEPS)
    start = state = learner.init(jax.random.key(1))
    past = []
    for each in zip(x, y, strict=True):
        past.append(matrices(state))
        state, _ = learner.update(state, *each)
    assert all(distance(*pair) > 0.01 for pair in zip(past[-1], past[0], strict=True))

    def last_loss(shifts):
        outgoing = np.asarray(start.outgoing).T
        for incoming, phi, target in zip(past, x, y, strict=True):
            for matrix, shift in zip(incoming, shifts, strict=True):
                phi = np.tanh(phi @ (matrix + shift))
            delta = target - phi @ outgoing
            outgoing = outgoing + 0.1 * np.outer(phi, delta)
        return delta @ delta / 2

    found = oracle.directions(learner, start, x, y)
    for whole, expected in zip(found.whole, slopes(last_loss, [0 * each for each in past[0]]), strict=True):
        assert distance(whole[-1], expected) < 1e-5


@pytest.mark.usefixtures("x64")
def test_with_one_hidden_unit_crossprop_sum_is_the_meta_gradient():
    """There is no other unit whose weights it could leave out."""
    net = cp.Network.paper(3, 1, 2)
    learner, (x, y) = cp.CrosspropSum(net, 0.1), reference.examples(net, STEPS)
    found = oracle.directions(learner, learner.init(jax.random.key(0)), x, y)
    np.testing.assert_allclose(found.learner[0], found.whole[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.own, found.memory[0], rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_weight_without_a_gradient_so_far_has_a_derivative():
    """The root in adam has no slope where nothing was added to the average of squares, as at a dead unit."""
    net = cp.Network.paper(2, 3, 1, "relu")
    learner = cp.Backprop(net, 0.01, optimizer="adam")
    state = learner.init(jax.random.key(0))
    first = state.layers[0]
    state = state.with_first(first._replace(weights=first.weights.at[:, 0].set(-1.0)))
    found = oracle.directions(learner, state, np.array([[1.0, 1.0], [2.0, 0.5], [-1.0, -2.0]]), np.ones(3))
    assert np.isfinite(found.memory[0]).all() and np.any(found.memory[0][1, :, 1:])


@pytest.fixture(scope="module")
def net():
    return cp.Network.paper(20, 4)


STREAM = cp.Geoff(tasks="AB", examples=8, features=10)


@pytest.mark.long
def test_follow_is_the_run_with_cosines_beside_it(net):
    learners = {"sum": cp.CrosspropSum(net, 0.01)}
    found = oracle.follow(learners, STREAM, seeds=[3], record_every=8)
    run = cp.run(learners, STREAM, seeds=[3], record_every=8, progress=False)
    np.testing.assert_allclose(found.loss, run.loss, rtol=1e-4)
    assert found.step.equals(run.step) and found.task.equals(run.task) and found.rule.equals(run.rule)
    stream_key, initial_key = cp.keys(3)
    sample = STREAM.sample(stream_key)
    each = oracle.directions(learners["sum"], learners["sum"].init(initial_key), sample.x, sample.y)
    parts = (each.learner, each.direct, each.memory)
    mine, direct, memory = (np.asarray(part[0], np.float64).reshape(16, -1) for part in parts)
    one = found.sel(learner="sum", seed=3, layer="1", part="memory")
    cosine = lambda a, b: (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    np.testing.assert_allclose(one.cosine[1], cosine(mine[8:], memory[8:]).mean(), rtol=1e-4)
    np.testing.assert_allclose(one.summed_cosine[1], cosine(mine[8:].sum(0), memory[8:].sum(0)), rtol=1e-3)
    np.testing.assert_allclose(one.added_cosine[1], cosine((mine - direct)[8:], memory[8:]).mean(), rtol=1e-3)
    np.testing.assert_allclose(one.norm[1], np.linalg.norm(memory[8:], axis=1).mean(), rtol=1e-4)


def test_learners_along_another_see_its_weights_and_keep_their_own_memory(net):
    backprop, crossprop = cp.Backprop(net, 0.01), cp.Crossprop(net, 0.01)
    learners = {"backprop": backprop, "crossprop": crossprop}
    along = oracle.follow(learners | {"frozen": cp.Frozen(net, 0.01)}, STREAM, record_every=8, along=backprop)
    frozen = along.sel(learner="frozen")
    assert frozen.cosine.isnull().all() and (frozen.direction_norm == 0).all()
    own = oracle.follow(crossprop, STREAM, record_every=8)
    assert (along.norm[0] == along.norm[1]).all() and (along.loss[0] == along.loss[1]).all()
    assert (along.direction_norm[1] > 0).all() and abs(along.cosine[1] - own.cosine[0]).max() > 1e-4
    assert (along.cosine.sel(learner="backprop", part="direct") > 0.99999).all()
    assert along.added_cosine.sel(learner="backprop").isnull().all()


def test_a_deep_network_has_cosines_for_every_layer_and_for_all_together():
    learner = cp.Foresight(cp.Network.paper(20, (3, 2)), 0.01)
    found = oracle.follow(learner, STREAM, record_every=1, steps=5).isel(learner=0, seed=0, step=-1)
    assert list(found.layer.values) == ["all", "1", "2"]
    squares = found.norm.sel(part=["whole", "direct", "memory"]) ** 2
    np.testing.assert_allclose(squares.sel(layer="all"), squares.sel(layer=["1", "2"]).sum("layer"), rtol=1e-5)
    defined = found.norm.sel(part=["own", "cross"]).notnull()
    assert defined.sel(layer="2").all() and not defined.sel(layer=["all", "1"]).any()


class NotACreditRule(cp.Learner):
    network: cp.Network

    def init(self, key):
        return jax.numpy.zeros(())

    def update(self, state, x, y):
        return state, cp.Outcome(jax.numpy.zeros(()), jax.numpy.zeros(self.network.outputs))

    def predict(self, state, x):
        return jax.numpy.zeros(self.network.outputs)

    def weights(self, state):
        return {}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"learners": {"a": 1}}, TypeError, r"learners\['a'\] must be a learner"),
        (
            {"learners": {"a": NotACreditRule(cp.Network.paper(20, 4))}},
            TypeError,
            r"learners\['a'\] must be a credit rule",
        ),
        ({"stream": 1}, TypeError, "stream must be a crossprop.Stream"),
        ({"stream": cp.Iterator([], 20, 1)}, TypeError, "not a crossprop.Iterator"),
        ({"seeds": 0}, ValueError, "seeds must be at least 1, got 0"),
        ({"record_every": 0}, ValueError, "record_every must be between 1 and"),
        ({"steps": 17}, ValueError, "steps must be between 1 and 16, got 17"),
        (
            {"memory_limit": 1000},
            ValueError,
            r"memory_limit must be at least 2.38e-06 GiB .* inputs=20, hidden=\(4,\), outputs=1",
        ),
        ({"memory_limit": 0}, ValueError, "memory_limit must be a finite number above 0"),
        ({"along": cp.Backprop(cp.Network.paper(20, 5), 0.1)}, ValueError, "must be the network of along"),
        ({"along": 1}, TypeError, "along must be a credit rule"),
    ],
)
def test_what_is_wrong_is_named(net, change, kind, message):
    good = {"learners": cp.Backprop(net, 0.01), "stream": STREAM}
    with pytest.raises(kind, match=message):
        oracle.follow(**good | change)


def test_networks_without_hidden_layers_and_of_different_depths_are_refused(net):
    with pytest.raises(ValueError, match=r"got hidden=\(\)"):
        oracle.follow(cp.Backprop(cp.Network.paper(20, ()), 0.01), STREAM)
    learners = {"one": cp.Backprop(net, 0.01), "two": cp.Backprop(cp.Network.paper(20, (4, 4)), 0.01)}
    with pytest.raises(ValueError, match="as many hidden layers"):
        oracle.follow(learners, STREAM)
