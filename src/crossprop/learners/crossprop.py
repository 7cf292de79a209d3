"""Crossprop, exact and projected."""

import jax
import jax.numpy as jnp

from crossprop.hyperparameters import hyperparameter, layers_field, memory_step_size_field
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units, first_set


class Crossprop(CreditRule):
    r"""Crossprop: the incoming weights follow the gradient of the error through the past of the outgoing ones.

    The memory $h_{ijk}$ estimates $\partial w_{jk} / \partial u_{ij}$ over all the past of $u_{ij}$:

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k [(1-\eta) \phi_j h_{ijk} + \eta w_{jk} \phi'_j x_i]$$
    $$h_{ijk} \leftarrow h_{ijk} (1 - \alpha (1-\eta) \phi_j^2) + \alpha (\delta_k - \eta w_{jk} \phi_j) \phi'_j x_i$$
    $$w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:**

    - `network`: the `Network` to learn in.
    - `step_size`: of W, and of U and the memory unless they have their own.
    - `eta`: mixes backprop (1) with crossprop (0).
    - `projections`: None keeps a memory matrix per output, exactly. A number Q keeps Q instead, each following its own
      random signs $r_{qj} \in \{-1, +1\}^k$ per hidden unit, with $r_{qj} \cdot \delta$ and $r_{qj} \cdot w_j$ for
      $\delta_k$ and $w_{jk}$ and the mean over q for the sum over k. In expectation over the signs the direction is
      the exact one, and the cost does not grow with the outputs. One output leaves nothing to project: the signs are
      all +1, and one projection is the exact rule, bit for bit.
    - `optimizer`: `"sgd"`, `"momentum"`, `"rmsprop"`, `"adam"`, `"adadelta"`, a function from step size to optax
      transformation, or one of `crossprop.optimizers`, or its name.
    - `incoming_step_size`: of U; in a deep network also a tuple, one per hidden layer. `memory_step_size`: of h; unset,
      it is that of the layer above.
    - `layers`: in a deep network, `"top"` follows this rule in the top hidden layer and backprop in those below;
      `"all"` follows it in every hidden layer, with the layer above for the outputs: its error for $\delta_k$ and the
      weights into it for $w_{jk}$.
    - `replacement`: of units; None, a replacement such as `ContinualReplacement(rate=1e-4)`, or its name.

    ```python
    learner = Crossprop(Network(inputs=20, hidden=500), step_size=5e-4)
    ```

    Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
    Networks". Projections are new here.
    """

    eta: Hyperparameter = hyperparameter(
        default=0.0, low=0, high=1, scale="linear", backprop_at=1, help="Mix of crossprop (0) and backprop (1)"
    )
    projections: int | None = hyperparameter(
        default=None, whole=True, low=1, help="Random projections of the memory; default: the exact memory"
    )
    memory_step_size: Hyperparameter | None = memory_step_size_field()
    layers: str = layers_field("top")

    def credit(self, units: Units, delta) -> Credit:
        mix, step_size = 1 - self.eta, first_set(self.memory_step_size, self.step_size)
        phi, slope = units.phi[None, :], units.slope[None, :]
        error, weights = delta[:, None], units.outgoing
        if units.signs is not None and units.signs.shape[:2] != (1, 1):
            each = jax.vmap(self.network.weigh, in_axes=(None, 0))
            error, weights = each(delta, units.signs), each(jnp.ones_like(delta), units.signs * units.outgoing[None])
        return Credit(
            from_memory=mix / (self.projections or 1) * phi * error,
            from_input=self.eta * self.network.weigh(delta, units.outgoing) * units.slope,
            memory_keep=1 - step_size * mix * units.phi**2,
            memory_input=step_size * (error - self.eta * weights * phi) * slope,
        )

    def shapes(self) -> Shapes:
        net, projections = self.network, self.projections
        return Shapes(
            memory=(projections or net.outputs, net.fan_in, net.units),
            signs=None if projections is None else (projections, net.outputs, net.units),
        )
