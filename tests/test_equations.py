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
"""Whether every optimizer meets every number of outputs in every network; else all but sgd take them in turn."""


def settings(optimizer):
    networks = itertools.product(ACTIVATIONS, LOSSES, (False, True))
    for index, network in enumerate(networks):
        turn = (index + OPTIMIZERS.index(optimizer)) % len(OUTPUTS)
        for outputs in OUTPUTS if FULL_GRID or optimizer == "sgd" else OUTPUTS[turn : turn + 1]:
            yield *network, outputs


@pytest.fixture(autouse=True)
def few_programs_at_a_time():
    """A process can hold only so many compiled programs before the system refuses it more memory maps."""
    yield
    live_in_both_precisions.clear_cache()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("x64")
def test_learner_equals_the_transcription_of_its_equations(rule, optimizer):
    build, variants = RULES[rule]
    states = {}
    for (activation, loss, bias, outputs), hyperparameters in itertools.product(settings(optimizer), variants):
        net = cp.Network(INPUTS, HIDDEN, outputs, activation, loss, bias)
        options = {"optimizer": optimizer} | STEP_SIZES | hyperparameters
        learner = build(net, **options)
        if (bias, outputs) not in states:
            states[bias, outputs] = learner.init(jax.random.key(outputs))
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
        for dtype, tolerance, (final, losses) in zip(
            (jnp.float64, jnp.float32), (1e-9, 1e-3), live_in_both_precisions(learner, state, x, y), strict=True
        ):
            assert final.incoming.dtype == losses.dtype == dtype
            for name in ("incoming", "outgoing", "memory"):
                expected = getattr(judged, name)
                if expected is None:
                    assert getattr(final, name) is None
                else:
                    assert distance(getattr(final, name), expected) < tolerance, (name, net, dtype)
            assert distance(losses, judged.loss) < tolerance, (net, dtype)


# A thousand programs are compiled here for 200 steps each: quick compilation is worth more than quick code.
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


@partial(jax.jit, compiler_options=QUICK)
def live_in_both_precisions(learner, state, x, y):
    def example(state, xy):
        state, outcome = learner.update(state, *xy)
        return state, outcome.loss

    def live(dtype):
        narrow = lambda leaf: leaf.astype(dtype) if leaf.dtype == jnp.float64 else leaf
        return jax.lax.scan(example, *jax.tree.map(narrow, (state, (x, y))))

    return live(jnp.float64), live(jnp.float32)


def examples(net, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(STEPS, net.inputs))
    y = rng.normal(size=(STEPS, net.outputs))
    return x, np.eye(net.outputs)[y.argmax(axis=1)] if net.loss == "softmax" else y


def distance(one, other):
    """The relative difference by norm; two zeros are alike."""
    gap = np.linalg.norm(np.asarray(one, np.float64) - other)
    return gap / np.linalg.norm(other) if gap else 0.0
