"""Periodic replacement: every now and then, a share of the units at once."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network, float_type
from crossprop.replacements.base import Choice, Replacement, Watched, least


class PeriodicMemory(NamedTuple):
    """The memory for one hidden layer."""

    size: Float[Array, " hidden"]
    """The mean size of the unit's outgoing weights; infinite for a unit that was just replaced."""
    seen: Int[Array, ""]
    due: Int[Array, ""]


class PeriodicReplacement(Replacement):
    r"""The units whose outgoing weights are smallest make room for new random ones, a share of them every so often.

    Every `every` examples, `share` times the number of units, rounded, are replaced: those of the least
    $\sum_k |w_{jk}|$. Their incoming weights are drawn as the network's initial ones.

    **Arguments:**

    - `share`: of the units that is replaced at once.
    - `every`: how many examples lie between two replacements.

    ```python
    learner = Frozen(network, 0.003, replacement=PeriodicReplacement(share=0.1, every=1000))
    ```

    Klopf and Gose (1969), "An Evolutionary Pattern Recognition Network".
    """

    share: Hyperparameter = hyperparameter(default=0.1, low=0, high=1)
    every: int = hyperparameter(default=1000, whole=True, low=1)

    def init(self, network: Network) -> PeriodicMemory:
        zero = jnp.zeros((), jnp.int32)
        return PeriodicMemory(jnp.full(network.units, jnp.inf, float_type()), zero, zero)

    def update(self, memory: PeriodicMemory, watched: Watched) -> PeriodicMemory:
        seen = (memory.seen + 1) % self.every
        share = jnp.round(self.share * len(watched.phi)).astype(memory.due.dtype)
        return PeriodicMemory(watched.outgoing_size, seen, jnp.where(seen == 0, share, 0))

    def due(self, memory: PeriodicMemory) -> Array:
        return memory.due > 0

    def choose(self, memory: PeriodicMemory, key: Array) -> Choice:
        del key
        return Choice(least(memory.size), memory._replace(due=memory.due - 1))
