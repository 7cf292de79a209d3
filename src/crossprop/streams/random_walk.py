"""A random walk along a line of states, whose values are known."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop._support.programs import program
from crossprop.network import float_type
from crossprop.streams.base import Stream, check_left, set_fields


class WalkPlace(NamedTuple):
    """Where the stream stands: the number of the next example, the state of the last, and the key."""

    step: Any
    state: Any
    key: Any


@dataclass(frozen=True)
class RandomWalk(Stream):
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

    states: int = 19
    steps: int | None = None

    outputs = 3
    one_hot = False
    predicts = True

    def __post_init__(self):
        states = check.integer("states", self.states, low=1)
        set_fields(
            self,
            states=states,
            inputs=states,
            steps=None if self.steps is None else check.integer("steps", self.steps, low=1),
        )

    def begin(self, key: Key[Array, ""]) -> WalkPlace:
        return WalkPlace(jnp.zeros((), int), jnp.full((), self.states // 2), key)

    def deal(self, place: WalkPlace, count: int) -> tuple[WalkPlace, Array, Array]:
        check_left(self, place.step, count)
        state, x, y = self._deal(place, count)
        return place._replace(step=place.step + count, state=state), x, y

    @partial(program, static_argnums=(0, 2))
    def _deal(self, place: WalkPlace, count: int) -> tuple[Array, Array, Array]:
        def move(state: Array, step: Array) -> tuple[Array, tuple[Array, Array, Array]]:
            moved = state + 2 * jax.random.bernoulli(jax.random.fold_in(place.key, step)).astype(int) - 1
            moved = jnp.where(step == 0, self.states // 2, moved)  # the first example has no step before it
            ended = (moved < 0) | (moved >= self.states)
            state = jnp.where(ended, self.states // 2, moved)
            return state, (state, ended, jnp.sign(moved))

        state, (states, ended, end) = lax.scan(move, place.state, place.step + jnp.arange(count))
        values = (2 * states + 1 - self.states) / (self.states + 1)
        y = jnp.stack([jnp.where(ended, jnp.where(end < 0, -1, 1), 0), ~ended, values], axis=1)
        return state, jax.nn.one_hot(states, self.states, dtype=float_type()), y.astype(float_type())
