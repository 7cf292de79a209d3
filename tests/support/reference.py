"""The judge: the learners' equations written out slowly, in float64 scalars, to be laid beside the paper.

Symbols are the paper's: i counts inputs, j hidden units, k outputs, q projections; `u` is U, `w` is W, `h` the memory,
`phi` the hidden units, `slope` their phi', `delta` the error, `a` a step size. Bias rows come last. It shares no code
with the package on purpose, and is lists of Python floats inside because those are the fastest scalars.

In a network of several hidden layers each has the place of the paper's one: `x` are the features of the layer below,
`w` the weights of the layer above, `delta` the error at the weighted sums of the layer above.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

EPSILON = 1e-5
"""Of layer normalisation."""


class Life(NamedTuple):
    """What is left of a run: the final weights and memories, and numbers for every step.

    `incoming` and `memory` have one entry per hidden layer; a layer without a memory has None.
    """

    incoming: list[np.ndarray]
    outgoing: np.ndarray
    memory: list[np.ndarray | None]
    loss: np.ndarray
    outputs: np.ndarray
    incoming_drift: np.ndarray
    outgoing_drift: np.ndarray


def _tanh(z):
    phi = math.tanh(z)
    return phi, 1.0 - phi * phi


def _sigmoid(z):
    phi = 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return phi, phi * (1.0 - phi)


def _relu(z):
    return (0.0, 0.0) if z <= 0.0 else (z, 1.0)


def _leaky_relu(z):
    return (0.01 * z, 0.01) if z <= 0.0 else (z, 1.0)


def _linear(z):
    return z, 1.0


def _ltu(z):
    return (1.0 if z > 0 else 0.0), 0.0


ACTIVATIONS = {
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "linear": _linear,
    "ltu": _ltu,
}


def _squared(target, y):
    """delta = y* - y; the loss is sum_k delta_k^2."""
    delta = [target[k] - y[k] for k in range(len(y))]
    return delta, sum(d * d for d in delta)


def _softmax(target, y):
    """delta = onehot(y*) - softmax(y); the loss is -log softmax(y) of the target's class."""
    top = max(y)
    total = sum(math.exp(y_k - top) for y_k in y)
    delta = [target[k] - math.exp(y[k] - top) / total for k in range(len(y))]
    return delta, math.log(total) - (y[target.index(max(target))] - top)


def _zeros(*shape):
    return np.zeros(shape).tolist()


class _Layer(NamedTuple):
    """A hidden layer at one example. Without layer normalisation `zhat` is z and `spread` is None."""

    x: list[float]
    """What it sees: the inputs or the features of the layer below, and the constant 1 if there are biases."""
    zhat: list[float]
    spread: float | None
    phi: list[float]
    slope: list[float]
    """f'(zhat_j)"""

    def through_norm(self, d):
        """An error at zhat as an error at z: the derivative by all z of the layer, mean and spread included."""
        if self.spread is None:
            return d
        n = len(d)
        mean = sum(d) / n
        along = sum(d[j] * self.zhat[j] for j in range(n)) / n
        return [(d[j] - mean - self.zhat[j] * along) / self.spread for j in range(n)]

    def own_slope(self, j):
        """d phi_j / d z_j, all other z of the layer held fixed."""
        if self.spread is None:
            return self.slope[j]
        n = len(self.zhat)
        return self.slope[j] * (1 - 1 / n - self.zhat[j] * self.zhat[j] / n) / self.spread


def _layer(x, u, f, layer_norm):
    """z_j = sum_i x_i u_ij, zhat_j = (z_j - mean) / sqrt(variance + epsilon) if normalised, phi_j = f(zhat_j)."""
    z, spread = [sum(x[i] * u[i][j] for i in range(len(x))) for j in range(len(u[0]))], None
    if layer_norm:
        mean = sum(z) / len(z)
        spread = math.sqrt(sum((z_j - mean) * (z_j - mean) for z_j in z) / len(z) + EPSILON)
        z = [(z_j - mean) / spread for z_j in z]
    units = [f(z_j) for z_j in z]
    return _Layer(x, z, spread, [unit[0] for unit in units], [unit[1] for unit in units])


