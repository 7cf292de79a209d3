"""The judge of the optimizers that see the whole network: their equations, number by number, in float64 scalars.

`thetas` are the weights of all hidden layers and of the output layer, `directions` where the credit rule wants them to
go (minus the gradient; None for weights that it does not move), `a` a step size per matrix. `move` changes the weights
in place and returns their steps. Like `reference`, it shares no code with the package on purpose.
"""

import cmath
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


class DeltaBarDelta:
    def __init__(self, thetas, a, increase, decrease, decay):
        self.kappa, self.phi, self.theta, self.a = increase, decrease, decay, a
        self.size = [[[a[m]] * len(row) for row in matrix] for m, matrix in enumerate(thetas)]
        self.bar = _like(thetas)

    def forget(self, m, r, c):
        self.size[m][r][c], self.bar[m][r][c] = self.a[m], 0.0

    def move(self, thetas, directions, example):
        steps = _like(thetas)
        for m, r, c in _places(thetas, directions):
            g, bar = -directions[m][r][c], self.bar[m][r][c]
            if bar * g > 0:
                self.size[m][r][c] += self.kappa
            elif bar * g < 0:
                self.size[m][r][c] -= self.phi * self.size[m][r][c]
            steps[m][r][c] = -self.size[m][r][c] * g
            self.bar[m][r][c] = (1 - self.theta) * g + self.theta * bar
        return _moved(thetas, directions, steps)


class NLMS:
    """The mean of the squared norm is kept for no single weight: there is nothing to forget."""

    def __init__(self, thetas, a, decay):
        self.a, self.decay, self.sum, self.count = a, decay, 0.0, 0.0

    def forget(self, m, r, c):
        pass

    def move(self, thetas, directions, example):
        steps, squares = _like(thetas), _curvature(example, thetas)
        places = list(_places(thetas, directions))
        self.sum = self.decay * self.sum + sum(squares[m][r][c] for m, r, c in places)
        self.count = self.decay * self.count + 1
        for m, r, c in places:
            steps[m][r][c] = self.a[m] * self.count / self.sum * directions[m][r][c] if self.sum else 0.0
        return _moved(thetas, directions, steps)


class IDBD:
    def __init__(self, thetas, a, meta_step_size=0.01, bounded=False):
        self.theta, self.bounded = meta_step_size, bounded
        self.beta = [[[math.log(a[m])] * len(row) for row in matrix] for m, matrix in enumerate(thetas)]
        self.h, self.initial = _like(thetas), a

    def forget(self, m, r, c):
        """What is kept for one weight begins anew, as in all `forget` below."""
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


def _from_the_top(noise, thetas):
    """Noise for every matrix: the first ones, if they never move, get none."""
    return [None] * (len(thetas) - len(noise)) + noise


class UPGD:
    """`noise` has an array for every step and every matrix that moves."""

    def __init__(self, thetas, a, *, sigma, utility_decay, weight_decay, noise, protecting=True, as_run=False):
        self.a, self.sigma, self.beta, self.decay = a, sigma, utility_decay, weight_decay
        self.noise, self.protecting, self.as_run = noise, protecting, as_run
        self.u, self.t = _like(thetas), 0

    def forget(self, m, r, c):
        self.u[m][r][c] = 0.0

    def move(self, thetas, directions, example):
        noise, steps = _from_the_top(self.noise[self.t], thetas), _like(thetas)
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
            s = (1 + math.tanh(hat[m, r, c] / eta / 2)) / 2 if eta else 0.5  # the sigmoid, without overflow
            towards = (g + xi) * (1 - s) if self.protecting else g + xi * (1 - s)
            steps[m][r][c] = (1 - self.a[m] * self.decay) * w - self.a[m] * towards - w
        return _moved(thetas, directions, steps)


