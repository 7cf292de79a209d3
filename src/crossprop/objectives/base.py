"""What an objective is: what features follow that learn from the inputs alone."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Array, Float, Key

from crossprop.hyperparameters import Checked, Hyperparameter
from crossprop.network import Network


class Objective(Checked):
    """What the incoming weights follow instead of the error. It is immutable; numbers among its fields are
    hyperparameters.

    `weights` are those into the hidden units, `(inputs, hidden)`, and `x` is one input. With a bias, both have a
    constant last input, 1. What else an objective keeps is its memory: any pytree of arrays.
    """

    @abstractmethod
    def init(self, network: Network, weights: Float[Array, "inputs hidden"], key: Key[Array, ""]) -> tuple[Array, Any]:
        """The weights before the first example, from those that the network drew, and the memory."""

    @abstractmethod
    def features(self, network: Network, weights: Array, memory: Any, x: Array) -> Float[Array, " hidden"]:
        """What the outgoing weights see of one input."""

    @abstractmethod
    def learn(
        self, network: Network, weights: Array, memory: Any, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Any]:
        """The weights and the memory after one more input, of which `phi` are the features."""
