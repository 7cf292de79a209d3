"""The judge: the learners' equations written out slowly, in float64 scalars, to be laid beside the paper.

Symbols are the paper's: i counts inputs, j hidden units, k outputs, q projections; `u` is U, `w` is W, `h` the memory,
`phi` the hidden units, `slope` their phi', `delta` the error, `a` a step size. Bias rows come last. It shares no code
with the package on purpose, and is lists of Python floats inside because those are the fastest scalars.
"""

import math
from typing import NamedTuple

import numpy as np


class Life(NamedTuple):
    """What is left of a run: the final weights and memory (None for a rule without one), and numbers for every step."""

    incoming: np.ndarray
    outgoing: np.ndarray
    memory: np.ndarray | None
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


def _crossprop(x, phi, slope, w, delta, h, a, eta):
    """du_ij = sum_k delta_k [(1-eta) phi_j h_ijk + eta w_jk phi'_j x_i]; h_ijk by its recursion."""
    du, h_next = _zeros(len(x), len(slope)), _zeros(len(x), len(slope), len(delta))
    for i in range(len(x)):
        for j in range(len(slope)):
            for k in range(len(delta)):
                dphi_du = slope[j] * x[i]
                du[i][j] += delta[k] * ((1 - eta) * phi[j] * h[i][j][k] + eta * w[j][k] * dphi_du)
                decay = 1 - a * (1 - eta) * phi[j] * phi[j]
                h_next[i][j][k] = h[i][j][k] * decay + a * (delta[k] - eta * w[j][k] * phi[j]) * dphi_du
    return du, h_next


def _crossprop_projected(x, phi, slope, w, delta, h, a, eta, r):
    """Crossprop with Q memories: r_qj . delta and r_qj . w_j stand for delta_k and w_jk, averaged over q."""
    du, h_next = _zeros(len(x), len(slope)), _zeros(len(x), len(slope), len(r))
    for j in range(len(slope)):
        w_delta = sum(w[j][k] * delta[k] for k in range(len(delta)))
        r_delta = [sum(r[q][j][k] * delta[k] for k in range(len(delta))) for q in range(len(r))]
        r_w = [sum(r[q][j][k] * w[j][k] for k in range(len(delta))) for q in range(len(r))]
        for i in range(len(x)):
            dphi_du = slope[j] * x[i]
            mean = sum(r_delta[q] * h[i][j][q] for q in range(len(r))) / len(r)
            du[i][j] = (1 - eta) * phi[j] * mean + eta * w_delta * dphi_du
            for q in range(len(r)):
                decay = 1 - a * (1 - eta) * phi[j] * phi[j]
                h_next[i][j][q] = h[i][j][q] * decay + a * (r_delta[q] - eta * r_w[q] * phi[j]) * dphi_du
    return du, h_next


def _crossprop_approx(x, phi, slope, w, delta, h, a, eta, memory_eta):
    """du_ij = sum_k delta_k [(1-eta) phi_j h_jk + eta w_jk] phi'_j x_i; h_jk by its recursion, with memory_eta."""
    du, h_next = _zeros(len(x), len(slope)), _zeros(len(slope), len(delta))
    for j in range(len(slope)):
        for k in range(len(delta)):
            for i in range(len(x)):
                du[i][j] += delta[k] * ((1 - eta) * phi[j] * h[j][k] + eta * w[j][k]) * slope[j] * x[i]
            decay = 1 - a * (1 - memory_eta) * phi[j] * phi[j]
            h_next[j][k] = h[j][k] * decay + a * (delta[k] - memory_eta * w[j][k] * phi[j])
    return du, h_next


def _crossprop_sum(x, phi, slope, w, delta, h, a):
    """du_ij = sum_k delta_k [phi_j h_ijk + w_jk phi'_j x_i]; h_ijk by its recursion."""
    du, h_next = _zeros(len(x), len(slope)), _zeros(len(x), len(slope), len(delta))
    for i in range(len(x)):
        for j in range(len(slope)):
            for k in range(len(delta)):
                dphi_du = slope[j] * x[i]
                du[i][j] += delta[k] * (phi[j] * h[i][j][k] + w[j][k] * dphi_du)
                decay = 1 - a * phi[j] * phi[j]
                h_next[i][j][k] = h[i][j][k] * decay + a * (delta[k] - w[j][k] * phi[j]) * dphi_du
    return du, h_next


def _backprop(x, slope, w, delta):
    """du_ij = sum_k delta_k w_jk phi'_j x_i."""
    du = _zeros(len(x), len(slope))
    for i in range(len(x)):
        for j in range(len(slope)):
            for k in range(len(delta)):
                du[i][j] += delta[k] * w[j][k] * slope[j] * x[i]
    return du


