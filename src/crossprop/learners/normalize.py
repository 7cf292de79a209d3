"""Inputs, and targets, brought to mean 0 and variance 1 while learning."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.learners.base import Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import error_of, float_type


class Moments(NamedTuple):
    """Running means and variances, and the sum of the weights of the examples that they are of."""

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
        """The standard deviations; 1 for what has not changed so far."""
        return jnp.where(self.variance > 0, jnp.sqrt(self.variance), 1)


FAR = 10.0
"""Standard deviations that inputs and targets are clipped to."""


class Normalized(NamedTuple):
    """The state of `Normalize`."""

    inner: Any
    """The learner's own."""
    inputs: Moments
    targets: Moments | None


class Normalize(Wrapper):
    r"""A learner whose inputs are normalised as it learns: each less its running mean, by its running deviation.

    An example counts in the statistics that it is normalised by, in `update` and in `predict`, so that not even the
    first one is far out. They are a part of the state. What is further than 10 deviations from its mean counts as 10
    away: an input that was constant for $n$ examples and then changes would be $\sqrt{n}$ away.

    **Arguments:**

    - `learner`: any learner.
    - `decay`: how much less an example counts with every later one. At 1 all count alike, as in scikit-learn's
      `StandardScaler.partial_fit`, the first 16.7 million in float32; below it, and after those, statistics follow
      inputs that change.
    - `scale_targets`: whether the learner's targets are normalised, too, where the loss is squared. Losses and outputs
      stay in the units of `y`.

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
        """The state before the first example."""
        targets = Moments.of_none(self.network.outputs) if self.scale_targets else None
        return Normalized(self.learner.init(key), Moments.of_none(self.network.inputs), targets)

    @compiled_method
    def predict(self, state: Normalized, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""
        x, _ = self._normalized(state.inputs, x)
        outputs = self.learner.predict(state.inner, x)
        return outputs if state.targets is None else state.targets.mean + state.targets.deviation * outputs

    @compiled_method
    def update(
        self, state: Normalized, x: Float[Array, " inputs"], y: Float[Array, " targets"]
    ) -> tuple[Normalized, Outcome]:
        """Learns from one example."""
        x, inputs = self._normalized(state.inputs, x)
        if state.targets is None:
            inner, outcome = self.learner.update(state.inner, x, y)
            return Normalized(inner, inputs, None), outcome
        normal, targets = self._normalized(state.targets, y)
        inner, outcome = self.learner.update(state.inner, x, normal)
        outputs = state.targets.mean + state.targets.deviation * outcome.outputs
        return Normalized(inner, inputs, targets), Outcome(error_of("squared", outputs, y)[0], outputs)

    def features(self, state: Normalized, x: Float[Array, " inputs"]) -> Any:
        """The learner's, of the normalised example."""
        return self.learner.features(state.inner, self._normalized(state.inputs, x)[0])

    def _normalized(self, moments: Moments, values: Array) -> tuple[Array, Moments]:
        moments = moments.including(values.astype(moments.mean.dtype), self.decay)
        return jnp.clip((values - moments.mean) / moments.deviation, -FAR, FAR), moments
