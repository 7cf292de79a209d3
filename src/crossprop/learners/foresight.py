"""Foresight: backprop through extrapolated outgoing weights."""

from crossprop.hyperparameters import hyperparameter
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units


class Foresight(CreditRule):
    r"""Backprop through outgoing weights that are extrapolated along their recent steps.

    $$u_{ij} \mathrel{+}= \alpha \sum_k \delta_k (w_{jk} + a v_{jk}) \phi'_j x_i \qquad
      w_{jk} \mathrel{+}= \Delta w_{jk} = \alpha \delta_k \phi_j$$
    $$v_{jk} \leftarrow (1 - 1/T) v_{jk} + \Delta w_{jk}$$

    Exact crossprop credits an example with how far the outgoing weights will move after it; here $v$, a fading sum of
    their last steps, stands for the steps to come, at next to no cost. In a deep network every matrix of weights above
    the first has its $v$, and the error goes down through $W + a v$.

    **Arguments:** `network`, `step_size`, `optimizer`, `incoming_step_size` and `replacement` as `Crossprop`, and

    - `ahead`: how far to look ahead, in sums of past steps ($a$). 0 is backprop; below 0 it looks back.
    - `horizon`: over how many examples past steps fade ($T$), at least 1.
    - `layers`: `"all"` looks ahead in every matrix of weights above the first, `"top"` in the output layer's alone.

    ```python
    learner = Foresight(Network(inputs=784, hidden=(256, 256), outputs=10, loss="softmax"), step_size=1e-3)
    ```

    New here. It is not the Lookahead optimizer of Zhang et al. (2019), which averages weights, nor momentum, which
    moves weights and credits with the old ones. Related: Nesterov's gradient, the weight prediction of Chen, Yang and
    Cheng (2018) for pipelined training, and feedback alignment (Lillicrap et al. 2016), which sends errors down through
    other weights.
    """

    ahead: Hyperparameter = hyperparameter(
        default=1.0, scale="symlog", backprop_at=0, help="How far to look ahead, in sums of past steps; 0 is backprop"
    )
    horizon: Hyperparameter = hyperparameter(default=1000.0, low=1, help="Examples over which the past fades")

    adds_up = True

    def credit(self, units: Units, delta) -> Credit:
        assert units.memory is not None
        now, coming = (self.network.weigh(delta, part) for part in (units.outgoing, units.memory))
        error = now + self.ahead * coming
        return Credit(
            from_input=error * units.slope,
            error=error,
            unit_memory=(1 - 1 / self.horizon) * units.memory,
            step_memory=1.0,
        )

    def shapes(self) -> Shapes:
        return Shapes(memory=(self.network.outputs, self.network.units))
