"""Inputs whitened while learning: brought to mean 0 and the identity as covariance."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.learners.base import Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.learners.normalize import FAR
from crossprop.network import float_type

LEAST = 1e-20
"""The smallest `decay` to the power of the number of inputs."""


class Covariance(NamedTuple):
    r"""The running mean of inputs, a matrix $R$ with $R C R^\top = I$ for their running covariance $C$, the sum of the
    weights of their examples, and the number of examples."""

    mean: Float[Array, " inputs"]
    root: Float[Array, "inputs inputs"]
    weight: Float[Array, ""]
    seen: Int[Array, ""]

    def including(self, x: Array, decay: Hyperparameter, floor: Hyperparameter) -> "Covariance":
        """With one more example, and the floor added to the variance of one input; inputs take turns."""
        weight = decay * self.weight + 1
        share, difference, size = 1 / weight, x - self.mean, len(x)
        root = _with(self.root, share, _times(self.root, difference)) / jnp.sqrt(1 - share)
        root = _with(root, share * size * floor, root[:, self.seen % size])
        return Covariance(self.mean + share * difference, root, weight, self.seen + 1)


def _with(root: Array, weight: Array, z: Array) -> Array:
    """The root for a covariance plus `weight` times the outer product of a vector with itself; `z` is root @ vector."""
    square = jnp.vdot(z, z)
    shrink = (1 - 1 / jnp.sqrt(1 + weight * square)) / jnp.where(square > 0, square, 1)
    return root - shrink * jnp.outer(z, _times(root.T, z))


def _times(matrix: Array, vector: Array) -> Array:
    return jnp.matmul(matrix, vector, precision="highest")


class Whitened(NamedTuple):
    """The state of `Whiten`."""

    inner: Any
    inputs: Covariance


class Whiten(Wrapper):
    r"""A learner whose inputs are whitened as it learns, by their running mean and covariance.

    With the mean $m$ and the covariance $C$ of the examples so far, this one included, the learner sees

    $$R (x - m) \text{ with } R (C + \epsilon I) R^\top = I$$

    An example is a rank-one change of $C$, which $R$ follows exactly in time quadratic in the inputs. Before the first
    example $C$ is the identity, with the weight of one example. Values are clipped to 10, as in `Normalize`.

    **Arguments:**

    - `learner`: any learner.
    - `decay`: of an example's weight, with every later one. At 1 all count alike (in float32 the first 16.7 million);
      below 1 $C$ follows inputs that change, and $R$ may turn slowly while they do not. Its power by the number of
      inputs must be at least $10^{-20}$, or $R$ grows too large before all inputs have had their `floor`.
    - `floor`: what is added to the variance of every input ($\epsilon$), one input per example.

    ```python
    learner = Whiten(Unsupervised(Network(inputs=20, hidden=50), step_size=0.01, objective="kmeans"), decay=0.9999)
    ```
    """

    decay: Hyperparameter = hyperparameter(
        default=1.0, above=0, high=1, scale="decay", help="Decay of the statistics that inputs are whitened by"
    )
    floor: Hyperparameter = hyperparameter(default=0.01, above=0, help="What is added to the variance of every input")

    def __check_init__(self):
        check.number("decay", self.decay, low=LEAST ** (1 / max(1, self.network.inputs)), high=1)

    def init(self, key: Key[Array, ""]) -> Whitened:
        size, dtype = self.network.inputs, float_type()
        start = Covariance(jnp.zeros(size, dtype), jnp.eye(size, dtype=dtype), jnp.ones((), dtype), jnp.zeros((), int))
        return Whitened(self.learner.init(key), start)

    def seen(self, state: Whitened, x: Array) -> Array:
        return self._whitened(state, x)[0]

    @compiled_method
    def update(self, state: Whitened, x: Array, y: Array) -> tuple[Whitened, Outcome]:
        x, inputs = self._whitened(state, x)
        inner, outcome = self.learner.update(state.inner, x, y)
        return Whitened(inner, inputs), outcome

    def _whitened(self, state: Whitened, x: Array) -> tuple[Array, Covariance]:
        x = x.astype(state.inputs.mean.dtype)
        inputs = state.inputs.including(x, self.decay, self.floor)
        return jnp.clip(_times(inputs.root, x - inputs.mean), -FAR, FAR), inputs
