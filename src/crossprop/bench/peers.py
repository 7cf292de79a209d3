"""Other implementations of the same runs, to time beside the engines. The package has one: plain JAX."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.learners import Learner, State

RECORD_EVERY = 50
"""Steps per record in every timing."""


class Records(NamedTuple):
    """What a peer returns: arrays of shape `(runs, windows)`; the drifts are None if it does not compute them."""

    loss: Any
    incoming_drift: Any = None
    outgoing_drift: Any = None


class Limit(NamedTuple):
    """The largest part of a case that is timed; the time of a part is scaled up to the whole case."""

    runs: float = math.inf
    steps: float = math.inf
    updates: float = math.inf
    """Numbers in a run's state x runs x steps."""


class Peer(NamedTuple):
    """Another implementation to time.

    `run(learner, initial, x, y)` gets the initial states with a leading axis over runs, `x (runs, steps, inputs)` and
    `y (runs, steps, outputs)`, and returns the records of every window of `RECORD_EVERY` steps. It raises a ValueError
    that gives the reason if it cannot run the learner.
    """

    run: Callable[[Learner, State, np.ndarray, np.ndarray], Records]
    limit: Limit = Limit()
    gpu_limit: Limit | None = None
    """The limit on a GPU, if it is another one."""


def plain_jax(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """`jax.vmap` over runs of `lax.scan` over examples, for any learner."""
    return jax.device_get(_vmap_of_scan(learner, initial, x, y))


@jax.jit
def _vmap_of_scan(learner: Learner, initial: State, x: jax.Array, y: jax.Array) -> Records:
    def one_run(initial: State, x: jax.Array, y: jax.Array) -> Records:
        def example(state, xy):
            state, outcome = learner.update(state, *xy)
            return state, outcome.loss

        def window(state, xy):
            state, loss = lax.scan(example, state, xy)
            return state, Records(jnp.mean(loss), *_drifts(state, initial))

        windows = tuple(each.reshape(-1, RECORD_EVERY, each.shape[-1]) for each in (x, y))
        return lax.scan(window, initial, windows)[1]

    return jax.vmap(one_run)(initial, x, y)


def _drifts(state: State, initial: State) -> tuple[jax.Array, jax.Array]:
    """How far the incoming and the outgoing weights have moved, with one hidden layer."""
    assert isinstance(state.incoming, jax.Array) and isinstance(initial.incoming, jax.Array)
    return (
        jnp.linalg.norm(state.incoming - initial.incoming),
        jnp.linalg.norm(state.outgoing - initial.outgoing),
    )


PLAIN_JAX = {
    "plain jax": Peer(plain_jax, Limit(steps=5000, updates=2e9), gpu_limit=Limit(steps=2000, updates=1e11)),
}
