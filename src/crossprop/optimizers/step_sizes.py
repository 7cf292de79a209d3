"""Optimizers that learn a step size for every weight."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.optimizers.base import Optimizer, full_like, required, with_extra_arguments


class DeltaBarDeltaState(NamedTuple):
    """The step size of every weight, and a running mean of its gradients."""

    step_size: Any
    mean: Any


class delta_bar_delta(Optimizer):
    r"""Delta-bar-delta: a weight's step size grows while its gradient keeps its sign, and shrinks where that changes.

    With $g$ the gradient and $\bar g$ the mean of those before it:

    $$\alpha \leftarrow \begin{cases} \alpha + \kappa & \bar g g > 0 \\ (1 - \phi) \alpha & \bar g g < 0 \\
      \alpha & \text{else} \end{cases} \qquad
      w \mathrel{-}= \alpha g \qquad \bar g \leftarrow \theta \bar g + (1 - \theta) g$$

    It was made for gradients of a whole set of examples. Of single ones it follows the noise; `idbd` is its form for
    these. The step size that the learner is given is that of the start.

    **Arguments:**

    - `increase`: added to a step size ($\kappa$). `decrease`: the share of it that is subtracted ($\phi$).
      The paper has others for every problem.
    - `decay`: of the mean ($\theta$), 0.7 in the paper.

    ```python
    learner = Backprop(Network(20, hidden=()), step_size=0.01, optimizer=delta_bar_delta(increase=1e-3))
    ```

    Jacobs (1988), "Increased Rates of Convergence Through Learning Rate Adaptation".
    """

    increase: Hyperparameter = hyperparameter(default=1e-3, low=0)
    decrease: Hyperparameter = hyperparameter(default=0.1, low=0, high=1)
    decay: Hyperparameter = hyperparameter(default=0.7, low=0, high=1, scale="decay")

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> DeltaBarDeltaState:
            return DeltaBarDeltaState(full_like(step_size, params), jax.tree.map(jnp.zeros_like, params))

        def update(gradients: Any, state: DeltaBarDeltaState, params: Any = None, **_: Any) -> Any:
            sizes = jax.tree.map(self._adapted, state.step_size, state.mean, gradients)
            steps = jax.tree.map(lambda size, g: -size * g, sizes, gradients)
            mean = jax.tree.map(lambda mean, g: self.decay * mean + (1 - self.decay) * g, state.mean, gradients)
            return steps, DeltaBarDeltaState(sizes, mean)

        return with_extra_arguments(init, update)

    def _adapted(self, size: Any, mean: Any, gradient: Any) -> Any:
        agreement = jnp.sign(mean) * jnp.sign(gradient)
        grown, shrunk = size + self.increase, size * (1 - self.decrease)
        return jnp.where(agreement > 0, grown, jnp.where(agreement < 0, shrunk, size))


class NLMSState(NamedTuple):
    """The mean of the squared norm, and the sum of the weights of the examples in it."""

    mean: Any
    weight: Any


class nlms(Optimizer):
    r"""Normalised least mean squares: the step size is divided by the squared norm of the inputs.

    For a linear unit with features $\phi$ and error $\delta$, where $\lambda$ is a running mean of
    $\lVert \phi \rVert^2$, this example included:

    $$w_j \mathrel{+}= \frac{\alpha}{\lambda} \delta \phi_j$$

    In a network the trace of the loss's Gauss-Newton matrix, over all weights that move, stands for the squared norm.

    **Arguments:**

    - `decay`: how much less an example counts in $\lambda$ with every later one. At 1 all count alike, as in Mahmood
      and Sutton (2013), the first 16.7 million in float32, after which $\lambda$ follows the later ones; at 0 it is the
      present squared norm, as in NLMS.

    `update` needs `curvature`.

    ```python
    learner = Frozen(Network(20, hidden=1000), step_size=0.1, optimizer=nlms())
    ```

    Mahmood and Sutton (2013), "Representation Search through Generate and Test".
    """

    decay: Hyperparameter = hyperparameter(default=1.0, low=0, high=1, scale="linear")

    needs = ("curvature",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> NLMSState:
            zero = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
            return NLMSState(zero, zero)

        def update(gradients: Any, state: NLMSState, params: Any = None, **extra: Any) -> tuple[Any, NLMSState]:
            (curvature,) = required(self, extra)
            square = optax.tree.sum(curvature)
            weight = self.decay * state.weight + 1
            mean = state.mean + (square - state.mean) / weight
            share = jnp.where(mean > 0, 1 / jnp.where(mean > 0, mean, 1), 0)
            sizes = jax.tree.map(lambda size: size * share, step_size)
            move = lambda size, part: jax.tree.map(lambda g: -size * g, part)
            return jax.tree.map(move, sizes, gradients), NLMSState(mean, weight)

        return with_extra_arguments(init, update)


class IDBDState(NamedTuple):
    """The logarithm of every step size, and the traces $h$, all shaped like the parameters."""

    log_step_size: Any
    trace: Any


class idbd(Optimizer):
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

    meta_step_size: Hyperparameter = hyperparameter(default=0.01, low=0)
    bounded: bool = hyperparameter(default=False)

    needs = ("curvature",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> IDBDState:
            step_sizes = full_like(step_size, params)
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


class AutostepState(NamedTuple):
    """The step size of every weight, the normalizer $v$ of its meta-gradient, and the trace $h$."""

    step_size: Any
    normalizer: Any
    trace: Any


class autostep(Optimizer):
    r"""Autostep: IDBD with its meta-gradients normalised, and step sizes that together do not overshoot.

    For a linear unit with input $x_i$ and error $\delta$, with $m_i = \delta x_i h_i$:

    $$v_i \leftarrow \max(|m_i|, v_i + \tfrac{1}{\tau} \alpha_i x_i^2 (|m_i| - v_i)) \qquad
      \alpha_i \leftarrow \alpha_i e^{\mu m_i / v_i} \text{ where } v_i \neq 0$$
    $$M = \max(\textstyle\sum_i \alpha_i x_i^2, 1) \qquad \alpha_i \leftarrow \alpha_i / M \qquad
      w_i \mathrel{+}= \alpha_i \delta x_i \qquad h_i \leftarrow h_i (1 - \alpha_i x_i^2) + \alpha_i \delta x_i$$

    In a network the direction of the weight, minus its gradient, stands for $\delta x_i$, and its entry in the diagonal
    of the loss's Gauss-Newton matrix for $x_i^2$. The step size that the learner is given is that of the start.

    **Arguments:**

    - `meta_step_size`: of the logarithms of step sizes ($\mu$).
    - `horizon`: over how many examples the normalizer fades, at step sizes that do not overshoot ($\tau$).
    - `bound`: what $M$ sums over; the paper has one linear unit, where the two are the same. `"network"` sums over all
      weights, which keeps the step as a whole from overshooting. `"unit"` takes every unit of the network for a linear
      unit of its own, and sums over the weights into it.

    `update` needs `curvature`, and `inputs_axis` if `bound="unit"`.

    ```python
    learner = Backprop(Network(20, hidden=()), step_size=0.01, optimizer=autostep())
    ```

    Mahmood, Sutton, Degris and Pilarski (2012), "Tuning-free Step-size Adaptation".
    """

    meta_step_size: Hyperparameter = hyperparameter(default=0.01, low=0)
    horizon: Hyperparameter = hyperparameter(default=10_000.0, low=1)
    bound: str = hyperparameter(default="network", choices=("unit", "network"))

    @property
    def needs(self) -> tuple[str, ...]:
        return ("curvature", "inputs_axis") if self.bound == "unit" else ("curvature",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> AutostepState:
            zeros = jax.tree.map(jnp.zeros_like, params)
            return AutostepState(full_like(step_size, params), zeros, zeros)

        def update(gradients: Any, state: AutostepState, params: Any = None, **extra: Any) -> tuple[Any, AutostepState]:
            curvature, *axes = required(self, extra)
            sizes, normalizer, trace = state
            meta = jax.tree.map(lambda g, h: -g * h, gradients, trace)
            normalizer = jax.tree.map(self._normalizer, normalizer, meta, sizes, curvature)
            sizes = jax.tree.map(self._grown, sizes, meta, normalizer)
            effective = jax.tree.map(jnp.multiply, sizes, curvature)
            total = self._total(effective, *axes)
            sizes = jax.tree.map(lambda size, sum_of_all: size / jnp.maximum(sum_of_all, 1), sizes, total)
            steps = jax.tree.map(lambda size, g: -size * g, sizes, gradients)
            trace = jax.tree.map(lambda h, a, c, step: h * (1 - a * c) + step, trace, sizes, curvature, steps)
            return steps, AutostepState(sizes, normalizer, trace)

        return with_extra_arguments(init, update)

    def _normalizer(self, v: Any, meta: Any, size: Any, curvature: Any) -> Any:
        return jnp.maximum(jnp.abs(meta), v + size * curvature / self.horizon * (jnp.abs(meta) - v))

    def _grown(self, size: Any, meta: Any, v: Any) -> Any:
        return jnp.where(v == 0, size, size * jnp.exp(self.meta_step_size * meta / jnp.where(v == 0, 1, v)))

    def _total(self, effective: Any, inputs_axis: Any = None) -> Any:
        """The sum of the step sizes of every weight's unit, or of the network; shaped like the weights."""
        like = lambda total, each: jnp.broadcast_to(total, each.shape)
        if self.bound == "network":
            total = jnp.stack([jnp.sum(each) for each in jax.tree.leaves(effective)]).sum()
            return jax.tree.map(lambda each: like(total, each), effective)
        of_units = lambda axis: lambda each: like(jnp.sum(each, axis=axis, keepdims=True), each)
        return jax.tree.map(lambda axis, part: jax.tree.map(of_units(axis), part), inputs_axis, effective)


