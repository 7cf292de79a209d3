"""Features that learn from the inputs alone, and outgoing weights that follow the error."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.learners.backprop import Backprop
from crossprop.learners.base import Learner, Outcome, State, first_set
from crossprop.learners.calling import compiled_method
from crossprop.learners.credit import Layer
from crossprop.network import Network, check_network
from crossprop.objectives import Objective, as_objective
from crossprop.optimizers.base import check_optimizer, optimizer_field

KEY_OF_OBJECTIVE = 4
"""Folded into the key of `init` for the key of the objective."""


class Unsupervised(Learner):
    r"""Features without targets: the incoming weights follow an objective on the inputs, the outgoing ones the error.

    $$U \leftarrow U + \Delta U(x) \qquad w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:**

    - `network`: each hidden layer follows the objective on the outputs of the layer below. Objectives have features of
      their own, or the network's units.
    - `step_size`, `optimizer`: of W, as of `Backprop`.
    - `objective`: `"kmeans"`, `"sparse-coding"`, `"ica"`, `"autoencoder"`, one of `crossprop.objectives`, or a table of
      a `name` and hyperparameters.
    - `incoming_step_size`: of U; unset, that of W. U takes plain steps.
    - `eta`: mixes the step of backprop through the features (1) with that of the objective (0): U moves by
      $(1 - \eta) \Delta U + \eta \alpha_U \sum_k \delta_k w_{jk} \partial \phi_j / \partial U$. Unset, it is 0 and
      nothing is backpropagated.

    ```python
    learner = Unsupervised(Network(64, hidden=100, outputs=10, loss="softmax"), 0.01, objective="kmeans")
    ```

    Section 2 of Veeriah, Zhang and Sutton (2017) names clustering, sparsity, independence and reproducibility.
    """

    network: Network
    step_size: Hyperparameter = hyperparameter(above=0, help="Step size of every learner")
    objective: Any = eqx.field(default="autoencoder", converter=as_objective)
    optimizer: Any = optimizer_field(kw_only=True)
    incoming_step_size: Hyperparameter | None = hyperparameter(
        default=None, above=0, kw_only=True, help="Step size of the incoming weights; default: that of the learner"
    )
    eta: Hyperparameter | None = hyperparameter(
        default=None, low=0, high=1, scale="linear", backprop_at=1, kw_only=True, help="Mix with backprop; default: 0"
    )

    def __check_init__(self):
        check_network(self.network)
        check_optimizer(self.optimizer)
        if not isinstance(self.objective, Objective):
            raise TypeError(
                "objective must be a name or an objective such as crossprop.objectives.KMeans(), "
                f"got {check.shown(self.objective)}"
            )

    def _readout(self) -> Backprop:
        """The learner of W: a linear unit whose inputs are the features."""
        network = replace(self.network, inputs=self.network.units, hidden=(), incoming_scale=1.0)
        return Backprop(network, self.step_size, optimizer=self.optimizer)

    def init(self, key: Key[Array, ""]) -> State:
        """One key gives every learner of a network the same weights."""
        incoming, outgoing = self.network.init(jax.random.split(key)[0])
        keys, layers = jax.random.split(jax.random.fold_in(key, KEY_OF_OBJECTIVE), len(incoming) or 1), []
        for net, weights, own in zip(self.network.layers(), incoming, keys, strict=False):
            weights, memory = self.objective.init(net, weights, own)
            layers.append(Layer(weights, memory, None, None))
        readout = self._readout()
        state = readout.init(key)._replace(outgoing=outgoing.T)
        return readout.with_optimizer(state, key)._replace(layers=tuple(layers))

    @compiled_method
    def predict(self, state: State, x: Array) -> Array:
        phi = self._layers(state, state.incoming, x)[-1]
        return self._readout().predict(state._replace(layers=()), phi)

    def _layers(self, state: State, incoming: tuple[Array, ...], x: Array) -> list[Array]:
        """The input, and the features of every hidden layer."""
        seen = [x.astype(state.outgoing.dtype)]
        for net, weights, layer in zip(self.network.layers(), incoming, state.layers, strict=True):
            seen.append(self.objective.features(net, weights, layer.memory, net.with_constant(seen[-1])))
        return seen

    @compiled_method
    def update(self, state: State, x: Array, y: Array) -> tuple[State, Outcome]:
        seen, back = self._layers(state, state.incoming, x), None
        if self.eta is not None:
            _, back = jax.vjp(lambda incoming: self._layers(state, incoming, x)[-1], state.incoming)
        learned, outcome = self._readout().update(state._replace(layers=()), seen[-1], y)
        step_size, layers = first_set(self.incoming_step_size, self.step_size), []
        for net, (weights, memory, *_), below, phi in zip(
            self.network.layers(), state.layers, seen, seen[1:], strict=False
        ):
            weights, memory = self.objective.learn(net, weights, memory, net.with_constant(below), phi, step_size)
            layers.append(Layer(weights, memory, None, None))
        if self.eta is not None and back is not None:
            delta = self.network.error(outcome.outputs, y.astype(seen[0].dtype))[1]
            (directions,) = back(self.network.weigh(delta, self.network.without_constant(state.outgoing)))
            for at, (before, direction) in enumerate(zip(state.incoming, directions, strict=True)):
                mixed = (1 - self.eta) * layers[at].weights + self.eta * (before + step_size * direction)
                layers[at] = layers[at]._replace(weights=mixed)
        return learned._replace(layers=tuple(layers)), outcome

    def weights(self, state: State) -> dict[str, Array]:
        return Backprop(self.network, self.step_size).weights(state)

    def features(self, state: State, x: Array) -> tuple[Array, ...] | None:
        return tuple(self._layers(state, state.incoming, x)[1:]) or None
