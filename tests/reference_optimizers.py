"""The judge of the optimizers that see the whole network: their equations, number by number, in float64 scalars.

`thetas` are the weights of all hidden layers and of the output layer, `directions` where the credit rule wants them to
go (minus the gradient; None for weights that it does not move), `a` a step size per matrix. `move` changes the weights
in place and returns their steps. Like `reference`, it shares no code with the package on purpose.
"""

import math


def _places(thetas, directions):
    """Every weight that moves, as matrix, row and column."""
    for m, direction in enumerate(directions):
        if direction is not None:
            for r in range(len(thetas[m])):
                for c in range(len(thetas[m][0])):
                    yield m, r, c


def _like(thetas, value=0.0):
    return [[[value] * len(row) for row in theta] for theta in thetas]


def _moved(thetas, directions, steps):
    for m, r, c in _places(thetas, directions):
        thetas[m][r][c] += steps[m][r][c]
    return [None if direction is None else step for direction, step in zip(directions, steps, strict=True)]


def _curvature(example, thetas):
    """The diagonal of the Gauss-Newton matrix: sum_k (dy_k/dw)^2 for half the squared error; for softmax with shares p,
    sum_k p_k (dy_k/dw)^2 - (sum_k p_k dy_k/dw)^2."""
    slopes, outputs = example.sensitivities(thetas), range(len(example.output))
    total = sum(math.exp(y) for y in example.output)
    p = [math.exp(y) / total for y in example.output]
    found = _like(thetas)
    for m, r, c in _places(thetas, thetas):
        own = [slopes[k][m][r][c] for k in outputs]
        if example.loss == "squared":
            found[m][r][c] = sum(slope * slope for slope in own)
        else:
            mean = sum(p[k] * own[k] for k in outputs)
            found[m][r][c] = sum(p[k] * own[k] * own[k] for k in outputs) - mean * mean
    return found


class IDBD:
    def __init__(self, thetas, a, meta_step_size=0.01, bounded=False):
        self.theta, self.bounded = meta_step_size, bounded
        self.beta = [[[math.log(a[m])] * len(row) for row in matrix] for m, matrix in enumerate(thetas)]
        self.h, self.initial = _like(thetas), a

    def forget(self, m, r, c):
        """What is kept for one weight begins anew."""
        self.beta[m][r][c], self.h[m][r][c] = math.log(self.initial[m]), 0.0

    def move(self, thetas, directions, example):
        steps, x2 = _like(thetas), _curvature(example, thetas)
        for m, r, c in _places(thetas, directions):
            d, h = directions[m][r][c], self.h[m][r][c]
            change = self.theta * d * h
            if self.bounded:
                self.beta[m][r][c] = max(-10.0, self.beta[m][r][c] + min(2.0, max(-2.0, change)))
            else:
                self.beta[m][r][c] += change
            alpha = math.exp(self.beta[m][r][c])
            steps[m][r][c] = alpha * d
            self.h[m][r][c] = h * max(0.0, 1.0 - alpha * x2[m][r][c]) + alpha * d
        return _moved(thetas, directions, steps)


class UPGD:
    """`noise` has an array for every matrix and step."""

    def __init__(self, thetas, a, *, sigma, utility_decay, weight_decay, noise, protecting=True, as_run=False):
        self.a, self.sigma, self.beta, self.decay = a, sigma, utility_decay, weight_decay
        self.noise, self.protecting, self.as_run = noise, protecting, as_run
        self.u, self.t = _like(thetas), 0

    def move(self, thetas, directions, example):
        noise, steps = self.noise[self.t], _like(thetas)
        self.t += 1
        places = list(_places(thetas, directions))
        for m, r, c in places:
            g, w = -directions[m][r][c], thetas[m][r][c]
            self.u[m][r][c] = self.beta * self.u[m][r][c] + (1 - self.beta) * (-g * w)
        correction = 1 - self.beta**self.t
        hat = {place: self.u[place[0]][place[1]][place[2]] / correction for place in places}
        eta = max(hat.values()) * (correction if self.as_run else 1)
        for m, r, c in places:
            g, w, xi = -directions[m][r][c], thetas[m][r][c], self.sigma * noise[m][r][c]
            s = 1 / (1 + math.exp(-hat[m, r, c] / eta)) if eta else 0.5
            towards = (g + xi) * (1 - s) if self.protecting else g + xi * (1 - s)
            steps[m][r][c] = (1 - self.a[m] * self.decay) * w - self.a[m] * towards - w
        return _moved(thetas, directions, steps)


