"""GEOFF: its distributions, its target network and its tasks."""

import string
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import crossprop as cp
import reference
from crossprop.streams.threshold_networks import threshold_outputs

SIGMAS = 5
"""How far a fixed key may lie from what is expected: a chance of 6e-7, were the key not fixed."""

GEOFF = cp.Geoff(inputs=6, features=50, tasks="ABCAB", examples=5)
CONSTANT = cp.Geoff(inputs=19, features=40, tasks="CAC", examples=20, noise=0.0, constant=True)
LONG = cp.Geoff(inputs=5, features=20, tasks="BA", examples=2000)
"""Long enough for statistics of its examples."""

pytestmark = pytest.mark.usefixtures("quick_compilation")


def sample(stream, seed=0):
    return stream.sample(jax.random.key(seed))


def visit(sampled, letter):
    """The examples of a task, over all its visits."""
    steps = sampled.task == string.ascii_uppercase.index(letter)
    assert steps.any()
    return sampled.x[steps], sampled.y[steps]


def assert_share(hits, expected):
    """The mean of yes-or-no draws, each yes with chance `expected`."""
    hits = np.asarray(hits, float)
    assert np.all(np.abs(hits.mean(axis=0) - expected) <= SIGMAS * np.sqrt(expected * (1 - expected) / len(hits)))


# Its distributions


def test_geoff_draws_each_input_a_fair_coin_of_its_own():
    x = sample(LONG).x
    assert set(np.unique(x)) == {0, 1}
    assert_share(x == 1, 0.5)
    correlation = np.corrcoef(x.T)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < SIGMAS / np.sqrt(len(x))


def test_geoff_draws_its_target_network_uniformly_in_every_task():
    stream = cp.Geoff(inputs=20, features=4000, tasks="ABD", constant=True)
    incoming, outgoing = map(np.asarray, stream.target(jax.random.key(0)))
    assert incoming.shape == (20 + 1, 4000)
    assert outgoing.shape == (len("ABCD"), 4000 + 1)
    assert set(np.unique(incoming)) == {-1, 1}
    assert_share(incoming.T == 1, 0.5)
    for task in outgoing:
        assert set(np.unique(task)) == {-1, 0, 1}
        for value in (-1, 0, 1):
            assert_share(task == value, 1 / 3)


@pytest.mark.parametrize("noise", [1.0, 2.5])
def test_geoff_adds_normal_noise_of_the_standard_deviation_asked_for(noise):
    noisy, clean = (sample(replace(LONG, noise=sd)) for sd in (noise, 0.0))
    assert np.array_equal(noisy.x, clean.x)
    added = (noisy.y - clean.y)[:, 0].astype(np.float64)
    assert abs(added.mean()) < SIGMAS * noise / np.sqrt(len(added))
    assert abs(added.var() - noise**2) < SIGMAS * noise**2 * np.sqrt(2 / len(added))
    assert stats.kstest(added / noise, "norm").pvalue > 1e-3
    of_a, of_b = np.split(added, 2)
    assert abs(np.corrcoef(of_a, of_b)[0, 1]) < SIGMAS / np.sqrt(len(of_a))


@pytest.mark.parametrize(
    ("features", "mutation", "constant", "redrawn"),
    [
        (100, 0.0, False, 0),
        (7, 0.5, False, 3),
        (100, 0.29, False, 29),  # as a float, 0.29 * 100 is less than 29
        (100, 0.5, True, 50),  # of 101
        (100, 1.0, False, 100),
    ],
)
def test_geoff_redraws_the_share_of_weights_rounded_down_at_random_places(features, mutation, constant, redrawn):
    stream = cp.Geoff(1, features, mutation=mutation, tasks="Z", constant=constant)
    outgoing = np.array([stream.target(key)[1] for key in jax.random.split(jax.random.key(0), 100)])
    changed = (np.diff(outgoing, axis=1) != 0).reshape(-1, features + constant)
    assert len(changed) == 25 * 100
    counts = changed.sum(axis=1)
    assert counts.max() <= redrawn
    # A redrawn weight keeps its value once in three, so the changed ones are binomial, and that tells 29 from 28.
    assert abs(counts.mean() - redrawn * 2 / 3) <= SIGMAS * np.sqrt(redrawn * 2 / 9 / len(counts))
    assert_share(changed, redrawn / changed.shape[1] * 2 / 3)