class _Adam:
    """The base of other optimizers; or plain steps."""

    def __init__(self, thetas, a, base):
        self.a, self.base, self.m, self.v = a, base, _like(thetas), _like(thetas)
        self.t = [0] * len(thetas)  # per matrix: hindsight takes more steps of some

    def forget(self, m, r, c):
        self.m[m][r][c] = self.v[m][r][c] = 0.0

    def steps(self, thetas, gradients):
        self.t = [t + (gradient is not None) for t, gradient in zip(self.t, gradients, strict=True)]
        found = _like(thetas)
        for m, r, c in _places(thetas, gradients):
            g = gradients[m][r][c]
            self.m[m][r][c] = 0.9 * self.m[m][r][c] + (1 - 0.9) * g
            self.v[m][r][c] = 0.999 * self.v[m][r][c] + (1 - 0.999) * g * g
            first, second = self.m[m][r][c] / (1 - 0.9 ** self.t[m]), self.v[m][r][c] / (1 - 0.999 ** self.t[m])
            found[m][r][c] = -self.a[m] * (first / (math.sqrt(second) + 1e-8) if self.base == "adam" else g)
        return found


def _gradients(directions) -> list:
    minus = lambda direction: None if direction is None else [[-d for d in row] for row in direction]
    return [minus(direction) for direction in directions]


class ShrinkPerturb:
    def __init__(self, thetas, a, *, shrink, sigma, noise, base="sgd", by_fan_in=False):
        self.shrink, self.sigma, self.noise, self.t, self.by_fan_in = shrink, sigma, noise, 0, by_fan_in
        self.base = _Adam(thetas, a, base)
        self.forget = self.base.forget

    def move(self, thetas, directions, example):
        noise, steps = _from_the_top(self.noise[self.t], thetas), self.base.steps(thetas, _gradients(directions))
        self.t += 1
        for m, r, c in _places(thetas, directions):
            w, xi = thetas[m][r][c], self.sigma * noise[m][r][c]
            if self.by_fan_in:
                xi /= math.sqrt(len(thetas[m]) - example.given[3])
            steps[m][r][c] = (1 - self.shrink) * w + steps[m][r][c] + xi - w
        return _moved(thetas, directions, steps)


class ClipWeights:
    """The fan-in of a matrix is the number of its rows, less one for a bias."""

    def __init__(self, thetas, a, kappa, base="sgd"):
        self.kappa, self.base = kappa, _Adam(thetas, a, base)
        self.forget = self.base.forget

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
        self.thetas = thetas

    def forget(self, m, r, c):
        self.initial[m][r][c] = self.thetas[m][r][c]
        self.base.forget(m, r, c)

    def move(self, thetas, directions, example):
        gradients = _gradients(directions)
        for m, r, c in _places(thetas, directions):
            gradients[m][r][c] += self.strength * (thetas[m][r][c] - self.initial[m][r][c])
        return _moved(thetas, directions, self.base.steps(thetas, gradients))


class Fading:
    def __init__(self, thetas, a, start, over, weights="incoming", base="sgd"):
        self.start, self.over, self.weights, self.t = start, over, weights, 0
        self.base = _Adam(thetas, a, base)
        self.forget = self.base.forget

    def move(self, thetas, directions, example):
        steps = self.base.steps(thetas, _gradients(directions))
        for m, r, c in _places(thetas, directions):
            outgoing = m == len(thetas) - 1
            if self.weights == "all" or (self.weights == "outgoing") == outgoing:
                steps[m][r][c] *= 1 + self.start * math.exp(-self.t / self.over)
        self.t += 1
        return _moved(thetas, directions, steps)


class ObGD:
    """With several outputs, the one along the error stands for the output: its error is the norm of delta."""

    def __init__(self, thetas, a, kappa):
        self.a, self.kappa = a, kappa

    def forget(self, m, r, c):
        pass

    def move(self, thetas, directions, example):
        delta, steps = math.sqrt(sum(d * d for d in example.delta)), _like(thetas)
        places = list(_places(thetas, directions))
        z_sum = sum(self.a[m] * abs(directions[m][r][c] / delta) for m, r, c in places) if delta else 0.0
        bound = max(delta, 1.0) * self.kappa * z_sum
        for m, r, c in places:
            size = self.a[m] / bound if bound > 1 else self.a[m]
            steps[m][r][c] = size * directions[m][r][c]
        return _moved(thetas, directions, steps)


