"""Hindsight and backprop with replay equal their equations, written out in scalars of float64."""

import itertools
import math
from functools import partial

import jax
import numpy as np
import pytest

import crossprop as cp
import reference
from judged_optimizers import NOISY, OPTIMIZERS

pytestmark = pytest.mark.usefixtures("quick_compilation", "x64")
STEPS, DELAY = 100, 7


class Adam:
    """One weight's optimizer; with `decay` unset it is plain steps."""

    def __init__(self, size, decay):
        self.size, self.decay, self.m, self.v, self.count = size, decay, 0.0, 0.0, 0

    def step(self, direction):
        if not self.decay:
            return self.size * direction
        self.count += 1
        self.m += 0.1 * (direction - self.m)
        self.v += 0.001 * (direction * direction - self.v)
        m, v = self.m / (1 - 0.9**self.count), self.v / (1 - 0.999**self.count)
        return self.size * m / (math.sqrt(v) + 1e-8)


class Scalars:
    """A network of tanh units with biases and softmax outputs, as nested lists of floats."""

    def __init__(self, matrices, sizes, adam):
        self.matrices = [np.asarray(matrix).tolist() for matrix in matrices]
        self.optimizers = [
            [[Adam(size, adam) for _ in row] for row in matrix]
            for matrix, size in zip(self.matrices, sizes, strict=True)
        ]

    def forward(self, x):
        """What each matrix of weights sees, with its constant 1, and the outputs."""
        seen = [[*x, 1.0]]
        for matrix in self.matrices[:-1]:
            z = [sum(seen[-1][i] * matrix[i][j] for i in range(len(matrix))) for j in range(len(matrix[0]))]
            seen.append([*(math.tanh(each) for each in z), 1.0])
        last = self.matrices[-1]
        return seen, [sum(seen[-1][j] * last[j][k] for j in range(len(last))) for k in range(len(last[0]))]

    def error(self, outputs, y):
        total = sum(math.exp(each) for each in outputs)
        return [target - math.exp(each) / total for target, each in zip(y, outputs, strict=True)]

    def follow(self, seen, delta, hidden_only=False):
        """One backward pass of an error at the outputs; every direction is from before any weight moves."""
        directions = []
        for at in reversed(range(len(self.matrices))):
            matrix, below = self.matrices[at], seen[at]
            directions.append([[below[i] * delta[j] for j in range(len(delta))] for i in range(len(below))])
            through = [sum(matrix[i][j] * delta[j] for j in range(len(delta))) for i in range(len(below) - 1)]
            delta = [error * (1 - phi * phi) for error, phi in zip(through, below, strict=False)]
        for at, direction in enumerate(reversed(directions)):
            if hidden_only and at == len(self.matrices) - 1:
                continue
            for i, row in enumerate(direction):
                for j, each in enumerate(row):
                    self.matrices[at][i][j] += self.optimizers[at][i][j].step(each)


def transcription(rule, matrices, sizes, adam, x, y):
    net, past, outputs = Scalars(matrices, sizes, adam), [], []
    for t in range(len(x)):
        seen, out = net.forward(x[t])
        delta = net.error(out, y[t])
        net.follow(seen, delta)
        past.append(delta)
        outputs.append(out)
        if t >= DELAY:
            seen, out = net.forward(x[t - DELAY])
            if rule is cp.Hindsight:
                net.follow(seen, past[t - DELAY], hidden_only=True)
            else:
                net.follow(seen, net.error(out, y[t - DELAY]))
    return net.matrices, outputs


@pytest.mark.parametrize(
    ("hidden", "optimizer"),
    [
        *((3, "adam"), ((3, 4), "sgd")),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((3, "sgd"), ((3, 4), "adam"))),
    ],
    ids=str,
)
@pytest.mark.parametrize("rule", [cp.Hindsight, cp.BackpropReplay])
def test_it_equals_the_transcription_of_its_equations(rule, hidden, optimizer):
    net = cp.Network.paper(2, hidden, 3, loss="softmax", bias=True, incoming_scale=0.5)
    learner = rule(net, 0.05, DELAY, optimizer=optimizer, incoming_step_size=0.03)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(STEPS, 2)), np.eye(3)[rng.integers(3, size=STEPS)]
    state = learner.init(jax.random.key(1))
    sizes = [0.03] * len(state.incoming) + [0.05]
    expected, outputs = transcription(
        rule, (*state.incoming, state.outgoing.T), sizes, optimizer == "adam", x.tolist(), y.tolist()
    )
    found = []
    for each in zip(x, y, strict=True):
        state, outcome = learner.update(state, *each)
        found.append(outcome.outputs)
    np.testing.assert_allclose(np.array(found), np.array(outputs), rtol=1e-9, atol=1e-12)
    for one, other in zip((*state.incoming, state.outgoing.T), expected, strict=True):
        np.testing.assert_allclose(one, np.array(other), rtol=1e-9, atol=1e-12)


def example_of(net, x, y=None, delta=None):
    """An example as the judges of optimizers see it, and the direction of every matrix: for a target, or the error."""
    thetas, seen, features = net.matrices, [], [*x, 1.0]
    for theta in thetas[:-1]:
        seen.append(reference._layer(features, theta, reference._tanh, False))
        features = [*seen[-1].phi, 1.0]
    _, outputs = net.forward(x)
    if delta is None:
        delta = net.error(outputs, y)
    else:  # the target for which the error is this one
        y = [d - p for d, p in zip(delta, net.error(outputs, [0.0] * len(delta)), strict=True)]
    directions, error = [reference._outer(features, delta)], delta
    for at in reversed(range(len(seen))):
        error = reference._backprop(seen[at], thetas[at + 1], error)
        directions.insert(0, reference._outer(seen[at].x, error))
    given = (x, y, reference._tanh, True, False)
    return reference.Example(seen, features, outputs, delta, "softmax", given), directions