def _backprop(layer, w, delta):
    """The error at the layer's weighted sums: sum_k delta_k w_jk phi'_j."""
    n = len(layer.phi)
    return layer.through_norm([sum(delta[k] * w[j][k] for k in range(len(delta))) * layer.slope[j] for j in range(n)])


def _foresight(layer, w, delta, v, ahead):
    """Backprop's error with the outgoing weights moved ahead: sum_k delta_k (w_jk + ahead v_jk) phi'_j."""
    moved = [[w[j][k] + ahead * v[j][k] for k in range(len(delta))] for j in range(len(layer.phi))]
    return _backprop(layer, moved, delta)


def _outer(x, error):
    """du_ij = x_i error_j."""
    return [[x[i] * error[j] for j in range(len(error))] for i in range(len(x))]


def _crossprop(layer, w, delta, h, a, eta):
    """du_ij = sum_k delta_k [(1-eta) phi_j h_ijk + eta w_jk phi'_j x_i]; h_ijk by its recursion."""
    x, phi = layer.x, layer.phi
    du = _outer(x, [eta * error for error in _backprop(layer, w, delta)])
    h_next = _zeros(len(x), len(phi), len(delta))
    for i in range(len(x)):
        for j in range(len(phi)):
            for k in range(len(delta)):
                dphi_du = layer.own_slope(j) * x[i]
                du[i][j] += delta[k] * (1 - eta) * phi[j] * h[i][j][k]
                decay = 1 - a * (1 - eta) * phi[j] * phi[j]
                h_next[i][j][k] = h[i][j][k] * decay + a * (delta[k] - eta * w[j][k] * phi[j]) * dphi_du
    return du, h_next


def _crossprop_projected(layer, w, delta, h, a, eta, r):
    """Crossprop with Q memories: r_qj . delta and r_qj . w_j stand for delta_k and w_jk, averaged over q."""
    x, phi = layer.x, layer.phi
    du = _outer(x, [eta * error for error in _backprop(layer, w, delta)])
    h_next = _zeros(len(x), len(phi), len(r))
    for j in range(len(phi)):
        r_delta = [sum(r[q][j][k] * delta[k] for k in range(len(delta))) for q in range(len(r))]
        r_w = [sum(r[q][j][k] * w[j][k] for k in range(len(delta))) for q in range(len(r))]
        for i in range(len(x)):
            dphi_du = layer.own_slope(j) * x[i]
            mean = sum(r_delta[q] * h[i][j][q] for q in range(len(r))) / len(r)
            du[i][j] += (1 - eta) * phi[j] * mean
            for q in range(len(r)):
                decay = 1 - a * (1 - eta) * phi[j] * phi[j]
                h_next[i][j][q] = h[i][j][q] * decay + a * (r_delta[q] - eta * r_w[q] * phi[j]) * dphi_du
    return du, h_next


def _crossprop_approx(layer, w, delta, h, a, eta, memory_eta):
    """du_ij = sum_k delta_k [(1-eta) phi_j h_jk + eta w_jk] phi'_j x_i; h_jk by its recursion, with memory_eta."""
    phi, n = layer.phi, len(layer.phi)
    mixed, h_next = _zeros(n, len(delta)), _zeros(n, len(delta))
    for j in range(n):
        for k in range(len(delta)):
            mixed[j][k] = (1 - eta) * phi[j] * h[j][k] + eta * w[j][k]
            decay = 1 - a * (1 - memory_eta) * phi[j] * phi[j]
            h_next[j][k] = h[j][k] * decay + a * (delta[k] - memory_eta * w[j][k] * phi[j])
    return _outer(layer.x, _backprop(layer, mixed, delta)), h_next


def _crossprop_sum(layer, w, delta, h, a):
    """du_ij = sum_k delta_k [phi_j h_ijk + w_jk phi'_j x_i]; h_ijk by its recursion."""
    x, phi = layer.x, layer.phi
    du, h_next = _outer(x, _backprop(layer, w, delta)), _zeros(len(x), len(phi), len(delta))
    for i in range(len(x)):
        for j in range(len(phi)):
            for k in range(len(delta)):
                dphi_du = layer.own_slope(j) * x[i]
                du[i][j] += delta[k] * phi[j] * h[i][j][k]
                decay = 1 - a * phi[j] * phi[j]
                h_next[i][j][k] = h[i][j][k] * decay + a * (delta[k] - w[j][k] * phi[j]) * dphi_du
    return du, h_next