# Its target


def fire(stream, x, incoming):
    """The features, by labels of networks with an outgoing weight of 1 each."""
    label = lambda outgoing: stream.label(jnp.array(x), jnp.array(incoming), outgoing)[:, 0]
    return np.asarray(jax.vmap(label, out_axes=1)(jnp.eye(incoming.shape[1] + stream.constant)))


@pytest.mark.parametrize("inputs", [1, 20, 32, 33, 75])
def test_counts_of_bits_give_the_numbers_of_products_of_matrices(inputs):
    random = np.random.default_rng(inputs)
    x = random.integers(0, 2, (50, inputs))
    incoming, outgoing = random.choice([-1, 1], (inputs, 100)), random.integers(-1, 2, 100)
    matches = random.integers(-2, inputs + 3, 100)
    fired = x @ incoming + (incoming < 0).sum(axis=0) > matches
    found = threshold_outputs(*(jnp.array(each, float) for each in (x, incoming, matches, outgoing)))
    assert np.array_equal(found[:, 0], fired @ outgoing)


@pytest.mark.parametrize(
    ("x", "fires"),
    [
        # m beta = 2; S_j = 2, 0, 4, so theta_j = 0, 2, -2; beside each x, the three weighted sums.
        ((1, 1, 0, 0), (1, 0, 0)),  # 2, 2 a tie, -2 a tie
        ((1, 1, 1, 0), (1, 1, 0)),  # 1, 3, -3
        ((1, 0, 1, 0), (0, 0, 0)),  # 0 a tie, 2 a tie, -2 a tie
        ((0, 0, 1, 1), (0, 0, 0)),  # -2, 2 a tie, -2 a tie
        ((0, 0, 0, 0), (0, 0, 1)),  # 0 a tie, 0, 0
        ((1, 1, 1, 1), (0, 1, 0)),  # 0 a tie, 4, -4
        ((1, 0, 0, 0), (1, 0, 1)),  # 1, 1, -1
    ],
)
def test_a_feature_fires_strictly_above_its_threshold(x, fires):
    incoming = np.array([[1, 1, -1], [1, 1, -1], [-1, 1, -1], [-1, 1, -1]], float)
    stream = cp.Geoff(inputs=4, features=3, beta=0.5)
    assert fire(stream, [x], incoming)[0].tolist() == list(fires)


@pytest.mark.parametrize(
    ("x", "fires"),
    [
        # With the constant input m = 5 and m beta = 3; S_j = 2, 1, so theta_j = 1, 2; the last feature is the constant.
        ((1, 1, 0, 0), (1, 0, 1)),  # 2 + 1, 2 - 1
        ((1, 1, 1, 0), (1, 0, 1)),  # 1 + 1, 3 - 1 a tie
        ((1, 1, 1, 1), (0, 1, 1)),  # 0 + 1 a tie, 4 - 1
        ((0, 0, 0, 0), (0, 0, 1)),  # 0 + 1 a tie, 0 - 1
        ((0, 0, 1, 1), (0, 0, 1)),  # -2 + 1, 2 - 1
    ],
)
def test_the_constant_input_counts_and_the_constant_feature_always_fires(x, fires):
    incoming = np.array([[1, 1], [1, 1], [-1, 1], [-1, 1], [1, -1]], float)
    stream = cp.Geoff(inputs=4, features=2, beta=0.6, constant=True)
    assert fire(stream, [x], incoming)[0].tolist() == list(fires)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("size", "beta", "threshold"),
    [
        (20, 0.6, 12),
        (25, 0.6, 15),  # above 15 as float32
        (75, 0.84, 63),  # below 63 as float32
        (100, 0.53, 53),
        (50, 0.58, 29),  # below 29 even as float64
        (90, 0.7, 63),
        (21, 0.6, 12),  # 12.6
        (5, 1.0, 5),
    ],
)
def test_no_rounding_makes_a_tie_fire(size, beta, threshold, constant):
    inputs = size - constant
    matches = np.arange(constant, size + 1)
    x = (np.arange(inputs) < matches[:, None] - constant).astype(float)
    stream = cp.Geoff(inputs=inputs, features=1, beta=beta, constant=constant)
    assert np.array_equal(fire(stream, x, np.ones((size, 1)))[:, 0], matches > threshold)


