"""Every learner equals a literal, slow transcription of the paper's equations."""

import itertools
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
import reference
from crossprop.network import ACTIVATIONS, LOSSES

pytestmark = pytest.mark.usefixtures("quick_compilation")
INPUTS, HIDDEN, STEPS = 2, 3, 200
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam")
STEP_SIZES = {"step_size": 0.01, "incoming_step_size": 0.004}
MEMORY = {"memory_step_size": 0.02}

# Every rule: how the package builds it, and the same hyperparameters for the judge.
RULES = {
    "crossprop": (cp.Crossprop, [{"eta": 0.0} | MEMORY, {"eta": 0.3} | MEMORY]),
    "crossprop-projected": (partial(cp.Crossprop, projections=2), [{"eta": 0.3} | MEMORY]),
    "crossprop-approx": (cp.CrosspropApprox, [{"eta": 0.3, "memory_eta": 0.1} | MEMORY]),
    "crossprop-sum": (cp.CrosspropSum, [MEMORY]),
    "backprop": (cp.Backprop, [{}]),
    "frozen": (cp.Frozen, [{}]),
}
OUTPUTS = (1, 3, 10)
FULL_GRID = os.environ.get("CROSSPROP_FULL_GRID") == "1"
"""Whether every rule meets every combination of optimizer, activation, loss, bias and outputs in float64; else, and in
float32, every combination of any two."""


def networks(optimizer):
    return itertools.product(ACTIVATIONS, LOSSES, (False, True), OUTPUTS) if FULL_GRID else pairs(optimizer)


def pairs(optimizer):
    turn, losses_and_biases = OPTIMIZERS.index(optimizer), list(itertools.product(LOSSES, (False, True)))
    for at, activation in enumerate(ACTIVATIONS):
        loss, bias = losses_and_biases[(turn - at) % len(losses_and_biases)]
        yield activation, loss, bias, OUTPUTS[(turn + at) % len(OUTPUTS)]


def test_any_two_of_the_grid_meet_in_every_combination():
    met = [(optimizer, *network) for optimizer in OPTIMIZERS for network in pairs(optimizer)]
    values = (OPTIMIZERS, ACTIVATIONS, LOSSES, (False, True), OUTPUTS)
    for one, other in itertools.combinations(range(len(values)), 2):
        assert {(row[one], row[other]) for row in met} == set(itertools.product(values[one], values[other]))


@pytest.fixture(autouse=True)
def few_programs_at_a_time():
    """A process can hold only so many compiled programs before the system refuses it more memory maps."""
    yield
    live.clear_cache()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("x64")
def test_learner_equals_the_transcription_of_its_equations(rule, optimizer):
    build, variants = RULES[rule]
    states = {}
    for (activation, loss, bias, outputs), hyperparameters in itertools.product(networks(optimizer), variants):
        net = cp.Network(INPUTS, HIDDEN, outputs, activation, loss, bias)
        options = {"optimizer": optimizer} | STEP_SIZES | hyperparameters
        learner = build(net, **options)
        if (bias, outputs) not in states:
            plain = cp.Network(INPUTS, HIDDEN, outputs, bias=bias)
            states[bias, outputs] = build(plain, **options).init(jax.random.key(outputs))
        state = states[bias, outputs]
        x, y = examples(net, seed=outputs)
        judged = reference.live(
            rule.removesuffix("-projected"),
            activation=activation,
            loss=loss,
            bias=bias,
            incoming=state.incoming,
            outgoing=state.outgoing,
            x=x,
            y=y,
            signs=None if state.signs is None else np.asarray(state.signs),
            **options,
        )
        assert all(np.isfinite(values).all() for values in judged if values is not None)
        both = (activation, loss, bias, outputs) in pairs(optimizer)
        tolerances = {jnp.float64: 1e-9} | ({jnp.float32: 1e-3} if both else {})
        lived = live(learner, state, x, y, tuple(tolerances))
        for (dtype, tolerance), (final, losses) in zip(tolerances.items(), lived, strict=True):
            assert final.incoming.dtype == losses.dtype == dtype
            for name in ("incoming", "outgoing", "memory"):
                expected = getattr(judged, name)
                if expected is None:
                    assert getattr(final, name) is None
                else:
                    assert distance(getattr(final, name), expected) < tolerance, (name, net, dtype)
            assert distance(losses, judged.loss) < tolerance, (net, dtype)


@partial(jax.jit, static_argnames="dtypes")
def live(learner, state, x, y, dtypes):
    def example(state, xy):
        state, outcome = learner.update(state, *xy)
        return state, outcome.loss

    def in_precision(dtype):
        narrow = lambda leaf: leaf.astype(dtype) if leaf.dtype == jnp.float64 else leaf
        return jax.lax.scan(example, *jax.tree.map(narrow, (state, (x, y))))

    return [in_precision(dtype) for dtype in dtypes]


def examples(net, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(STEPS, net.inputs))
    y = rng.normal(size=(STEPS, net.outputs))
    return x, np.eye(net.outputs)[y.argmax(axis=1)] if net.loss == "softmax" else y


def distance(one, other):
    """The relative difference by norm; two zeros are alike."""
    gap = np.linalg.norm(np.asarray(one, np.float64) - other)
    return gap / np.linalg.norm(other) if gap else 0.0
