"""Replacements: each equals a literal, slow transcription of its equations, and a replaced unit starts anew."""

import dataclasses
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
from crossprop import specification
from crossprop.configuration import configuration
from crossprop.descriptions import learner_info
from crossprop.engines import ENGINES, choose
from crossprop.experiments.results import reference_of
from crossprop.records import LearnerInfo
from crossprop.replacements import REPLACEMENTS

pytestmark = pytest.mark.usefixtures("quick_unless_full")
STEPS = 200

RULES = {
    "crossprop": partial(cp.Crossprop, eta=0.3, layers="all"),
    "crossprop-projected": partial(cp.Crossprop, eta=0.3, projections=2, layers="all"),
    "crossprop-approx": partial(cp.CrosspropApprox, eta=0.3, layers="all"),
    "crossprop-sum": partial(cp.CrosspropSum, layers="all"),
    "foresight": partial(cp.Foresight, ahead=1.5, horizon=20.0),
    "correlation": partial(cp.Correlation, weight=2.0, horizon=20.0),
    "backprop": cp.Backprop,
    "frozen": cp.Frozen,
}
OPTIONS = {
    "crossprop": {"eta": 0.3},
    "crossprop-approx": {"eta": 0.3},
    "foresight": {"ahead": 1.5, "horizon": 20.0},
    "correlation": {"weight": 2.0, "horizon": 20.0},
}
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
    "periodic": (cp.PeriodicReplacement(share=0.4, every=3), reference_replacements.Periodic),
    "random": (cp.RandomReplacement(rate=0.0713, maturity=3), reference_replacements.Random),
    "redo": (cp.ReDo(threshold=0.9, every=5, decay=0.8), reference_replacements.ReDo),
}

# Few programs: every method and most rules and optimizers, one layer and two, biases or not.
CASES = [
    ("crossprop", "continual", (4, 3), "adam", True),
    ("crossprop-projected", "redo", 4, "momentum", True),
    ("foresight", "random", (4, 3), "rmsprop", False),
    ("frozen", "generate-and-test", 5, "adam", True),
    ("backprop", "periodic", 5, "sgd", True),
    ("crossprop-approx", "as-run", (3, 4), "clip_weights", True),
    ("backprop", "contribution", 4, "idbd", True),
]
FURTHER_CASES = [
    ("backprop", "continual", 4, "sgd", True),
    ("crossprop-approx", "as-run", (3, 4), "sgd", True),
    ("crossprop-sum", "generate-and-test", (4, 3), "sgd", False),
    ("backprop", "contribution", (4, 4), "adam", False),
    ("foresight", "continual", (3, 3), "idbd", True),
    ("crossprop-approx", "continual", (4, 3), "clip_weights", True),
    ("correlation", "continual", (4, 3), "adam", True),
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
    [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in (*FURTHER_CASES, *METHODS_OF_EVERY_RULE))],
)
@pytest.mark.usefixtures("x64")
def test_replacement_equals_the_transcription_of_its_equations(rule, method, hidden, optimizer, bias):
    replacement, transcription = METHODS[method]
    net = cp.Network.paper(
        2, hidden, 2, "tanh", bias=bias, incoming_scale=0.9, bias_scale=0.3 if bias else None, outgoing_scale=0.7
    )
    optimizer, judge = WITH_THE_WHOLE_NETWORK.get(optimizer, (optimizer, None))
    learner = RULES[rule](net, 0.01, optimizer=optimizer, replacement=replacement)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(STEPS, 2)), rng.normal(size=(STEPS, 2))
    first = learner.init(jax.random.key(3))
    final, losses = live(learner, first, x, y)
    constants = {name: getattr(replacement, name) for name in replacement.__dataclass_fields__}
    replaced = transcription(net.hidden, bias, given_draws(learner, first), **constants)
    judged = reference.live_from(
        first,
        net,
        rule,
        x,
        y,
        step_size=0.01,
        **({"optimizer": optimizer} if judge is None else {"network_optimizer": judge}),
        replace=replaced,
        **OPTIONS.get(rule.removesuffix("-projected"), {}),
    )
    assert replaced.count > 20, replaced.count
    for one, other in reference.pairs(final, losses, judged):
        assert (one is None) == (other is None)
        assert one is None or np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)


