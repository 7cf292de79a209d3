"""Slowly-changing regression: a fixed target on bits most of which change rarely."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop._support.memory import check_memory
from crossprop._support.programs import program
from crossprop.hyperparameters import check_parameters, parameter
from crossprop.network import float_type
from crossprop.streams.base import Simulated
from crossprop.streams.drawing import by_number, coins, flipped, rows_of_periods
from crossprop.streams.threshold_networks import threshold_outputs


class TargetNetwork(NamedTuple):
    """The target network: weights of -1 and +1, and how many inputs must match for each feature to fire."""

    incoming: Any
    """`(inputs, features)`"""
    matches: Any
    """`(features,)`: a feature fires where more inputs than this match the sign of their weights."""
    outgoing: Any
    """`(features,)`"""
    constant: Any


class SlowPlace(NamedTuple):
    """The position in the stream: the number of the next example, and the slow bits at it."""

    step: Any
    bits: Any
    changes: Any
    examples: Any
    target: TargetNetwork


@dataclass(frozen=True)
class SlowlyChanging(Simulated):
    r"""A fixed random network of threshold units as the target, on bits most of which change rarely.

    Every example has `slow` bits, which stay as they are for `change_every` examples, and `inputs - slow` bits drawn
    anew for each example, all 0 or 1. The target is a network of `features` linear threshold units with all weights
    and biases -1 or +1: feature j fires when $\sum_i x_i u^*_{ij} + b_j > \theta_j = (m + 1) \beta - S_j$, with $S_j$
    the number of -1 among its weights and bias, and $y = \sum_j \phi^*_j w^*_j + b$. A learner that is too small for
    the whole target has to go on learning with every change.

    **Arguments:**

    - `inputs`, `slow`: the number of bits, and of those that are slow, which come first.
    - `change_every`: examples from one change of the slow bits to the next.
    - `change`: `"all"` draws all slow bits anew, `"one"` flips one of them.
    - `features`, `beta`: size of the target network, and the share of its inputs that must match for one to fire.
    - `as_run`: True has the thresholds of the authors' code, where $S_j$ is the number of -1 among the weights, plus
      1/2 for a positive and minus 1/2 for a negative bias; False has those of the paper.
    - `steps`: the number of examples; None is endless, and `run` is told how many to take.

    ```python
    learner = Backprop(Network(20, 5, activation="relu", bias=True, incoming_scale="kaiming"), 0.01)
    records = run(learner, SlowlyChanging(), seeds=2, steps=20_000)
    ```

    Dohare et al. (2024), "Loss of plasticity in deep continual learning", "Slowly-Changing Regression".
    """

    inputs: int = parameter(20, whole=True, low=1)
    slow: int = parameter(15, whole=True, low=1)
    change_every: int = parameter(10_000, whole=True, low=1)
    change: Literal["all", "one"] = parameter("all", choices=("all", "one"))
    features: int = parameter(100, whole=True, low=1)
    beta: float = parameter(0.7, low=0, high=1, scale="linear")
    as_run: bool = parameter(True)
    steps: int | None = parameter(None, whole=True, low=1)

    outputs = 1

    def __post_init__(self):
        check_parameters(self)
        check.integer("slow", self.slow, low=1, high=self.inputs)

    def begin(self, key: Key[Array, ""]) -> SlowPlace:
        self._check_memory(self.inputs)
        return self._begin(key)

    def _check_memory(self, rows: int) -> None:
        what = f"the target network of {self.features:,} features"
        check_memory(what, 2 * max(rows, self.inputs) * self.features * float_type().itemsize)

    @partial(program, static_argnums=0)
    def _begin(self, key: Key[Array, ""]) -> SlowPlace:
        target, changes, examples = jax.random.split(key, 3)
        bits = coins(jax.random.fold_in(changes, 0), self.slow)
        return SlowPlace(jnp.zeros((), int), bits, changes, examples, self.target(target))

    def target(self, key: Key[Array, ""]) -> TargetNetwork:
        """The target network of one run."""
        keys = jax.random.split(key, 4)
        shapes = ((self.inputs, self.features), (self.features,), (self.features,), ())
        incoming, bias, outgoing, constant = map(partial(jax.random.rademacher, dtype=float), keys, shapes)
        # The weighted sum of the inputs is the number that match, less the number of negative weights. So all features
        # with the same bias need the same number of matches; it is whole, and no rounding error makes a tie fire.
        counted = {-1: -0.5, 1: 0.5} if self.as_run else {-1: 1, 1: 0}
        negative, positive = (
            math.floor((self.inputs + 1) * self.beta - counted[sign] - sign + 1e-9) for sign in (-1, 1)
        )
        return TargetNetwork(incoming, jnp.where(bias < 0, float(negative), float(positive)), outgoing, constant)

    def label(self, target: TargetNetwork, x: Float[Array, "steps inputs"]) -> Float[Array, "steps 1"]:
        """The targets of these inputs: whole numbers, and so the same on every device."""
        return threshold_outputs(x, target.incoming, target.matches, target.outgoing) + target.constant

    def _deal(self, place: SlowPlace, count: int) -> tuple[dict[str, Array], Array, Array]:
        self._check_memory(count)
        steps, first = place.step + jnp.arange(count + 1), place.step // self.change_every
        rows = rows_of_periods(self.change_every, count)
        if self.change == "one":
            periods = flipped(place.changes, place.bits, first, rows)
        else:
            periods = by_number(place.changes, first + jnp.arange(rows), partial(coins, size=self.slow))
        slow = periods[steps // self.change_every - first]
        random = by_number(place.examples, steps[:count], partial(coins, size=self.inputs - self.slow))
        x = jnp.concatenate([slow[:count], random], axis=1).astype(float)
        return {"bits": slow[count]}, x, self.label(place.target, x)