class _Adam:
    """The base of other optimizers; or plain steps."""

    def __init__(self, thetas, a, base):
        self.a, self.base, self.t, self.m, self.v = a, base, 0, _like(thetas), _like(thetas)

    def steps(self, thetas, gradients):
        self.t += 1
        found = _like(thetas)
        for m, r, c in _places(thetas, gradients):
            g = gradients[m][r][c]
            self.m[m][r][c] = 0.9 * self.m[m][r][c] + (1 - 0.9) * g
            self.v[m][r][c] = 0.999 * self.v[m][r][c] + (1 - 0.999) * g * g
            first, second = self.m[m][r][c] / (1 - 0.9**self.t), self.v[m][r][c] / (1 - 0.999**self.t)
            found[m][r][c] = -self.a[m] * (first / (math.sqrt(second) + 1e-8) if self.base == "adam" else g)
        return found


def _gradients(directions) -> list:
    minus = lambda direction: None if direction is None else [[-d for d in row] for row in direction]
    return [minus(direction) for direction in directions]


class ShrinkPerturb:
    def __init__(self, thetas, a, shrink, sigma, noise, base="sgd"):
        self.shrink, self.sigma, self.noise, self.t = shrink, sigma, noise, 0
        self.base = _Adam(thetas, a, base)

    def move(self, thetas, directions, example):
        noise, steps = self.noise[self.t], self.base.steps(thetas, _gradients(directions))
        self.t += 1
        for m, r, c in _places(thetas, directions):
            w = thetas[m][r][c]
            steps[m][r][c] = (1 - self.shrink) * w + steps[m][r][c] + self.sigma * noise[m][r][c] - w
        return _moved(thetas, directions, steps)


class ClipWeights:
    """The fan-in of a matrix is the number of its rows, less one for a bias."""

    def __init__(self, thetas, a, kappa, base="sgd"):
        self.kappa, self.base = kappa, _Adam(thetas, a, base)

    def move(self, thetas, directions, example):
        bias, steps = example.given[3], self.base.steps(thetas, _gradients(directions))
        for m, r, c in _places(thetas, directions):
            bound, w = self.kappa / math.sqrt(len(thetas[m]) - bias), thetas[m][r][c]
            steps[m][r][c] = min(bound, max(-bound, w + steps[m][r][c])) - w
        return _moved(thetas, directions, steps)


class L2Init:
    def __init__(self, thetas, a, strength, base="sgd"):
        self.strength, self.base = strength, _Adam(thetas, a, base)
        self.initial = [[[*row] for row in theta] for theta in thetas]

    def move(self, thetas, directions, example):
        gradients = _gradients(directions)
        for m, r, c in _places(thetas, directions):
            gradients[m][r][c] += self.strength * (thetas[m][r][c] - self.initial[m][r][c])
        return _moved(thetas, directions, self.base.steps(thetas, gradients))


class ObGD:
    """With several outputs, the one along the error stands for the output: its error is the norm of delta."""

    def __init__(self, thetas, a, kappa):
        self.a, self.kappa = a, kappa

    def move(self, thetas, directions, example):
        delta, steps = math.sqrt(sum(d * d for d in example.delta)), _like(thetas)
        places = list(_places(thetas, directions))
        z_sum = sum(self.a[m] * abs(directions[m][r][c] / delta) for m, r, c in places) if delta else 0.0
        bound = max(delta, 1.0) * self.kappa * z_sum
        for m, r, c in places:
            size = self.a[m] / bound if bound > 1 else self.a[m]
            steps[m][r][c] = size * directions[m][r][c]
        return _moved(thetas, directions, steps)