@jax.jit
def live(learner, state, x, y):
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


NET = cp.Network.paper(3, 6, 2, "relu", bias=True, incoming_scale="kaiming-uniform")
STREAM = cp.Arrays(np.random.default_rng(0).normal(size=(120, 3)), np.random.default_rng(1).normal(size=(120, 2)))
QUICK = {"record_every": 7, "engine": "scan", "return_states": True, "progress": False}
EAGER = {
    "continual": cp.ContinualReplacement(rate=0.02, maturity=5),
    "generate-and-test": cp.GenerateAndTest(rate=0.02, maturity=5),
    "periodic": cp.PeriodicReplacement(share=0.5, every=10),
    "redo": cp.ReDo(threshold=0.5, every=10),
    "random": cp.RandomReplacement(rate=0.02, maturity=5),
}


@pytest.fixture(scope="module")
def learner():
    """Two layers, and the replacement that draws most."""
    net = cp.Network.paper(3, (6, 4), 2, "relu", bias=True, incoming_scale="kaiming-uniform")
    return cp.Backprop(net, 0.05, replacement=EAGER["random"])


@pytest.fixture(scope="module")
def together(learner):
    """Records and states of three seeds that ran side by side."""
    return cp.run({"it": learner}, STREAM, seeds=3, **QUICK)


def test_a_seed_alone_equals_it_among_others(learner, together):
    alone, last = cp.run({"it": learner}, STREAM, seeds=[1], **QUICK)
    np.testing.assert_array_equal(alone.loss, together[0].loss.sel(seed=[1]))
    assert same(last["it"][1], together[1]["it"][1])


def test_a_run_that_goes_on_equals_one_that_never_stopped(learner, together):
    first, states = cp.run({"it": learner}, STREAM, seeds=[1], steps=63, **QUICK)
    second, last = cp.run({"it": learner}, STREAM, seeds=[1], start=states, **QUICK)
    joined = np.concatenate([first.loss, second.loss], axis=-1)
    np.testing.assert_array_equal(joined, together[0].loss.sel(seed=[1]))
    assert same(last["it"][1], together[1]["it"][1])


def test_a_run_from_a_checkpoint_equals_one_that_never_stopped(learner, together, tmp_path, monkeypatch):
    monkeypatch.setattr("crossprop.checkpoints.SECONDS", 0, raising=False)
    records, last = cp.run({"it": learner}, STREAM, seeds=[1], checkpoint=tmp_path, **QUICK)
    again, kept = cp.run({"it": learner}, STREAM, seeds=[1], checkpoint=tmp_path, **QUICK)
    for each, state in ((records, last), (again, kept)):
        np.testing.assert_array_equal(each.loss, together[0].loss.sel(seed=[1]))
        assert same(state["it"][1], together[1]["it"][1])


def test_saved_and_loaded_it_goes_on_with_its_random_numbers(learner, together, tmp_path):
    state = together[1]["it"][0]
    cp.save(tmp_path / "it.npz", learner, state)
    loaded, read = cp.load(tmp_path / "it.npz")
    assert loaded == learner and same(read, state)


def test_a_run_equals_its_updates_one_by_one(learner, together):
    """In another program, whose sums may be in another order."""
    sample = STREAM.sample(cp.keys(1)[0])
    final, losses = live(learner, learner.init(cp.keys(1)[1]), sample.x.astype(np.float32), sample.y)
    np.testing.assert_allclose(losses[:7].mean(), together[0].loss.sel(seed=1)[0, 0], rtol=1e-5)
    np.testing.assert_allclose(final.replacement.memory[0].age, together[1]["it"][1].replacement.memory[0].age)


