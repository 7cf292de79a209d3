"""What the learners promise: gradients, the ends of the eta line, projections, optimizers, saving, clear errors."""

import dataclasses
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crossprop as cp
from crossprop._support.array_files import write_arrays
from crossprop.engines.session import plain_numbers
from crossprop.learners import LEARNERS
from same import assert_same_states

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network.paper(inputs=3, hidden=5, outputs=2)

# Few networks and many numbers: a network is compiled once for all the numbers that are drawn.
NETWORKS = [
    cp.Network.paper(1, 1),
    cp.Network.paper(4, 2, 3, "sigmoid", "softmax"),
    cp.Network.paper(6, 7, 2, "relu", "squared", bias=True),
    cp.Network.paper(3, 5, 4, "tanh", "softmax", bias=True),
]
networks = pytest.mark.parametrize(
    "net",
    [pytest.param(net, marks=[pytest.mark.long] * (net.activation == "tanh")) for net in NETWORKS],
    ids=lambda net: f"{net.activation}-{net.loss}-{net.bias}",
)
step_sizes = st.floats(1e-5, 0.05)


def examples(net, steps, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(steps, net.outputs))
    y = np.eye(net.outputs)[y.argmax(axis=1)] if net.loss == "softmax" else y
    return rng.normal(size=(steps, net.inputs)), y


def live(learner, x, y):
    state, losses = learner.init(jax.random.key(0)), []
    for one_x, one_y in zip(x, y, strict=True):
        state, outcome = learner.update(state, one_x, one_y)
        losses.append(outcome.loss)
    return state, np.array(losses)


def assert_same_weights(one, other, **tolerance):
    for these, those in zip((*one.incoming, one.outgoing), (*other.incoming, other.outgoing), strict=True):
        np.testing.assert_allclose(these, those, **tolerance)


# Contract: every registered learner.


def numbers(tree):
    """Copies of the arrays of a tree, keys as their data."""
    return jax.tree.map(lambda leaf: np.array(plain_numbers(leaf)), tree)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("net", [cp.Network.paper(4, 6, 3, "sigmoid", "softmax", bias=True)], ids=["softmax"])
class TestEveryLearner:
    def test_state_has_the_promised_shapes(self, name, net):
        learner = LEARNERS[name](net, 0.01)
        state = learner.init(jax.random.key(0))
        assert [weights.shape for weights in state.incoming] == [(net.inputs + net.bias, net.units)]
        assert state.outgoing.shape == (net.outputs, net.units + net.bias)
        after, outcome = learner.update(state, *(values[0] for values in examples(net, 1)))
        assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
        assert [a.dtype for a in jax.tree.leaves(after)] == [a.dtype for a in jax.tree.leaves(state)]
        assert outcome.loss.shape == () and outcome.outputs.shape == (net.outputs,)

    def test_outcome_is_from_before_learning(self, name, net):
        learner = LEARNERS[name](net, 0.01)
        state = learner.init(jax.random.key(0))
        x, y = (jnp.asarray(values[0]) for values in examples(net, 1))
        after, outcome = learner.update(state, x, y)
        np.testing.assert_allclose(outcome.outputs, learner.predict(state, x), rtol=1e-6)
        assert not np.allclose(learner.predict(after, x), outcome.outputs, rtol=1e-4)
        assert outcome.loss == pytest.approx(float(net.error(outcome.outputs, y)[0]), rel=1e-6)

    def test_update_is_pure(self, name, net):
        learner = LEARNERS[name](net, 0.01)
        state = learner.init(jax.random.key(0))
        before = numbers(state)
        x, y = (values[0] for values in examples(net, 1))
        one, other = learner.update(state, x, y), learner.update(state, x, y)
        jax.tree.map(np.testing.assert_array_equal, before, numbers(state))
        jax.tree.map(np.testing.assert_array_equal, numbers(one), numbers(other))

    def test_one_key_gives_every_learner_the_same_weights(self, name, net):
        state, expected = (
            LEARNERS[name](net, 0.01).init(jax.random.key(3)),
            cp.Backprop(net, 1.0).init(jax.random.key(3)),
        )
        assert_same_weights(state, expected, rtol=0)

    def test_it_learns_a_repeated_example(self, name, net):
        learner = LEARNERS[name](net, 0.01)
        x, y = examples(net, 1)
        _, loss = live(learner, np.repeat(x, 300, axis=0), np.repeat(y, 300, axis=0))
        assert loss[-1] < 0.5 * loss[0]

    def test_hyperparameters_can_be_mapped_over(self, name, net):
        learner = LEARNERS[name](net, 0.01)
        state, xy = learner.init(jax.random.key(0)), examples(net, 20)

        def losses(size):
            sized = dataclasses.replace(learner, step_size=size)
            return jax.lax.scan(lambda state, xy: sized.update(state, *xy), state, xy)[1].loss

        mapped = jax.jit(jax.vmap(losses))(jnp.array([0.01, 0.03]))
        np.testing.assert_allclose(mapped[1], live(dataclasses.replace(learner, step_size=0.03), *xy)[1], rtol=1e-4)
        assert not np.allclose(mapped[0], mapped[1], rtol=1e-3)

    def test_saved_and_loaded_it_goes_on_as_if_nothing_happened(self, name, net, tmp_path):
        learner = LEARNERS[name](net, 0.012345678901234567)
        x, y = examples(net, 5)
        state, _ = live(learner, x, y)
        cp.save(tmp_path / "run.cp", learner, state)
        loaded, loaded_state = cp.load(tmp_path / "run.cp")
        assert loaded == learner
        assert_same_states(loaded_state, state)
        assert_same_states(loaded.update(loaded_state, x[0], y[0]), learner.update(state, x[0], y[0]))
        assert [path.name for path in tmp_path.iterdir()] == ["run.cp"]

    def test_scale_zero_starts_from_zero(self, name, net):
        flat = dataclasses.replace(net, outgoing_scale=0)
        state = LEARNERS[name](flat, 0.01).init(jax.random.key(0))
        assert (state.outgoing == 0).all() and (state.incoming[0] != 0).all()


