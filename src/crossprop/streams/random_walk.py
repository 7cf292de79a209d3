"""A random walk along a line of states, whose values are known."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Key

from crossprop.hyperparameters import check_parameters, parameter
from crossprop.network import float_type
from crossprop.streams.base import Simulated, set_fields


class WalkPlace(NamedTuple):
    """The position in the stream: the number of the next example, the state of the last, and the key."""

    step: Any
    state: Any
    key: Any


@dataclass(frozen=True)
class RandomWalk(Simulated):
    """A walk along a line of states, one step to the left or to the right at a time, again and again from the middle.

    A walk ends beyond the left end, with a cumulant of -1, or beyond the right end, with 1; all other cumulants are 0,
    and nothing is discounted. The input is one-hot. The return in `y` is the expected one, which lies on a line from -1
    to 1.

    **Arguments:**

    - `states`: how many, 19 in the book.
    - `steps`: the number of examples; None is endless.

    ```python
    records = run(TD(Backprop(Network(19, (), outgoing_scale=0), 0.1), trace=0.8), RandomWalk(), seeds=2, steps=1000)
    ```

    Sutton and Barto (2018), "Reinforcement Learning: An Introduction", example 7.1.
    """

    states: int = parameter(19, whole=True, low=1)
    steps: int | None = parameter(None, whole=True, low=1)

    outputs = 3
    predicts = True

    def __post_init__(self):
        check_parameters(self)
        set_fields(self, inputs=self.states)

    def begin(self, key: Key[Array, ""]) -> WalkPlace:
        return WalkPlace(jnp.zeros((), int), jnp.full((), self.states // 2), key)

    def _deal(self, place: WalkPlace, count: int) -> tuple[dict[str, Array], Array, Array]:
        def move(state: Array, step: Array) -> tuple[Array, tuple[Array, Array, Array]]:
            moved = state + 2 * jax.random.bernoulli(jax.random.fold_in(place.key, step)).astype(int) - 1
            moved = jnp.where(step == 0, self.states // 2, moved)  # the first example has no step before it
            ended = (moved < 0) | (moved >= self.states)
            state = jnp.where(ended, self.states // 2, moved)
            return state, (state, ended, jnp.sign(moved))

        state, (states, ended, end) = lax.scan(move, place.state, place.step + jnp.arange(count))
        values = (2 * states + 1 - self.states) / (self.states + 1)
        y = jnp.stack([jnp.where(ended, jnp.where(end < 0, -1, 1), 0), ~ended, values], axis=1)
        return {"state": state}, jax.nn.one_hot(states, self.states, dtype=float_type()), y.astype(float_type())
