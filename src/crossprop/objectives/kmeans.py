"""Clustering: k-means with triangle features."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from crossprop.hyperparameters import Hyperparameter
from crossprop.network import Network
from crossprop.objectives.base import Objective


class Clusters(NamedTuple):
    """The number of inputs of each cluster, and of all inputs."""

    members: Float[Array, " hidden"]
    seen: Float[Array, ""]


class KMeans(Objective):
    r"""Every unit is the centre of a cluster of inputs; its feature says by how much it is nearer than the mean centre.

    With $z_j = \lVert x - u_j \rVert$, $\phi_j = \max(0, \bar z - z_j)$ and $n_j$ the inputs that centre $j$ has won:

    $$u_j \mathrel{+}= \max(\beta, 1 / n_j) (x - u_j) \text{ for } j = \arg\min z$$

    The first inputs become the centres. With the step size $\beta$ of the incoming weights a centre forgets; near 0 it
    is the mean of all inputs that it has won, and from 1 on the last of them.

    MacQueen (1967), "Some Methods for Classification and Analysis of Multivariate Observations"; Coates and Ng (2012),
    "Learning Feature Representations with K-Means".
    """

    def init(self, network: Network, weights: Array, key: Array) -> tuple[Array, Clusters]:
        return weights, Clusters(jnp.zeros(network.units, weights.dtype), jnp.zeros((), weights.dtype))

    def features(self, network: Network, weights: Array, memory: Any, x: Array) -> Float[Array, " hidden"]:
        square = jnp.sum((x[:, None] - weights) ** 2, axis=0)
        distance = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)  # the slope at 0 is 0
        return jnp.maximum(0, jnp.mean(distance) - distance)

    def learn(
        self, network: Network, weights: Array, memory: Clusters, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Clusters]:
        nearest = jnp.argmin(jnp.sum((x[:, None] - weights) ** 2, axis=0))
        at = jnp.where(memory.seen < network.units, memory.seen.astype(nearest.dtype), nearest)
        members = memory.members.at[at].add(1)
        rate = jnp.clip(1 / members[at], step_size, 1)
        weights = weights.at[:, at].add(rate * (x - weights[:, at]))
        return weights, Clusters(members, jnp.minimum(memory.seen + 1, network.units))
