"""A learner as a user would write it, which is no credit rule."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

import crossprop as cp

SLOTS = 16


class ReplayState(NamedTuple):
    """Linear weights, a key, and the last examples in a ring, inputs as integers."""

    weights: Any
    key: Any
    x: Any
    y: Any
    seen: Any


class Replay(cp.Learner):
    """A linear unit that learns from each example and, at random, from one of its last 16. Inputs are 0 or 1."""

    network: Any = eqx.field(static=True)
    step_size: Any = 0.01

    def init(self, key):
        network, (own, weights_key) = self.network, jax.random.split(key)
        return ReplayState(
            weights=0.1 * jax.random.normal(weights_key, (network.inputs, network.outputs)),
            key=own,
            x=jnp.zeros((SLOTS, network.inputs), jnp.int8),
            y=jnp.zeros((SLOTS, network.outputs)),
            seen=jnp.zeros((), jnp.int32),
        )

    def predict(self, state, x):
        return jnp.asarray(x, state.weights.dtype) @ state.weights

    def update(self, state, x, y):
        outputs = self.predict(state, x)
        key, draw = jax.random.split(state.key)
        slot = jax.random.randint(draw, (), 0, jnp.clip(state.seen, 1, SLOTS))
        weights = self._moved(state.weights, jnp.asarray(x, state.weights.dtype), y)
        weights = self._moved(weights, state.x[slot].astype(weights.dtype), state.y[slot])
        place = state.seen % SLOTS
        ring = state.x.at[place].set(jnp.asarray(x).astype(jnp.int8)), state.y.at[place].set(y)
        return ReplayState(weights, key, *ring, state.seen + 1), cp.Outcome(jnp.sum((y - outputs) ** 2), outputs)

    def weights(self, state):
        return {"linear": state.weights}

    def _moved(self, weights, x, y):
        return weights + self.step_size * jnp.outer(x, y - x @ weights)


class Sizes(NamedTuple):
    """All that a learner's network needs to be."""

    inputs: int
    outputs: int
    loss: str = "squared"
