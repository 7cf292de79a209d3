"""Replacements: each equals a literal, slow transcription of its equations, and a replaced unit starts anew."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
import reference
import reference_optimizers
import reference_replacements
from crossprop.replacements import REPLACEMENTS

pytestmark = pytest.mark.usefixtures("quick_unless_full")
STEPS = 200

RULES = {
    "crossprop": partial(cp.Crossprop, eta=0.3, layers="all"),
    "crossprop-projected": partial(cp.Crossprop, eta=0.3, projections=2, layers="all"),
    "crossprop-approx": partial(cp.CrosspropApprox, eta=0.3, layers="all"),
    "crossprop-sum": partial(cp.CrosspropSum, layers="all"),
    "foresight": partial(cp.Foresight, ahead=1.5, horizon=20.0),
    "backprop": cp.Backprop,
    "frozen": cp.Frozen,
}
OPTIONS = {"crossprop": {"eta": 0.3}, "crossprop-approx": {"eta": 0.3}, "foresight": {"ahead": 1.5, "horizon": 20.0}}
METHODS = {
    "continual": (
        cp.ContinualReplacement(rate=0.0713, decay=0.9, maturity=3),
        reference_replacements.Continual,
    ),
    "as-run": (
        cp.ContinualReplacement(rate=0.5713, decay=0.9, maturity=2, as_run=True),
        reference_replacements.Continual,
    ),
    "contribution": (
        cp.ContinualReplacement(rate=0.0713, decay=0.9, maturity=3, utility="contribution"),
        reference_replacements.Continual,
    ),
    "generate-and-test": (cp.GenerateAndTest(rate=0.4713, maturity=2), reference_replacements.GenerateAndTest),
    "random": (cp.RandomReplacement(rate=0.0713, maturity=3), reference_replacements.Random),
    "redo": (cp.ReDo(threshold=0.9, every=5, decay=0.8), reference_replacements.ReDo),
}

# Few programs: every rule, every method, every optimizer, one layer and two, biases or not.
CASES = [
    ("backprop", "continual", 4, "sgd", True),
    ("crossprop", "continual", (4, 3), "adam", True),
    ("crossprop-approx", "as-run", (3, 4), "sgd", True),
    ("foresight", "random", (4, 3), "rmsprop", False),
    ("crossprop-projected", "redo", 4, "momentum", True),
    ("crossprop-sum", "generate-and-test", (4, 3), "sgd", False),
    ("frozen", "generate-and-test", 5, "adam", True),
    ("backprop", "contribution", (4, 4), "adam", False),
    ("foresight", "continual", (3, 3), "idbd", True),
    ("crossprop-approx", "continual", (4, 3), "clip_weights", True),
    ("backprop", "random", 4, "l2_init", True),
]
WITH_THE_WHOLE_NETWORK = {
    "idbd": ("idbd", reference_optimizers.IDBD),
    "clip_weights": (
        cp.optimizers.clip_weights(2.0, "adam"),
        partial(reference_optimizers.ClipWeights, kappa=2.0, base="adam"),
    ),
    "l2_init": (cp.optimizers.l2_init(0.5, "adam"), partial(reference_optimizers.L2Init, strength=0.5, base="adam")),
    "autostep": ("autostep", partial(reference_optimizers.Autostep, meta_step_size=0.01, horizon=1e4, bound="network")),
    "smd": ("smd", partial(reference_optimizers.SMD, meta_step_size=0.01, decay=0.99, floor=0.5)),
    "obgd": ("obgd", partial(reference_optimizers.ObGD, kappa=2.0)),
}
"""Optimizers that see the whole network, and their judges."""
METHODS_OF_EVERY_RULE = [
    (rule, method, hidden, optimizer, bias)
    for (rule, method, hidden), (optimizer, bias) in zip(
        itertools.product(RULES, METHODS, (4, (4, 3))),
        itertools.cycle(
            [
                *(("sgd", True), ("adam", True), ("sgd", False), ("adam", False), ("rmsprop", True)),
                *((name, bias) for bias in (True, False) for name in WITH_THE_WHOLE_NETWORK),
            ]
        ),
        strict=False,
    )
]


@pytest.mark.parametrize(
    ("rule", "method", "hidden", "optimizer", "bias"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in METHODS_OF_EVERY_RULE)],
)
@pytest.mark.usefixtures("x64")
def test_replacement_equals_the_transcription_of_its_equations(rule, method, hidden, optimizer, bias):
    replacement, transcription = METHODS[method]
    net = cp.Network(
        2, hidden, 2, "tanh", bias=bias, incoming_scale=0.9, bias_scale=0.3 if bias else None, outgoing_scale=0.7
    )
    optimizer, judge = WITH_THE_WHOLE_NETWORK.get(optimizer, (optimizer, None))
    learner = RULES[rule](net, 0.01, optimizer=optimizer, replacement=replacement)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(STEPS, 2)), rng.normal(size=(STEPS, 2))
    first = learner.init(jax.random.key(3))
    final, losses = lived(learner, first, x, y)
    constants = {name: getattr(replacement, name) for name in replacement.__dataclass_fields__}
    replaced = transcription(net.sizes, bias, given_draws(learner, first), **constants)
    judged = reference.live(
        rule.removesuffix("-projected"),
        activation="tanh",
        loss="squared",
        bias=bias,
        incoming=by_layer(first.incoming, net),
        outgoing=first.outgoing,
        x=x,
        y=y,
        step_size=0.01,
        **({"optimizer": optimizer} if judge is None else {"network_optimizer": judge}),
        signs=None if first.signs is None else by_layer(first.signs, net),
        replace=replaced,
        **OPTIONS.get(rule.removesuffix("-projected"), {}),
    )
    assert replaced.count > 20, replaced.count
    pairs = [(final.outgoing, judged.outgoing), (losses, judged.loss)]
    pairs += zip(by_layer(final.incoming, net), judged.incoming, strict=True)
    pairs += zip(by_layer(final.memory, net), judged.memory, strict=True)
    for one, other in pairs:
        assert (one is None) == (other is None)
        assert one is None or np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)


def by_layer(part, net):
    if isinstance(net.hidden, tuple):
        return [None] * len(net.hidden) if part is None else list(part)
    return [part]


@jax.jit
def lived(learner, state, x, y):
    def example(state, xy):
        state, outcome = learner.update(state, *xy)
        return state, outcome.loss

    return jax.lax.scan(example, state, (x, y))


def given_draws(learner, first):
    """The random numbers of the replacements in their order, from the key in a learner's state."""
    key = first.replacement.key

    def draw(layer):
        nonlocal key
        key, place, weights = _draw(learner, key, layer)
        return float(place), np.asarray(weights).tolist()

    return draw


