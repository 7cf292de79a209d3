"""Crossprop-sum: the paper's first form."""

from crossprop.hyperparameters import layers_field, memory_step_size_field
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units, first_set


class CrosspropSum(CreditRule):
    r"""The paper's first form, before `eta`: crossprop's term and backprop's, added. Not a point on the `eta` line.

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k [\phi_j h_{ijk} + w_{jk} \phi'_j x_i]$$
    $$h_{ijk} \leftarrow h_{ijk} (1 - \alpha \phi_j^2) + \alpha (\delta_k - w_{jk} \phi_j) \phi'_j x_i$$
    $$w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:** as `Crossprop`, without `eta` and `projections`.

    ```python
    learner = CrosspropSum(Network(inputs=20, hidden=500), step_size=5e-4)
    ```

    Veeriah, Zhang and Sutton (2017), the summary of the algorithm before the weighting factor.
    """

    memory_step_size: Hyperparameter | None = memory_step_size_field()
    layers: str = layers_field("top")

    def credit(self, units: Units, delta) -> Credit:
        step_size = first_set(self.memory_step_size, self.step_size)
        phi, slope, error = units.phi[None, :], units.slope[None, :], delta[:, None]
        return Credit(
            from_memory=phi * error,
            from_input=self.network.weigh(delta, units.outgoing) * units.slope,
            memory_keep=1 - step_size * units.phi**2,
            memory_input=step_size * (error - units.outgoing * phi) * slope,
        )

    def shapes(self) -> Shapes:
        return Shapes(memory=(self.network.outputs, self.network.fan_in, self.network.units))
