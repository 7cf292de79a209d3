"""Several step sizes side by side; the one with the least recent loss answers."""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import Hyperparameter, as_numbers, hyperparameter
from crossprop.learners.base import Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import float_type

STEP_SIZES = (0.001, 0.004, 0.016, 0.064, 0.256)


class BestState(NamedTuple):
    """The state of `Best`."""

    copies: Any
    """The inner learner's states, one per step size along the first axis."""
    losses: Float[Array, " step_sizes"]
    """Their discounted mean losses."""

    @property
    def best(self) -> Array:
        """The index of the step size that answers; its loss is finite."""
        return jnp.argmin(jnp.where(jnp.abs(self.losses) < jnp.inf, self.losses, jnp.inf))

    @property
    def inner(self) -> Any:
        """The inner learner's state with the step size that answers."""
        return _chosen(self.copies, self.best)


class Best(Wrapper):
    r"""A learner with several step sizes side by side; the one with the least recent loss answers.

    Every copy begins with the same weights and learns from every example. The copy with the least discounted mean loss
    $\ell$ before an example gives the outputs for it:

    $$\ell_m \leftarrow (1 - 1/T) \ell_m + L_m / T$$

    A copy that has diverged answers no more. All copies are one program, which costs about as much as the learner with
    as many times its hidden units.

    **Arguments:**

    - `learner`: any learner with a `step_size`, which is replaced.
    - `step_sizes`: of the copies.
    - `horizon`: over how many examples losses fade ($T$), at least 1.

    ```python
    learner = Best(Foresight(Network(inputs=20, hidden=50), step_size=0.01), step_sizes=(0.001, 0.01, 0.1))
    ```
    """

    replaces: ClassVar[tuple[str, ...]] = ("step_size",)

    step_sizes: tuple[Hyperparameter, ...] = eqx.field(default=STEP_SIZES, converter=as_numbers)
    horizon: Hyperparameter = hyperparameter(
        default=300.0, low=1, help="Over how many examples the losses fade by which the best step size is chosen"
    )

    def __check_init__(self):
        if not hasattr(self.learner, "step_size"):
            raise ValueError(f"learner must have a step_size, got {check.shown(self.learner)}")
        if not isinstance(self.step_sizes, tuple) or not self.step_sizes:
            raise ValueError(f"step_sizes must be a tuple of numbers, at least one, got {check.shown(self.step_sizes)}")
        for at, step_size in enumerate(self.step_sizes):
            check.number(f"step_sizes[{at}]", step_size, above=0)

    def init(self, key: Key[Array, ""]) -> BestState:
        copies = jax.vmap(lambda step_size: self._copy(step_size).init(key))(jnp.array(self.step_sizes))
        return BestState(copies, jnp.zeros(len(self.step_sizes), float_type()))

    @compiled_method
    def update(self, state: BestState, x: Array, y: Array) -> tuple[BestState, Outcome]:
        learned = jax.vmap(lambda step_size, copy: self._copy(step_size).update(copy, x, y))
        copies, outcomes = learned(jnp.array(self.step_sizes), state.copies)
        losses = state.losses + (outcomes.loss - state.losses) / self.horizon
        return BestState(copies, losses.astype(state.losses.dtype)), _chosen(outcomes, state.best)

    def _copy(self, step_size: Any) -> Any:
        return replace(self.learner, step_size=step_size)


def _chosen(copies: Any, which: Array) -> Any:
    return jax.tree.map(lambda values: values[which], copies)
