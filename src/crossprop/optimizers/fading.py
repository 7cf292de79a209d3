"""A step size that fades."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.optimizers.base import Optimizer, optimizer_field, with_extra_arguments


class fading(Optimizer):
    r"""Steps that are larger at first: those of `base`, times $1 + s \exp(-t / T)$ at step $t$, which begins at 0.

    It is the control for rules that take larger steps early.

    **Arguments:**

    - `start`: $s$, so that the first step is $1 + s$ times that of `base`.
    - `over`: $T$, the number of steps.
    - `weights`: whose steps fade: "incoming" (of all hidden layers), "outgoing", or "all". In plain optax the
      parameters are then a tuple, whose last part are the outgoing weights. Crossprop's memory keeps its step size.
    - `base`: the optimizer whose steps are taken, given like the `optimizer` of a learner.

    ```python
    learner = Backprop(Network(20, hidden=500), 0.001, optimizer=fading(16, over=1024))
    ```
    """

    start: Hyperparameter = hyperparameter(default=16.0, low=0)
    over: Hyperparameter = hyperparameter(default=1024.0, above=0)
    weights: str = hyperparameter(default="incoming", choices=("incoming", "outgoing", "all"))
    base: Any = optimizer_field("base")

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        def fade(steps: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
            factor = lambda dtype: 1 + self.start * jnp.exp(-state.count.astype(dtype) / self.over)
            faded = lambda part: jax.tree.map(lambda step: step * factor(step.dtype), part)
            if self.weights == "all":
                steps = faded(steps)
            elif not isinstance(steps, tuple):
                raise TypeError(f"fading with weights={self.weights!r} needs a tuple of parameters, got {type(steps)}")
            elif self.weights == "outgoing":
                steps = (*steps[:-1], faded(steps[-1]))
            else:
                steps = (*faded(steps[:-1]), steps[-1])
            return steps, optax.ScaleByScheduleState(optax.safe_increment(state.count))

        init = lambda params: optax.ScaleByScheduleState(jnp.zeros((), jnp.int32))
        return optax.chain(self.base(step_size), with_extra_arguments(init, fade))