class SMDState(NamedTuple):
    """The step size of every weight, and how far the weights would have moved for larger ones ($v$)."""

    step_size: Any
    trace: Any


class smd(Optimizer):
    r"""Stochastic meta-descent: every weight learns its step size, with the loss's curvature taken in full.

    With $g$ the gradient and $H$ the Hessian of the loss at the example:

    $$p \leftarrow p \max(\rho, 1 - \mu v g) \qquad w \leftarrow w - p g \qquad
      v \leftarrow \lambda v - p (g + \lambda H v)$$

    Products are by element, but for $H v$. The step size that the learner is given is that of the start. For a linear
    unit and $\lambda = 1$ it is IDBD, but for the products of different weights in $H$. With another rule than
    backprop, the rule's direction stands for $-g$, while $H$ is still that of the loss.

    **Arguments:**

    - `meta_step_size`: of the step sizes ($\mu$). `decay`: of the trace ($\lambda$).
    - `floor`: the least factor of a step size ($\rho$), 1/2 in the paper.

    `update` needs `hessian_product`, a function; in optax the Gauss-Newton matrix, which Schraudolph (2002) prefers,
    can stand for the Hessian there.

    ```python
    learner = Backprop(Network(20, hidden=30), step_size=0.001, optimizer=smd(meta_step_size=0.01))
    ```

    Schraudolph (1999), "Local Gain Adaptation in Stochastic Gradient Descent"; Schraudolph (2002), "Fast Curvature
    Matrix-Vector Products for Second-Order Gradient Descent".
    """

    meta_step_size: Hyperparameter = hyperparameter(default=0.01, low=0)
    decay: Hyperparameter = hyperparameter(default=0.99, low=0, high=1, scale="decay")
    floor: Hyperparameter = hyperparameter(default=0.5, low=0, high=1, scale="linear")

    needs = ("hessian_product",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> SMDState:
            return SMDState(full_like(step_size, params), jax.tree.map(jnp.zeros_like, params))

        def update(gradients: Any, state: SMDState, params: Any = None, **extra: Any) -> tuple[Any, SMDState]:
            (hessian_product,) = required(self, extra)
            mu, decay = self.meta_step_size, self.decay
            grown = lambda p, v, g: p * jnp.maximum(self.floor, 1 - mu * v * g)
            sizes = jax.tree.map(grown, state.step_size, state.trace, gradients)
            steps = jax.tree.map(lambda p, g: -p * g, sizes, gradients)
            bent = lambda v, step, p, product: decay * v + step - p * decay * product
            trace = jax.tree.map(bent, state.trace, steps, sizes, hessian_product(state.trace))
            return steps, SMDState(sizes, trace)

        return with_extra_arguments(init, update)
