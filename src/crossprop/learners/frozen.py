"""Frozen: the control."""

from crossprop.hyperparameters import incoming_step_size_field, step_size_field
from crossprop.learners.base import Credit, CreditRule, Hyperparameter, Shapes, Units
from crossprop.network import Network
from crossprop.optimizers.base import Optimizer, optimizer_field
from crossprop.replacements import Replacement, replacement_field


class Frozen(CreditRule):
    r"""The control: the features stay where they started, and only the outgoing weights learn.

    $$w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:** `network`, `step_size`, `optimizer` and `replacement` as `Crossprop`; `incoming_step_size` is taken,
    as by every learner, and moves nothing.

    ```python
    learner = Frozen(Network(inputs=20, hidden=500), step_size=5e-4)
    ```
    """

    network: Network
    step_size: Hyperparameter = step_size_field()
    optimizer: Optimizer = optimizer_field()
    incoming_step_size: Hyperparameter | tuple[Hyperparameter, ...] | None = incoming_step_size_field()
    replacement: Replacement | None = replacement_field()

    def credit(self, units: Units, delta) -> Credit:
        return Credit()

    def shapes(self) -> Shapes:
        return Shapes()