class Autostep:
    def __init__(self, thetas, a, meta_step_size, horizon, bound):
        self.mu, self.tau, self.bound = meta_step_size, horizon, bound
        self.alpha = [[[a[m]] * len(row) for row in theta] for m, theta in enumerate(thetas)]
        self.v, self.h = _like(thetas), _like(thetas)
        self.a = a

    def forget(self, m, r, c):
        self.alpha[m][r][c], self.v[m][r][c], self.h[m][r][c] = self.a[m], 0.0, 0.0

    def move(self, thetas, directions, example):
        steps, x2, sums = _like(thetas), _curvature(example, thetas), {}
        places = list(_places(thetas, directions))
        for m, r, c in places:
            meta, v, alpha = directions[m][r][c] * self.h[m][r][c], self.v[m][r][c], self.alpha[m][r][c]
            v = max(abs(meta), v + alpha * x2[m][r][c] * (abs(meta) - v) / self.tau)
            alpha = alpha * math.exp(self.mu * meta / v) if v != 0 else alpha
            self.v[m][r][c], self.alpha[m][r][c] = v, alpha
            unit = (m, c) if self.bound == "unit" else None
            sums[unit] = sums.get(unit, 0.0) + alpha * x2[m][r][c]
        for m, r, c in places:
            self.alpha[m][r][c] /= max(1.0, sums[(m, c) if self.bound == "unit" else None])
            alpha, d = self.alpha[m][r][c], directions[m][r][c]
            steps[m][r][c] = alpha * d
            self.h[m][r][c] = self.h[m][r][c] * (1 - alpha * x2[m][r][c]) + alpha * d
        return _moved(thetas, directions, steps)


def _complex_gradient(thetas, example):
    """The gradient of the loss, of half of it if squared, in complex numbers: tanh units."""
    x, y, _, bias, layer_norm = example.given
    seen, features = [], [*x, *[1.0] * bias]
    for theta in thetas[:-1]:
        z = [sum(f * row[j] for f, row in zip(features, theta, strict=True)) for j in range(len(theta[0]))]
        spread = None
        if layer_norm:
            mean = sum(z) / len(z)
            spread = cmath.sqrt(sum((each - mean) ** 2 for each in z) / len(z) + 1e-5)
            z = [(each - mean) / spread for each in z]
        phi = [cmath.tanh(each) for each in z]
        seen.append((features, z, spread, phi))
        features = [*phi, *[1.0] * bias]
    outputs = [sum(f * row[k] for f, row in zip(features, thetas[-1], strict=True)) for k in range(len(y))]
    if example.loss == "squared":
        error = [output - target for output, target in zip(outputs, y, strict=True)]
    else:
        total = sum(cmath.exp(output) for output in outputs)
        error = [cmath.exp(output) / total - target for output, target in zip(outputs, y, strict=True)]
    found = [[[f * e for e in error] for f in features]]
    for at in reversed(range(len(seen))):
        features, z, spread, phi = seen[at]
        n = len(phi)
        error = [sum(thetas[at + 1][j][k] * error[k] for k in range(len(error))) * (1 - phi[j] ** 2) for j in range(n)]
        if spread is not None:
            mean, along = sum(error) / n, sum(e * zhat for e, zhat in zip(error, z, strict=True)) / n
            error = [(e - mean - zhat * along) / spread for e, zhat in zip(error, z, strict=True)]
        found.insert(0, [[f * e for e in error] for f in features])
    return found


class SMD:
    """H v is the derivative of the gradient along v, by a step into the imaginary: exact to rounding."""

    def __init__(self, thetas, a, meta_step_size, decay, floor):
        self.mu, self.decay, self.floor = meta_step_size, decay, floor
        self.p = [[[a[m]] * len(row) for row in theta] for m, theta in enumerate(thetas)]
        self.v = _like(thetas)
        self.a = a

    def forget(self, m, r, c):
        self.p[m][r][c], self.v[m][r][c] = self.a[m], 0.0

    def move(self, thetas, directions, example):
        steps, places = _like(thetas), list(_places(thetas, directions))
        shifted = [[[complex(w) for w in row] for row in theta] for theta in thetas]
        for m, r, c in places:
            shifted[m][r][c] += 1e-30j * self.v[m][r][c]
        bent = _complex_gradient(shifted, example)
        for m, r, c in places:
            d, v, product = directions[m][r][c], self.v[m][r][c], bent[m][r][c].imag / 1e-30
            self.p[m][r][c] *= max(self.floor, 1 + self.mu * v * d)
            steps[m][r][c] = self.p[m][r][c] * d
            self.v[m][r][c] = self.decay * v + self.p[m][r][c] * (d - self.decay * product)
        return _moved(thetas, directions, steps)