def test_a_sweep_of_rates_equals_runs_of_each(learner, together):
    found = cp.sweep({"it": learner}, STREAM, {"replacement.rate": [0.005, 0.02]}, seeds=[1], record_every=7)
    np.testing.assert_array_equal(
        found["it"].loss.sel({"replacement.rate": 0.02}).values.ravel(), together[0].loss.sel(seed=1).values.ravel()
    )


def test_initial_weights_do_not_depend_on_the_replacement(learner):
    plain = dataclasses.replace(learner, replacement=None).init(jax.random.key(5))
    own = learner.init(jax.random.key(5))
    assert own.replacement is not None and same(own._replace(replacement=None), plain)


def same(one, other):
    """Bit for bit; keys by their data."""
    plain = lambda leaf: (
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jnp.asarray(leaf)
    )
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(plain(a), plain(b), equal_nan=True) for a, b in pairs)


class Third(cp.Replacement):
    """A replacement as a user would write it: after so many examples unit 2 of every layer, once."""

    after: float = 5.0

    def init(self, network):
        return {"seen": jnp.zeros(()), "total": jnp.zeros(network.units)}

    def update(self, memory, watched):
        return {"seen": memory["seen"] + 1, "total": memory["total"] + watched.phi}

    def due(self, memory):
        return memory["seen"] == self.after

    def choose(self, memory, key):
        return cp.replacements.Choice(jnp.asarray(2), memory | {"seen": memory["seen"] + 1})


def test_a_replaced_unit_starts_anew_and_nothing_else_changes():
    """With a replacement of one's own, in the lower of two layers and in the upper one."""
    net = cp.Network.paper(3, (4, 4), 2, bias=True)
    learner = cp.Crossprop(net, 0.05, optimizer="adam", layers="all", replacement=Third())
    plain = dataclasses.replace(learner, replacement=None)
    x, y = np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(size=(5, 2))
    first = learner.init(jax.random.key(0))
    kept, _ = live(plain, first._replace(replacement=None), x, y)
    state, _ = live(learner, first, x, y)
    others = np.array([0, 1, 3])
    for at, (now, then) in enumerate(zip(state.incoming, kept.incoming, strict=True)):
        changed = np.zeros(now.shape, bool)
        changed[:, 2] = True
        changed[2, :] |= at == 1
        assert (now == then)[~changed].all() and (now != then)[changed].all()
        memory, before = (each.layers[at].memory for each in (state, kept))
        assert (memory[:, changed] == 0).all() and (before[:, changed] != 0).any()
    # What the layer below remembers about the weights into the replaced unit of the layer above.
    below, before = (each.layers[0].memory[..., others] for each in (state, kept))
    assert (below[2] == 0).all() and (before[2] != 0).any()
    assert (below[others] == before[others]).all()
    assert (state.incoming[1][2, others] == 0).all() and (state.outgoing[:, 2] == 0).all()
    for now, then, new in zip(*map(optimizers_of, (state, kept, first)), strict=True):
        if now.ndim == 2 and now.shape == (4, 4):  # into the first layer, its biases last
            assert (now[:, 2] == new[:, 2]).all() and (now != new)[:, others].any()
            assert (now[:, others] == then[:, others]).all()
        elif now.ndim == 2:  # into the second layer, or the outgoing weights transposed
            assert (now[:, 2] == new[:, 2]).all() and (now[:, others] != new[:, others]).any()
    totals = [memory["total"] for memory in state.replacement.memory]
    assert all(total[2] == 0 and (total[others] != 0).all() for total in totals)


def optimizers_of(state):
    return jax.tree.leaves(([layer.optimizer for layer in state.layers], state.optimizer))


SEED = jax.random.key(0)


class Sizes(cp.Replacement):
    """Keeps what it sees of the sizes of weights, and replaces nothing."""

    def init(self, network):
        return jnp.zeros((2, network.units))

    def update(self, memory, watched):
        return jnp.stack([watched.incoming_size, watched.outgoing_size])

    def due(self, memory):
        return jnp.zeros((), bool)

    def choose(self, memory, key):
        return cp.replacements.Choice(jnp.asarray(0), memory)


