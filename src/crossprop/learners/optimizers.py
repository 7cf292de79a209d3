"""Optimizers known by name, with the paper's constants: how big the step is."""

from collections.abc import Callable
from typing import Any

import optax

from crossprop import _checks as check

Optimizer = str | Callable[[Any], optax.GradientTransformation]

MOMENTUM = 0.9

OPTIMIZERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": lambda step_size: optax.sgd(step_size, momentum=MOMENTUM),
    "rmsprop": lambda step_size: optax.rmsprop(step_size, decay=0.9, eps=1e-10, initial_scale=1.0),
    "adam": lambda step_size: optax.adam(step_size, b1=0.9, b2=0.999, eps=1e-8),
}


def transformation(optimizer: Optimizer, step_size: Any) -> optax.GradientTransformationExtraArgs:
    build = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
    return optax.with_extra_args_support(build(step_size))


def check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, str):
        check.choice("optimizer", optimizer, OPTIMIZERS)
    elif isinstance(optimizer, optax.GradientTransformation) or not callable(optimizer):
        raise TypeError(
            "optimizer must be a name or a function from step size to an optax transformation, such as optax.adam "
            f"or lambda step_size: optax.adamw(step_size, weight_decay=0.01), got {check.shown(optimizer)}"
        )
    else:
        try:
            made = optimizer(0.01)
        except Exception as problem:
            raise ValueError(f"optimizer must take a step size, got {problem!r} for optimizer(0.01)") from problem
        if not isinstance(made, optax.GradientTransformation):
            raise TypeError(
                f"optimizer must return an optax transformation, got {check.shown(made)} from {check.shown(optimizer)}"
            )
