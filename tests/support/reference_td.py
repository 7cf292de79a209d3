"""The judge of predictions: temporal-difference learning in float64 scalars, with the credit of `reference`."""

import numpy as np

from reference import ACTIVATIONS, Example, Life, _credit, _layer, _memory, _move_memory, _outer, _zeros


def _like(thetas):
    return [_zeros(len(theta), len(theta[0])) for theta in thetas]


def live_td(rule, *, activation, bias, incoming, outgoing, x, y, step_size, trace, eta=0.0, layer_norm=False,
            ahead=1.0, horizon=1000.0, network_optimizer=None, fade_by="incoming") -> Life:  # fmt: skip
    """Lives through x_0, x_1, ... with [c_t, gamma_t, G_t] for every output in y_t, from the given U of every hidden
    layer and W. At x_t it learns from x_{t-1}:

        delta_k = c_k + gamma_k v_k(x_t) - v_k(x_{t-1})          both values by the weights from before
        e_k <- gamma'_k trace e_k + (the direction for an error of 1 at output k, at x_{t-1})
        theta <- theta + a sum_k delta_k e_k                      or what an optimizer makes of it

    where gamma' is the discount that came with x_{t-1}. The loss is (G - v(x_t))^2, or delta^2 where G is NaN.
    `fade_by="outgoing"` is a known mistake: it has gamma_t in the place of gamma'.
    """
    depth, f = len(incoming), ACTIVATIONS[activation]
    thetas = [np.array(each, np.float64).tolist() for each in [*incoming, outgoing]]
    outputs = len(thetas[-1][0])
    mover = None if network_optimizer is None else network_optimizer(thetas, [step_size] * (depth + 1))
    sizes = [len(theta[0]) for theta in thetas]
    h = [_memory(rule, len(thetas[at]), sizes[at], sizes[at + 1], None) for at in range(depth)]
    e = [_like(thetas) for _ in range(outputs)]
    last, history = None, []

    def forward(x):
        features, seen = x + [1.0] * bias, []
        for u in thetas[:-1]:
            seen.append(_layer(features, u, f, layer_norm))
            features = seen[-1].phi + [1.0] * bias
        return (
            features,
            seen,
            [sum(features[j] * thetas[-1][j][k] for j in range(len(features))) for k in range(outputs)],
        )

    def directions(features, seen, delta):
        found: list = [_outer(features, delta)]
        memories = []
        for at in reversed(range(depth)):
            du, delta, h_next = _credit(rule, seen[at], thetas[at + 1], delta, h[at], step_size, None, eta, eta, ahead)
            found.insert(0, du)
            memories.insert(0, h_next)
        return found, memories

    for x_t, y_t in zip(np.array(x, np.float64).tolist(), np.array(y, np.float64).tolist(), strict=True):
        triples = [y_t[3 * k : 3 * k + 3] for k in range(outputs)]
        _, _, value = forward(x_t)
        delta = [0.0] * outputs
        if last is not None:
            features, seen, before = forward(last[0])
            delta = [c + gamma * value[k] - before[k] for k, (c, gamma, _) in enumerate(triples)]
            whole, memories = directions(features, seen, delta)
            for k in range(outputs):
                fade = trace * (last[1][k] if fade_by == "incoming" else triples[k][1])
                one, _ = directions(features, seen, [1.0 if k == each else 0.0 for each in range(outputs)])
                for m, direction in enumerate(one):
                    for r in range(len(direction or [])):
                        for c in range(len(direction[r])):
                            e[k][m][r][c] = fade * e[k][m][r][c] + direction[r][c]
            moves = [
                None if whole[m] is None else
                [[sum(delta[k] * e[k][m][r][c] for k in range(outputs)) for c in range(len(theta[0]))]
                 for r in range(len(theta))]
                for m, theta in enumerate(thetas)
            ]  # fmt: skip
            if mover is not None:
                example = Example(seen, features, before, delta, "squared", (last[0], None, f, bias, layer_norm))
                steps = mover.move(thetas, moves, example)
            else:
                steps = [None if move is None else [[step_size * one for one in row] for row in move] for move in moves]
                for theta, step in zip(thetas, steps, strict=True):
                    for r, row in enumerate(step or []):
                        theta[r] = [a + b for a, b in zip(theta[r], row, strict=True)]
            h = memories
            if rule == "foresight":
                for at in range(depth):
                    _move_memory(h[at], steps[at + 1], horizon)
        errors = [d if np.isnan(G) else G - v for d, v, (_, _, G) in zip(delta, value, triples, strict=True)]
        history.append((sum(error * error for error in errors), value))
        last = x_t, [gamma for _, gamma, _ in triples]
    memory = [None if each is None else np.array(each) for each in h]
    loss, values = (np.array(column) for column in zip(*history, strict=True))
    *incoming, outgoing = (np.array(theta) for theta in thetas)
    return Life(incoming, outgoing, memory, loss, values, np.zeros(0), np.zeros(0))


def examples(net, steps=60, seed=0):
    """Normal inputs and cumulants, discounts that change and reach 0, and returns, some of which are not known."""
    numbers = np.random.default_rng(seed)
    triples = numbers.uniform(size=(steps, net.outputs, 3))
    triples[:, :, 0] = numbers.normal(size=(steps, net.outputs))
    triples[steps // 3, :, 1] = triples[steps // 2, 0, 1] = 0
    triples[steps // 4 : steps // 2, :, 2] = np.nan
    return numbers.normal(size=(steps, net.inputs)), triples.reshape(steps, -1)
