"""A user's own learner, which is no credit rule: a linear unit that replays examples from a ring buffer."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import crossprop as cp
from crossprop.learners import LEARNERS

SLOTS = 16


class Memory(NamedTuple):
    weights: Any
    x: Any
    y: Any
    count: Any
    key: Any


class Replay(cp.Learner):
    """Learns from every example, and from one of the last 16, drawn at random."""

    network: cp.Network
    step_size: float = 0.01

    def init(self, key):
        inputs, outputs = self.network.inputs, self.network.outputs
        x, y = jnp.zeros((SLOTS, inputs)), jnp.zeros((SLOTS, outputs))
        return Memory(jnp.zeros((inputs, outputs)), x, y, jnp.zeros((), int), key)

    def predict(self, state, x):
        return self.network.weigh(x, state.weights)

    def update(self, state, x, y):
        outputs = self.predict(state, x)
        loss, delta = self.network.error(outputs, y)
        state = state._replace(
            weights=state.weights + self.step_size * x[:, None] * delta[None, :],
            x=state.x.at[state.count % SLOTS].set(x),
            y=state.y.at[state.count % SLOTS].set(y),
            count=state.count + 1,
        )
        key, drawn = jax.random.split(state.key)
        slot = jax.random.randint(drawn, (), 0, jnp.minimum(state.count, SLOTS))
        _, again = self.network.error(self.predict(state, state.x[slot]), state.y[slot])
        weights = state.weights + self.step_size * state.x[slot][:, None] * again[None, :]
        return state._replace(weights=weights, key=key), cp.Outcome(loss, outputs)

    def weights(self, state):
        return {"outgoing": state.weights}


LEARNERS["replay"] = Replay
