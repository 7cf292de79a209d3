"""Optimizers that learn a step size for every weight."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from crossprop import _checks as check
from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.optimizers.base import NetworkOptimizer, full_step_size, required, with_extra_arguments


class IDBDState(NamedTuple):
    """The logarithm of every step size, and the traces $h$, all shaped like the parameters."""

    log_step_size: Any
    trace: Any


class idbd(NetworkOptimizer):
    r"""Incremental delta-bar-delta: every weight learns its own step size, by the correlation of its recent steps.

    For a linear unit with input $x_i$ and error $\delta$:

    $$\beta_i \mathrel{+}= \theta \delta x_i h_i \qquad \alpha_i = e^{\beta_i} \qquad
      w_i \mathrel{+}= \alpha_i \delta x_i$$
    $$h_i \leftarrow h_i \max(0, 1 - \alpha_i x_i^2) + \alpha_i \delta x_i$$

    In a network the direction of the weight, minus its gradient, stands for $\delta x_i$, and its entry in the diagonal
    of the loss's Gauss-Newton matrix for $x_i^2$. The step size that the learner is given is that of the start.

    **Arguments:**

    - `meta_step_size`: of the logarithms of step sizes ($\theta$).
    - `bounded`: keeps those logarithms at -10 or above and lets them change by at most 2 in a step, as the paper
      advises for practice; its own experiments do without.

    `update` needs `curvature`.

    ```python
    learner = Backprop(Network(20, hidden=()), step_size=0.05, optimizer=idbd(meta_step_size=0.01))
    ```

    Sutton (1992), "Adapting Bias by Gradient Descent: An Incremental Version of Delta-Bar-Delta".
    """

    meta_step_size: Hyperparameter = hyperparameter(default=0.01)
    bounded: bool = eqx.field(static=True, default=False, converter=check.plain)

    def __check_init__(self):
        check.number("meta_step_size", self.meta_step_size, low=0)
        check.flag("bounded", self.bounded)

    @property
    def needs(self) -> tuple[str, ...]:
        """What `update` needs."""
        return ("curvature",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        """The transformation with this step size at the start."""

        def init(params: Any) -> IDBDState:
            step_sizes = full_step_size(step_size, params)
            return IDBDState(jax.tree.map(jnp.log, step_sizes), jax.tree.map(jnp.zeros_like, params))

        def update(gradients: Any, state: IDBDState, params: Any = None, **extra: Any) -> tuple[Any, IDBDState]:
            (curvature,) = required(self, extra)
            logs = jax.tree.map(self._next_log, state.log_step_size, gradients, state.trace)
            steps = jax.tree.map(lambda log, gradient: -jnp.exp(log) * gradient, logs, gradients)
            keep = lambda log, own: jnp.maximum(0, 1 - jnp.exp(log) * own)
            trace = jax.tree.map(
                lambda h, log, own, step: h * keep(log, own) + step, state.trace, logs, curvature, steps
            )
            return steps, IDBDState(logs, trace)

        return with_extra_arguments(init, update)

    def _next_log(self, log: Any, gradient: Any, trace: Any) -> Any:
        change = -self.meta_step_size * gradient * trace
        return jnp.maximum(-10, log + jnp.clip(change, -2, 2)) if self.bounded else log + change