def noise(rule, key, shapes, of_step):
    """What the learner draws: at every example for all matrices, and then for those that move once more."""
    for t in range(STEPS):
        for moving in [shapes] + [shapes[:-1] if rule is cp.Hindsight else shapes] * (t >= DELAY):
            key, own = jax.random.split(key)
            drawn = [
                jax.random.normal(*each)
                for each in zip(jax.random.split(of_step(own), len(moving)), moving, strict=True)
            ]
            last = [None] if len(moving) < len(shapes) else [np.asarray(drawn.pop()).T]
            yield [np.asarray(each) for each in drawn] + last


SOME = [(cp.Hindsight, (3, 4), "smd"), (cp.Hindsight, 3, "upgd"), (cp.BackpropReplay, 3, "upgd")]
ALL = [*itertools.product((cp.Hindsight, cp.BackpropReplay), (3, (3, 4)), OPTIMIZERS)]


@pytest.mark.parametrize(
    ("rule", "hidden", "optimizer"),
    [pytest.param(*each, marks=[pytest.mark.long] * (each not in SOME)) for each in ALL],
)
def test_it_equals_the_transcription_with_an_optimizer_of_the_whole_network(rule, hidden, optimizer):
    build, judge, size = OPTIMIZERS[optimizer]
    net = cp.Network.paper(2, hidden, 3, loss="softmax", bias=True, incoming_scale=0.5)
    learner = rule(net, size, DELAY, optimizer=build, incoming_step_size=size / 2)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(STEPS, 2)), np.eye(3)[rng.integers(3, size=STEPS)]
    state = learner.init(jax.random.key(1))
    matrices = (*state.incoming, state.outgoing.T)
    net = Scalars(matrices, [0.0] * len(matrices), False)
    if optimizer in NOISY:
        shapes = [*(each.shape for each in matrices[:-1]), state.outgoing.shape]
        judge = partial(judge, noise=[*noise(rule, state.backprop.key, shapes, NOISY[optimizer])])
    mover, errors = judge(net.matrices, [size / 2] * (len(matrices) - 1) + [size]), []
    for t, (x_t, y_t) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        state, _ = learner.update(state, x[t], y[t])
        example, directions = example_of(net, x_t, y_t)
        errors.append(example.delta)
        mover.move(net.matrices, directions, example)
        if t < DELAY:
            continue
        if rule is cp.Hindsight:
            example, directions = example_of(net, x[t - DELAY].tolist(), delta=errors[t - DELAY])
            directions[-1] = None
        else:
            example, directions = example_of(net, x[t - DELAY].tolist(), y[t - DELAY].tolist())
        mover.move(net.matrices, directions, example)
    found = (*state.incoming, state.outgoing.T)
    for one, other, start in zip(found, net.matrices, matrices, strict=True):
        np.testing.assert_allclose(one, np.array(other), rtol=1e-9, atol=1e-11)
        assert np.abs(one - start).max() > 1e-3


@pytest.mark.parametrize("rule", [cp.Hindsight, cp.BackpropReplay])
def test_before_the_delay_it_is_backprop(rule):
    net = cp.Network.paper(2, 3)
    learner, plain = rule(net, 0.05, delay=5), cp.Backprop(net, 0.05)
    state, other = learner.init(jax.random.key(0)), plain.init(jax.random.key(0))
    for turn in range(6):
        x, y = np.array([1.0, 0.5 - turn]), np.array([1.0])
        state, other = learner.update(state, x, y)[0], plain.update(other, x, y)[0]
        np.testing.assert_array_equal(state.incoming[0] == other.incoming[0], turn < 5)


@pytest.mark.parametrize("rule", [cp.Hindsight, cp.BackpropReplay])
@pytest.mark.parametrize(
    ("options", "message"),
    [({"delay": 0}, "delay must be between 1 and 2147483647, got 0"), ({"step_size": -1.0}, "step_size must be")],
)
def test_what_is_wrong_is_named(rule, options, message):
    with pytest.raises(ValueError, match=message):
        rule(cp.Network.paper(2, 3), **{"step_size": 0.1} | options)


def test_crossprop_credits_an_example_with_how_far_the_outgoing_weights_move_after_it():
    """With U held fixed, what exact crossprop adds to U over a run is the sum over examples s of
    phi'_j(s) x_i(s) sum_k delta_k(s) [sum over t > s of D_j(s, t) times the step of w_jk at t]."""
    size, steps = 0.05, 60
    learner = cp.Crossprop(cp.Network.paper(2, 3, 2), size, incoming_step_size=1.0)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(steps, 2)), rng.normal(size=(steps, 2))
    state = learner.init(jax.random.key(2))
    fixed, total = state.incoming[0], np.zeros((2, 3))
    phi, delta, moves = np.tanh(x @ np.asarray(fixed)), [], []
    for t in range(steps):
        after, outcome = learner.update(state, x[t], y[t])
        total += np.asarray(after.incoming[0] - fixed)
        delta.append(y[t] - np.asarray(outcome.outputs))
        moves.append(np.asarray(after.outgoing - state.outgoing).T)
        state = after.with_first(after.layers[0]._replace(weights=fixed))
    expected = np.zeros((2, 3))
    for s in range(steps):
        to_come, kept = np.zeros((3, 2)), np.ones((3, 1))
        for t in range(s + 1, steps):
            to_come += kept * moves[t]
            kept = kept * (1 - size * phi[t][:, None] ** 2)
        expected += np.outer(x[s], (1 - phi[s] ** 2) * (to_come @ delta[s]))
    np.testing.assert_allclose(total, expected, rtol=1e-9)
