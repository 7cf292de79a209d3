"""ReDo, online."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from crossprop.hyperparameters import LONGEST, Hyperparameter, hyperparameter
from crossprop.network import Network, float_type
from crossprop.replacements.base import Choice, Replacement, Watched, first


class ReDoMemory(NamedTuple):
    """The memory for one hidden layer."""

    faded: Float[Array, " hidden"]
    """$d^{a_j}$, how much of the running mean is still its initial 0."""
    size: Float[Array, " hidden"]
    """$s_j$, a running mean of the unit's absolute value."""
    dormant: Bool[Array, " hidden"]
    """Units that are to be replaced now."""
    since: Float[Array, ""]
    """The examples since units were last looked for."""


class ReDo(Replacement):
    r"""ReDo: every so often, all units that are dormant are replaced.

    With the age $a_j$ of unit j, in examples, and $c_j = 1 - d^{a_j}$:

    $$s_j \leftarrow d s_j + (1-d) |\phi_j| \qquad
      \text{dormant: } \frac{s_j}{c_j} \le \tau \frac{1}{n} \sum_{j'} \frac{s_{j'}}{c_{j'}}$$

    The incoming weights of a replaced unit are drawn as the network's initial ones. In the paper the mean is over a
    batch; online it is a running one.

    **Arguments:**

    - `threshold`: how active a dormant unit is at most, beside the mean of its layer ($\tau$); 0 replaces dead units.
    - `every`: how many examples pass between two looks for dormant units.
    - `decay`: of the running mean ($d$).

    ```python
    learner = Backprop(network, 0.003, replacement=ReDo(threshold=0.025, every=1000))
    ```

    Sokar, Agarwal, Castro and Evci (2023), "The Dormant Neuron Phenomenon in Deep Reinforcement Learning".
    """

    threshold: Hyperparameter = hyperparameter(default=0.025, low=0)
    every: Hyperparameter = hyperparameter(default=1000.0, low=1)
    decay: Hyperparameter = hyperparameter(default=0.99, low=0, high=LONGEST, scale="decay")

    def init(self, network: Network) -> ReDoMemory:
        zeros = jnp.zeros(network.units, float_type())
        return ReDoMemory(zeros + 1, zeros, jnp.zeros(network.units, bool), jnp.zeros((), float_type()))

    def update(self, memory: ReDoMemory, watched: Watched) -> ReDoMemory:
        faded = memory.faded * self.decay
        size = self.decay * memory.size + (1 - self.decay) * jnp.abs(watched.phi)
        since = memory.since + 1
        looks, score = since >= self.every, size / (1 - faded)
        dormant = looks & (score <= self.threshold * jnp.mean(score))
        return ReDoMemory(faded, size, dormant, jnp.where(looks, 0, since))

    def due(self, memory: ReDoMemory) -> Array:
        return jnp.any(memory.dormant)

    def choose(self, memory: ReDoMemory, key: Array) -> Choice:
        del key
        return Choice(first(memory.dormant), memory)
