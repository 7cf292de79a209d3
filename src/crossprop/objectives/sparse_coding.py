"""Sparsity: sparse coding."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.network import Network
from crossprop.objectives.base import Objective


class SparseCoding(Objective):
    r"""The features are a sparse code of the input: few weights of many that together make up for it.

    $$\phi = \arg\min_a \tfrac{1}{2} \lVert x - U a \rVert^2 + \lambda \sum_j |a_j| \qquad
      u_j \leftarrow v_j / \lVert v_j \rVert \text{ with } v_j = u_j + \beta \phi_j (x - U \phi)$$

    The first example makes the columns of U as long as 1. The code is found by steps of iterative shrinkage, each as
    long as the largest eigenvalue of $U^\top U$ allows; steps of power iteration, ten per example, follow that
    eigenvalue.

    **Arguments:**

    - `penalty`: of the size of the code ($\lambda$). `iterations`: steps of shrinkage per example.

    Olshausen and Field (1997), "Sparse Coding with an Overcomplete Basis Set: A Strategy Employed by V1?", whose
    columns keep the variance of their code rather than their length.
    """

    penalty: Hyperparameter = hyperparameter(default=0.1, low=0)
    iterations: int = hyperparameter(default=50, whole=True, low=1)

    def init(self, network: Network, weights: Array, key: Array) -> tuple[Array, Array]:
        """The memory is a vector near the eigenvector of the largest eigenvalue."""
        start = jnp.full(network.units, network.units**-0.5, weights.dtype)
        return weights, _power(network, weights, start, 20)[0]

    def features(self, network: Network, weights: Array, memory: Array, x: Array) -> Float[Array, " hidden"]:
        largest = _power(network, weights, memory)[1]

        def shrink(_: Any, code: Array) -> Array:
            better = code + network.weigh(x - network.weigh(code, weights.T), weights) / largest
            return jnp.sign(better) * jnp.maximum(0, jnp.abs(better) - self.penalty / largest)

        return jax.lax.fori_loop(0, self.iterations, shrink, jnp.zeros_like(memory))

    def learn(
        self, network: Network, weights: Array, memory: Array, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Array]:
        moved = weights + step_size * jnp.outer(x - network.weigh(phi, weights.T), phi)
        moved = moved / jnp.maximum(jnp.linalg.norm(moved, axis=0, keepdims=True), jnp.finfo(moved.dtype).tiny)
        return moved, _power(network, moved, memory)[0]


def _power(network: Network, weights: Array, vector: Array, steps: int = 10) -> tuple[Array, Array]:
    """Steps of power iteration: the vector, and its length before it was normalised."""

    def step(_: Any, last: tuple[Array, Array]) -> tuple[Array, Array]:
        product = network.weigh(network.weigh(last[0], weights.T), weights)
        length = jnp.maximum(jnp.linalg.norm(product), jnp.finfo(weights.dtype).tiny)
        return product / length, length

    return jax.lax.fori_loop(0, steps, step, (vector, jnp.ones((), weights.dtype)))
