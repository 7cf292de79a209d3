"""Crossprop-approx: one memory per outgoing weight."""

from crossprop.hyperparameters import hyperparameter, layers_field, memory_step_size_field
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units, first_set


class CrosspropApprox(CreditRule):
    r"""Crossprop with the memory kept per outgoing weight instead of per incoming weight and output.

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k [(1-\eta) \phi_j h_{jk} + \eta w_{jk}] \phi'_j x_i$$
    $$h_{jk} \leftarrow h_{jk} (1 - \alpha (1-\eta) \phi_j^2) + \alpha (\delta_k - \eta w_{jk} \phi_j)$$
    $$w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:** as `Crossprop`, without `projections`, and

    - `memory_eta`: the eta of the memory's recursion; unset it is `eta`, as in the paper's text. The authors' scripts
      have 0 there.

    ```python
    learner = CrosspropApprox(Network(inputs=784, hidden=1024, outputs=10, loss="softmax"), step_size=5e-4)
    ```

    Veeriah, Zhang and Sutton (2017), the last equations of the section "Algorithm".
    """

    eta: Hyperparameter = hyperparameter(
        default=0.0, low=0, high=1, scale="linear", backprop_at=1, help="Mix of crossprop (0) and backprop (1)"
    )
    memory_eta: Hyperparameter | None = hyperparameter(
        default=None, low=0, high=1, scale="linear", help="The eta of the memory's recursion; default: eta"
    )
    memory_step_size: Hyperparameter | None = memory_step_size_field()
    layers: str = layers_field("top")

    adds_up = True

    def credit(self, units: Units, delta) -> Credit:
        assert units.memory is not None
        memory_eta = first_set(self.memory_eta, self.eta)
        step_size = first_set(self.memory_step_size, self.step_size)
        phi = units.phi[None, :]
        through_memory, through_weights = (self.network.weigh(delta, part) for part in (units.memory, units.outgoing))
        kept = units.memory * (1 - step_size * (1 - memory_eta) * phi**2)
        return Credit(
            from_input=((1 - self.eta) * units.phi * through_memory + self.eta * through_weights) * units.slope,
            unit_memory=kept + step_size * (delta[:, None] - memory_eta * units.outgoing * phi),
        )

    def shapes(self) -> Shapes:
        return Shapes(memory=(self.network.outputs, self.network.units))
