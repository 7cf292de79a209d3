"""Independence: independent component analysis."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network
from crossprop.objectives.base import Objective


class ICA(Objective):
    r"""Independent components, by the natural gradient: units whose inputs are as independent as they can be.

    With $z = U^\top (x + \sigma \xi)$, $\xi$ normal noise and $I$ the identity:

    $$U^\top \mathrel{+}= \beta \frac{(I - \tanh(z) z^\top) U^\top}{1 + \beta z^\top \tanh(z)} \qquad
      \phi = f(U^\top x)$$

    It separates as many sources as there are units, if they have longer tails than normal ones. The denominator, which
    is Cardoso and Laheld's, bounds the step. The noise bounds weights of inputs that never change.

    **Arguments:**

    - `noise`: the standard deviation of noise that is added to the inputs to learn from ($\sigma$).

    Amari, Cichocki and Yang (1996), "A New Learning Algorithm for Blind Signal Separation"; Comon (1994), "Independent
    Component Analysis, a New Concept?"; Cardoso and Laheld (1996), "Equivariant Adaptive Source Separation".
    """

    noise: Hyperparameter = hyperparameter(default=0.01, low=0)

    def init(self, network: Network, weights: Array, key: Array) -> tuple[Array, Array]:
        return weights, key

    def learn(
        self, network: Network, weights: Array, memory: Array, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Array]:
        key, own = jax.random.split(memory)
        z = network.weigh(x + self.noise * jax.random.normal(own, x.shape, x.dtype), weights)
        bound = jnp.tanh(z)
        direction = weights - jnp.outer(network.weigh(z, weights.T), bound)
        return weights + step_size / (1 + step_size * jnp.vdot(z, bound)) * direction, key
