"""Step sizes that follow schedules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
import reference
from crossprop.testing import check_learner

NET = cp.Network(3, 4, 2, bias=True)


def fading(examples):
    return 0.02 * (1 + 4 * jnp.exp(-jnp.asarray(examples, float) / 3))


@pytest.mark.parametrize("hidden", [4, (4, 3)])
@pytest.mark.parametrize("name", ["step_size", "incoming_step_size", "memory_step_size"])
@pytest.mark.usefixtures("x64", "quick_compilation")
def test_every_step_size_follows_its_schedule(name, hidden):
    """As a learner for every example, with the step sizes for it, that begins where the last one ended."""
    net = cp.Network(3, hidden, 2, bias=True)
    sizes = {"step_size": 0.02, "incoming_step_size": 0.01, "memory_step_size": 0.03}
    learner = cp.Scheduled(cp.Crossprop(net, eta=0.3, **sizes), **{name: fading})
    x, y = reference.examples(net, 12, seed=0)
    state = learner.init(jax.random.key(0))
    plain = cp.Crossprop(net, eta=0.3, **sizes).init(jax.random.key(0))
    for at in range(len(x)):
        now = cp.Crossprop(net, eta=0.3, **{**sizes, name: float(fading(at))})
        plain, _ = now.update(plain, x[at], y[at])
        state, _ = learner.update(state, x[at], y[at])
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9), state.inner, plain)


@pytest.mark.usefixtures("x64", "quick_compilation")
def test_a_schedule_of_both_steps_is_the_optimizer_fading():
    x, y = reference.examples(NET, 30, seed=1)
    one = cp.Scheduled(cp.Foresight(NET, 0.02), step_size=fading)
    other = cp.Foresight(NET, 0.02, optimizer=cp.optimizers.fading(4, over=3, weights="all"))
    states = [cp.live(each, each.init(jax.random.key(0)), x, y)[0] for each in (one, other)]
    np.testing.assert_allclose(states[0].inner.outgoing, states[1].outgoing, rtol=1e-9)
    np.testing.assert_allclose(states[0].inner.incoming[0], states[1].incoming[0], rtol=1e-9)


@pytest.mark.long
@pytest.mark.usefixtures("quick_compilation")
def test_it_keeps_the_contract():
    schedule = optax.exponential_decay(0.05, transition_steps=50, decay_rate=0.5)
    check_learner(cp.Scheduled(cp.Backprop(NET, 0.05, optimizer="adam"), incoming_step_size=schedule))


def test_it_is_saved_but_for_its_functions(tmp_path):
    learner = cp.Scheduled(cp.Backprop(NET, 0.05), step_size=fading)
    cp.save(tmp_path / "it", learner, learner.init(jax.random.key(0)))
    assert cp.load(tmp_path / "it", step_size=fading)[0] == learner


@pytest.mark.parametrize(
    ("arguments", "problem", "words"),
    [
        ({}, ValueError, "a schedule must be given"),
        ({"step_size": 0.1}, TypeError, "step_size must be a function of the number of examples, got 0.1"),
        ({"memory_step_size": fading}, ValueError, "memory_step_size must be None for a learner without one, got Back"),
        ({"step_size": lambda examples: -1.0}, ValueError, "step_size must be"),
    ],
)
def test_what_is_wrong_is_named(arguments, problem, words):
    with pytest.raises(problem, match=words):
        cp.Scheduled(cp.Backprop(NET, 0.05), **arguments)