# The algebra of the rules.


@networks
@given(step_size=step_sizes)
@pytest.mark.usefixtures("x64")
def test_backprop_follows_the_gradient(net, step_size):
    learner = cp.Backprop(net, step_size)
    state = learner.init(jax.random.key(1))
    x, y = (jnp.asarray(values[0]) for values in examples(net, 1))

    def descended(weights):
        incoming, outgoing = weights
        phi = net.activate(net.with_constant(x) @ incoming).phi
        outputs = outgoing @ net.with_constant(phi)
        return 0.5 * jnp.sum((y - outputs) ** 2) if net.loss == "squared" else optax.softmax_cross_entropy(outputs, y)

    gradient = jax.grad(descended)((state.incoming[0], state.outgoing))
    after, _ = learner.update(state, x, y)
    np.testing.assert_allclose((state.incoming[0] - after.incoming[0]) / step_size, gradient[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose((state.outgoing - after.outgoing) / step_size, gradient[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rule", [cp.Crossprop, partial(cp.Crossprop, projections=2), cp.CrosspropApprox])
@networks
@given(step_size=step_sizes)
@pytest.mark.usefixtures("x64")
def test_eta_one_is_backprop(rule, net, step_size):
    x, y = examples(net, 10)
    one, other = live(rule(net, step_size, eta=1.0), x, y)[0], live(cp.Backprop(net, step_size), x, y)[0]
    assert_same_weights(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_mean_direction_over_sign_draws_converges_to_the_exact_one():
    """The first steps move the memory, the next one's direction is compared; noise must fall as 1 / sqrt(draws)."""
    net = cp.Network.paper(inputs=3, hidden=4, outputs=5)
    x, y = examples(net, 4)
    exact, projected = cp.Crossprop(net, 0.1, eta=0.3), cp.Crossprop(net, 0.1, eta=0.3, projections=1)
    # W is driven by delta alone and U is held by a tiny step, so both rules see the same error until the last example.
    still = {"incoming_step_size": 1e-12}

    def direction(learner, signs):
        learner = dataclasses.replace(learner, **still)
        state = learner.init(jax.random.key(0))
        if signs is not None:
            state = state.with_first(state.layers[0]._replace(signs=signs))
        for at in range(3):
            state, _ = learner.update(state, x[at], y[at])
        after, _ = learner.update(state, x[3], y[3])
        return (after.incoming[0] - state.incoming[0]) / 1e-12

    expected = direction(exact, None)
    signs = jax.random.rademacher(jax.random.key(9), (4000, 1, net.outputs, net.units), float)
    drawn = jax.vmap(lambda one: direction(projected, one))(signs)
    gap = lambda draws: float(jnp.linalg.norm(drawn[:draws].mean(axis=0) - expected) / jnp.linalg.norm(expected))
    assert gap(4000) < 0.05
    assert gap(4000) < 0.5 * np.mean([gap(40), gap(60), gap(80)])


def decaying(size):
    return optax.adamw(size, weight_decay=0.1)


@networks
@given(step_size=step_sizes)
def test_frozen_never_moves_its_features(net, step_size):
    x, y = examples(net, 5)
    for optimizer in ("sgd", "adam", decaying):
        learner = cp.Frozen(net, step_size, optimizer=optimizer)
        state, _ = live(learner, x, y)
        assert (state.incoming[0] == learner.init(jax.random.key(0)).incoming[0]).all()


@networks
@given(step_size=step_sizes, eta=st.floats(0, 1, allow_subnormal=False), memory_step_size=step_sizes)
@pytest.mark.usefixtures("x64")
def test_unset_step_sizes_and_memory_eta_are_as_step_size_and_eta(net, step_size, eta, memory_step_size):
    x, y = examples(net, 4)
    for rule, further in ((cp.Crossprop, {}), (cp.CrosspropApprox, {"memory_eta": eta})):
        short = rule(net, step_size, eta=eta)
        long = rule(net, step_size, eta=eta, incoming_step_size=step_size, memory_step_size=step_size, **further)
        one, other = live(short, x, y)[0], live(long, x, y)[0]
        assert_same_weights(one, other, rtol=0)
        np.testing.assert_array_equal(one.layers[0].memory, other.layers[0].memory)
        if abs(memory_step_size / step_size - 1) > 0.1:
            moved = live(dataclasses.replace(short, memory_step_size=memory_step_size), x, y)[0]
            assert not np.array_equal(moved.layers[0].memory, one.layers[0].memory)


# Optimizers.


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adadelta"])
@pytest.mark.usefixtures("x64")
def test_optimizer_equals_torch(optimizer):
    torch = pytest.importorskip("torch")
    net = cp.Network.paper(inputs=4, hidden=6, outputs=2)
    x, y = examples(net, 100)
    learner = cp.Backprop(net, 0.01, optimizer=optimizer)
    state = learner.init(jax.random.key(0))
    incoming, outgoing = (torch.tensor(np.array(w), requires_grad=True) for w in (*state.incoming, state.outgoing.T))
    build = {
        "sgd": torch.optim.SGD,
        "momentum": partial(torch.optim.SGD, momentum=0.9),
        "adam": partial(torch.optim.Adam, betas=(0.9, 0.999), eps=1e-8),
        "adadelta": partial(torch.optim.Adadelta, rho=0.95, eps=1e-6),
    }[optimizer]
    torch_optimizer = build([incoming, outgoing], lr=0.01)
    for one_x, one_y in zip(np.array(x), np.array(y), strict=True):
        state, _ = learner.update(state, one_x, one_y)
        torch_optimizer.zero_grad()
        outputs = torch.tanh(torch.tensor(one_x) @ incoming) @ outgoing
        (0.5 * (torch.tensor(one_y) - outputs).square().sum()).backward()
        torch_optimizer.step()
    np.testing.assert_allclose(state.incoming[0], incoming.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(state.outgoing.T, outgoing.detach().numpy(), rtol=1e-9)


def test_any_optax_transformation_will_do():
    x, y = examples(NET, 30)
    own = cp.Crossprop(NET, 0.01, optimizer=optax.adam)
    assert_same_weights(live(own, x, y)[0], live(cp.Crossprop(NET, 0.01, optimizer="adam"), x, y)[0], rtol=1e-6)
    clipped = lambda size: optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(size))
    state = live(cp.Backprop(NET, 0.01, optimizer=clipped), x, y)[0]
    moved = jnp.linalg.norm(state.incoming[0] - cp.Backprop(NET, 0.01).init(jax.random.key(0)).incoming[0])
    assert 0 < moved <= 30 * 0.01 * 0.1 * 1.001


def test_a_learner_with_an_optimizer_of_your_own_wants_it_again_when_loaded(tmp_path):
    learner = cp.Backprop(NET, 0.01, optimizer=optax.adam)
    state = learner.init(jax.random.key(0))
    cp.save(tmp_path / "own.cp", learner, state)
    with pytest.raises(ValueError, match="optimizer="):
        cp.load(tmp_path / "own.cp")
    loaded, loaded_state = cp.load(tmp_path / "own.cp", optimizer=optax.adam)
    assert loaded == learner
    jax.tree.map(np.testing.assert_array_equal, loaded_state, state)


# Bad input.

BAD = {
    "step size zero": (lambda: cp.Backprop(NET, 0), "step_size", "0"),
    "step size negative": (lambda: cp.Crossprop(NET, -1e-3), "step_size", "-0.001"),
    "step size nan": (lambda: cp.Frozen(NET, float("nan")), "step_size", "nan"),
    "step size inf": (lambda: cp.CrosspropSum(NET, float("inf")), "step_size", "inf"),
    "step size text": (lambda: cp.Backprop(NET, "fast"), "step_size", "fast"),
    "step size none": (lambda: cp.Backprop(NET, None), "step_size", "None"),
    "step size array": (lambda: cp.Backprop(NET, np.array(-2.0)), "step_size", "-2"),
    "incoming step size": (lambda: cp.Backprop(NET, 0.1, incoming_step_size=-3), "incoming_step_size", "-3"),
    "memory step size": (lambda: cp.Crossprop(NET, 0.1, memory_step_size=0), "memory_step_size", "0"),
    "eta above": (lambda: cp.Crossprop(NET, 0.1, eta=1.5), "eta", "1.5"),
    "eta below": (lambda: cp.CrosspropApprox(NET, 0.1, eta=-0.1), "eta", "-0.1"),
    "eta nan": (lambda: cp.Crossprop(NET, 0.1, eta=float("nan")), "eta", "nan"),
    "memory eta": (lambda: cp.CrosspropApprox(NET, 0.1, memory_eta=2), "memory_eta", "2"),
    "projections": (lambda: cp.Crossprop(NET, 0.1, projections=0), "projections", "0"),
    "projections half": (lambda: cp.Crossprop(NET, 0.1, projections=1.5), "projections", "1.5"),
    "optimizer": (lambda: cp.Backprop(NET, 0.1, optimizer="adm"), "optimizer", "did you mean 'adam'"),
    "optimizer built": (
        lambda: cp.Backprop(NET, 0.1, optimizer=optax.adam(0.1)),
        "optimizer",
        "GradientTransformation",
    ),
    "network": (lambda: cp.Backprop(20, 0.1), "network", "20"),
    "inputs": (lambda: cp.Network.paper(0, 5), "inputs", "0"),
    "hidden": (lambda: cp.Network.paper(5, -1), "hidden", "-1"),
    "outputs": (lambda: cp.Network.paper(5, 5, outputs=0), "outputs", "0"),
    "outputs half": (lambda: cp.Network.paper(5, 5, outputs=2.5), "outputs", "2.5"),
    "activation": (lambda: cp.Network.paper(5, 5, activation="tan"), "activation", "did you mean 'tanh'"),
    "loss": (lambda: cp.Network.paper(5, 5, loss="mse"), "loss", "mse"),
    "bias": (lambda: cp.Network.paper(5, 5, bias="yes"), "bias", "yes"),
    "scale": (lambda: cp.Network.paper(5, 5, incoming_scale=-1), "incoming_scale", "-1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_with_its_value(case):
    build, argument, value = BAD[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(value)) as caught:
        build()
    assert argument in str(caught.value)


def test_update_names_the_shape_that_does_not_fit():
    learner = cp.Backprop(NET, 0.1)
    state = learner.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"x must have shape \(3,\), got \(4,\)"):
        learner.update(state, jnp.zeros(4), jnp.zeros(2))
    with pytest.raises(ValueError, match=r"y must have shape \(2,\), got \(1,\)"):
        learner.update(state, jnp.zeros(3), jnp.zeros(1))


def test_load_refuses_what_save_did_not_write(tmp_path):
    path = tmp_path / "no.cp"
    for content in (b"", b"not an archive", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"no\.cp"):
            cp.load(path)
    np.savez(path.with_suffix(".npz"), header=np.array("{}"))
    with pytest.raises(ValueError, match=r"no\.npz is damaged, or crossprop did not write it"):
        cp.load(path.with_suffix(".npz"))
    write_arrays(path, {}, {"schema": 99})
    with pytest.raises(ValueError, match="schema 99"):
        cp.load(path)
    learner = cp.Backprop(NET, 0.1)
    with pytest.raises(ValueError, match="state"):
        cp.save(path, learner, cp.Crossprop(NET, 0.1).init(jax.random.key(0)))
    with pytest.raises(FileNotFoundError):
        cp.load(tmp_path / "absent.cp")
