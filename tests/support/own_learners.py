"""A learner as a user would write it, which is no credit rule."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

import crossprop as cp

SLOTS = 16


class ReplayState(NamedTuple):
    """Linear weights, a key, the last examples in a ring, and how many came in all and are in the ring."""

    weights: Any
    key: Any
    x: Any
    y: Any
    seen: Any
    kept: Any


class Replay(cp.Learner):
    """A linear unit that learns from each example and, at random, from one of its last 16."""

    network: Any = eqx.field(static=True)
    step_size: Any = 0.01

    def init(self, key):
        network, (own, weights_key) = self.network, jax.random.split(key)
        return ReplayState(
            weights=0.1 * jax.random.normal(weights_key, (network.inputs, network.outputs)),
            key=own,
            x=jnp.zeros((SLOTS, network.inputs)),
            y=jnp.zeros((SLOTS, network.outputs)),
            seen=jnp.zeros((), jnp.int32),
            kept=jnp.zeros((), jnp.int8),
        )

    def predict(self, state, x):
        return jnp.asarray(x, state.weights.dtype) @ state.weights

    def update(self, state, x, y):
        x, y = (jnp.asarray(values, state.weights.dtype) for values in (x, y))
        outputs = self.predict(state, x)
        key, draw = jax.random.split(state.key)
        slot = jax.random.randint(draw, (), 0, jnp.maximum(state.kept, 1))
        weights = self._moved(state.weights, x, y)
        weights = self._moved(weights, state.x[slot], state.y[slot])
        place, kept = state.seen % SLOTS, jnp.minimum(state.kept + 1, SLOTS).astype(jnp.int8)
        ring = state.x.at[place].set(x), state.y.at[place].set(y)
        return ReplayState(weights, key, *ring, state.seen + 1, kept), cp.Outcome(self._error(outputs, y)[0], outputs)

    def weights(self, state):
        return {"linear": state.weights}

    def _moved(self, weights, x, y):
        return weights + self.step_size * jnp.outer(x, self._error(x @ weights, y)[1])

    def _error(self, outputs, y):
        if self.network.loss == "squared":
            return jnp.sum((y - outputs) ** 2), y - outputs
        return -jnp.sum(y * jax.nn.log_softmax(outputs)), y - jax.nn.softmax(outputs)


class Radial(cp.Learner):
    """Radial units at fixed random centres, and a linear unit above them that learns: no credit rule."""

    network: Any = eqx.field(static=True)
    step_size: Any = 0.1

    def init(self, key):
        centres = jax.random.normal(key, (self.network.inputs, self.network.units))
        return {"centres": centres, "outgoing": jnp.zeros((self.network.units, self.network.outputs))}

    def features(self, state, x):
        return jnp.exp(-jnp.sum((x[:, None] - state["centres"]) ** 2, axis=0) / self.network.inputs)

    def predict(self, state, x):
        return self.features(state, x) @ state["outgoing"]

    def update(self, state, x, y):
        phi, outputs = self.features(state, x), self.predict(state, x)
        loss, delta = self.network.error(outputs, y)
        return state | {"outgoing": state["outgoing"] + self.step_size * jnp.outer(phi, delta)}, cp.Outcome(
            loss, outputs
        )

    def weights(self, state):
        return {"incoming": state["centres"], "outgoing": state["outgoing"]}


class Sizes(NamedTuple):
    """All that a learner's network needs to be."""

    inputs: int
    outputs: int
    loss: str = "squared"
