"""The inputs and outputs of a credit rule, and the state of its learner."""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Key


class Outcome(NamedTuple):
    """The loss and the outputs at one example, from before learning."""

    loss: Float[Array, ""]
    outputs: Float[Array, " outputs"]


class Layer(NamedTuple):
    """The weights into a hidden layer and their memory. Hidden units come last in every shape.

    GPU programs have tuples of padded pieces in the place of these arrays; in the chunked engine the first layer's are
    transposed.
    """

    weights: Any
    """`(fan_in, hidden)`"""
    memory: Any
    """Memory matrices `(memories, fan_in, hidden)`, a memory at the units `(outputs, hidden)`, or None. `outputs` are
    the units of the layer above."""
    signs: Any
    """`(projections, outputs, hidden)`, the fixed signs of projected crossprop, or None."""
    optimizer: Any
    """The optimizer's state for the weights; None if the optimizer sees the whole network."""


class State(NamedTuple):
    """The state of a credit rule."""

    layers: tuple[Layer, ...]
    """The hidden layers, the one above the inputs first."""
    outgoing: Any
    """`(outputs, features)`"""
    optimizer: Any
    """The optimizer's state for the outgoing weights; for all weights if the optimizer sees the whole network."""
    key: Any = None
    """The key of an optimizer that draws noise."""
    replacement: "Replaced | None" = None
    """None if no units are replaced."""

    @property
    def incoming(self) -> tuple[Array, ...]:
        """The weights into every hidden layer."""
        return tuple(layer.weights for layer in self.layers)

    def with_first(self, first: Layer) -> "State":
        """A copy with another first layer."""
        return self._replace(layers=(first, *self.layers[1:]))


class Replaced(NamedTuple):
    """The state of a learner's replacement."""

    key: Key[Array, ""]
    """For the new weights."""
    memory: tuple[Any, ...]
    """One memory per hidden layer."""


class Units(NamedTuple):
    """The inputs of a credit rule. Hidden units come last in every shape.

    In a deep network `outputs` are the units of the layer above, and `outgoing` are the weights into it. With layer
    norm, `slope` is by the normalised pre-activations, and the credit is backpropagated through the normalisation:
    `from_input` in full, `memory_input` by the unit's own share.
    """

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]
    outgoing: Float[Array, "outputs hidden"]
    memory: Float[Array, "outputs hidden"] | None
    signs: Float[Array, "projections outputs hidden"] | None


class Credit(NamedTuple):
    r"""The output of a credit rule. With $H_k$ its memory matrices (one per output or projection, shaped like $U$):

    $$\text{direction of } U = \sum_k H_k c_{1k} + x \otimes c_2 \qquad H_k \leftarrow H_k c_3 + x \otimes c_{4k}$$

    A rule without memory matrices leaves out $c_1$, $c_3$ and $c_4$; one with a memory at its units gives its new
    value in `unit_memory`, to which `step_memory` times the step of the outgoing weights is added; one that also leaves
    out $c_2$ does not move $U$, whatever the optimizer.
    """

    from_input: Float[Array, " hidden"] | None = None
    """$c_2$"""
    from_memory: Float[Array, "memories hidden"] | None = None
    """$c_1$"""
    memory_keep: Float[Array, " hidden"] | None = None
    """$c_3$"""
    memory_input: Float[Array, "memories hidden"] | None = None
    """$c_4$"""
    unit_memory: Float[Array, "outputs hidden"] | None = None
    step_memory: float | Array | None = None
    error: Float[Array, " hidden"] | None = None
    """The error at the units, before their slope, that a deep network passes down; None passes down the one that is
    backpropagated through `outgoing`."""

    @property
    def moves(self) -> bool:
        """Whether the incoming weights move."""
        return self.from_input is not None or self.from_memory is not None


class Shapes(NamedTuple):
    """The shapes of the memory and the signs of a rule, if it has some."""

    memory: tuple[int, int, int] | tuple[int, int] | None = None
    """`(memories, fan_in, hidden)` for memory matrices, `(outputs, hidden)` for a memory at the units."""
    signs: tuple[int, int, int] | None = None
    """`(projections, outputs, hidden)` for fixed random signs."""

    @property
    def matrices(self) -> int:
        """The number of memory matrices, each shaped like U."""
        return self.memory[0] if self.memory is not None and len(self.memory) == 3 else 0
