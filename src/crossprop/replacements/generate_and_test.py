"""Generate and test."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network, float_type
from crossprop.replacements.base import Choice, Replacement, Turnover, Watched


class GenerateAndTestMemory(NamedTuple):
    """The memory for one hidden layer."""

    turnover: Turnover
    size: Float[Array, " hidden"]
    """The mean size of the unit's outgoing weights, after the last example."""


class GenerateAndTest(Replacement):
    r"""Generate and test: the units whose outgoing weights are smallest make room for new random ones.

    At each example, `rate` times the number of units older than `maturity` is added to a counter. While it is at least
    1, it is lowered by 1, and the mature unit of the least $\sum_k |w_{jk}|$ is replaced. Its incoming weights are
    drawn as the network's initial ones.

    **Arguments:**

    - `rate`: the share of the mature units that is replaced per example.
    - `maturity`: how many examples a unit is safe for.

    ```python
    learner = Frozen(network, 0.003, replacement=GenerateAndTest(rate=1 / 200))
    ```

    Mahmood and Sutton (2013), "Representation Search through Generate and Test", where the units are fixed between
    replacements, as those of `Frozen` are.
    """

    rate: Hyperparameter = hyperparameter(default=1 / 200, low=0, high=1)
    maturity: Hyperparameter = hyperparameter(default=100.0, low=0)

    def init(self, network: Network) -> GenerateAndTestMemory:
        return GenerateAndTestMemory(Turnover.of(network), jnp.zeros(network.units, float_type()))

    def update(self, memory: GenerateAndTestMemory, watched: Watched) -> GenerateAndTestMemory:
        turnover = memory.turnover.after(self.rate, self.maturity)
        return GenerateAndTestMemory(turnover, watched.outgoing_size)

    def due(self, memory: GenerateAndTestMemory) -> Array:
        return memory.turnover.due >= 1

    def choose(self, memory: GenerateAndTestMemory, key: Array) -> Choice:
        del key
        unit, turnover = memory.turnover.least(memory.size, self.maturity)
        return Choice(unit, memory._replace(turnover=turnover))
