"""The contract of an objective of features that learn from the inputs alone."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Array, Float, Key

from crossprop.hyperparameters import Checked, Hyperparameter
from crossprop.network import Network


class Objective(Checked):
    """What the incoming weights follow in the place of the error. It is immutable; numbers among its fields are
    hyperparameters.

    `weights` are those into the hidden units, `(inputs, hidden)`, and `x` is one input. With a bias, both have a
    constant last input, 1. The memory is any pytree of arrays that the objective keeps besides the weights.
    """

    @abstractmethod
    def init(self, network: Network, weights: Float[Array, "inputs hidden"], key: Key[Array, ""]) -> tuple[Array, Any]:
        """The weights before the first example, from those that the network drew, and the memory."""

    def features(self, network: Network, weights: Array, memory: Any, x: Array) -> Float[Array, " hidden"]:
        """The features of one input: the network's units, unless an objective has a method of its own."""
        del memory
        return network.activate(network.weigh(x, weights)).phi

    @abstractmethod
    def learn(
        self, network: Network, weights: Array, memory: Any, x: Array, phi: Array, step_size: Hyperparameter
    ) -> tuple[Array, Any]:
        """The weights and the memory after one more input, whose features are `phi`."""