class _Optimizer:
    """Moves one matrix by a gradient, number by number, with its own averages m (of g) and v (of g^2)."""

    def __init__(self, name, theta):
        rows, columns = len(theta), len(theta[0])
        self.name, self.t, self.m = name, 0, _zeros(rows, columns)
        self.v = [[1.0 if name == "rmsprop" else 0.0] * columns for _ in range(rows)]

    def forget(self, row, column):
        """The averages of one number begin anew; t counts for the whole matrix."""
        self.m[row][column], self.v[row][column] = 0.0, 1.0 if self.name == "rmsprop" else 0.0

    def move(self, theta, direction, a):
        """Moves theta and returns its steps."""
        self.t += 1
        steps = _zeros(len(theta), len(theta[0]))
        for row in range(len(theta)):
            for column in range(len(theta[0])):
                steps[row][column] = -a * self._scaled(-direction[row][column], self.m[row], self.v[row], column)
                theta[row][column] += steps[row][column]
        return steps

    def _scaled(self, g, m, v, c):
        match self.name:
            case "sgd":
                return g
            case "momentum":
                m[c] = 0.9 * m[c] + g
                return m[c]
            case "rmsprop":
                v[c] = 0.9 * v[c] + 0.1 * g * g
                return g / math.sqrt(v[c] + 1e-10)
            case "adam":
                m[c] = 0.9 * m[c] + (1 - 0.9) * g
                v[c] = 0.999 * v[c] + (1 - 0.999) * g * g
                return m[c] / (1 - 0.9**self.t) / (math.sqrt(v[c] / (1 - 0.999**self.t)) + 1e-8)
            case "adadelta":  # m is the mean of squared steps
                v[c] = 0.95 * v[c] + (1 - 0.95) * g * g
                step = math.sqrt(m[c] + 1e-6) / math.sqrt(v[c] + 1e-6) * g
                m[c] = 0.95 * m[c] + (1 - 0.95) * step * step
                return step
        raise ValueError(f"optimizer {self.name!r}")


class Example(NamedTuple):
    """What happened at one example, for optimizers that look at the whole network."""

    seen: list[_Layer]
    features: list[float]
    """What the output layer sees."""
    output: list[float]
    delta: list[float]
    loss: str
    given: tuple
    """x, y, the activation, and whether there are biases and layer normalisation."""

    def sensitivities(self, thetas):
        """dy_k / d theta for every output k: a list over k of matrices shaped like the weights."""
        found = []
        for k in range(len(self.output)):
            error = [1.0 if each == k else 0.0 for each in range(len(self.output))]
            matrices = [_outer(self.features, error)]
            for at in reversed(range(len(self.seen))):
                error = _backprop(self.seen[at], thetas[at + 1], error)
                matrices.insert(0, _outer(self.seen[at].x, error))
            found.append(matrices)
        return found


def _credit(rule, layer, w, delta, h, a, r, eta, memory_eta, ahead, weight=0.0, horizon=1.0):
    """What a hidden layer does at one example: its du, the error it passes down, and its next memory.

    Every rule passes the ordinary error down; foresight and correlation pass the error that they credit with.
    Foresight's memory moves after the weights, and `live` moves it.
    """
    below = _backprop(layer, w, delta)
    match rule:
        case "backprop":
            return _outer(layer.x, below), below, None
        case "foresight":
            below = _foresight(layer, w, delta, h, ahead)
            return _outer(layer.x, below), below, h
        case "correlation":
            below = _foresight(layer, w, delta, h, weight)
            return _outer(layer.x, below), below, _mean_products(h, layer.phi, delta, horizon)
        case "crossprop" if r:
            du, h_next = _crossprop_projected(layer, w, delta, h, a, eta, r)
        case "crossprop":
            du, h_next = _crossprop(layer, w, delta, h, a, eta)
        case "crossprop-approx":
            du, h_next = _crossprop_approx(layer, w, delta, h, a, eta, memory_eta)
        case "crossprop-sum":
            du, h_next = _crossprop_sum(layer, w, delta, h, a)
        case "frozen":
            return None, below, None
        case _:
            raise ValueError(f"rule {rule!r}")
    return du, below, h_next


