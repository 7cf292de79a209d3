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
