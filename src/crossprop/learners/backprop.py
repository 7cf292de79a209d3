"""Backprop: gradient descent, and with an optimizer its variants."""

from crossprop.learners.base import Credit, CreditRule, Shapes, Units


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

    adds_up = True

    def credit(self, units: Units, delta) -> Credit:
        error = self.network.weigh(delta, units.outgoing)
        return Credit(from_input=error * units.slope, error=error)

    def shapes(self) -> Shapes:
        return Shapes()
