"""The contract of an optimizer: a function from step sizes to one optax transformation of all weights."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from wadler_lindig import pdoc  # what equinox prints modules with

from crossprop._support import checks as check
from crossprop.hyperparameters import Checked, given_for
from crossprop.registry import Registry

MOMENTUM = 0.9

EXTRA_ARGUMENTS = {
    "key": "a key of JAX, a new one at every step",
    "curvature": "the diagonal of the loss's Gauss-Newton matrix, shaped like the parameters: for half the squared "
    "error the sum over outputs of (dy/dw)^2, so x^2 for a linear unit",
    "hessian_product": "a function from a tree like the parameters to the product of the loss's Hessian with it",
    "delta": "the error at the outputs, target minus output: a number or an array",
    "directions": "a function from an error at the outputs to the directions of descent for it",
    "fan_in": "the number of inputs of a unit, for all parameters or one for each part of their tree",
    "inputs_axis": "the axis along which a unit's inputs lie, for all parameters or one for each part of their tree",
}
"""The keyword arguments of `update` that an optimizer can need besides gradients and parameters."""


class Optimizer(Checked):
    """A function from step sizes to one transformation of all weights of a network.

    Its hyperparameters are leaves of its pytree. The step size is a number, or a tree of numbers that begins like the
    tree of parameters, so that every matrix can have its own. Engines read the class attributes. An optimizer around
    another has it in the field `base`.
    """

    elementwise = False
    """Whether a weight's step depends on that weight alone: on its gradients, its values and the step size."""
    momentum = None
    """If the step of a gradient is minus the step size times it, and this share of a step follows again at the next
    example, that share: 0 for plain descent."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The keyword arguments that `update` needs besides gradients and parameters: keys of `EXTRA_ARGUMENTS`. Those of a
    `base` are added to them."""

    def __check_init__(self):
        if (base := getattr(self, "base", None)) is not None:
            check_optimizer(base, "base")

    @abstractmethod
    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        """The transformation with this step size."""


def needs_of(optimizer: Optimizer) -> set[str]:
    """The keyword arguments that an optimizer needs, or the one that it is around."""
    base = getattr(optimizer, "base", None)
    return {*optimizer.needs} | (set() if base is None else needs_of(base))


class PartStates(NamedTuple):
    """The states of an optimizer of single matrices, one for each part of the tree of parameters."""

    of_parts: tuple[Any, ...]


