"""Metrics: numbers about every example, for `run(..., metrics={"plasticity": metrics.plasticity})`.

A metric is any function `f(outcome, y)` that returns a number; its record is the mean over the window, in the float
type of the loss. One that is marked by `after_learning` is called as `f(outcome, y, after)`, where `after` is
what the learner makes of the same example when it has learned from it. That is one more forward pass per example, on
the scan engine.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from crossprop.learners import Outcome

AnyMetric = TypeVar("AnyMetric", bound=Callable[..., Any])
LEAST_LOSS = 1e-8


def after_learning(metric: AnyMetric) -> AnyMetric:
    """Decorator for a metric that also sees the outcome of the same example after learning from it."""
    setattr(metric, "after_learning", True)  # noqa: B010, an attribute that functions do not declare
    return metric


def sees_after(metric: Callable[..., Any]) -> bool:
    """Whether a metric also sees the outcome after learning."""
    return getattr(metric, "after_learning", False)


@after_learning
def plasticity(outcome: Outcome, y: Float[Array, " outputs"], after: Outcome) -> Float[Array, ""]:
    """The share of an example's loss removed by learning from it: 1 minus the loss after learning divided by
    that before, between 0 and 1.

    Elsayed and Mahmood (2024), "Addressing Loss of Plasticity and Catastrophic Forgetting in Continual Learning".
    """
    del y
    return jnp.clip(1 - after.loss / jnp.maximum(outcome.loss, LEAST_LOSS), 0, 1)
