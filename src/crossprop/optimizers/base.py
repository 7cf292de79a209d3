"""What an optimizer can be: a name, a function from step size to an optax transformation, or one that sees the whole
network."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from crossprop._support import checks as check
from crossprop.hyperparameters import Checked, Function, Name, unwrapped
from crossprop.registry import Registry

MOMENTUM = 0.9

OPTIMIZERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": lambda step_size: optax.sgd(step_size, momentum=MOMENTUM),
    "rmsprop": lambda step_size: optax.rmsprop(step_size, decay=0.9, eps=1e-10, initial_scale=1.0),
    "adam": lambda step_size: optax.adam(step_size, b1=0.9, b2=0.999, eps=1e-8),
}
"""Optimizers by name, with the paper's constants."""

EXTRA_ARGUMENTS = {
    "key": "a key of JAX, a new one at every step",
    "curvature": "the diagonal of the loss's Gauss-Newton matrix, shaped like the parameters: for half the squared "
    "error the sum over outputs of (dy/dw)^2, so x^2 for a linear unit",
    "hessian_product": "a function from a tree like the parameters to the product of the loss's Hessian with it",
    "delta": "the error at the outputs, target minus output: a number or an array",
    "fan_in": "the number of inputs of a unit, for all parameters or one for each part of their tree",
    "inputs_axis": "the axis along which a unit's inputs lie, for all parameters or one for each part of their tree",
}
"""What an optimizer can need besides gradients and parameters, as keyword arguments of `update`."""


class NetworkOptimizer(Checked):
    """An optimizer whose one transformation sees all weights of a network, and what it `needs` besides gradients.

    It is a function from step size to an `optax.GradientTransformationExtraArgs`, with hyperparameters that are leaves
    of its pytree. The step size is a number, or a tree of numbers that begins like the tree of parameters, so that
    every matrix can have its own.
    """

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The keyword arguments that `update` needs: keys of `EXTRA_ARGUMENTS`."""

    @abstractmethod
    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        """The transformation with this step size."""


Optimizer = str | Callable[[Any], optax.GradientTransformation] | NetworkOptimizer

NETWORK_OPTIMIZERS: Registry[NetworkOptimizer] = Registry("crossprop.optimizers", {})
"""Optimizers by name, for `optimizer="idbd"`, flags and TOML files. `crossprop.optimizers` fills it; register
one with `NETWORK_OPTIMIZERS["my-optimizer"] = MyOptimizer`, or in a package by an entry point of the group
`crossprop.optimizers`."""


def optimizer_names() -> tuple[str, ...]:
    """The names that a learner's `optimizer` can have."""
    return (*OPTIMIZERS, *NETWORK_OPTIMIZERS)


# The optimizer as a field of a learner, or of another optimizer.


def optimizer_field(argument: str = "optimizer", kw_only: bool = False) -> Any:
    """A field for an optimizer, sgd unless it is given. Hyperparameters of the optimizer are leaves of the pytree."""
    return eqx.field(default="sgd", converter=lambda given: as_optimizer(given, argument), kw_only=kw_only)


def as_optimizer(optimizer: Any, argument: str = "optimizer") -> Any:
    """An optimizer as a field keeps it: the names of `crossprop.optimizers` stand for these with their defaults, as
    does a table of a `name` and hyperparameters with those."""
    if isinstance(optimizer, Mapping):
        return _from_table(optimizer, argument)
    if isinstance(optimizer, str):
        return NETWORK_OPTIMIZERS[optimizer]() if optimizer in NETWORK_OPTIMIZERS else Name(optimizer)
    if isinstance(optimizer, NetworkOptimizer | Function | optax.GradientTransformation) or not callable(optimizer):
        return optimizer
    return Function(optimizer)


def _from_table(table: Mapping[str, Any], argument: str) -> Any:
    name, *further = table.get("name"), *(key for key in table if key != "name")
    check.choice(f"the name of {argument}", name, optimizer_names())
    if name not in OPTIMIZERS:
        return NETWORK_OPTIMIZERS.made(argument, table)
    if further:
        raise ValueError(f"{argument} {name!r} has no hyperparameters, got {further[0]!r}")
    return Name(name)


