"""The replacements written out slowly, in float64 scalars, to be laid beside their papers.

Symbols as in `reference`; `age`, `f`, `u` and `c` have one number per unit of a hidden layer. Random numbers are given:
`draw(layer)` returns a random place in [0, 1) and the new incoming weights of the next unit that is replaced.
"""

import math


class Replacement:
    """Called at the end of every example of `reference.live`: all layers are watched, then units are replaced, from
    the first layer up."""

    def __init__(self, sizes, bias, draw, **constants):
        self.sizes, self.bias, self.draw = sizes, bias, draw
        self.layers = [self.begin(n) for n in sizes]
        self.count = 0
        for name, value in constants.items():
            setattr(self, name, value)

    def __call__(self, phis, thetas, h, forget):
        for at, layer in enumerate(self.layers):
            fan_in = len(thetas[at]) - self.bias
            self.watch(layer, phis[at], thetas[at][:fan_in], thetas[at + 1])
        for at, layer in enumerate(self.layers):
            while self.is_due(layer):
                place, u = self.draw(at)
                j, mean = self.choose(layer, place)
                self._restart(at, j, mean, u, thetas, h, forget)
                for name, value in self.begin(self.sizes[at]).items():
                    if isinstance(value, list):
                        layer[name][j] = value[j]
                self.count += 1

    def _restart(self, at, j, mean, u, thetas, h, forget):  # noqa: PLR0917
        own, above = thetas[at], thetas[at + 1]
        for i in range(len(own)):
            own[i][j] = u[i]
            forget(at, i, j)
        for k in range(len(above[j])):
            if self.bias:
                above[-1][k] += above[j][k] * mean
            above[j][k] = 0.0
            forget(at + 1, j, k)
        if h[at] is not None:
            if isinstance(h[at][0][0], list):  # h_ijk
                for i in range(len(own)):
                    h[at][i][j] = [0.0] * len(h[at][i][j])
            else:  # h_jk
                h[at][j] = [0.0] * len(h[at][j])
        if at > 0 and h[at - 1] is not None:  # of the weights into j, which are k to the layer below
            below = h[at - 1]
            per_weight = [h_j for h_i in below for h_j in h_i] if isinstance(below[0][0], list) else below
            for h_k in per_weight:
                if len(h_k) == self.sizes[at]:  # projected memories mix all k
                    h_k[j] = 0.0
        if at + 1 < len(h) and h[at + 1] is not None and isinstance(h[at + 1][0][0], list):
            h[at + 1][j] = [[0.0] * len(each) for each in h[at + 1][j]]


def _age(layer, rate, maturity):
    for j in range(len(layer["age"])):
        layer["age"][j] += 1
        if layer["age"][j] > maturity:
            layer["counter"] += rate


def _least(layer, utility, maturity):
    layer["counter"] -= 1.0
    return min((j for j in range(len(layer["age"])) if layer["age"][j] > maturity), key=utility)


class Continual(Replacement):
    """f_j <- d f_j + (1-d) phi_j; u_j <- d u_j + (1-d) |phi_j - f_j/c_j| mean_k |w_jk| / mean_i |u_ij|."""

    def begin(self, n):
        return {"age": [0] * n, "f": [0.0] * n, "u": [0.0] * n, "counter": 0.0}

    def watch(self, layer, phi, incoming, outgoing):
        d = self.decay
        _age(layer, self.rate, self.maturity)
        for j in range(len(phi)):
            c = 1 - d ** layer["age"][j]
            layer["f"][j] = d * layer["f"][j] + (1 - d) * phi[j]
            size_out = sum(abs(w) for w in outgoing[j]) / len(outgoing[j])
            size_in = sum(abs(row[j]) for row in incoming) / len(incoming)
            if self.utility == "contribution":
                now = size_out * abs(phi[j])
            else:
                now = size_out * abs(phi[j] - layer["f"][j] / c) / size_in if size_in > 0 else 0.0
            layer["u"][j] = d * layer["u"][j] + (1 - d) * now

    def is_due(self, layer):
        return layer["counter"] >= 1.0

    def choose(self, layer, place):
        c = lambda j: 1 - self.decay ** layer["age"][j]
        j = _least(layer, lambda j: layer["u"][j] / c(j), self.maturity)
        return j, 0.0 if self.as_run else layer["f"][j] / c(j)


class Periodic(Replacement):
    """Every so many examples, the share of the least sum_k |w_jk|; a unit is replaced once at a time."""

    def begin(self, n):
        return {"size": [math.inf] * n, "seen": 0, "left": 0}

    def watch(self, layer, phi, incoming, outgoing):
        layer["seen"] += 1
        layer["size"] = [sum(abs(w) for w in weights) for weights in outgoing[: len(phi)]]
        layer["left"] = round(self.share * len(phi)) if layer["seen"] % self.every == 0 else 0

    def is_due(self, layer):
        return layer["left"] > 0

    def choose(self, layer, place):
        layer["left"] -= 1
        return layer["size"].index(min(layer["size"])), 0.0


class GenerateAndTest(Replacement):
    """The mature unit of the least sum_k |w_jk|."""

    def begin(self, n):
        return {"age": [0] * n, "size": [0.0] * n, "counter": 0.0}

    def watch(self, layer, phi, incoming, outgoing):
        _age(layer, self.rate, self.maturity)
        for j in range(len(phi)):
            layer["size"][j] = sum(abs(w) for w in outgoing[j])

    def is_due(self, layer):
        return layer["counter"] >= 1.0

    def choose(self, layer, place):
        return _least(layer, lambda j: layer["size"][j], self.maturity), 0.0


class Random(Replacement):
    """Any mature unit."""

    def begin(self, n):
        return {"age": [0] * n, "counter": 0.0}

    def watch(self, layer, phi, incoming, outgoing):
        _age(layer, self.rate, self.maturity)

    def is_due(self, layer):
        return layer["counter"] >= 1.0

    def choose(self, layer, place):
        layer["counter"] -= 1.0
        mature = [j for j in range(len(layer["age"])) if layer["age"][j] > self.maturity]
        return mature[math.floor(place * len(mature))], 0.0


class ReDo(Replacement):
    """s_j <- d s_j + (1-d) |phi_j|; every so often, units whose s_j/c_j is at most tau times the layer's mean."""

    def begin(self, n):
        return {"age": [0] * n, "s": [0.0] * n, "dormant": [False] * n, "since": 0}

    def watch(self, layer, phi, incoming, outgoing):
        d, n = self.decay, len(phi)
        layer["since"] += 1
        for j in range(n):
            layer["age"][j] += 1
            layer["s"][j] = d * layer["s"][j] + (1 - d) * abs(phi[j])
        if layer["since"] >= self.every:
            layer["since"] = 0
            score = [layer["s"][j] / (1 - d ** layer["age"][j]) for j in range(n)]
            layer["dormant"] = [score[j] <= self.threshold * sum(score) / n for j in range(n)]

    def is_due(self, layer):
        return any(layer["dormant"])

    def choose(self, layer, place):
        return layer["dormant"].index(True), 0.0
