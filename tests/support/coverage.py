"""Credit rules as the tests build them, grids that cover combinations of their options, and whole runs of `update`."""

import itertools
import random
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import crossprop as cp

# Every rule: how the package builds it, its further options, and hyperparameters of which each is tried.
RULES = {
    "crossprop": (cp.Crossprop, {}, [{"eta": 0.0}, {"eta": 0.3}]),
    "crossprop-projected": (partial(cp.Crossprop, projections=2), {}, [{"eta": 0.3}]),
    "crossprop-approx": (cp.CrosspropApprox, {}, [{"eta": 0.3, "memory_eta": 0.1}]),
    "crossprop-sum": (cp.CrosspropSum, {}, [{}]),
    "foresight": (cp.Foresight, {}, [{"ahead": 1.5, "horizon": 20.0}]),
    "correlation": (cp.Correlation, {}, [{"weight": 1.0, "horizon": 20.0}]),
    "backprop": (cp.Backprop, None, [{}]),
    "frozen": (cp.Frozen, None, [{}]),
}
"""A rule whose options are None is the same at every layer."""


def covering(factors, strength):
    """Rows with every combination of the values of any `strength` factors: each row begins with a combination that is
    missing, and of a few random ways to complete it takes the one that adds most."""
    generator, sizes = random.Random(0), [len(values) for values in factors.values()]
    groups = list(itertools.combinations(range(len(sizes)), strength))
    parts = lambda row: ((group, tuple(row[at] for at in group)) for group in groups)
    missing = {
        (group, values): None for group in groups for values in itertools.product(*(range(sizes[at]) for at in group))
    }
    while missing:
        group, values = next(iter(missing))
        rows = [[generator.randrange(size) for size in sizes] for _ in range(40)]
        for row, (at, value) in itertools.product(rows, zip(group, values, strict=True)):
            row[at] = value
        best = max(rows, key=lambda row: sum(part in missing for part in parts(row)))
        for part in parts(best):
            missing.pop(part, None)
        yield dict(zip(factors, (values[at] for values, at in zip(factors.values(), best, strict=True)), strict=True))


def drawn(learner, seed):
    """Initial weights and signs, drawn without a program to compile."""
    rng, shapes = np.random.default_rng(seed), jax.eval_shape(learner.init, jax.random.key(0))
    weights = lambda leaf: 0.7 * rng.normal(size=leaf.shape)
    signs = lambda leaf: rng.choice([-1.0, 1.0], leaf.shape)
    layers = [{"weights": weights(each.weights)} | {"signs": jax.tree.map(signs, each.signs)} for each in shapes.layers]
    return {"layers": layers, "outgoing": weights(shapes.outgoing)}


def begun(learner, layers, outgoing):
    """A state with these weights and signs."""
    state = learner.init(jax.random.key(0))
    changed = [
        layer._replace(**jax.tree.map(jnp.asarray, parts)) for layer, parts in zip(state.layers, layers, strict=True)
    ]
    return state._replace(layers=tuple(changed), outgoing=jnp.asarray(outgoing))


@partial(jax.jit, static_argnames="dtypes")
def live(learner, weights, x, y, dtypes):
    """The initial state, and for each precision the last state and the losses."""

    def example(state, xy):
        state, outcome = learner.update(state, *xy)
        return state, outcome.loss

    def in_precision(dtype):
        narrow = lambda leaf: leaf.astype(dtype) if leaf.dtype == jnp.float64 else leaf
        return jax.lax.scan(example, *jax.tree.map(narrow, (start, (x, y))))

    start = begun(learner, **weights) if weights else learner.init(jax.random.key(0))
    return start, [in_precision(dtype) for dtype in dtypes]


def distance(one, other):
    """The relative difference by norm; two zeros are alike."""
    gap = np.linalg.norm(np.asarray(one, np.float64) - other)
    return gap / np.linalg.norm(other) if gap else 0.0
