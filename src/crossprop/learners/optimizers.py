"""The optimizer of a learner: a name, a function from step size to an optax transformation, or one of
`crossprop.optimizers`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import optax

from crossprop import _checks as check
from crossprop.hyperparameters import Function, Name, unwrapped
from crossprop.optimizers import NETWORK_OPTIMIZERS
from crossprop.optimizers.base import (
    EXTRA_ARGUMENTS,
    MOMENTUM,
    OPTIMIZERS,
    NetworkOptimizer,
    Optimizer,
    transformation,
)

__all__ = ["MOMENTUM", "OPTIMIZERS", "Optimizer", "check_optimizer", "optimizer_field", "transformation"]

NAMES = (*OPTIMIZERS, *NETWORK_OPTIMIZERS)


def optimizer_field() -> Any:
    """The field of a learner for its optimizer, sgd unless it is given. Hyperparameters of the optimizer are leaves of
    the learner's pytree."""
    return eqx.field(default="sgd", converter=as_optimizer)


def as_optimizer(optimizer: Any) -> Any:
    """An optimizer as a learner keeps it: the names of `crossprop.optimizers` stand for these with their defaults, as
    does a table of a `name` and hyperparameters with those."""
    if isinstance(optimizer, Mapping):
        check.choice("the name of optimizer", optimizer.get("name"), NAMES)
        values = {key: value for key, value in optimizer.items() if key != "name"}
        return _built(optimizer["name"], values)
    if isinstance(optimizer, str):
        return NETWORK_OPTIMIZERS[optimizer]() if optimizer in NETWORK_OPTIMIZERS else Name(optimizer)
    if isinstance(optimizer, NetworkOptimizer | Function | optax.GradientTransformation) or not callable(optimizer):
        return optimizer
    return Function(optimizer)


def _built(name: str, values: dict[str, Any]) -> Any:
    if name in OPTIMIZERS and not values:
        return Name(name)
    known = [] if name in OPTIMIZERS else [each.name for each in dataclasses.fields(NETWORK_OPTIMIZERS[name])]
    for key in values:
        if not known:
            raise ValueError(f"optimizer {name!r} has no hyperparameters, got {key!r}")
        check.choice(f"a hyperparameter of optimizer {name!r}", key, known)
    return NETWORK_OPTIMIZERS[name](**values)


def check_optimizer(optimizer: Any) -> None:
    """A ValueError or TypeError unless a learner can have this optimizer."""
    if isinstance(optimizer, str):
        check.choice("optimizer", optimizer, NAMES)
    elif isinstance(optimizer, NetworkOptimizer):
        for argument in optimizer.needs:
            check.choice(f"what {type(optimizer).__name__} needs", argument, EXTRA_ARGUMENTS)
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
                f"optimizer must return an optax transformation, got {check.shown(made)} from "
                f"{check.shown(unwrapped(optimizer))}"
            )