def _mean_products(m, phi, delta, horizon):
    """m_jk <- (1 - 1/horizon) m_jk + delta_k phi_j / horizon."""
    return [
        [(1 - 1 / horizon) * m[j][k] + delta[k] * phi[j] / horizon for k in range(len(delta))] for j in range(len(phi))
    ]


def _move_memory(v, steps, horizon):
    """v_jk <- (1 - 1/horizon) v_jk + (the step of w_jk), in place; the steps have a bias row that v has not."""
    for j in range(len(v)):
        for k in range(len(v[j])):
            v[j][k] = (1 - 1 / horizon) * v[j][k] + steps[j][k]


def _distance(theta, initial, rows):
    """The sum of squares of what has changed in the first rows."""
    return sum((a - b) * (a - b) for r in range(rows) for a, b in zip(theta[r], initial[r], strict=True))


def _memory(rule, fan_in, n, above, r):
    """The memory of a layer before the first example; a rule without one has None."""
    match rule:
        case "crossprop":
            return _zeros(fan_in, n, len(r) if r else above)
        case "crossprop-sum":
            return _zeros(fan_in, n, above)
        case "crossprop-approx" | "foresight" | "correlation":
            return _zeros(n, above)
    return None


def live(rule, *, activation, loss, bias, incoming, outgoing, x, y, step_size, optimizer="sgd", eta=0.0,
         memory_eta=None, incoming_step_size=None, memory_step_size=None, signs=None, layer_norm=False, layers="all",
         ahead=1.0, horizon=1000.0, weight=30.0, network_optimizer=None, replace=None) -> Life:  # fmt: skip
    """Lives through the examples (x_t, y_t) with one rule from the given U of every hidden layer and W, and a memory of
    zeros.

    `rule` is "crossprop" (projected when `signs` are given: (Q, units, units above) for every layer that follows the
    rule), "crossprop-approx", "crossprop-sum", "foresight", "correlation", "backprop" or "frozen". With `layers="top"`
    the last hidden layer follows the rule, and those below learn by backprop. `incoming_step_size` is a number or one
    per layer. `network_optimizer(thetas, a)` makes one of `reference_optimizers`, which moves all weights.
    `replace(phis, thetas, h, forget)` is called at the end of every step and may change weights and memories;
    `forget(at, row, column)` tells the optimizer. Loss and outputs are from before learning at a step, drifts from
    after it, without biases.
    """
    depth = len(incoming)
    sizes = [np.shape(x)[1], *(np.shape(u)[1] for u in incoming), np.shape(y)[1]]
    shapes = [(fan_in + bias, n) for fan_in, n in itertools.pairwise(sizes)]
    assert [np.shape(theta) for theta in [*incoming, outgoing]] == shapes
    thetas, initial = ([np.array(v, np.float64).tolist() for v in [*incoming, outgoing]] for _ in range(2))
    rs = [None if r is None else np.array(r, np.float64).tolist() for r in signs or [None] * depth]
    a_u = step_size if incoming_step_size is None else incoming_step_size
    a = [*(a_u if isinstance(a_u, tuple | list) else [a_u] * depth), step_size]
    memory_eta = eta if memory_eta is None else memory_eta
    follows = [layers == "all" or at == depth - 1 for at in range(depth)]
    f, error = ACTIVATIONS[activation], {"squared": _squared, "softmax": _softmax}[loss]
    optimizers = [_Optimizer(optimizer, theta) for theta in thetas]
    mover = None if network_optimizer is None else network_optimizer(thetas, a)
    h = [_memory(rule, *shapes[at], sizes[at + 2], rs[at]) if follows[at] else None for at in range(depth)]
    history = []
    for x_t, y_t in zip(np.array(x, np.float64).tolist(), np.array(y, np.float64).tolist(), strict=True):
        features, seen = x_t + [1.0] * bias, []
        for u in thetas[:-1]:
            seen.append(_layer(features, u, f, layer_norm))
            features = seen[-1].phi + [1.0] * bias
        w = thetas[-1]
        output = [sum(features[j] * w[j][k] for j in range(len(features))) for k in range(len(y_t))]
        delta, loss_t = error(y_t, output)
        example = Example(seen, features, output, delta, loss, (x_t, y_t, f, bias, layer_norm))
        directions: list[list[list[float]] | None] = [_outer(features, delta)]
        for at in reversed(range(depth)):
            a_h = a[at + 1] if memory_step_size is None else memory_step_size
            followed = rule if follows[at] or rule == "frozen" else "backprop"
            du, delta, h[at] = _credit(
                followed, seen[at], thetas[at + 1], delta, h[at], a_h, rs[at], eta, memory_eta, ahead, weight, horizon
            )
            directions.insert(0, du)
        moves = None if mover is None else mover.move(thetas, directions, example)
        for at, du in enumerate(directions):
            if moves is not None:
                steps = moves[at]
            else:
                steps = None if du is None else optimizers[at].move(thetas[at], du, a[at])
            if rule == "foresight" and at > 0 and follows[at - 1]:
                _move_memory(h[at - 1], steps, horizon)
        if replace is not None:
            forget = mover.forget if mover else lambda at, row, column: optimizers[at].forget(row, column)
            replace([layer.phi for layer in seen], thetas, h, forget)
        changes = [_distance(theta, start, n) for theta, start, n in zip(thetas, initial, sizes[:-1], strict=True)]
        history.append((loss_t, output, math.sqrt(sum(changes[:-1])), math.sqrt(changes[-1])))
    memory = [None if each is None else np.array(each) for each in h]
    final = [np.array(theta) for theta in thetas]
    return Life(final[:-1], final[-1], memory, *(np.array(column) for column in zip(*history, strict=True)))


