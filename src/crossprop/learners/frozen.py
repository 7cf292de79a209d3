"""Frozen: the control."""

from crossprop.learners.base import Credit, CreditRule, Shapes, Units


class Frozen(CreditRule):
    r"""The control: the features stay where they started, and only the outgoing weights learn.

    $$w_{jk} \mathrel{+}= \alpha \delta_k \phi_j$$

    **Arguments:** `network`, `step_size`, `optimizer` and `replacement` as `Crossprop`; `incoming_step_size` has no
    effect.

    ```python
    learner = Frozen(Network(inputs=20, hidden=500), step_size=5e-4)
    ```
    """

    def credit(self, units: Units, delta) -> Credit:
        return Credit()

    def shapes(self) -> Shapes:
        return Shapes()
