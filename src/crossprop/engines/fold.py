"""Variables of examples, summed over a window."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from crossprop.learners.base import Outcome
from crossprop.network import error_of
from crossprop.variables import Variable


class Window(NamedTuple):
    """The sums of a window, by the names of its variables, and the first step with a non-finite loss, or -1."""

    sums: dict[str, jax.Array]
    diverged_at: jax.Array


class Fold(NamedTuple):
    """Adds outcomes to a window."""

    loss: str
    variables: tuple[Variable, ...]

    def example(self, window: Window, at: Any, outcome: Outcome, y: jax.Array, answer: Callable[[], Any]) -> Window:
        """The window with example `at`. `answer` gives the outputs after learning from it."""
        after = None
        if any(variable.after for variable in self.variables):
            outputs = answer()
            after = Outcome(error_of(self.loss, outputs, y)[0], outputs)
        diverged = (window.diverged_at < 0) & has_diverged(outcome.loss)
        values = {
            variable.name: variable.of(outcome, y, after) if variable.after else variable.of(outcome, y)
            for variable in self.variables
        }
        return Window(_added(window.sums, values), jnp.where(diverged, at, window.diverged_at))

    def block(self, window: Window, at: Any, count: Any, outputs: jax.Array, y: jax.Array) -> Window:
        """The window with the first `count` of these examples, which begin at number `at`."""
        real = jnp.arange(len(y)) < count
        outcomes = Outcome(jnp.where(real, jax.vmap(partial(error_of, self.loss))(outputs, y)[0], 0), outputs)
        diverged = has_diverged(outcomes.loss)
        values = {variable.name: jax.vmap(variable.of)(outcomes, y) for variable in self.variables}
        dtype = window.sums["loss"].dtype
        sums = {name: jnp.sum(jnp.where(real, jnp.asarray(each, dtype), 0)) for name, each in values.items()}
        first = jnp.where((window.diverged_at < 0) & jnp.any(diverged), at + jnp.argmax(diverged), window.diverged_at)
        return Window(_added(window.sums, sums), first)


def has_diverged(loss: jax.Array) -> jax.Array:
    """Whether a loss is infinite or NaN."""
    return ~(jnp.abs(loss) < jnp.inf)


def _added(sums: dict[str, jax.Array], values: dict[str, Any]) -> dict[str, jax.Array]:
    return {name: sums[name] + jnp.asarray(value, sums[name].dtype) for name, value in values.items()}