class _Optimizer:
    """Moves one matrix by a gradient, number by number, with its own averages m (of g) and v (of g^2)."""

    def __init__(self, name, theta):
        rows, columns = len(theta), len(theta[0])
        self.name, self.t, self.m = name, 0, _zeros(rows, columns)
        self.v = [[1.0 if name == "rmsprop" else 0.0] * columns for _ in range(rows)]

    def move(self, theta, direction, a):
        self.t += 1
        for row in range(len(theta)):
            for column in range(len(theta[0])):
                theta[row][column] -= a * self._scaled(-direction[row][column], self.m[row], self.v[row], column)

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
        raise ValueError(f"optimizer {self.name!r}")


def _distance(theta, initial, rows):
    return math.sqrt(sum((a - b) * (a - b) for r in range(rows) for a, b in zip(theta[r], initial[r], strict=True)))


def live(rule, *, activation, loss, bias, incoming, outgoing, x, y, step_size, optimizer="sgd", eta=0.0,
         memory_eta=None, incoming_step_size=None, memory_step_size=None, signs=None) -> Life:  # fmt: skip
    """Lives through the examples (x_t, y_t) with one rule from the given U and W, and a memory of zeros.

    `rule` is "crossprop" (projected when `signs` (Q, hidden, outputs) are given), "crossprop-approx", "crossprop-sum",
    "backprop" or "frozen". Loss and outputs are from before learning at a step, drifts from after it, without biases.
    """
    (steps, m), n, outputs = np.shape(x), np.shape(incoming)[1], np.shape(y)[1]
    assert np.shape(incoming) == (m + bias, n) and np.shape(outgoing) == (n + bias, outputs) and len(y) == steps
    assert signs is None or (rule == "crossprop" and np.shape(signs)[1:] == (n, outputs))
    u, u_initial, w, w_initial, xs, ys = (
        np.array(v, np.float64).tolist() for v in (incoming, incoming, outgoing, outgoing, x, y)
    )
    r = None if signs is None else np.array(signs, np.float64).tolist()
    a_u = step_size if incoming_step_size is None else incoming_step_size
    a_h = step_size if memory_step_size is None else memory_step_size
    memory_eta = eta if memory_eta is None else memory_eta
    f = {"tanh": _tanh, "sigmoid": _sigmoid, "relu": _relu}[activation]
    error = {"squared": _squared, "softmax": _softmax}[loss]
    move_u, move_w = _Optimizer(optimizer, u).move, _Optimizer(optimizer, w).move
    exact, projected = (m + bias, n, outputs), (m + bias, n, len(r or ()))
    shape = {"crossprop": projected if r else exact, "crossprop-sum": exact, "crossprop-approx": (n, outputs)}.get(rule)
    h = _zeros(*shape) if shape else None
    history = []
    for x_t, y_t in zip(xs, ys, strict=True):
        x_t = x_t + [1.0] * bias
        units = [f(sum(x_t[i] * u[i][j] for i in range(m + bias))) for j in range(n)]
        phi, slope = [unit[0] for unit in units] + [1.0] * bias, [unit[1] for unit in units]
        output = [sum(phi[j] * w[j][k] for j in range(n + bias)) for k in range(outputs)]
        delta, loss_t = error(y_t, output)
        match rule:
            case "crossprop" if r:
                du, h = _crossprop_projected(x_t, phi, slope, w, delta, h, a_h, eta, r)
            case "crossprop":
                du, h = _crossprop(x_t, phi, slope, w, delta, h, a_h, eta)
            case "crossprop-approx":
                du, h = _crossprop_approx(x_t, phi, slope, w, delta, h, a_h, eta, memory_eta)
            case "crossprop-sum":
                du, h = _crossprop_sum(x_t, phi, slope, w, delta, h, a_h)
            case "backprop":
                du = _backprop(x_t, slope, w, delta)
            case "frozen":
                du = None
            case _:
                raise ValueError(f"rule {rule!r}")
        if du is not None:
            move_u(u, du, a_u)
        move_w(w, [[delta[k] * phi[j] for k in range(outputs)] for j in range(n + bias)], step_size)
        history.append((loss_t, output, _distance(u, u_initial, m), _distance(w, w_initial, n)))
    final = (np.array(u), np.array(w), None if h is None else np.array(h))
    return Life(*final, *(np.array(column) for column in zip(*history, strict=True)))


def geoff_target(x, incoming, outgoing, beta):
    """y* without noise: feature j fires when sum_i x_i u*_ij > m beta - S_j, S_j the number of -1 in column j."""
    xs, u, w = (np.array(v, np.float64).tolist() for v in (x, incoming, outgoing))
    m, n, targets = len(u), len(w), []
    theta = [m * beta - sum(1 for i in range(m) if u[i][j] == -1) for j in range(n)]
    for x_t in xs:
        phi = [1.0 if sum(x_t[i] * u[i][j] for i in range(m)) > theta[j] else 0.0 for j in range(n)]
        targets.append(sum(phi[j] * w[j] for j in range(n)))
    return targets