@partial(jax.jit, static_argnames="layer")
def _draw(learner, key, layer):
    key, choice_key, weights_key = jax.random.split(key, 3)
    weights = learner.network.fresh_unit(weights_key, layer, learner.replacement.redraw)
    return key, jax.random.uniform(choice_key), weights


NET = cp.Network(3, 6, 2, "relu", bias=True, incoming_scale="kaiming-uniform")
STREAM = cp.Arrays(np.random.default_rng(0).normal(size=(120, 3)), np.random.default_rng(1).normal(size=(120, 2)))
EAGER = {
    "continual": cp.ContinualReplacement(rate=0.02, maturity=5),
    "generate-and-test": cp.GenerateAndTest(rate=0.02, maturity=5),
    "redo": cp.ReDo(threshold=0.5, every=10),
    "random": cp.RandomReplacement(rate=0.02, maturity=5),
}


@pytest.fixture(scope="module")
def together():
    """Records and states of learners with every replacement, many seeds at a time."""
    learners = {name: cp.Backprop(NET, 0.05, "adam", replacement=each) for name, each in EAGER.items()}
    return learners, *cp.run(learners, STREAM, seeds=3, record_every=7, engine="scan", return_states=True)


def test_a_seed_alone_equals_it_among_others(together):
    learners, records, states = together
    for name, learner in learners.items():
        alone, last = cp.run({name: learner}, STREAM, seeds=[1], record_every=7, engine="scan", return_states=True)
        np.testing.assert_array_equal(alone.loss, records.loss.sel(learner=[name], seed=[1]))
        assert same(last[name][1], states[name][1])


def test_records_name_the_replacement(together):
    learners, records, _ = together
    assert records.replacement.values.tolist() == list(learners) == list(REPLACEMENTS)


def same(one, other):
    """Bit for bit; keys by their data."""
    plain = lambda leaf: (
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jnp.asarray(leaf)
    )
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(plain(a), plain(b), equal_nan=True) for a, b in pairs)
