"""A learner whose step sizes follow schedules."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key

from crossprop._support import checks as check
from crossprop.learners.base import Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import float_type

STEP_SIZES = ("step_size", "incoming_step_size", "memory_step_size")


class ScheduledState(NamedTuple):
    """The state of `Scheduled`."""

    inner: Any
    examples: Int[Array, ""]
    """The number of examples so far."""


class Scheduled(Wrapper):
    """A learner whose step sizes are functions of the number of examples so far, such as the schedules of optax.

    **Arguments:**

    - `learner`: any learner with the step sizes.
    - `step_size`, `incoming_step_size`, `memory_step_size`: functions from the number of examples so far to the
      step size of W, of U and of crossprop's memory; None keeps the learner's. One that the learner leaves unset
      follows that of W, as without a schedule.

    ```python
    fading = lambda examples: 0.03 * (1 + 16 * jnp.exp(-examples / 1024))
    learner = Scheduled(Crossprop(Network(inputs=20, hidden=50), 0.03, eta=0.5), memory_step_size=fading)
    ```

    It runs on the scan engine. `crossprop.optimizers.fading` is a schedule for U and W with hyperparameters, which a
    sweep can vary.
    """

    step_size: Any = eqx.field(default=None, static=True)
    incoming_step_size: Any = eqx.field(default=None, static=True)
    memory_step_size: Any = eqx.field(default=None, static=True)

    def __check_init__(self):
        for name, schedule in self._schedules().items():
            if not hasattr(self.learner, name):
                raise ValueError(f"{name} must be None for a learner without one, got {check.shown(self.learner)}")
            if not callable(schedule):
                raise TypeError(f"{name} must be a function of the number of examples, got {check.shown(schedule)}")
        if not self._schedules():
            raise ValueError(f"a schedule must be given, one of {', '.join(STEP_SIZES)}")
        self._at(0)

    def _schedules(self) -> dict[str, Any]:
        return {name: schedule for name in STEP_SIZES if (schedule := getattr(self, name)) is not None}

    def _at(self, examples: Any) -> Any:
        """The learner with the step sizes for this example."""
        sizes = {name: schedule(examples) for name, schedule in self._schedules().items()}
        return replace(self.learner, **{name: jnp.asarray(size, float_type()) for name, size in sizes.items()})

    def init(self, key: Key[Array, ""]) -> ScheduledState:
        return ScheduledState(self._at(0).init(key), jnp.zeros((), jnp.int32))

    @compiled_method
    def update(self, state: ScheduledState, x: Array, y: Array) -> tuple[ScheduledState, Outcome]:
        inner, outcome = self._at(state.examples).update(state.inner, x, y)
        return ScheduledState(inner, jnp.asarray(optax.safe_increment(state.examples))), outcome