def geoff_target(x, incoming, outgoing, beta):
    """y* without noise: feature j fires when sum_i x_i u*_ij > m beta - S_j, S_j the number of -1 in column j."""
    xs, u, w = (np.array(v, np.float64).tolist() for v in (x, incoming, outgoing))
    m, n, targets = len(u), len(w), []
    theta = [m * beta - sum(1 for i in range(m) if u[i][j] == -1) for j in range(n)]
    for x_t in xs:
        phi = [1.0 if sum(x_t[i] * u[i][j] for i in range(m)) > theta[j] else 0.0 for j in range(n)]
        targets.append(sum(phi[j] * w[j] for j in range(n)))
    return targets


def examples(net, steps, seed=0):
    """Normal inputs and targets; of classes, one-hot."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(steps, net.inputs)), rng.normal(size=(steps, net.outputs))
    return x, np.eye(net.outputs)[y.argmax(axis=1)] if net.loss == "softmax" else y


def parts(state):
    """A learner's state as it is here: U, W, h and r, with one entry per hidden layer but for W."""
    memory = [None if layer.memory is None else np.moveaxis(layer.memory, 0, -1) for layer in state.layers]
    signs = [None if layer.signs is None else np.swapaxes(layer.signs, 1, 2) for layer in state.layers]
    return [np.asarray(matrix) for matrix in state.incoming], np.asarray(state.outgoing).T, memory, signs


def matrices(state):
    """The weights of a learner, U of every hidden layer and then W."""
    incoming, outgoing, *_ = parts(state)
    return [*incoming, outgoing]


def live_from(start, net, rule, x, y, **options) -> Life:
    """`live` from a learner's state in its network."""
    incoming, outgoing, _, signs = parts(start)
    return live(
        rule.removesuffix("-projected"),
        **{name: getattr(net, name) for name in ("activation", "loss", "bias", "layer_norm")},
        incoming=incoming,
        outgoing=outgoing,
        x=x,
        y=y,
        signs=signs,
        **options,
    )


def pairs(final, losses, judged):
    """Weights, memories and losses of a learner beside those of the judge."""
    incoming, outgoing, memory, _ = parts(final)
    weights = [(outgoing, judged.outgoing), *zip(incoming, judged.incoming, strict=True)]
    return [*weights, (losses, judged.loss), *zip(memory, judged.memory, strict=True)]
