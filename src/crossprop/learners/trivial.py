"""Baselines that ignore the inputs."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop.learners.base import Learner, Outcome
from crossprop.learners.calling import compiled_method
from crossprop.learners.td import loss_of
from crossprop.network import error_of, float_type

RETURN = "return"
ANSWERS = ("mean", "last", RETURN)
SURE = 5.0
"""The output of the last label; those of the others are 0."""


class Seen(NamedTuple):
    """The state of `Trivial`: the number of examples, and the mean and the last of their targets; with `"return"` the
    mean of the returns and the last output."""

    count: Float[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]
    mean: Float[Array, " outputs"]
    last: Float[Array, " outputs"]


class Trivial(Learner):
    """A baseline that ignores the inputs: learning is worth as much as the error lies below its own.

    **Arguments:**

    - `network`: any with the sizes and the loss of the stream, which are all that is used.
    - `answer`: `"mean"`, the running mean of the targets, which for classes is the most frequent one so far; or
      `"last"`, the last target or class; or `"return"`, on a stream that predicts, the running mean of the returns,
      which no learner sees. In float32 the mean follows the later ones after 16.7 million examples.

    ```python
    baselines = {name: Trivial(Network(20, hidden=()), name) for name in ("mean", "last")}
    ```
    """

    network: Any
    answer: str = eqx.field(static=True, default="mean")

    def __check_init__(self):
        check.choice("answer", self.answer, ANSWERS)
        if self.predicts and self.network.loss != "squared":
            raise ValueError(f"answer must be 'mean' or 'last' with classes, got {self.answer!r}")

    @property
    def predicts(self) -> bool:
        return self.answer == RETURN

    def init(self, key: Key[Array, ""]) -> Seen:
        zeros = jnp.zeros(self.network.outputs, float_type())
        return Seen(jnp.zeros((), float_type()), zeros, zeros)

    @compiled_method
    def predict(self, state: Seen, x: Array) -> Array:
        """For the mean of classes, the logarithms of their shares, each counted once more than it came."""
        is_squared = self.network.loss == "squared"
        if self.answer == "last":
            return state.last if is_squared else SURE * state.last
        return state.mean if is_squared else jnp.log(state.mean * state.count + 1)

    @compiled_method
    def update(self, state: Seen, x: Array, y: Array) -> tuple[Seen, Outcome]:
        outputs, y = self.predict(state, x), y.astype(state.mean.dtype)
        count = state.count + 1
        if self.predicts:
            cumulant, discount, returns = y.reshape(-1, 3).T
            error = jnp.where(count > 1, cumulant + discount * outputs - state.last, 0)
            y = jnp.where(jnp.isnan(returns), outputs, returns)
            mean = state.mean + (y - state.mean) / count
            return Seen(count, mean, outputs), Outcome(loss_of(returns, outputs, error), outputs)
        outcome = Outcome(error_of(self.network.loss, outputs, y)[0], outputs)
        return Seen(count, state.mean + (y - state.mean) / count, y), outcome

    def weights(self, state: Seen) -> dict[str, Array]:
        return {}
