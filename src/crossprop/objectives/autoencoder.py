"""Reproducibility: the denoising autoencoder."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network
from crossprop.objectives.base import Objective


class Reproduction(NamedTuple):
    """The biases of the reproduced inputs, and the key that inputs are masked with."""

    biases: Float[Array, " inputs"]
    key: Key[Array, ""]


class Autoencoder(Objective):
    r"""The hidden units reproduce the input when a part of it is missing.

    With $\tilde x$ the input, each of its numbers set to 0 with probability $\nu$, $U$ and the biases $c$ descend

    $$\tfrac{1}{2} \lVert x - z \rVert^2 \text{ with } z = U f(U^\top \tilde x) + c$$

    **Arguments:**

    - `masking`: the probability that a number is masked ($\nu$), 0.1 to 0.4 in the paper.
    - `reproduction`: `"linear"`, as above; or `"sigmoid"`, for inputs from 0 to 1: the cross-entropy with the logistic
      function of $z$.

    Vincent, Larochelle, Lajoie, Bengio and Manzagol (2010), "Stacked Denoising Autoencoders".
    """

    masking: Hyperparameter = hyperparameter(default=0.25, low=0, high=1, scale="linear")
    reproduction: str = hyperparameter(default="linear", choices=("linear", "sigmoid"))

    def init(self, network: Network, weights: Array, key: Array) -> tuple[Array, Reproduction]:
        return weights, Reproduction(jnp.zeros(network.inputs, weights.dtype), key)

    def learn(
        self, network: Network, weights: Array, memory: Reproduction, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Reproduction]:
        key, own = jax.random.split(memory.key)
        target = x[: network.inputs]
        masked = network.with_constant(jnp.where(jax.random.bernoulli(own, self.masking, target.shape), 0, target))

        def loss(weights: Array, biases: Array) -> Array:
            units = self.features(network, weights, memory, masked)
            z = network.weigh(units, weights[: network.inputs].T) + biases
            if self.reproduction == "linear":
                return jnp.sum((target - z) ** 2) / 2
            return jnp.sum(jax.nn.softplus(z) - target * z)

        gradients = jax.grad(loss, argnums=(0, 1))(weights, memory.biases)
        weights, biases = (
            old - step_size * each for old, each in zip((weights, memory.biases), gradients, strict=True)
        )
        return weights, Reproduction(biases, key)
