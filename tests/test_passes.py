"""`update`, `live` and `predict` from Python: the same numbers, any length, lists and classes, clear errors."""

import gc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from own_learners import Replay

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network(inputs=4, hidden=5)
CLASS_NET = cp.Network(inputs=4, hidden=5, outputs=3, loss="softmax", bias=True)
LEARNERS = {
    "crossprop": cp.Crossprop(NET, 0.01, eta=0.2),
    "adam": cp.Backprop(CLASS_NET, 0.01, optimizer="adam"),
    "replay": Replay(NET, 0.01),
}
X = np.random.default_rng(0).integers(2, size=(300, 4)).astype(np.float32)
LABELS = X.sum(axis=1).astype(int) % 3


def targets(learner):
    return np.eye(3, dtype=np.float32)[LABELS] if learner.network.loss == "softmax" else X[:, :1] - X[:, 1:2]


def by_hand(learner, state, x, y):
    outcomes = []
    for one_x, one_y in zip(x, y, strict=True):
        state, outcome = learner.update(state, one_x, one_y)
        outcomes.append(outcome)
    return state, jax.tree.map(lambda *leaves: jnp.stack(leaves), *outcomes)


def plain(tree):
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda leaf: np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf), tree)


def assert_close(one, other):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), plain(one), plain(other))


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, plain(one), plain(other))


# live.


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param(name, count, marks=[pytest.mark.long] * (count in (2, 3) or (count == 1 and name != "crossprop")))
        for name in LEARNERS
        for count in (1, 2, 3, 300)
    ],
)
def test_live_equals_a_loop_of_update_for_any_length(name, count):
    learner = LEARNERS[name]
    state, y = learner.init(jax.random.key(0)), targets(learner)
    last, outcomes = cp.live(learner, state, X[:count], y[:count])
    assert outcomes.loss.shape == (count,) and outcomes.outputs.shape == (count, learner.network.outputs)
    assert_close((last, outcomes), by_hand(learner, state, X[:count], y[:count]))


def test_live_in_two_parts_equals_live_in_one():
    learner = LEARNERS["crossprop"]
    state, y = learner.init(jax.random.key(0)), targets(learner)
    whole, outcomes = cp.live(learner, state, X, y)
    half, first = cp.live(learner, state, X[:100], y[:100])
    again, second = cp.live(learner, half, X[100:], y[100:])
    assert_same(again, whole)
    assert_same(jax.tree.map(lambda *parts: jnp.concatenate(parts), first, second), outcomes)


def test_live_leaves_what_it_was_given_as_it_was():
    learner = LEARNERS["crossprop"]
    state, x, y = learner.init(jax.random.key(0)), X.copy(), targets(learner)
    before = jax.tree.map(np.array, (state, x, y))
    one, other = cp.live(learner, state, x, y), cp.live(learner, state, x, y)
    assert_same(one, other)
    assert_same((state, x, y), before)


def test_live_takes_lists_classes_and_columns():
    softmax, squared = LEARNERS["adam"], LEARNERS["crossprop"]
    state = softmax.init(jax.random.key(0))
    expected = cp.live(softmax, state, X, targets(softmax))
    for y in (LABELS, LABELS.tolist(), jnp.asarray(LABELS), np.eye(3, dtype=int)[LABELS]):
        assert_same(cp.live(softmax, state, X.tolist(), y), expected)
    state = squared.init(jax.random.key(0))
    expected = cp.live(squared, state, X, targets(squared))
    assert_same(cp.live(squared, state, jnp.asarray(X), targets(squared)[:, 0]), expected)


# predict.