def check_optimizer(optimizer: Any, argument: str = "optimizer") -> None:
    """A ValueError or TypeError unless a learner can have this optimizer."""
    if isinstance(optimizer, str):
        check.choice(argument, optimizer, optimizer_names())
    elif isinstance(optimizer, NetworkOptimizer):
        for each in optimizer.needs:
            check.choice(f"what {type(optimizer).__name__} needs", each, EXTRA_ARGUMENTS)
    elif isinstance(optimizer, optax.GradientTransformation) or not callable(optimizer):
        raise TypeError(
            f"{argument} must be a name or a function from step size to an optax transformation, such as optax.adam "
            f"or lambda step_size: optax.adamw(step_size, weight_decay=0.01), got {check.shown(optimizer)}"
        )
    else:
        try:
            made = optimizer(0.01)
        except Exception as problem:
            raise ValueError(f"{argument} must take a step size, got {problem!r} for {argument}(0.01)") from problem
        if isinstance(made, NetworkOptimizer):
            name = type(made).__name__
            raise TypeError(f"{argument} must be an optimizer, such as {name}(), got the class {name} itself")
        if not isinstance(made, optax.GradientTransformation):
            raise TypeError(
                f"{argument} must return an optax transformation, got {check.shown(made)} from "
                f"{check.shown(unwrapped(optimizer))}"
            )


# Transformations.


def transformation(optimizer: Optimizer, step_size: Any) -> optax.GradientTransformationExtraArgs:
    """The optax transformation of an optimizer for one matrix, given by name or as a function."""
    build = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
    return optax.with_extra_args_support(build(step_size))


class PartStates(NamedTuple):
    """The states of an optimizer of single matrices, one for each part of the tree of parameters."""

    of_parts: tuple[Any, ...]


def transformation_of_tree(optimizer: Optimizer, step_size: Any) -> optax.GradientTransformationExtraArgs:
    """The transformation of any optimizer, with a step size for each part of the tree of parameters."""
    if isinstance(optimizer, NetworkOptimizer):
        return optimizer(step_size)
    step_sizes, structure = jax.tree.flatten(step_size)
    each = [transformation(optimizer, size) for size in step_sizes]

    def init(params: Any) -> PartStates:
        parts = zip(each, structure.flatten_up_to(params), strict=True)
        return PartStates(tuple(own.init(part) for own, part in parts))

    def update(gradients: Any, state: PartStates, params: Any = None, **extra: Any) -> tuple[Any, PartStates]:
        parts = zip(each, *map(structure.flatten_up_to, (gradients, params)), state.of_parts, strict=True)
        found = [own.update(gradient, kept, part, **extra) for own, gradient, part, kept in parts]
        return structure.unflatten([step for step, _ in found]), PartStates(tuple(kept for _, kept in found))

    return with_extra_arguments(init, update)


def with_extra_arguments(init: Any, update: Any) -> optax.GradientTransformationExtraArgs:
    """A transformation whose `update` takes keyword arguments besides gradients, state and parameters."""
    return optax.GradientTransformationExtraArgs(init, update)


def full_like(numbers: Any, params: Any) -> Any:
    """Arrays shaped like the parameters, filled with one number for all or with one for each part of the tree."""
    full = lambda number: lambda part: jnp.full_like(part, number)
    return jax.tree.map(lambda number, part: jax.tree.map(full(number), part), numbers, params)


def required(optimizer: NetworkOptimizer, given: dict[str, Any]) -> list[Any]:
    """The extra arguments that the optimizer needs, in the order of `needs`; a TypeError names one that is missing."""
    for argument in optimizer.needs:
        if given.get(argument) is None:
            raise TypeError(f"{type(optimizer).__name__} needs update(..., {argument}=): {EXTRA_ARGUMENTS[argument]}")
    return [given[argument] for argument in optimizer.needs]


def check_params(optimizer: NetworkOptimizer, params: Any) -> None:
    """A TypeError if `update` was called without parameters."""
    if params is None:
        raise TypeError(f"{type(optimizer).__name__} needs the parameters: update(gradients, state, params, ...)")
