"""Inputs, and targets, brought to mean 0 and variance 1 while learning."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.learners.base import Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import error_of, float_type


class Moments(NamedTuple):
    """Running means and variances, and the sum of the weights of their examples."""

    weight: Float[Array, ""]
    mean: Float[Array, " values"]
    variance: Float[Array, " values"]

    @classmethod
    def of_none(cls, size: int) -> "Moments":
        zeros = jnp.zeros(size, float_type())
        return cls(jnp.zeros((), float_type()), zeros, zeros)

    def including(self, values: Float[Array, " values"], decay: Hyperparameter) -> "Moments":
        """The moments after one more example."""
        weight = decay * self.weight + 1
        difference, share = values - self.mean, 1 / weight
        variance = (1 - share) * (self.variance + share * difference**2)
        return Moments(weight, self.mean + share * difference, variance)

    @property
    def deviation(self) -> Float[Array, " values"]:
        """The standard deviations; 1 where all values were the same so far."""
        return jnp.where(self.variance > 0, jnp.sqrt(self.variance), 1)


FAR = 10.0
"""Standard deviations that inputs and targets are clipped to."""


class Normalized(NamedTuple):
    """The state of `Normalize`."""

    inner: Any
    inputs: Moments
    targets: Moments | None


class Normalize(Wrapper):
    r"""A learner whose inputs are normalised as it learns: each less its running mean, by its running deviation.

    The statistics are a part of the state. They include the example that is normalised, in `update` and in `predict`,
    so that not even the first one is far out. Values are clipped to 10 deviations from the mean: an input that was
    constant for $n$ examples and then changes would be $\sqrt{n}$ away.

    **Arguments:**

    - `learner`: any learner.
    - `decay`: of an example's weight, with every later one. At 1 all count alike, as in scikit-learn's
      `StandardScaler.partial_fit` (in float32 the first 16.7 million); below 1 statistics follow inputs that change.
    - `scale_targets`: whether targets of a squared loss are normalised, too. Losses and outputs stay in the units of
      `y`.

    ```python
    learner = Normalize(Backprop(Network(inputs=20, hidden=50), step_size=0.01), decay=0.999)
    ```

    Welford (1962), "Note on a Method for Calculating Corrected Sums of Squares and Products".
    """

    decay: Hyperparameter = hyperparameter(
        default=1.0, above=0, high=1, scale="decay", help="Decay of the statistics that inputs are normalised by"
    )
    scale_targets: bool = hyperparameter(default=False, help="Whether targets are normalised, too")

    def __check_init__(self):
        if self.scale_targets and (self.predicts or self.network.loss != "squared"):
            what = "a learner that predicts, but around the one inside" if self.predicts else "classes"
            raise ValueError(f"scale_targets must be False for {what}, got True")

    def init(self, key: Key[Array, ""]) -> Normalized:
        targets = Moments.of_none(self.network.outputs) if self.scale_targets else None
        return Normalized(self.learner.init(key), Moments.of_none(self.network.inputs), targets)

    def seen(self, state: Normalized, x: Array) -> Array:
        return self._normalized(state.inputs, x)[0]

    @compiled_method
    def predict(self, state: Normalized, x: Array) -> Array:
        outputs = self.learner.predict(state.inner, self.seen(state, x))
        return outputs if state.targets is None else state.targets.mean + state.targets.deviation * outputs

    @compiled_method
    def update(self, state: Normalized, x: Array, y: Array) -> tuple[Normalized, Outcome]:
        x, inputs = self._normalized(state.inputs, x)
        if state.targets is None:
            inner, outcome = self.learner.update(state.inner, x, y)
            return Normalized(inner, inputs, None), outcome
        normal, targets = self._normalized(state.targets, y)
        inner, outcome = self.learner.update(state.inner, x, normal)
        outputs = state.targets.mean + state.targets.deviation * outcome.outputs
        return Normalized(inner, inputs, targets), Outcome(error_of("squared", outputs, y)[0], outputs)

    def _normalized(self, moments: Moments, values: Array) -> tuple[Array, Moments]:
        moments = moments.including(values.astype(moments.mean.dtype), self.decay)
        return jnp.clip((values - moments.mean) / moments.deviation, -FAR, FAR), moments