@pytest.mark.parametrize("name", LEARNERS)
def test_predict_of_many_equals_predict_of_each(name, monkeypatch):
    learner = LEARNERS[name]
    state = learner.init(jax.random.key(0))
    each = np.stack([learner.predict(state, x) for x in X])
    np.testing.assert_allclose(cp.predict(learner, state, X), each, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr("crossprop.passes.ROWS", 128)
    np.testing.assert_allclose(cp.predict(learner, state, X.tolist()), each, rtol=1e-5, atol=1e-6)
    assert cp.predict(learner, state, X[:0]).shape == (0, learner.network.outputs)


# update.


def test_update_takes_lists_and_classes():
    learner = LEARNERS["adam"]
    state = learner.init(jax.random.key(0))
    expected = learner.update(state, X[0], np.eye(3, dtype=np.float32)[1])
    for x, y in ((X[0].tolist(), 1), (X[0], np.int64(1)), (tuple(X[0]), [0, 1, 0]), (jnp.asarray(X[0]), [0.0, 1.0, 0])):
        assert_same(learner.update(state, x, y), expected)
    assert_same(learner.predict(state, X[0].tolist()), learner.predict(state, X[0]))


def test_update_of_one_output_takes_a_number():
    learner = LEARNERS["crossprop"]
    state = learner.init(jax.random.key(0))
    for y in (1.0, 1, np.float32(1), jnp.asarray(1.0)):
        assert_same(learner.update(state, X[0], y), learner.update(state, X[0], np.ones(1, np.float32)))
    two = cp.Backprop(cp.Network(4, 5, outputs=2), 0.01)
    with pytest.raises(ValueError, match=r"y must have shape \(2,\), got \(\)"):
        two.update(two.init(jax.random.key(0)), X[0], 1.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_update_stays_pure(name):
    learner = LEARNERS[name]
    state, y = learner.init(jax.random.key(0)), targets(learner)
    before = jax.tree.map(np.array, plain(state))
    one, other = learner.update(state, X[0], y[0]), learner.update(state, X[0], y[0])
    assert_same(one, other)
    assert_same(plain(state), before)


def test_update_can_be_traced_mapped_and_called_within_a_program():
    learner = LEARNERS["crossprop"]
    state, y = learner.init(jax.random.key(0)), targets(learner)
    expected = learner.update(state, X[0], y[0])
    assert_close(jax.jit(learner.update)(state, X[0], y[0]), expected)
    many = jax.vmap(learner.update, in_axes=(None, 0, 0))(state, X[:3], y[:3])
    assert_close(jax.tree.map(lambda leaf: leaf[0], many), expected)


def test_learners_that_differ_in_numbers_share_a_program_and_are_forgotten():
    programs: dict = cp.Backprop.update.calls  # pyright: ignore[reportFunctionMemberAccess]
    gc.collect()
    before = len(programs)
    learners = [cp.Backprop(NET, size) for size in (0.01, 0.02, 0.03)]
    state = learners[0].init(jax.random.key(0))
    moved = [learner.update(state, X[0], [1.0])[0].outgoing - state.outgoing for learner in learners]
    np.testing.assert_allclose(moved[2], 3 * moved[0], rtol=1e-4)
    assert len(programs) == before + 3
    del learners
    gc.collect()
    assert len(programs) == before


def test_update_follows_the_float_type():
    learner = cp.Backprop(NET, 0.01)
    assert learner.update(learner.init(jax.random.key(0)), X[0], [1.0])[1].loss.dtype == np.float32
    with jax.enable_x64(True):
        assert learner.update(learner.init(jax.random.key(0)), X[0], [1.0])[1].loss.dtype == np.float64


# What does not fit.

SOFTMAX = LEARNERS["adam"]
STATE = SOFTMAX.init(jax.random.key(0))
OTHER = cp.Crossprop(CLASS_NET, 0.01).init(jax.random.key(0))
BAD = {
    "update x": (lambda: SOFTMAX.update(STATE, X[0, :3], 1), r"^x must have shape \(4,\), got \(3,\)"),
    "update y": (lambda: SOFTMAX.update(STATE, X[0], [1.0, 2.0]), r"^y must have shape \(3,\), got \(2,\)"),
    "update class": (lambda: SOFTMAX.update(STATE, X[0], 3), r"class in y must be between 0 and 2, got 3$"),
    "update negative class": (lambda: SOFTMAX.update(STATE, X[0], -1), r"class in y must be at least 0, got -1$"),
    "update text": (lambda: SOFTMAX.update(STATE, ["a"] * 4, 1), r"^x must be numbers, got \['a'"),
    "update ragged": (lambda: SOFTMAX.update(STATE, [[1.0], 2.0, 3.0, 4.0], 1), r"^x must be numbers, got "),
    "update letters": (lambda: SOFTMAX.update(STATE, X[0], np.array(["a"])), r"^y must be numbers, got array"),
    "update letters as state": (lambda: SOFTMAX.update(np.array(b"a"), X[0], 1), r"^state must be a state of this"),
    "update masked state": (
        lambda: SOFTMAX.update(np.ma.masked_array([1, 2], [0, 1]), X[0], 1),
        r"^state must be a state of this Backprop, got masked",
    ),
    "predict number as state": (lambda: cp.predict(SOFTMAX, 2**32, X), r"^state must be a state of .* got 4294967296$"),
    "live long number as state": (lambda: cp.live(SOFTMAX, 10**5000, X, LABELS), r"^state must be .* of 16610 bits$"),
    "live key as y": (lambda: cp.live(SOFTMAX, STATE, X, jax.random.key(0)), r"^y must be numbers, got a key of JAX"),
    "update structure": (
        lambda: SOFTMAX.update(jax.tree.leaves(SOFTMAX.init(jax.random.key(0))), X[0], 1),
        r"^state must be a state of this Backprop, with the structure of init's, PyTreeDef.*got PyTreeDef",
    ),
    "update state": (lambda: SOFTMAX.update(OTHER, X[0], 1), r"^state must be a state of this Backprop, with leaves"),
    "predict x": (lambda: SOFTMAX.predict(STATE, X[0, :3]), r"^x must have shape \(4,\), got \(3,\)"),
    "predict state": (lambda: SOFTMAX.predict(OTHER, X[0]), r"^state must be a state of this Backprop"),
    "many learner": (lambda: cp.predict(3, STATE, X), r"^learner must be a crossprop learner, got 3$"),
    "many x": (lambda: cp.predict(SOFTMAX, STATE, X[:, :3]), r"^x must have shape \(examples, 4\), got \(300, 3\)$"),
    "many state": (lambda: cp.predict(SOFTMAX, OTHER, X), r"^state must be a state of this Backprop"),
    "many nan": (lambda: cp.predict(SOFTMAX, STATE, X * np.nan), r"^x must be finite, got nan at index \(0, 0\)$"),
    "live learner": (lambda: cp.live("backprop", STATE, X, LABELS), r"^learner must be .* got 'backprop'$"),
    "live x": (lambda: cp.live(SOFTMAX, STATE, X[0], LABELS), r"^x must have shape \(examples, 4\), got \(4,\)$"),
    "live y": (lambda: cp.live(SOFTMAX, STATE, X, X), r"^y must have shape \(examples, 3\), got \(300, 4\)$"),
    "live lengths": (lambda: cp.live(SOFTMAX, STATE, X, LABELS[:9]), r"^x and y must have .* got 300 and 9$"),
    "live nothing": (lambda: cp.live(LEARNERS["crossprop"], STATE, X[:0], X[:0, :1]), r"at least one, got 0 and 0$"),
    "live class": (lambda: cp.live(SOFTMAX, STATE, X, LABELS + 1), r"class in y must be between 0 and 2, got 3$"),
    "live state": (lambda: cp.live(SOFTMAX, OTHER, X, LABELS), r"^state must be a state of this Backprop"),
    "live nan": (lambda: cp.live(SOFTMAX, STATE, X * np.inf, LABELS), r"^x must be finite, got "),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_named(case):
    call, said = BAD[case]
    with pytest.raises((ValueError, TypeError), match=said):
        call()