@pytest.mark.parametrize("stream", [replace(LONG, noise=0.0), CONSTANT], ids=["plain", "constant"])
def test_geoff_without_noise_is_its_tasks_weights_times_features_that_never_change(stream):
    sampled = sample(stream)
    incoming, outgoing = map(np.asarray, stream.target(jax.random.key(0)))
    for task in np.unique(sampled.task):
        x, y = sampled.x[sampled.task == task], sampled.y[sampled.task == task]
        x = np.hstack([x, np.ones((len(x), int(stream.constant)))])
        features, constant = np.split(outgoing[task], [stream.features])
        expected = np.array(reference.geoff_target(x, incoming, features, stream.beta)) + constant.sum()
        assert np.array_equal(y[:, 0], expected)
        assert len(set(expected)) > 5


# Its tasks


def test_a_task_visited_again_replays_its_examples_and_its_noise():
    sampled = sample(GEOFF)
    assert GEOFF.tasks == "ABCAB"
    x, y = sampled.x.reshape(5, 5, -1), sampled.y.reshape(5, 5)
    for first, again in ((0, 3), (1, 4)):
        assert np.array_equal(x[first], x[again]) and np.array_equal(y[first], y[again])
    assert len(GEOFF.pool(jax.random.key(0)).x) == 3 * 5, "and takes no more room"


@pytest.mark.parametrize("tasks", ["AC", "C", "CBD"])
def test_task_c_is_the_same_whether_visited_second_or_third(tasks):
    assert all(map(np.array_equal, visit(sample(replace(GEOFF, tasks=tasks)), "C"), visit(sample(GEOFF), "C")))


def test_each_task_has_examples_and_weights_of_its_own():
    sampled = sample(GEOFF)
    for one, other in ("AB", "BC", "AC"):
        assert not np.array_equal(visit(sampled, one)[0][:5], visit(sampled, other)[0][:5])
    assert len(np.unique(GEOFF.target(jax.random.key(0))[1], axis=0)) == 3


def test_tasks_are_numbered_by_their_letters():
    assert cp.Geoff(tasks="CAZ", examples=2).task(np.arange(6)).tolist() == [2, 2, 0, 0, 25, 25]
    assert sample(GEOFF).task.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [0] * 5 + [1] * 5


def test_another_key_gives_other_examples_of_geoff():
    one, other = (sample(GEOFF, seed) for seed in (0, 1))
    assert not np.array_equal(one.x, other.x) and not np.array_equal(one.y, other.y)
    for mine, its in zip(*(GEOFF.target(jax.random.key(seed)) for seed in (0, 1)), strict=True):
        assert not np.array_equal(mine, its)


def test_geoff_stands_for_the_paper_unless_told_otherwise():
    assert cp.Geoff() == cp.Geoff(
        20, 1000, beta=0.6, noise=1.0, tasks="ABC", examples=5000, mutation=0.5, constant=False
    )
    assert (cp.Geoff().outputs, cp.Geoff().steps) == (1, 15000)


@pytest.mark.parametrize("tasks", [[0, 1, 2, 0, 1], (0, 1, 2, 0, 1), np.array([0, 1, 2, 0, 1])])
def test_tasks_as_numbers_are_the_same_as_letters(tasks):
    numbered = replace(GEOFF, tasks=tasks)
    for one, other in zip(sample(numbered), sample(GEOFF), strict=True):
        np.testing.assert_array_equal(one, other)
    hash(numbered)
