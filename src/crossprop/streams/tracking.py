"""A linear target whose weights change sign, one after another: Sutton's tracking task."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import check_parameters, parameter
from crossprop.streams.base import Simulated
from crossprop.streams.drawing import by_number, coins, flipped, rows_of_periods


class TrackingPlace(NamedTuple):
    """The position in the stream: the number of the next example, and which weights are -1 at it."""

    step: Any
    negative: Any
    flips: Any
    examples: Any


@dataclass(frozen=True)
class Tracking(Simulated):
    r"""A linear target with a few relevant inputs, whose weights change sign one by one: Sutton's tracking task.

    $y = \sum_i s_i x_i + \epsilon$ with x normal; $s_i$ is +1 or -1 for the first `relevant` inputs and 0 for the
    others. Every `flip_every` examples one of the relevant weights, drawn uniformly, changes sign. The best step sizes
    are large for relevant inputs and zero for the others. Suits `Network(20, hidden=())`.

    **Arguments:**

    - `inputs`, `relevant`: the number of inputs, and of those that count.
    - `flip_every`: examples from one change of sign to the next.
    - `noise`: the standard deviation of the targets' noise.
    - `steps`: the number of examples; None is endless, and `run` is told how many to take.

    ```python
    records = run(Backprop(Network(20, hidden=()), 0.03), Tracking(), seeds=2, steps=30_000)
    ```

    Sutton (1992), "Adapting bias by gradient descent: an incremental version of delta-bar-delta".
    """

    inputs: int = parameter(20, whole=True, low=1)
    relevant: int = parameter(5, whole=True, low=1)
    flip_every: int = parameter(20, whole=True, low=1)
    noise: float = parameter(0.0, low=0)
    steps: int | None = parameter(None, whole=True, low=1)

    outputs = 1

    def __post_init__(self):
        check_parameters(self)
        check.integer("relevant", self.relevant, low=1, high=self.inputs)

    def begin(self, key: Key[Array, ""]) -> TrackingPlace:
        signs, flips, examples = jax.random.split(key, 3)
        return TrackingPlace(jnp.zeros((), int), coins(signs, self.relevant), flips, examples)

    def _deal(self, place: TrackingPlace, count: int) -> tuple[dict[str, Array], Array, Array]:
        steps = place.step + jnp.arange(count + 1)
        period = steps // self.flip_every - place.step // self.flip_every
        negative = flipped(
            place.flips, place.negative, place.step // self.flip_every, rows_of_periods(self.flip_every, count)
        )[period]
        size = self.inputs + (self.noise > 0)
        draws = by_number(place.examples, steps[:count], partial(jax.random.normal, shape=(size,)))
        x, signs = draws[:, : self.inputs], 1 - 2 * negative[:count]
        y = jnp.sum(x[:, : self.relevant] * signs, axis=1, keepdims=True)
        return {"negative": negative[count]}, x, y + self.noise * draws[:, self.inputs :] if self.noise > 0 else y
