"""A deep network as a stack of hidden layers.

To its rule each layer is a network of its own, whose inputs are the layer below and whose outputs are the layer above.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from jax import Array

from crossprop.learners.credit import Credit
from crossprop.network import Activation

if TYPE_CHECKING:
    from crossprop.learners.base import CreditRule


@runtime_checkable
class Arithmetic(Protocol):
    """How a layout multiplies, in one layer: `Network` for whole arrays, `gpu.layout.PaddedNetwork` for padded
    pieces."""

    def with_constant(self, values: Any, /) -> Any:
        """Inputs or features, with the constant 1 appended if there are biases."""
        ...

    def without_constant(self, outgoing: Any, /) -> Array:
        """The outgoing weights of the hidden units."""
        ...

    def transposed(self, weights: Any, /) -> Any:
        """The weights into the layer above as outgoing weights of this one."""
        ...

    def weigh(self, values: Any, weights: Any, /) -> Array:
        """`sum_i values_i weights_ij`."""
        ...

    def activate(self, z: Array, /) -> Activation:
        """Hidden units and their slopes."""
        ...

    def through_norm(self, error: Array, units: Activation, /) -> Array:
        """The error at the pre-activations from that at the normalised ones."""
        ...

    def own_slope(self, units: Activation, /) -> Array | None:
        """How a unit's normalised pre-activation follows its own pre-activation, or None."""
        ...

    def outputs_of(self, features: Any, outgoing: Any, /) -> Array:
        """The linear outputs."""
        ...

    def error(self, outputs: Array, y: Array, /) -> tuple[Array, Array]:
        """The loss and `delta`."""
        ...


class Stack(NamedTuple):
    """A rule as it is to each hidden layer, and the arithmetic there; `whole` is the rule itself."""

    whole: "CreditRule"
    rules: "tuple[CreditRule, ...]"
    nets: tuple[Arithmetic, ...]
    top: Arithmetic
    """The arithmetic of the outputs."""
    whole_credit: Callable[[Credit], Credit] = lambda credit: credit
    """The first layer's credit, from that by the units of the layer above which are at hand."""

    @classmethod
    def of(cls, rule: "CreditRule") -> "Stack":
        """The stack of a rule in this layout, whose arrays are whole."""
        nets = rule.network.layers()
        return cls(rule, rule.by_layer(), nets, nets[-1] if nets else rule.network)
