"""The streams of the field: each equals a transcription in scalar NumPy of what its paper says, draws given."""

import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from test_streams import build

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(3)


def dealt(stream, count, key=KEY):
    _, x, y = stream.deal(stream.begin(key), count)
    return np.asarray(x), np.asarray(y)


def assert_same_in_parts(stream, count, parts):
    """Compiled and in any parts, across changes and between them, the examples are those dealt at once."""
    deal = jax.jit(stream.deal, static_argnums=1)
    place = stream.begin(KEY)
    _, *whole = deal(place, count)
    for part in parts:
        place, pieces = stream.begin(KEY), []
        for _ in range(count // part):
            place, *piece = deal(place, part)
            pieces.append(piece)
        for at, values in enumerate(whole):
            rows = np.concatenate([piece[at] for piece in pieces])
            np.testing.assert_array_equal(rows, values[: len(rows)])


# Tracking


def tracking_by_hand(signs, flips, x, noise, every):
    """Sutton's target, example by example: which sign changes before period 1, 2 ... is in `flips`."""
    signs, targets = [*signs], []
    for step in range(len(x)):
        if step and step % every == 0:
            signs[flips[step // every - 1]] *= -1
        targets.append(sum(sign * value for sign, value in zip(signs, x[step], strict=False)) + noise[step])
    return targets


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("inputs", "relevant", "every", "noise"), [(20, 5, 20, 0.0), (4, 4, 3, 0.5), (3, 1, 1, 0.0)])
def test_tracking_is_sutton_1992_example_by_example(inputs, relevant, every, noise):
    stream = cp.Tracking(inputs, relevant, every, noise)
    x, y = dealt(stream, 100)
    noiseless = dealt(cp.Tracking(inputs, relevant, every), 100)
    place = stream.begin(KEY)
    flips = [
        int(jax.random.randint(jax.random.fold_in(place.flips, period), (), 0, relevant))
        for period in range(1, 100 // every + 1)
    ]
    signs = [1 - 2 * int(negative) for negative in place.negative]
    expected = tracking_by_hand(signs, flips, x.tolist(), (y - noiseless[1])[:, 0].tolist(), every)
    np.testing.assert_allclose(y[:, 0], expected, atol=1e-12)
    np.testing.assert_array_equal(x, noiseless[0])


def test_trackings_noise_has_the_deviation_asked_for_and_its_inputs_are_normal():
    x, y = dealt(cp.Tracking(noise=2.0), 4000)
    _, clean = dealt(cp.Tracking(), 4000)
    assert abs(np.std(y - clean) - 2) < 0.15 and abs(np.mean(y - clean)) < 0.2
    assert abs(x.std() - 1) < 0.02 and abs(x.mean()) < 0.02
    assert np.abs(np.corrcoef(x.T)[np.triu_indices(20, 1)]).max() < 0.1


def test_every_relevant_weight_of_tracking_flips_as_often_as_the_others():
    stream = cp.Tracking(relevant=5, flip_every=1)
    signs = jax.jit(lambda place: jax.lax.scan(lambda at, _: (stream.deal(at, 1)[0], at.negative), place, length=2001))
    changed = np.diff(np.asarray(signs(stream.begin(KEY))[1]), axis=0) != 0
    assert (changed.sum(axis=1) == 1).all()
    assert abs(changed.mean(axis=0) - 0.2).max() < 5 * math.sqrt(0.16 / 2000)


# Slowly-changing regression


def slowly_changing_by_hand(x, incoming, biases, outgoing, constant, *, beta, as_run):
    """The target network of Dohare et al., unit by unit, from weights of -1 and +1."""
    targets = []
    for example in x:
        total = constant
        for j, bias in enumerate(biases):
            weights = [row[j] for row in incoming]
            if as_run:
                negative = (len(weights) - sum(weights) + bias) / 2
            else:
                negative = sum(weight < 0 for weight in [*weights, bias])
            threshold = (len(weights) + 1) * beta - negative
            weighted = sum(weight * bit for weight, bit in zip(weights, example, strict=True)) + bias
            total += outgoing[j] if weighted > threshold else 0
        targets.append(total)
    return targets


def slow_bits_by_hand(place, slow, every, change, count):
    bits, rows = [int(bit) for bit in place.bits], []
    for step in range(count):
        if step and step % every == 0:
            own = jax.random.fold_in(place.changes, step // every)
            if change == "one":
                which = int(jax.random.randint(own, (), 0, slow))
                bits[which] = 1 - bits[which]
            else:
                word = int(jax.random.bits(own, (1,), jnp.uint32)[0])
                bits = [word >> at & 1 for at in range(slow)]
        rows.append([*bits])
    return rows


@pytest.mark.parametrize("change", ["all", "one"])
@pytest.mark.parametrize("as_run", [False, True])
def test_slowly_changing_is_dohare_example_by_example(change, as_run):
    stream = cp.SlowlyChanging(change_every=10, change=change, as_run=as_run)
    x, y = dealt(stream, 60)
    place = stream.begin(KEY)
    keys = jax.random.split(jax.random.split(KEY, 3)[0], 4)
    draw = partial(jax.random.rademacher, dtype=int)
    incoming, biases, outgoing = (
        np.asarray(draw(key, shape)).tolist() for key, shape in zip(keys, ((20, 100), (100,), (100,)), strict=False)
    )
    constant = int(draw(keys[3], ()))
    expected = slowly_changing_by_hand(x.tolist(), incoming, biases, outgoing, constant, beta=0.7, as_run=as_run)
    np.testing.assert_array_equal(y[:, 0], expected)
    assert len(set(expected)) > 5
    assert x[:, :15].tolist() == slow_bits_by_hand(place, 15, 10, change, 60)
    changed = (np.diff(x[:, :15], axis=0) != 0).sum(axis=1)
    assert np.flatnonzero(changed).tolist() == [9, 19, 29, 39, 49]
    assert (changed[9::10] == 1).all() if change == "one" else changed[9::10].max() > 3


def test_the_random_bits_of_slowly_changing_are_fair_coins_that_differ_from_example_to_example():
    x, _ = dealt(cp.SlowlyChanging(inputs=50, slow=1, features=1), 2000)
    assert set(np.unique(x)) == {0, 1}
    assert np.abs(x[:, 1:].mean(axis=0) - 0.5).max() < 5 * math.sqrt(0.25 / 2000)
    assert np.abs(np.corrcoef(x[:, 1:].T)[np.triu_indices(49, 1)]).max() < 5 / math.sqrt(2000)


def test_no_rounding_makes_a_tie_of_slowly_changing_fire():
    stream = cp.SlowlyChanging(inputs=4, slow=1, features=50, beta=0.6, as_run=False)  # 5 * 0.6 = 3
    target = stream.target(KEY)
    assert set(np.asarray(target.matches).tolist()) == {3.0, 2.0}


# Dealing in parts, ends and bad input


@pytest.mark.parametrize(
    "stream",
    [cp.Tracking(noise=0.1), cp.SlowlyChanging(change_every=30), cp.SlowlyChanging(change_every=30, change="one")],
    ids=["tracking", "all", "one"],
)
def test_compiled_parts_of_any_size_are_the_examples_dealt_at_once(stream):
    assert_same_in_parts(stream, 211, (1, 30, 97))


def test_endless_streams_run_for_the_steps_that_are_asked_for_and_resume_at_any_of_them():
    stream = cp.SlowlyChanging(change_every=16)
    learner = cp.Backprop(cp.Network(20, 2, activation="relu", bias=True), 0.01)
    records = cp.run(learner, stream, seeds=2, steps=64, record_every=8, progress=False)
    assert records.sizes["step"] == 8
    with pytest.raises(ValueError, match="steps"):
        cp.run(learner, stream, seeds=1, progress=False)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((cp.Tracking, name, value) for name in ("inputs", "relevant", "flip_every") for value in (0, 2.5, True, "3")),
        (cp.Tracking, "relevant", 21),
        *((cp.Tracking, "noise", value) for value in (-1.0, math.nan, "1")),
        *((cp.SlowlyChanging, name, 0) for name in ("inputs", "slow", "change_every", "features", "steps")),
        (cp.SlowlyChanging, "slow", 21),
        (cp.SlowlyChanging, "beta", 1.5),
        (cp.SlowlyChanging, "change", "two"),
        (cp.SlowlyChanging, "as_run", 1),
        (cp.Tracking, "steps", 0),
    ],
)
def test_an_argument_that_does_not_fit_is_named_with_its_value(kind, name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be .* got {re.escape(repr(value))}$"):
        build(kind, **{name: value})