class Optax(Optimizer):
    """A function from step size to an optax transformation, which every matrix of weights has for itself.

    It is compared, hashed and shown as the function, or by its `name`. `elementwise` and `momentum` are as in
    `Optimizer`.
    """

    function: Callable[[Any], optax.GradientTransformation] = eqx.field(static=True)
    name: str | None = eqx.field(static=True, default=None)
    elementwise: bool = eqx.field(static=True, default=False)
    momentum: float | None = eqx.field(static=True, default=None)

    @property
    def __given__(self) -> Any:
        return self.name or self.function

    def of_matrix(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        return optax.with_extra_args_support(self.function(step_size))

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        step_sizes, structure = jax.tree.flatten(step_size)
        each = [self.of_matrix(size) for size in step_sizes]

        def init(params: Any) -> PartStates:
            parts = zip(each, structure.flatten_up_to(params), strict=True)
            return PartStates(tuple(transform.init(part) for transform, part in parts))

        def update(gradients: Any, state: PartStates, params: Any = None, **extra: Any) -> tuple[Any, PartStates]:
            parts = zip(each, *map(structure.flatten_up_to, (gradients, params)), state.of_parts, strict=True)
            steps, kept = [], []
            for transform, gradient, part, before in parts:
                step, after = transform.update(gradient, before, part, **extra)
                steps.append(step)
                kept.append(after)
            return structure.unflatten(steps), PartStates(tuple(kept))

        return with_extra_arguments(init, update)

    def __eq__(self, other: object) -> bool:
        return self.__given__ == given_for(other)

    def __hash__(self) -> int:
        return hash(self.__given__)

    def __repr__(self) -> str:
        return repr(self.__given__)

    def __pdoc__(self, **options: Any) -> Any:
        return pdoc(self.__given__, **options)


def _momentum(step_size: Any) -> optax.GradientTransformation:
    return optax.sgd(step_size, momentum=MOMENTUM)


def _rmsprop(step_size: Any) -> optax.GradientTransformation:
    return optax.rmsprop(step_size, decay=0.9, eps=1e-10, initial_scale=1.0)


def _adam(step_size: Any) -> optax.GradientTransformation:
    return optax.adam(step_size, b1=0.9, b2=0.999, eps=1e-8)


def _adadelta(step_size: Any) -> optax.GradientTransformation:
    return optax.chain(optax.scale_by_adadelta(rho=0.95, eps=1e-6), optax.scale_by_learning_rate(step_size))


OPTIMIZERS: Registry[Optimizer] = Registry(
    "crossprop.optimizers",
    {
        "sgd": lambda: Optax(optax.sgd, "sgd", elementwise=True, momentum=0.0),
        "momentum": lambda: Optax(_momentum, "momentum", elementwise=True, momentum=MOMENTUM),
        "rmsprop": lambda: Optax(_rmsprop, "rmsprop", elementwise=True),
        "adam": lambda: Optax(_adam, "adam", elementwise=True),
        "adadelta": lambda: Optax(_adadelta, "adadelta", elementwise=True),
    },
)
"""Every optimizer by name: these, which have the constants of their papers, and those that `crossprop.optimizers` adds.
Register one with `OPTIMIZERS["my-optimizer"] = MyOptimizer`, or by an entry point of `crossprop.optimizers`."""

KNOWN = (
    Optax(optax.sgd, elementwise=True, momentum=0.0),
    Optax(optax.rmsprop, elementwise=True),
    Optax(optax.adam, elementwise=True),
)
"""Functions of optax with known properties."""


# The optimizer as a field of a learner, or of another optimizer.


def optimizer_field(argument: str = "optimizer", kw_only: bool = False) -> Any:
    """A field for an optimizer, by default sgd."""
    return eqx.field(default="sgd", converter=lambda given: as_optimizer(given, argument), kw_only=kw_only)


def as_optimizer(given: Any, argument: str = "optimizer") -> Any:
    """An optimizer from its name, from a table of a `name` and hyperparameters, or from a function of optax."""
    if isinstance(given, str | Mapping):
        return OPTIMIZERS.made(argument, given)
    if isinstance(given, Optimizer | optax.GradientTransformation) or not callable(given):
        return given
    function: Any = given
    return next((optimizer for optimizer in KNOWN if optimizer.function is given), Optax(function))


def check_optimizer(optimizer: Any, argument: str = "optimizer") -> None:
    """A ValueError or TypeError unless a learner can have this optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"{argument} must be a name or a function from step size to an optax transformation, such as optax.adam "
            f"or lambda step_size: optax.adamw(step_size, weight_decay=0.01), got {check.shown(optimizer)}"
        )
    for each in optimizer.needs:
        check.choice(f"what {type(optimizer).__name__} needs", each, EXTRA_ARGUMENTS)
    if not isinstance(optimizer, Optax):
        return
    try:
        made = optimizer.function(0.01)
    except Exception as problem:
        raise ValueError(f"{argument} must take a step size, got {problem!r} for {argument}(0.01)") from problem
    if isinstance(made, Optimizer):
        name = type(made).__name__
        raise TypeError(f"{argument} must be an optimizer, such as {name}(), got the class {name} itself")
    if not isinstance(made, optax.GradientTransformation):
        raise TypeError(
            f"{argument} must return an optax transformation, got {check.shown(made)} from "
            f"{check.shown(optimizer.function)}"
        )


# Transformations.


def with_extra_arguments(init: Any, update: Any) -> optax.GradientTransformationExtraArgs:
    """A transformation whose `update` takes keyword arguments besides gradients, state and parameters.

    Its arguments are of any type, since optax's own leave these arguments out.
    """
    return optax.GradientTransformationExtraArgs(init, update)


def full_like(numbers: Any, params: Any) -> Any:
    """Arrays shaped like the parameters, filled with one number for all or with one for each part of the tree."""
    full = lambda number: lambda part: jnp.full_like(part, number)
    return jax.tree.map(lambda number, part: jax.tree.map(full(number), part), numbers, params)


def required(optimizer: Optimizer, given: dict[str, Any]) -> list[Any]:
    """The extra arguments that the optimizer needs, in the order of `needs`; a TypeError names one that is missing."""
    for argument in optimizer.needs:
        if given.get(argument) is None:
            raise TypeError(f"{type(optimizer).__name__} needs update(..., {argument}=): {EXTRA_ARGUMENTS[argument]}")
    return [given[argument] for argument in optimizer.needs]


def check_params(optimizer: Optimizer, params: Any) -> None:
    """A TypeError if `update` was called without parameters."""
    if params is None:
        raise TypeError(f"{type(optimizer).__name__} needs the parameters: update(gradients, state, params, ...)")
