"""Features without targets: every objective equals its equations, and what others have for it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
import reference_objectives as judges
from crossprop.learners import LEARNERS
from crossprop.objectives import OBJECTIVES
from crossprop.testing import check_learner

INPUTS, UNITS, STEPS = 3, 4, 25
OBJECTIVE = {
    "kmeans": (cp.objectives.KMeans(), judges.KMeans),
    "sparse-coding": (cp.objectives.SparseCoding(0.2, 7), partial(judges.SparseCoding, penalty=0.2, iterations=7)),
    "ica": (cp.objectives.ICA(noise=0.3), judges.ICA),
    "autoencoder": (cp.objectives.Autoencoder(0.4), partial(judges.Autoencoder, reproduction="linear")),
    "autoencoder-sigmoid": (
        cp.objectives.Autoencoder(0.4, "sigmoid"),
        partial(judges.Autoencoder, reproduction="sigmoid"),
    ),
}


def examples(steps=STEPS, inputs=INPUTS, seed=0):
    numbers = np.random.default_rng(seed)
    return numbers.uniform(size=(steps, inputs)), numbers.normal(size=(steps, 1))


def lived(learner, x, y):
    state, losses = learner.init(jax.random.key(3)), []
    for one_x, one_y in zip(x, y, strict=True):
        state, outcome = learner.update(state, one_x, one_y)
        losses.append(float(outcome.loss))
    return state, losses


def drawn(name, key):
    """What an objective draws at every example, from the key that its memory begins with."""
    for _ in range(STEPS):
        key, own = jax.random.split(key)
        if name == "ica":
            yield 0.3 * np.asarray(jax.random.normal(own, (INPUTS + 1,)))
        else:
            yield np.asarray(~jax.random.bernoulli(own, 0.4, (INPUTS,)))


@pytest.mark.parametrize("name", OBJECTIVE)
@pytest.mark.usefixtures("x64")
def test_an_objective_equals_its_equations(name):
    objective, judge = OBJECTIVE[name]
    learner = cp.Unsupervised(cp.Network(INPUTS, UNITS, bias=True), 0.02, objective, incoming_step_size=0.05)
    x, y = examples()
    state = learner.init(jax.random.key(3))
    memory = state.layers[0].memory
    key = memory if name == "ica" else getattr(memory, "key", jax.random.key(0))
    noise = drawn(name, key)
    drawn_weights = cp.Backprop(learner.network, 0.02).init(jax.random.key(3))
    np.testing.assert_array_equal(drawn_weights.outgoing, state.outgoing)
    u, w = np.asarray(drawn_weights.incoming[0]).tolist(), np.asarray(state.outgoing)[0].tolist()
    judge = judge(u)
    for one_x, one_y in zip(x, y, strict=True):
        given = [*one_x.tolist(), 1.0]
        features = [*judge.features(u, given), 1.0]
        delta = one_y[0] - sum(f * each for f, each in zip(features, w, strict=True))
        w = [each + 0.02 * delta * f for f, each in zip(features, w, strict=True)]
        judge.learn(u, given, 0.05, next(noise))
        state, outcome = learner.update(state, one_x, one_y)
        np.testing.assert_allclose(outcome.loss, delta**2, rtol=1e-9)
    np.testing.assert_allclose(state.incoming[0], u, rtol=1e-9)
    np.testing.assert_allclose(state.outgoing[0], w, rtol=1e-9)
    assert np.abs(np.asarray(drawn_weights.incoming[0]) - u).max() > 1e-3


# Others' implementations.


@pytest.mark.usefixtures("x64")
def test_kmeans_equals_scikit_learn():
    from sklearn.cluster import MiniBatchKMeans

    x, y = examples(300, 5)
    theirs = MiniBatchKMeans(6, init=x[:6], n_init=1, batch_size=1, reassignment_ratio=0).partial_fit(x[:6])
    for one in x[6:]:
        theirs.partial_fit(one[None])
    learner = cp.Unsupervised(cp.Network(5, 6, bias=False), 0.01, "kmeans", incoming_step_size=1e-12)
    state, _ = lived(learner, x, y)
    np.testing.assert_allclose(state.incoming[0].T, theirs.cluster_centers_, rtol=1e-9)


def test_with_a_large_step_size_a_centre_is_the_last_input_that_it_won():
    x, y = examples(60)
    learner = cp.Unsupervised(cp.Network(INPUTS, UNITS, bias=False), 0.01, "kmeans", incoming_step_size=100.0)
    state, _ = lived(learner, x, y)
    assert all(np.isclose(x, centre).all(axis=1).any() for centre in state.incoming[0].T)


@pytest.mark.parametrize("reproduction", ["linear", "sigmoid"])
@pytest.mark.usefixtures("x64")
def test_a_step_of_the_autoencoder_equals_that_of_torch(reproduction):
    torch = pytest.importorskip("torch")
    net, (x, y) = cp.Network(5, 6, activation="sigmoid", bias=True), examples(1, 5)
    learner = cp.Unsupervised(net, 0.1, cp.objectives.Autoencoder(0.4, reproduction))
    state = learner.init(jax.random.key(0))
    stay = np.asarray(~jax.random.bernoulli(jax.random.split(state.layers[0].memory.key)[1], 0.4, (5,)))
    u = torch.tensor(np.array(state.incoming[0]), requires_grad=True)
    c = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    target = torch.tensor(x[0])
    hidden = torch.sigmoid(torch.tensor(np.append(x[0] * stay, 1.0)) @ u)
    z = u[:5] @ hidden + c
    if reproduction == "linear":
        loss = (target - z).square().sum() / 2
    else:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(z, target, reduction="sum")
    loss.backward()
    learned, _ = learner.update(state, x[0], y[0])
    np.testing.assert_allclose(learned.incoming[0], (u - 0.1 * u.grad).detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(learned.layers[0].memory.biases, -0.1 * c.grad.numpy(), rtol=1e-9)


def final(learner, x):
    _, states = cp.run(learner, cp.Arrays(x, np.zeros(len(x))), seeds=1, record_every=len(x), return_states=True)
    (runs,) = states.values()
    return runs[0]


def amari(product):
    """How far a matrix is from a permutation of scaled units: 0 if it is one, at most 1."""
    size, scaled = np.abs(product), lambda each: (each / each.max(1, keepdims=True)).sum(1) - 1
    return (scaled(size).sum() + scaled(size.T).sum()) / (2 * len(size) * (len(size) - 1))


def test_ica_separates_eight_sources():
    numbers = np.random.default_rng(0)
    mixing, sources = numbers.normal(size=(8, 8)), numbers.laplace(size=(200_000, 8))
    learner = cp.Unsupervised(cp.Network(8, 8, bias=False), 0.001, "ica", incoming_step_size=3e-4)
    state = final(learner, sources @ mixing.T)
    assert amari(learner.init(jax.random.key(0)).incoming[0].T @ mixing) > 0.2
    assert amari(state.incoming[0].T @ mixing) < 0.02


def test_sparse_coding_finds_as_good_a_dictionary_of_digits_as_scikit_learn():
    from sklearn.decomposition import MiniBatchDictionaryLearning

    x, penalty, units = np.asarray(cp.datasets.digits().x, float), 0.1, 50
    order = np.random.default_rng(0).permutation(len(x))
    net, rule = cp.Network(64, units, bias=False), cp.objectives.SparseCoding(penalty)
    learner = cp.Unsupervised(net, 0.001, rule, incoming_step_size=0.1)
    exact = cp.objectives.SparseCoding(penalty, iterations=1000)

    def loss(dictionary):
        weights, memory = exact.init(learner.network, jnp.asarray(dictionary, jnp.float32), jax.random.key(0))
        codes = jax.vmap(lambda one: exact.features(learner.network, weights, memory, one))(jnp.float32(x))
        errors = ((x - codes @ weights.T) ** 2).sum(1) / 2 + penalty * np.abs(codes).sum(1)
        return float(errors.mean())

    start, state = learner.init(jax.random.key(0)), final(learner, x[order])
    theirs = MiniBatchDictionaryLearning(units, alpha=penalty, batch_size=1, fit_algorithm="cd", random_state=0)
    theirs.partial_fit(x[order])
    assert loss(state.incoming[0]) < 1.05 * loss(theirs.components_.T) < 0.7 * loss(start.incoming[0])


@pytest.mark.parametrize("step_size", [0.1, 0.3, 1.0, 10.0])
def test_sparse_codes_stay_finite_where_columns_move_far(step_size):
    x = 3 * np.random.default_rng(0).normal(size=(600, 16))
    x[:300] = x[0]
    learner = cp.Unsupervised(cp.Network(16, 32), 0.001, "sparse-coding", incoming_step_size=step_size)
    state, _ = cp.live(learner, learner.init(jax.random.key(0)), x, np.zeros((600, 1)))
    (codes,) = learner.features(state, jnp.float32(x[-1]))
    assert np.isfinite(state.outgoing).all() and np.abs(codes).max() < 100


# The learner.


@pytest.mark.parametrize("hidden", [4, (4, 3)])
@pytest.mark.usefixtures("x64")
def test_eta_mixes_the_moves_of_backprop_and_of_the_objective(hidden):
    net, (x, y) = cp.Network(3, hidden, 2, bias=True), examples(2)
    build = partial(cp.Unsupervised, net, 0.05, incoming_step_size=0.1)
    start = build().init(jax.random.key(3))
    moves = [
        [after - before for before, after in zip(start.incoming, state.incoming, strict=True)]
        for state in (build(eta=eta).update(start, x[0], y[0, :1].repeat(2))[0] for eta in (None, 0, 0.3, 1))
    ]
    backprop = cp.Backprop(net, 0.05, incoming_step_size=0.1)
    learned, _ = backprop.update(backprop.init(jax.random.key(3)), x[0], y[0, :1].repeat(2))
    for unset, none, mixed, all_of_it, before, after in zip(*moves, start.incoming, learned.incoming, strict=True):
        np.testing.assert_allclose(none, unset, rtol=1e-9)
        np.testing.assert_allclose(all_of_it, after - before, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(mixed, 0.7 * unset + 0.3 * all_of_it, rtol=1e-9)


@pytest.mark.parametrize("optimizer", ["adam", "idbd", "delta_bar_delta"])
def test_any_optimizer_moves_the_outgoing_weights(optimizer):
    """They are those of a linear unit that sees the features, which do not depend on them."""
    x, y = examples()
    learner = cp.Unsupervised(cp.Network(3, 4), 0.02, "kmeans", optimizer=optimizer)
    state, unit = learner.init(jax.random.key(3)), cp.Backprop(cp.Network(4, ()), 0.02, optimizer=optimizer)
    own = unit.init(jax.random.key(3))._replace(outgoing=state.outgoing)
    for one_x, one_y in zip(x, y, strict=True):
        (features,) = learner.features(state, jnp.float32(one_x))
        state, _ = learner.update(state, one_x, one_y)
        own, _ = unit.update(own, features, one_y)
    np.testing.assert_allclose(state.outgoing, own.outgoing, rtol=1e-5, atol=1e-7)


def test_an_optimizer_begins_at_the_outgoing_weights_that_it_moves():
    learner = cp.Unsupervised(cp.Network(3, 4, outgoing_scale=1.0), 0.1, optimizer=cp.optimizers.l2_init(0.1))
    state = learner.init(jax.random.key(0))
    assert np.abs(state.outgoing).max() > 0
    assert any(np.array_equal(each, state.outgoing) for each in jax.tree.leaves(state.optimizer))


@pytest.mark.long
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_keep_the_promises_at_any_depth(name):
    check_learner(LEARNERS[name](cp.Network(3, (4, 3), 2, bias=True, loss="softmax"), 0.05, eta=0.5), learns=True)
    check_learner(LEARNERS[name](cp.Network(3, ()), 0.05))


def test_features_do_not_depend_on_targets():
    x, y = examples()
    for name in OBJECTIVES:
        learner = LEARNERS[name](cp.Network(3, 4), 0.05)
        one, other = lived(learner, x, y)[0], lived(learner, x, 5 - y)[0]
        np.testing.assert_array_equal(one.incoming[0], other.incoming[0])
        assert not np.array_equal(one.outgoing, other.outgoing)


def test_hyperparameters_of_an_objective_are_axes_and_flags():
    net, stream = cp.Network(20, 5), cp.Geoff(examples=20)
    named = {"sparse-coding": LEARNERS["sparse-coding"](net, 0.01)}
    swept = cp.sweep(named, stream, {"objective.penalty": [0.1, 2.0]}, seeds=2)
    learner = cp.Unsupervised(net, 0.01, {"name": "sparse-coding", "penalty": 2.0})
    alone = cp.run(learner, stream, seeds=[1])
    found = swept["sparse-coding"].loss.sel({"objective.penalty": 2.0, "seed": 1})
    np.testing.assert_array_equal(found, alone.loss[0, 0])
    assert alone.rule.item() == "sparse-coding"
    from crossprop.specification import build

    built = build({"stream": "geoff", "learners": ["sparse-coding", "kmeans"]}, {"objective.penalty": 0.3}).learners
    assert built["sparse-coding"].objective == cp.objectives.SparseCoding(penalty=0.3)
    with pytest.raises(ValueError, match="'kmeans' has objective='kmeans' by its name"):
        build({"stream": "geoff", "learners": ["kmeans"]}, {"objective.penalty": 0.3})


def test_a_learner_with_an_objective_is_saved(tmp_path):
    learner = cp.Unsupervised(cp.Network(3, 4), 0.02, cp.objectives.Autoencoder(0.1, "sigmoid"))
    state, _ = lived(learner, *examples())
    cp.save(tmp_path / "own.npz", learner, state)
    loaded, kept = cp.load(tmp_path / "own.npz")
    assert loaded == learner
    np.testing.assert_array_equal(kept.incoming[0], state.incoming[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.Unsupervised(cp.Network(2, 3), 0.1, "k-means"), "objective must be .*'kmeans'"),
        (lambda: cp.Unsupervised(cp.Network(2, 3), 0.1, cp.objectives.ICA), "objective must be a name or an objective"),
        (
            lambda: cp.Unsupervised(cp.Network(2, 3), 0.1, {"name": "ica", "x": 1}),
            "an argument of objective 'ica'",
        ),
        (lambda: cp.Unsupervised(cp.Network(2, 3), 0.1, eta=2), "eta must be between 0 and 1, got 2"),
        (lambda: cp.objectives.SparseCoding(iterations=0), "iterations must be at least 1, got 0"),
        (lambda: cp.objectives.Autoencoder(2), "masking must be between 0 and 1, got 2"),
        (lambda: cp.Whiten(3), "learner must be a crossprop learner, got 3"),
        (lambda: cp.Whiten(cp.Backprop(cp.Network(2, 3), 0.1), floor=0), "floor must be a finite number above 0"),
        (
            lambda: cp.Whiten(cp.Backprop(cp.Network(100, 3), 0.1), decay=0.5),
            "decay must be between 0.630957 and 1, got 0.5",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# Whitening.


@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.usefixtures("x64")
def test_whitening_follows_the_running_covariance_exactly(decay):
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(60, 4)) @ numbers.normal(size=(4, 4)) + [3, 0, -1, 0]
    learner = cp.Whiten(cp.Backprop(cp.Network(4, 3), 0.01), decay=decay, floor=0.1)
    state, seen = learner.init(jax.random.key(0)), [np.zeros(4)]
    for t, one in enumerate(x, 1):
        state, _ = learner.update(state, one, np.zeros(1))
        seen.append(one)
        weights = decay ** np.arange(t, -1, -1)
        floors = [np.diag(np.eye(4)[(k - 1) % 4]) * 4 * 0.1 * weights[k] for k in range(1, t + 1)]
        mean = weights @ seen / weights.sum()
        spread = (weights[:, None] * (seen - mean)).T @ (seen - mean)
        covariance = (weights[0] * np.eye(4) + spread + sum(floors)) / weights.sum()
        root = np.asarray(state.inputs.root)
        np.testing.assert_allclose(state.inputs.mean, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(root @ covariance @ root.T, np.eye(4), atol=1e-9)
    whitened = learner._whitened(state, jnp.asarray(x[0]))[0]
    plain = learner.learner.predict(state.inner, whitened)
    (features,) = learner.features(state, jnp.asarray(x[0]))
    np.testing.assert_array_equal(features, learner.learner.features(state.inner, whitened)[0])
    np.testing.assert_allclose(learner.predict(state, x[0]), plain, rtol=1e-9)


def test_inputs_far_larger_than_the_first_covariance_are_whitened_within_bounds():
    """In float32 the matrix for them is only found after as many examples as there are inputs."""
    x = 1e9 * np.random.default_rng(0).normal(size=(50, 5))
    learner = cp.Whiten(cp.Unsupervised(cp.Network(5, 8), 0.01, "kmeans"))
    state, losses = lived(learner, x, np.ones((50, 1)))
    assert np.isfinite(losses).all() and np.abs(state.inner.incoming[0]).max() <= 10
    assert np.abs(learner._whitened(state, jnp.float32(x[-1]))[0]).max() < 5


@pytest.mark.long
def test_a_whitened_learner_keeps_the_promises():
    check_learner(cp.Whiten(cp.Unsupervised(cp.Network(3, 4), 0.05, "kmeans"), decay=0.99))
    check_learner(cp.Whiten(cp.Crossprop(cp.Network(3, 4), 0.05)))
