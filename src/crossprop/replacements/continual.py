"""The replacement of continual backprop."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from crossprop.hyperparameters import LONGEST, Hyperparameter, hyperparameter
from crossprop.network import Network, float_type
from crossprop.replacements.base import Choice, Replacement, Turnover, Watched


class ContinualMemory(NamedTuple):
    """The memory for one hidden layer."""

    turnover: Turnover
    faded: Float[Array, " hidden"]
    """$d^{a_j}$, how much of the running means is still their initial 0."""
    mean: Float[Array, " hidden"]
    """$f_j$, a running mean of the unit."""
    utility: Float[Array, " hidden"]
    """$u_j$"""


class ContinualReplacement(Replacement):
    r"""Continual backprop: the units that contribute least are replaced, a few at a time, throughout the run.

    With the age $a_j$ of unit j, in examples, and $c_j = 1 - d^{a_j}$:

    $$f_j \leftarrow d f_j + (1-d) \phi_j \qquad
      u_j \leftarrow d u_j + (1-d) \frac{\sum_k |w_{jk}| / K}{\sum_i |u_{ij}| / I} |\phi_j - f_j / c_j|$$

    At each example, `rate` times the number of units older than `maturity` is added to a counter. While it is at least
    1, it is lowered by 1, and the mature unit of the least $u_j / c_j$ is replaced. Its incoming weights are drawn
    uniformly from $\pm g \sqrt{3 / I}$ with the gain $g$ of the activation, its bias is 0, and the biases of the
    layer above, if there are any, take up what it contributed on average, $w_{jk} f_j / c_j$.

    **Arguments:**

    - `rate`: the share of the mature units that is replaced per example.
    - `decay`: of the running means ($d$).
    - `maturity`: how many examples a unit is safe for.
    - `as_run`: True leaves the biases of the layer above alone. In the authors' code the mean is set to 0 just before
      it is used there, so their results were made in this way.
    - `utility`: `"adaptable"`, as above, which the authors' experiments use; `"contribution"` has $|\phi_j|$ for the
      distance from the mean and does not divide by the incoming weights, as the article in Nature has it.

    ```python
    learner = Backprop(network, 0.003, replacement=ContinualReplacement(rate=1e-4))
    ```

    Dohare, Sutton and Mahmood (2021), "Continual Backprop: Stochastic Gradient Descent with Persistent Randomness";
    Dohare et al. (2024), "Loss of plasticity in deep continual learning". In their slowly-changing regression units
    were mature after 10 examples, and chance took the place of the counter.
    """

    rate: Hyperparameter = hyperparameter(default=1e-4, low=0, high=1)
    decay: Hyperparameter = hyperparameter(default=0.99, low=0, high=LONGEST, scale="decay")
    maturity: Hyperparameter = hyperparameter(default=100.0, low=0)
    as_run: bool = hyperparameter(default=False)
    utility: str = hyperparameter(default="adaptable", choices=("adaptable", "contribution"))

    redraw = "kaiming-uniform"

    def init(self, network: Network) -> ContinualMemory:
        zeros = jnp.zeros(network.units, float_type())
        return ContinualMemory(Turnover.of(network), faded=zeros + 1, mean=zeros, utility=zeros)

    def update(self, memory: ContinualMemory, watched: Watched) -> ContinualMemory:
        phi, decay = watched.phi, self.decay
        faded, mean = memory.faded * decay, decay * memory.mean + (1 - decay) * phi
        if self.utility == "contribution":
            now = watched.outgoing_size * jnp.abs(phi)
        else:
            contribution = watched.outgoing_size * jnp.abs(phi - mean / (1 - faded))
            # A unit that hears nothing is of no use; its weights may all be 0 when units below it were replaced.
            now = jnp.where(watched.incoming_size > 0, contribution / watched.incoming_size, 0)
        utility = decay * memory.utility + (1 - decay) * now
        return ContinualMemory(memory.turnover.after(self.rate, self.maturity), faded, mean, utility)

    def due(self, memory: ContinualMemory) -> Array:
        return memory.turnover.due >= 1

    def choose(self, memory: ContinualMemory, key: Array) -> Choice:
        del key
        unit, turnover = memory.turnover.least(memory.utility / (1 - memory.faded), self.maturity)
        mean = 0.0 if self.as_run else memory.mean[unit] / (1 - memory.faded[unit])
        return Choice(unit, memory._replace(turnover=turnover), mean)
