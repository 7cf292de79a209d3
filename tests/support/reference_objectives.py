"""The judge of objectives: their equations, number by number, in float64 scalars, for tanh units.

`u[i][j]` are the weights, `x` the input. `features` are those before learning, `learn` changes the weights in place.
Like `reference`, it shares no code with the package on purpose.
"""

import math


def _units(u, x):
    return [math.tanh(sum(x[i] * u[i][j] for i in range(len(x)))) for j in range(len(u[0]))]


class KMeans:
    def __init__(self, u):
        self.members, self.seen = [0] * len(u[0]), 0

    def _distances(self, u, x):
        return [math.sqrt(sum((x[i] - u[i][j]) ** 2 for i in range(len(x)))) for j in range(len(u[0]))]

    def features(self, u, x):
        z = self._distances(u, x)
        return [max(0.0, sum(z) / len(z) - each) for each in z]

    def learn(self, u, x, a, drawn):
        z = self._distances(u, x)
        at = self.seen if self.seen < len(z) else z.index(min(z))
        self.seen += 1
        self.members[at] += 1
        for i in range(len(x)):
            u[i][at] += max(a, 1 / self.members[at]) * (x[i] - u[i][at])


class SparseCoding:
    def __init__(self, u, penalty, iterations):
        self.penalty, self.iterations, n = penalty, iterations, len(u[0])
        self.v = [1 / math.sqrt(n)] * n
        self.v, _ = self._power(u, 20)

    def _normalise(self, u):
        for j in range(len(u[0])):
            length = math.sqrt(sum(row[j] ** 2 for row in u))
            for row in u:
                row[j] /= length

    def _power(self, u, steps=10):
        v, length = self.v, 1.0
        for _ in range(steps):
            through = [sum(row[j] * v[j] for j in range(len(row))) for row in u]
            back = [sum(u[i][j] * through[i] for i in range(len(u))) for j in range(len(u[0]))]
            length = math.sqrt(sum(each * each for each in back))
            v = [each / length for each in back]
        return v, length

    def _residual(self, u, x, code):
        return [x[i] - sum(u[i][j] * code[j] for j in range(len(code))) for i in range(len(x))]

    def features(self, u, x):
        _, largest = self._power(u)
        code = [0.0] * len(u[0])
        for _ in range(self.iterations):
            left = self._residual(u, x, code)
            code = [code[j] + sum(u[i][j] * left[i] for i in range(len(x))) / largest for j in range(len(code))]
            code = [math.copysign(max(0.0, abs(each) - self.penalty / largest), each) for each in code]
        return code

    def learn(self, u, x, a, drawn):
        code = self.features(u, x)
        left = self._residual(u, x, code)
        for i in range(len(x)):
            for j in range(len(code)):
                u[i][j] += a * left[i] * code[j]
        self._normalise(u)
        self.v, _ = self._power(u)


class ICA:
    """`drawn` is the noise that is added to an input."""

    def __init__(self, u):
        pass

    features = staticmethod(_units)

    def learn(self, u, x, a, drawn):
        seen = [x[i] + drawn[i] for i in range(len(x))]
        z = [sum(seen[i] * u[i][j] for i in range(len(x))) for j in range(len(u[0]))]
        g = [math.tanh(each) for each in z]
        w = [[row[j] for row in u] for j in range(len(z))]  # the transpose, as in the paper
        scale = a / (1 + a * sum(one * other for one, other in zip(z, g, strict=True)))
        for j in range(len(z)):
            for i in range(len(x)):
                natural = sum(((j == k) - g[j] * z[k]) * w[k][i] for k in range(len(z)))
                u[i][j] += scale * natural


class Autoencoder:
    """`drawn` says which numbers of an input stay; a constant input, the last, always does."""

    def __init__(self, u, reproduction):
        self.biases, self.reproduction = None, reproduction

    features = staticmethod(_units)

    def learn(self, u, x, a, drawn):
        inputs, n = len(drawn), len(u[0])
        self.biases = self.biases or [0.0] * inputs
        masked = [x[i] if i >= inputs or drawn[i] else 0.0 for i in range(len(x))]
        h = _units(u, masked)
        z = [sum(u[i][j] * h[j] for j in range(n)) + self.biases[i] for i in range(inputs)]
        if self.reproduction == "sigmoid":
            z = [1 / (1 + math.exp(-each)) for each in z]
        error = [x[i] - z[i] for i in range(inputs)]
        back = [sum(error[i] * u[i][j] for i in range(inputs)) * (1 - h[j] ** 2) for j in range(n)]
        for j in range(n):
            for i in range(len(x)):
                u[i][j] += a * (masked[i] * back[j] + (error[i] * h[j] if i < inputs else 0.0))
        for i in range(inputs):
            self.biases[i] += a * error[i]
