"""Optimizers that keep weights moving: by noise where they are of little use, or everywhere."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from crossprop.hyperparameters import LONGEST, Hyperparameter, hyperparameter
from crossprop.optimizers.base import (
    Optimizer,
    check_params,
    full_like,
    optimizer_field,
    required,
    with_extra_arguments,
)


class UPGDState(NamedTuple):
    """The running mean of the utility of every weight, and the number of steps."""

    utility: Any
    count: Any


class upgd(Optimizer):
    r"""Utility-based perturbed gradient descent: noise and steps for weights of little use, rest for useful ones.

    With $g$ the gradient, $\xi$ standard normal noise and $t$ the number of the step:

    $$u \leftarrow \beta u + (1 - \beta) (-g w) \qquad s = \mathrm{sigmoid}(u / \max u)$$
    $$w \leftarrow (1 - \alpha \lambda) w - \alpha (g + \sigma \xi)(1 - s)$$

    The utility $u$ is the paper's first-order one; the greatest is that of all weights of the network. The paper
    corrects both in the fraction for their beginning at 0, by $1 / (1 - \beta^t)$, which cancels.

    **Arguments:**

    - `sigma`: the standard deviation of the noise. `utility_decay`: of the running mean of utilities ($\beta$).
      `weight_decay`: $\lambda$. The defaults are those of the authors' README; in the paper's experiments with
      input-permuted MNIST they are 0.1, 0.9999 and 0.01, with step size 0.01.
    - `protecting`: False leaves the gradient alone, and has $g + \sigma \xi (1 - s)$ for $(g + \sigma \xi)(1 - s)$.
    - `as_run`: True leaves out the correction of the greatest utility, as the authors' code does, which makes a
      difference in the first steps: $s = \mathrm{sigmoid}(u / ((1 - \beta^t) \max u))$. The code in their README also
      doubles the last term: double the step size and halve `weight_decay` for that.

    Where the greatest utility is 0, as it is when all gradients are, it counts as 1: the authors' code gives NaN.

    `update` needs `key` and the parameters.

    ```python
    learner = Backprop(Network(784, hidden=(300, 150), outputs=10, loss="softmax"), 0.01, optimizer=upgd(sigma=0.1))
    ```

    Elsayed and Mahmood (2024), "Addressing Loss of Plasticity and Catastrophic Forgetting in Continual Learning".
    """

    sigma: Hyperparameter = hyperparameter(default=0.001, low=0)
    utility_decay: Hyperparameter = hyperparameter(default=0.999, low=0, high=LONGEST, scale="decay")
    weight_decay: Hyperparameter = hyperparameter(default=0.001, low=0)
    protecting: bool = hyperparameter(default=True)
    as_run: bool = hyperparameter(default=False)

    needs = ("key",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def init(params: Any) -> UPGDState:
            return UPGDState(jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))

        def update(gradients: Any, state: UPGDState, params: Any = None, **extra: Any) -> tuple[Any, UPGDState]:
            (key,) = required(self, extra)
            check_params(self, params)
            decay = self.utility_decay
            count: Any = optax.safe_increment(state.count)
            utility = jax.tree.map(lambda u, g, w: decay * u - (1 - decay) * g * w, state.utility, gradients, params)
            greatest = jnp.stack([jnp.max(each) for each in jax.tree.leaves(utility)]).max()
            correction = 1 - decay ** count.astype(greatest.dtype) if self.as_run else 1
            scale = jnp.where(greatest == 0, 1, greatest) * correction
            steps = jax.tree.map(
                lambda size, g, noise, u, w: -size * (self._direction(g, noise, u / scale) + self.weight_decay * w),
                full_like(step_size, params),
                gradients,
                optax.tree.random_like(key, params),
                utility,
                params,
            )
            return steps, UPGDState(utility, count)

        return with_extra_arguments(init, update)

    def _direction(self, gradient: Any, noise: Any, utility: Any) -> Any:
        rest = 1 - jax.nn.sigmoid(utility)
        return (gradient + self.sigma * noise) * rest if self.protecting else gradient + self.sigma * noise * rest


class shrink_perturb(Optimizer):
    r"""Shrink and perturb, at every step: all weights shrink a little, and get noise.

    With $\Delta w$ the step of `base` and $\xi$ standard normal noise:

    $$w \leftarrow (1 - s) w + \Delta w + \sigma \xi$$

    **Arguments:**

    - `shrink`: $s$. `sigma`: the standard deviation of the noise.
    - `by_fan_in`: True divides the noise of a weight by the root of its unit's fan-in, the scale of usual initial
      weights, so that `sigma` is relative to these.
    - `base`: the optimizer whose steps are taken, given like the `optimizer` of a learner.

    Ash and Adams shrink and perturb once, before new data. Online, Dohare et al. (2024) add noise of 1e-5 at each step,
    beside L2 regularisation; Elsayed and Mahmood (2024) have $s = \alpha \lambda$ and noise times $\alpha$; Kumar et
    al. (2023) have $s$ of 1e-4, shrink the step too, and for the noise take 0.01 of weights drawn anew.

    `update` needs `key` and the parameters, and `fan_in` if `by_fan_in`.

    ```python
    learner = Backprop(Network(20, hidden=500), 0.001, optimizer=shrink_perturb(1e-4, base="adam"))
    ```

    Ash and Adams (2020), "On Warm-Starting Neural Network Training".
    """

    shrink: Hyperparameter = hyperparameter(default=1e-4, low=0, high=1)
    sigma: Hyperparameter = hyperparameter(default=1e-5, low=0)
    base: Any = optimizer_field("base")
    by_fan_in: bool = hyperparameter(default=False)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("key", "fan_in") if self.by_fan_in else ("key",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        def perturb(steps: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
            key, *_ = required(self, extra)
            fan_in = extra["fan_in"] if self.by_fan_in else 1
            check_params(self, params)
            noise = optax.tree.random_like(jax.random.fold_in(key, 1), params)  # the base draws from the key itself
            deviations = full_like(jax.tree.map(lambda count: self.sigma / count**0.5, fan_in), params)
            change = lambda step, w, deviation, drawn: step - self.shrink * w + deviation * drawn
            return jax.tree.map(change, steps, params, deviations, noise), state

        return optax.chain(self.base(step_size), with_extra_arguments(optax.init_empty_state, perturb))
