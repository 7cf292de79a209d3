"""The contract of a replacement.

It watches the units of a hidden layer and chooses those that are reset. A reset draws a unit's incoming weights again,
sets its outgoing weights to 0, and restores the initial states of the credit rule, the optimizer and the replacement
for the unit and its weights. (Not the memory of projected crossprop at the layer below, which mixes the weights into
all units.)
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from crossprop.hyperparameters import Checked
from crossprop.network import Network, float_type


class Watched(NamedTuple):
    """The inputs of a replacement for a hidden layer at every example; units come last in every shape."""

    phi: Float[Array, " hidden"]
    """The units, from before learning."""
    incoming: Float[Array, "inputs hidden"]
    """Their weights after learning, without biases."""
    outgoing: Float[Array, "outputs hidden"]
    """The weights into the layer above, after learning."""
    incoming_size: Float[Array, " hidden"]
    """The mean absolute value of each unit's incoming weights, without its bias."""
    outgoing_size: Float[Array, " hidden"]
    """The mean absolute value of each unit's outgoing weights."""


class Choice(NamedTuple):
    """A unit to replace."""

    unit: Int[Array, ""]
    memory: Any
    """The next memory of the replacement."""
    mean: Float[Array, ""] | float = 0.0
    """The unit's mean activation, which the biases of the layer above make up for; 0 leaves them as they are."""


class Replacement(Checked):
    """Chooses the units to replace, and when. It is immutable; numbers among its fields are hyperparameters.

    Every hidden layer has a memory of its own: any pytree of arrays. In arrays whose last axis has one entry per unit,
    the entry of a replaced unit becomes what `init` gives.
    """

    redraw = None
    """The distribution of a replaced unit's incoming weights, one of the names that `Network` has for initial weights,
    with a bias of 0; None draws them as the network's own were."""

    @abstractmethod
    def init(self, network: Network) -> Any:
        """The memory before the first example; `network` is that of one hidden layer, with `network.units` units."""

    @abstractmethod
    def update(self, memory: Any, watched: Watched) -> Any:
        """The memory after one more example. It is called once per example, so it should be quick."""

    @abstractmethod
    def due(self, memory: Any) -> Bool[Array, ""]:
        """Whether there is a unit to replace. It is called after every example, and again after every replacement."""

    @abstractmethod
    def choose(self, memory: Any, key: Key[Array, ""]) -> Choice:
        """The next unit to replace, called while one is due."""


class Turnover(NamedTuple):
    """The ages of the units of a layer, in examples, and how many replacements are due."""

    age: Float[Array, " hidden"]
    due: Float[Array, ""]

    @classmethod
    def of(cls, network: Network) -> "Turnover":
        """Before the first example."""
        return cls(jnp.zeros(network.units, float_type()), jnp.zeros((), float_type()))

    def after(self, rate: Any, maturity: Any) -> "Turnover":
        """One example later; with every mature unit, `rate` more replacements are due."""
        age = self.age + 1
        mature = _by_blocks(jnp.sum, jnp.add, (age > maturity).astype(jnp.int32))
        return Turnover(age, self.due + rate * mature.astype(self.due.dtype))

    def least(self, utility: Array, maturity: Any) -> tuple[Array, "Turnover"]:
        """The mature unit of the least utility; one replacement less is due then."""
        unit = least(jnp.where(self.age > maturity, utility, jnp.inf))
        return unit, self._replace(due=self.due - 1)


# XLA is slow at sums, minima and `argmin` of vectors on a CPU, but not at those of a few blocks with each other. These
# here are exact, whatever the order.
BLOCKS = 16


def least(values: Float[Array, " units"]) -> Int[Array, ""]:
    """`jnp.argmin`: the place of the first NaN if there is one, or of the least number."""
    is_least = jnp.isnan(values) | (values <= _by_blocks(jnp.min, jnp.minimum, values))
    return first(is_least)


def first(chosen: Bool[Array, " units"]) -> Int[Array, ""]:
    """The place of the first that is chosen, if any is."""
    places = jnp.where(chosen, jnp.arange(len(chosen)), len(chosen) - 1)
    return _by_blocks(jnp.min, jnp.minimum, places)


def _by_blocks(whole: Callable[[Array], Array], pair: Callable[[Array, Array], Array], values: Array) -> Array:
    """`whole(values)`, where `pair` is the same of two."""
    size = len(values) // BLOCKS
    if not size:
        return whole(values)
    blocks, rest = [values[at * size : (at + 1) * size] for at in range(BLOCKS)], values[BLOCKS * size :]
    result = whole(reduce(pair, blocks))
    return pair(result, whole(rest)) if len(rest) else result
