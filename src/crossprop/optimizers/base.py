"""How big the step is: optimizers known by name, with the paper's constants, and those that see the whole network."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

MOMENTUM = 0.9

OPTIMIZERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": lambda step_size: optax.sgd(step_size, momentum=MOMENTUM),
    "rmsprop": lambda step_size: optax.rmsprop(step_size, decay=0.9, eps=1e-10, initial_scale=1.0),
    "adam": lambda step_size: optax.adam(step_size, b1=0.9, b2=0.999, eps=1e-8),
}

EXTRA_ARGUMENTS = {
    "key": "a key of JAX, new at every step",
    "curvature": "the diagonal of the Gauss-Newton matrix of the loss, shaped like the parameters: for half the "
    "squared error the sum over outputs of (dy/dw)^2, so x^2 for a linear unit",
}
"""What an optimizer can need besides gradients and parameters, as keyword arguments of `update`."""


class NetworkOptimizer(eqx.Module):
    """An optimizer whose one transformation sees all weights of a network, and what it `needs` besides gradients.

    It is a function from step size to an `optax.GradientTransformationExtraArgs`, with hyperparameters that are leaves
    of its pytree. The step size is a number, or a tree of numbers that begins like the tree of parameters, so that
    every matrix can have its own.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Names of keyword arguments of `update`: keys of `EXTRA_ARGUMENTS`."""

    @abstractmethod
    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        """The transformation with this step size."""


Optimizer = str | Callable[[Any], optax.GradientTransformation] | NetworkOptimizer


def transformation(optimizer: Optimizer, step_size: Any) -> optax.GradientTransformationExtraArgs:
    """The optax transformation of an optimizer, given by name or as a function."""
    build = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
    return optax.with_extra_args_support(build(step_size))


def with_extra_arguments(init: Any, update: Any) -> optax.GradientTransformationExtraArgs:
    """A transformation whose `update` takes keyword arguments besides gradients, state and parameters."""
    return optax.GradientTransformationExtraArgs(init, update)


def full_step_size(step_size: Any, params: Any) -> Any:
    """The step size of every parameter, shaped like it, from one for all or one per part of the tree."""
    full = lambda number: lambda part: jnp.full_like(part, number)
    return jax.tree.map(lambda number, part: jax.tree.map(full(number), part), step_size, params)


def required(optimizer: NetworkOptimizer, given: dict[str, Any]) -> Any:
    """The extra arguments that the optimizer needs, in the order of `needs`; a TypeError names one that is missing."""
    name = type(optimizer).__name__
    for argument in optimizer.needs:
        if given.get(argument) is None:
            raise TypeError(f"{name} needs update(..., {argument}=): {EXTRA_ARGUMENTS[argument]}")
    return [given[argument] for argument in optimizer.needs]
