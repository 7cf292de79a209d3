"""Streams that predict: their returns are what follows, and learners of the book do on them what they do there."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop.specification import build

TRIALS = {
    "conditioning": cp.TraceConditioning(steps=3000),
    "far": cp.TraceConditioning(wait=(21, 39), discount=1 - 1 / 30, steps=3000),
    "short": cp.TraceConditioning(wait=(1, 2), pause=(1, 3), distractors=0, steps=3000),
    "patterning": cp.TracePatterning(steps=3000),
}


def returns(cumulants, discounts):
    """Backwards from 0 after the last step."""
    found = np.zeros(len(cumulants))
    for step in reversed(range(len(found) - 1)):
        found[step] = cumulants[step + 1] + discounts[step + 1] * found[step + 1]
    return found


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.usefixtures("x64")
def test_returns_of_trials_are_what_follows(name):
    stream = TRIALS[name]
    x, y, _ = stream.sample(jax.random.key(3))
    np.testing.assert_allclose(y[:2000, 2], returns(y[:, 0], y[:, 1])[:2000], rtol=0, atol=1e-7)
    assert (y[:, 1] == stream.discount).all() and y[0, 0] == 0
    np.testing.assert_array_equal(x[:, stream.cues], y[:, 0])


@pytest.mark.usefixtures("x64")
def test_a_return_over_thousands_of_trials_compiles_in_seconds():
    stream = cp.TraceConditioning(wait=(1, 1), pause=(1, 1), discount=0.999)
    begun = time.monotonic()
    _, _, y = stream.deal(stream.begin(jax.random.key(0)), 4)
    assert time.monotonic() - begun < 30
    np.testing.assert_allclose(y[:2, 2], [1 / (1 - 0.999**2), 0.999 / (1 - 0.999**2)], rtol=1e-6)


@pytest.mark.parametrize("name", TRIALS)
def test_trials_are_as_they_say(name):
    stream = TRIALS[name]
    x, y, _ = stream.sample(jax.random.key(0))
    begins, outcomes = (np.flatnonzero(each) for each in (x[:, : stream.cues].any(axis=1), y[:, 0]))
    assert begins[0] == 0 and set(x[begins, : stream.cues].sum(axis=1)) == {stream.on}
    last = np.array([begins[begins < outcome][-1] for outcome in outcomes])
    waits, lengths = outcomes - last, np.diff(begins)
    assert stream.wait[0] <= waits.min() < waits.max() <= stream.wait[1]
    assert lengths.min() >= stream.wait[0] + stream.pause[0] and lengths.max() <= stream.wait[1] + stream.pause[1]
    patterns = {tuple(row): set() for row in x[begins, : stream.cues]}
    for begin in begins[:-1]:
        patterns[tuple(x[begin, : stream.cues])].add(begin in last)
    assert all(len(each) == 1 for each in patterns.values() if each)
    shares = x[:, stream.cues + 1 :].mean(axis=0)
    np.testing.assert_allclose(shares, [1 / (10 * k) for k in range(1, stream.distractors + 1)], atol=0.02)


def test_half_of_the_patterns_have_an_outcome():
    stream = cp.TracePatterning(wait=(1, 1), pause=(1, 1), distractors=0, steps=2000)
    x, y, _ = stream.sample(jax.random.key(0))
    found = {tuple(cues): bool(outcome) for cues, outcome in zip(x[::2, :6], y[1::2, 0], strict=True)}
    assert len(found) == 20 and sum(found.values()) == 10
    other, outcomes, _ = stream.sample(jax.random.key(1))
    assert found != {tuple(c): bool(o) for c, o in zip(other[::2, :6], outcomes[1::2, 0], strict=True)}


def test_a_walk_goes_one_state_at_a_time_and_knows_its_values():
    x, y, _ = cp.RandomWalk(steps=5000).sample(jax.random.key(0))
    states, ended = x.argmax(axis=1), y[:, 1] == 0
    assert states[0] == 9 and (x.sum(axis=1) == 1).all() and y[0].tolist() == [0, 1, 0]
    assert (np.abs(np.diff(states))[~ended[1:]] == 1).all() and (states[ended] == 9).all()
    before = states[np.flatnonzero(ended) - 1]
    np.testing.assert_array_equal(y[ended, 0], np.where(before == 0, -1, 1))
    assert set(before) == {0, 18} and not y[~ended, 0].any()
    np.testing.assert_allclose(y[:, 2], (states - 9) / 10, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_traces_of_inputs():
    stream = cp.Traced(cp.Tracking(inputs=3, relevant=2, steps=50), decays=(0.5, 0.9))
    x, y, _ = stream.sample(jax.random.key(0))
    plain, targets, _ = stream.stream.sample(jax.random.key(0))
    traces = np.zeros((2, 3))
    for row, one in zip(x, plain, strict=True):
        traces = np.array([[0.5], [0.9]]) * traces + np.array([[0.5], [0.1]]) * one
        np.testing.assert_allclose(row, [*one, *traces.ravel()], rtol=1e-12)
    np.testing.assert_array_equal(y, targets)


MISTAKES = {
    "wait": (lambda: cp.TracePatterning(wait=(5, 3)), r"^wait\[1\] must be .* 3"),
    "pause": (lambda: cp.TraceConditioning(pause=[4]), r"^pause must be the least and the most steps, .* got \[4\]"),
    "on": (lambda: cp.TracePatterning(on=7), "^on must be .* 7"),
    "patterns": (lambda: cp.TracePatterning(cues=40, on=20), "^cues and on must have .* got cues=40, on=20"),
    "stream": (lambda: cp.Traced(3), "^stream must be a crossprop.Stream, and no Iterator, got 3"),
    "iterator": (lambda: cp.Traced(cp.Iterator([], 2, 1)), r"^stream must be .* no Iterator, got Iterator\("),
    "decays": (lambda: cp.Traced(cp.Geoff(), decays=[1.0]), r"^decays\[0\] must be .* 1"),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# By name


def test_learners_by_name_predict_on_such_a_stream():
    table = {"stream": "random-walk", "network": {"hidden": 5}}
    names = ["backprop", "swift-td", "crossprop"]
    learners, _ = build(
        table | {"learners": names}, {"trace": 0.8, "step_size": 0.1, "crossprop:normalize.decay": 0.99}
    )
    net = cp.Network(19, 5)
    assert learners["backprop"] == cp.TD(cp.Backprop(net, 0.1), trace=0.8)
    assert learners["swift-td"] == cp.SwiftTD(net, 0.1, trace=0.8)
    assert learners["crossprop"] == cp.Normalize(cp.TD(cp.Crossprop(net, 0.1), trace=0.8), decay=0.99)
    own = {
        "plain": {"rule": "backprop"},
        "best": {"rule": "adam", "best": {"step_sizes": [0.1, 0.2]}, "normalize": True},
    }
    learners, _ = build(table | {"learners": own}, {"step_size": 0.1})
    assert learners["plain"] == cp.TD(cp.Backprop(net, 0.1))
    best = cp.Best(cp.Backprop(net, 0.1, optimizer="adam"), step_sizes=(0.1, 0.2))
    assert learners["best"] == cp.Normalize(cp.TD(best))
    with pytest.raises(ValueError, match=r"an argument of learners.backprop.normalize must be one of .* got 'odd'"):
        build(table | {"learners": {"backprop": {"normalize": {"odd": 1}}}})


# The random walk of the book


def rms_errors(learners, runs=100, walks=10):
    """The root mean squared error over the states at the end of each of the first walks, averaged over them and over
    runs, as in figures 12.6 and 12.8 of Sutton and Barto (2018), by learner."""
    stream, values = cp.RandomWalk(), (jnp.arange(19) - 9) / 10
    _, x, y = jax.vmap(lambda key: stream.deal(stream.begin(key), 2000))(jax.random.split(jax.random.key(0), runs))

    @jax.jit
    def error(learner):
        def one(x, y):
            def step(carry, example):
                state, total, count = carry
                state, _ = learner.update(state, *example)
                ends = (example[1][1] == 0) & (count < walks)
                found = jax.vmap(lambda one: learner.predict(state, one))(jnp.eye(19))[:, 0]
                wrong = jnp.sqrt(jnp.mean((found - values) ** 2))
                return (state, total + jnp.where(ends, wrong, 0), count + ends), None

            carry = learner.init(jax.random.key(0)), 0.0, 0
            (_, total, count), _ = jax.lax.scan(step, carry, (x, y))
            return total / walks, count

        errors, counts = jax.vmap(one)(x, y)
        return jnp.mean(jnp.where(counts == walks, errors, jnp.nan))

    return {name: float(error(learner)) for name, learner in learners.items()}


@pytest.mark.long
def test_td_and_true_online_td_on_the_random_walk_of_the_book():
    net, steps, traces = (
        cp.Network(19, (), bias=False, outgoing_scale=0),
        (0.1, 0.3, 0.5, 0.7, 0.9),
        (0.0, 0.4, 0.8, 1.0),
    )
    plain = {trace: {} for trace in traces}
    online = {trace: {} for trace in traces}
    for trace in traces:
        for step in steps:
            size = step * (1 if trace < 1 else 0.1)
            plain[trace][step] = cp.TD(cp.Backprop(net, size), trace=trace)
            online[trace][step] = cp.TrueOnlineTD(net, size, trace=trace)
    best = {
        name: {trace: min(rms_errors(learners).values()) for trace, learners in each.items()}
        for name, each in {"plain": plain, "online": online}.items()
    }
    expected = {
        "plain": {0.0: 0.345, 0.4: 0.27, 0.8: 0.26, 1.0: 0.5},
        "online": {0.0: 0.345, 0.4: 0.27, 0.8: 0.25, 1.0: 0.49},
    }
    for name, found in best.items():
        assert found == pytest.approx(expected[name], abs=0.02)
        assert found[0.8] < found[0.4] < found[0.0] < found[1.0]
    assert best["online"][0.8] < best["plain"][0.8]