SIZES = [(1, (1, 31), 1), pytest.param(16, (17, 33), 15, marks=pytest.mark.long), (130, (40, 600), 3)]


@pytest.mark.parametrize(("inputs", "hidden", "outputs"), SIZES)
def test_sizes_of_weights_are_means_without_biases(inputs, hidden, outputs):
    """Summed in blocks, whatever is left over."""
    learner = cp.Frozen(cp.Network.paper(inputs, hidden, outputs, bias=True), 0.0001, replacement=Sizes())
    state = learner.init(SEED)
    final, _ = live(learner, state, np.zeros((1, inputs)), np.zeros((1, outputs)))
    matrices = [np.asarray(each) for each in (*final.incoming, final.outgoing.T)]
    for at, (incoming_size, outgoing_size) in enumerate(final.replacement.memory):
        np.testing.assert_allclose(incoming_size, np.abs(matrices[at][:-1]).mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(outgoing_size, np.abs(matrices[at + 1][:-1]).mean(axis=1), rtol=1e-5)


def test_replaced_weights_come_from_the_networks_own_distribution_or_a_named_one():
    keys = jax.random.split(SEED, 400)
    draw = lambda net, **options: np.asarray(jax.vmap(lambda key: net.fresh_unit(key, **options))(keys))
    own = draw(cp.Network.paper(50, (7, 9), incoming_scale=(0.2, 3.0), bias=True, bias_scale=5.0), layer=1)
    assert own.shape == (400, 8) and abs(own[:, :-1].std() / 3.0 - 1) < 0.1 and abs(own[:, -1].std() / 5.0 - 1) < 0.1
    named = draw(cp.Network.paper(50, 7, activation="tanh", bias=True), scheme="kaiming-uniform")
    bound = 5 / 3 * np.sqrt(3 / 50)
    assert named.shape == (400, 51) and (named[:, -1] == 0).all()
    assert 0.99 * bound < np.abs(named).max() <= bound and abs(named.mean()) < 0.01


@pytest.mark.parametrize(
    ("build", "problem", "text"),
    [
        (lambda: cp.ContinualReplacement(rate=2.0), ValueError, "rate must be between 0 and 1, got 2.0"),
        (lambda: cp.ContinualReplacement(decay=1.0), ValueError, "decay must be between 0 and 0.999999, got 1.0"),
        (lambda: cp.ContinualReplacement(maturity=-1), ValueError, "maturity must be a finite number, at least 0"),
        (lambda: cp.ContinualReplacement(as_run=1), TypeError, "as_run must be"),
        (lambda: cp.ContinualReplacement(utility="weight"), ValueError, "utility must be one of"),
        (lambda: cp.GenerateAndTest(rate="often"), TypeError, "rate must be a number, got 'often'"),
        (lambda: cp.RandomReplacement(rate=-0.1), ValueError, "rate must be between 0 and 1, got -0.1"),
        (lambda: cp.ReDo(every=0), ValueError, "every must be a finite number, at least 1, got 0"),
        (
            lambda: cp.Backprop(cp.Network.paper(3, 4), 0.1, replacement={"name": "redo", "every": "x"}),
            TypeError,
            "replacement 'redo': every must be a number, got 'x'",
        ),
        (lambda: cp.ReDo(threshold=-1), ValueError, "threshold must be a finite number, at least 0"),
        (lambda: cp.Backprop(NET, 0.1, replacement="redoo"), ValueError, "did you mean 'redo'"),
        (lambda: cp.Backprop(NET, 0.1, replacement=cp.ReDo), TypeError, "replacement must be None, a name, or a"),
        (lambda: cp.Backprop(NET, 0.1, replacement={"name": "redo", "rate": 1}), ValueError, "of replacement 'redo'"),
        (lambda: cp.Backprop(NET, 0.1, replacement={"name": "none", "rate": 1}), ValueError, "takes no arguments"),
        (lambda: cp.Backprop(cp.Network.paper(3, ()), 0.1, replacement="redo"), ValueError, "no hidden units"),
        (lambda: cp.oracle.follow(cp.Backprop(NET, 0.1, replacement="redo"), STREAM), ValueError, "keep its units"),
    ],
)
def test_what_does_not_fit_is_named(build, problem, text):
    with pytest.raises(problem, match=text):
        build()


@pytest.mark.parametrize("engine", ["chunked", "kernel"])
def test_engines_that_keep_all_units_say_so(engine, monkeypatch):
    learner = cp.Backprop(cp.Network.paper(200, 6), 0.1, replacement="continual")
    assert "keeps all units" in ENGINES[engine].why_unsupported(learner, "gpu")
    assert choose(learner, "cpu") == "scan"


def test_by_name_and_by_table_it_is_the_same():
    for name, build in REPLACEMENTS.items():
        assert cp.Backprop(NET, 0.1, replacement=name).replacement == build()
    table = {"name": "continual", "rate": 0.01, "maturity": 10}
    assert cp.Backprop(NET, 0.1, replacement=table).replacement == cp.ContinualReplacement(0.01, maturity=10)
    assert cp.Backprop(NET, 0.1, replacement="none").replacement is None


def test_tables_of_learners_take_replacements():
    built = specification.build(
        {
            "stream": "geoff",
            "network": {"hidden": 3},
            "learners": {"backprop": {"replacement": ["none", {"name": "continual", "rate": 0.01}]}, "frozen": {}},
        },
        {"frozen:replacement": "generate-and-test", "frozen:replacement.maturity": 7},
    )
    assert {name: each.replacement for name, each in built.learners.items()} == {
        "backprop-none": None,
        "backprop-continual": cp.ContinualReplacement(0.01),
        "frozen": cp.GenerateAndTest(maturity=7),
    }


def test_a_sweep_compares_a_learner_with_backprop_that_replaces_units_as_it_does():
    infos = {
        "plain": LearnerInfo("backprop", "sgd", "none"),
        "continual": LearnerInfo("backprop", "sgd", "continual"),
        "adam": LearnerInfo("backprop", "adam", "continual"),
        "foresight": LearnerInfo("foresight", "sgd", "continual"),
        "redo": LearnerInfo("foresight", "sgd", "redo"),
    }
    expected = {"plain": None, "continual": "plain", "adam": "plain", "foresight": "continual", "redo": "plain"}
    assert {name: reference_of(name, infos) for name in infos} == expected


def test_records_name_the_replacement():
    learners = {name: cp.Backprop(NET, 0.1, replacement=each) for name, each in EAGER.items()}
    found = [learner_info(configuration(learner)).replacement for learner in learners.values()]
    assert found == list(learners) == list(REPLACEMENTS)


@pytest.mark.parametrize("build", [cp.Hindsight, cp.BackpropReplay])
def test_learners_with_a_delay_replace_units_too(build):
    """Units grow older by one with every example, though it is learned from twice."""
    learner = build(NET, 0.05, delay=3, replacement=EAGER["continual"])
    final, _ = live(learner, learner.init(SEED), np.ones((30, 3)), np.ones((30, 2)))
    ages = np.asarray(final.backprop.replacement.memory[0].turnover.age)
    assert ages.max() == 30 and ages.min() < 30


class Slow(cp.optimizers.Optimizer):
    """An optimizer of one's own, whose base has one step size for all weights."""

    def __call__(self, step_size):
        return cp.Backprop(cp.Network.paper(1, 1), 1.0, optimizer="adam").optimizer(0.05)


def test_units_are_replaced_where_a_base_has_one_step_size_for_all_weights():
    net = cp.Network.paper(STREAM.inputs, 6, STREAM.outputs)
    found, expected = (
        cp.run(cp.Backprop(net, 0.05, optimizer=each, replacement=EAGER["random"]), STREAM, 2, 7, progress=False).loss
        for each in (Slow(), "adam")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)
