"""Replacement at random: the control."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network
from crossprop.replacements.base import Choice, Replacement, Turnover, Watched, first


class RandomReplacement(Replacement):
    """The control for replacements: as many units are replaced, but any mature one.

    At each example, `rate` times the number of units older than `maturity` is added to a counter. While it is at least
    1, it is lowered by 1, and a mature unit, all equally likely, is replaced. Its incoming weights are drawn as the
    network's initial ones.

    **Arguments:**

    - `rate`: the share of the mature units that is replaced per example.
    - `maturity`: how many examples a unit is safe for.

    ```python
    learner = Backprop(network, 0.003, replacement=RandomReplacement(rate=1e-4))
    ```
    """

    rate: Hyperparameter = hyperparameter(default=1e-4, low=0, high=1)
    maturity: Hyperparameter = hyperparameter(default=100.0, low=0)

    def init(self, network: Network) -> Turnover:
        return Turnover.of(network)

    def update(self, memory: Turnover, watched: Watched) -> Turnover:
        del watched
        return memory.after(self.rate, self.maturity)

    def due(self, memory: Turnover) -> Array:
        return memory.due >= 1

    def choose(self, memory: Turnover, key: Array) -> Choice:
        so_many = jnp.cumsum(memory.age > self.maturity)
        place = jnp.floor(jax.random.uniform(key, dtype=memory.due.dtype) * so_many[-1])
        return Choice(first(so_many > place), memory._replace(due=memory.due - 1))
