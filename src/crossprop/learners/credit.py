"""What a credit rule sees, what it answers, and the state of a learner that follows one."""

from typing import Any, NamedTuple

import optax
from jaxtyping import Array, Float, Key


class Outcome(NamedTuple):
    """What happened at one example, before learning from it."""

    loss: Float[Array, ""]
    outputs: Float[Array, " outputs"]


class State(NamedTuple):
    """Everything that a credit rule changes, and the fixed signs of projected crossprop.

    With a tuple for `network.hidden`, `incoming`, `memory`, `signs` and `optimizer[0]` are tuples too, one entry per
    hidden layer, of the shapes below; `outputs` are then the units of the layer above. A layer that keeps no memory has
    None there, and so has `memory` itself if no layer keeps one.
    """

    incoming: Float[Array, "fan_in hidden"] | tuple[Array, ...]
    outgoing: Float[Array, "features outputs"]
    memory: Array | tuple[Array | None, ...] | None
    """`(fan_in, hidden, memories)` or `(hidden, outputs)`"""
    signs: Float[Array, "projections hidden outputs"] | tuple[Array | None, ...] | None
    optimizer: tuple[Any, optax.OptState]
    """Its state for the incoming weights, and for the outgoing weights transposed. An optimizer that sees the whole
    network has None for the incoming weights, and one state for all, of `(*incoming, outgoing transposed)`."""
    key: Key[Array, ""] | None = None
    """The key of a learner that needs randomness."""
    replacement: "Replaced | None" = None
    """What the replacement keeps, if units are replaced."""


class Replaced(NamedTuple):
    """What a learner's replacement keeps."""

    key: Key[Array, ""]
    """For the new weights."""
    memory: Any
    """As `Replacement.init` gives it; with a tuple for `network.hidden` a tuple of these, one per hidden layer."""


class Units(NamedTuple):
    """What a credit rule may look at. Hidden units come last in every shape.

    In a deep network `outputs` are the units of the layer above, and `outgoing` are the weights into it. With layer
    norm, `slope` is by the normalised pre-activations; what the rule answers is then sent back through the
    normalisation, `from_input` in full and `memory_input` by the unit's own share.
    """

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]
    outgoing: Float[Array, "outputs hidden"]
    memory: Float[Array, "outputs hidden"] | None
    signs: Float[Array, "projections outputs hidden"] | None


class Credit(NamedTuple):
    r"""The answer of a credit rule. With $H_k$ its memory matrices (one per output or projection, shaped like $U$):

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
        """Whether the incoming weights move at all."""
        return self.from_input is not None or self.from_memory is not None


class Shapes(NamedTuple):
    """What a rule keeps besides the weights; None is nothing."""

    memory: tuple[int, int, int] | tuple[int, int] | None = None
    """`(fan_in, hidden, memories)` for memory matrices, `(hidden, outputs)` for a memory at the units."""
    signs: tuple[int, int, int] | None = None
    """`(projections, hidden, outputs)` for fixed random signs."""

    @property
    def matrices(self) -> int:
        """The number of memory matrices, each shaped like U."""
        return self.memory[2] if self.memory is not None and len(self.memory) == 3 else 0
