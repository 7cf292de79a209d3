"""Backprop: gradient descent, and with an optimizer its variants."""

from crossprop.hyperparameters import incoming_step_size_field, step_size_field
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units
from crossprop.network import Network
from crossprop.optimizers.base import Optimizer, optimizer_field
from crossprop.replacements import Replacement, replacement_field


class Backprop(CreditRule):
    r"""Gradient descent on half the squared error, or on the cross-entropy.

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k w_{jk} \phi'_j x_i \qquad w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`.

    ```python
    learner = Backprop(Network(inputs=20, hidden=500), step_size=5e-4, optimizer="adam")
    ```

    Rumelhart, Hinton and Williams (1986), "Learning representations by back-propagating errors". RMSProp: Tieleman and
    Hinton (2012). Adam: Kingma and Ba (2014).
    """

    network: Network
    step_size: Hyperparameter = step_size_field()
    optimizer: Optimizer = optimizer_field()
    incoming_step_size: Hyperparameter | tuple[Hyperparameter, ...] | None = incoming_step_size_field()
    replacement: Replacement | None = replacement_field()

    def credit(self, units: Units, delta) -> Credit:
        error = self.network.weigh(delta, units.outgoing)
        return Credit(from_input=error * units.slope, error=error)

    def shapes(self) -> Shapes:
        return Shapes()
