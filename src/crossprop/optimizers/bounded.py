"""Optimizers that keep weights near where they began, within bounds, or steps from overshooting."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.optimizers.base import (
    Optimizer,
    check_params,
    full_like,
    optimizer_field,
    required,
    with_extra_arguments,
)


class clip_weights(Optimizer):
    r"""Weight clipping: after each step of `base`, weights and biases are kept within bounds by their fan-in.

    $$w \leftarrow \mathrm{clip}(w + \Delta w, -b, b) \qquad b = \kappa / \sqrt{\text{fan-in}}$$

    The fan-in is the number of a unit's inputs, not counting the constant of its bias.

    **Arguments:**

    - `kappa`: how many times the bound of usual uniform initial weights. The paper has 1 to 5.
    - `base`: the optimizer whose steps are taken, given like the `optimizer` of a learner.

    `update` needs `fan_in` and the parameters.

    ```python
    learner = Backprop(
        Network(784, hidden=(300, 150), outputs=10, loss="softmax", activation="leaky_relu", incoming_scale="kaiming"),
        1e-4,
        optimizer=clip_weights(1.0, base="adam"),
    )
    ```

    Elsayed, Lan, Lyle and Mahmood (2024), "Weight Clipping for Deep Continual and Reinforcement Learning".
    """

    kappa: Hyperparameter = hyperparameter(default=1.0, above=0)
    base: Any = optimizer_field("base")

    needs = ("fan_in",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        def clip(steps: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
            (fan_in,) = required(self, extra)
            check_params(self, params)
            bounds = full_like(jax.tree.map(lambda count: self.kappa / count**0.5, fan_in), params)
            return jax.tree.map(lambda d, w, b: jnp.clip(w + d, -b, b) - w, steps, params, bounds), state

        return optax.chain(self.base(step_size), with_extra_arguments(optax.init_empty_state, clip))


class l2_init(Optimizer):
    r"""L2 regularisation towards the initial weights $w_0$: the gradient that `base` sees is $g + \lambda (w - w_0)$.

    **Arguments:**

    - `strength`: $\lambda$, that of half the squared distance; where a penalty is written without the half, as in the
      paper, it is twice that penalty's.
    - `base`: the optimizer that gets the gradient, given like the `optimizer` of a learner.

    `update` needs the parameters; the initial ones are in its state.

    ```python
    learner = Backprop(Network(20, hidden=500), 0.001, optimizer=l2_init(1e-2, base="adam"))
    ```

    Kumar, Marklund and Van Roy (2023), "Maintaining Plasticity in Continual Learning via Regenerative Regularization".
    """

    strength: Hyperparameter = hyperparameter(default=0.01, low=0)
    base: Any = optimizer_field("base")

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        def pull(gradients: Any, initial: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
            check_params(self, params)
            pulled = lambda g, w, w0: g + self.strength * (w - w0)
            return jax.tree.map(pulled, gradients, params, initial), initial

        copied = lambda params: jax.tree.map(jnp.asarray, params)
        return optax.chain(with_extra_arguments(copied, pull), self.base(step_size))


class obgd(Optimizer):
    r"""Overshooting-bounded gradient descent: one step size for all weights, smaller where the step would overshoot.

    With $\delta$ the error and $z = -g / |\delta|$, the slope of the output by the weights:

    $$M = \kappa \max(|\delta|, 1) \sum \alpha |z| \qquad w \leftarrow w - \frac{\alpha}{\max(M, 1)} g$$

    The sum is over all weights of the network. With several outputs the algorithm is that for the one output along the
    error, whose error is the norm of $\delta$. There are no eligibility traces: in supervised learning the paper's
    discount is 0.

    **Arguments:**

    - `kappa`: how far from overshooting to stay, above 1 in the paper.

    The paper has step size 1, sparse initial weights, layer norm and leaky ReLU:
    `Network(..., activation="leaky_relu", layer_norm=True, incoming_scale="sparse", outgoing_scale="sparse")`.

    `update` needs `delta`.

    ```python
    learner = Backprop(Network(20, hidden=(128, 128), layer_norm=True), 1.0, optimizer=obgd(kappa=2))
    ```

    Elsayed, Vasan and Mahmood (2024), "Streaming Deep Reinforcement Learning Finally Works".
    """

    kappa: Hyperparameter = hyperparameter(default=2.0, above=0)

    needs = ("delta",)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:

        def update(gradients: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
            (delta,) = required(self, extra)
            error = jnp.sqrt(jnp.sum(jnp.square(delta)))
            steps = jax.tree.map(lambda size, g: -size * g, full_like(step_size, gradients), gradients)
            total = jnp.stack([jnp.sum(jnp.abs(each)) for each in jax.tree.leaves(steps)]).sum()
            slopes = jnp.where(error > 0, total / jnp.where(error > 0, error, 1), 0)
            overshoot = self.kappa * jnp.maximum(error, 1) * slopes
            return jax.tree.map(lambda step: step / jnp.maximum(overshoot, 1), steps), state

        return with_extra_arguments(optax.init_empty_state, update)
