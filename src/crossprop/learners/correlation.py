"""Correlation: backprop mixed with the objective of cascade-correlation."""

from crossprop.hyperparameters import hyperparameter
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units


class Correlation(CreditRule):
    r"""Backprop that also makes every hidden unit correlate with the errors at the outputs.

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k (w_{jk} + c \, m_{jk}) \phi'_j x_i \qquad
      w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$
    $$m_{jk} \leftarrow (1 - 1/T) m_{jk} + \delta_k \phi_j / T$$

    The running mean $m_{jk}$ estimates $E[\delta_k \phi_j]$, so with W held still the second term follows the gradient
    of $J = \frac{1}{2} \sum_{jk} E[\delta_k \phi_j]^2$, $\delta$ held fixed. In a deep network every hidden layer does
    so with the layer above.

    With plain steps `Foresight` is this rule: its $v$ is $\alpha T m$, so `ahead` $a$ is a `weight` of $a \alpha T$.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size`, `replacement` and `layers` as `Foresight`,
    and

    - `weight`: of J beside backprop ($c$), at least 0. 0 is backprop.
    - `horizon`: of the running mean, in examples ($T$), at least 1.

    ```python
    learner = Correlation(Network(inputs=784, hidden=64, outputs=10, loss="softmax"), step_size=0.03, weight=30)
    ```

    J is the objective of Fahlman and Lebiere (1990), "The Cascade-Correlation Learning Architecture", squared and not
    centred, here online and for all units.
    """

    weight: Hyperparameter = hyperparameter(
        default=30.0, low=0, backprop_at=0, help="Weight of the correlation with the errors; 0 is backprop"
    )
    horizon: Hyperparameter = hyperparameter(default=1000.0, low=1, help="Examples over which the past fades")

    adds_up = True

    def credit(self, units: Units, delta) -> Credit:
        assert units.memory is not None
        now, correlation = (self.network.weigh(delta, part) for part in (units.outgoing, units.memory))
        error = now + self.weight * correlation
        mean = units.memory + (delta[:, None] * units.phi[None, :] - units.memory) / self.horizon
        return Credit(from_input=error * units.slope, error=error, unit_memory=mean)

    def shapes(self) -> Shapes:
        return Shapes(memory=(self.network.outputs, self.network.units))
