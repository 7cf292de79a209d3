"""Methods of learners compiled for quick calls from Python, one example at a time."""

import weakref
from collections.abc import Callable
from functools import cache, partial, update_wrapper
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from crossprop import _checks as check
from crossprop.network import float_type

Program = Callable[..., Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def compiled_method(function: Method) -> Method:
    """Decorator for `update(state, x, y)` and `predict(state, x)` of a learner: compiled, and quick to call.

    The learner is flattened once, not at every call, and learners that differ in numbers only share a program. Lists
    will do for `x` and `y`, and the number of a class for a one-hot `y`. What does not fit is named in a ValueError.
    """
    return cast("Method", _CompiledMethod(function))


class _CompiledMethod:
    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.programs: dict[tuple[int, bool], tuple[weakref.ref[Any], Program]] = {}
        update_wrapper(self, function)  # pyright: ignore[reportArgumentType]

    def __get__(self, learner: Any, owner: type | None = None) -> Any:
        return self if learner is None else partial(self, learner)

    def __call__(self, learner: Any, state: Any, *example: Any) -> Any:
        if not (isinstance(example[0], ARRAYS) and isinstance(example[-1], ARRAYS)):
            example = as_arrays(learner.network, *example)
        key = (id(learner), jax.config.values["jax_enable_x64"])
        found = self.programs.get(key)
        if found is None or found[0]() is not learner:
            leaves, structure = jax.tree.flatten(learner)
            if any(isinstance(leaf, Tracer) for leaf in leaves):
                return _checked_call(self.function, learner, state, *example)
            forget = lambda _, programs=self.programs: programs.pop(key, None)
            leaves = [jnp.asarray(leaf) for leaf in leaves]
            found = weakref.ref(learner, forget), partial(_compiled(self.function, structure), leaves)
            self.programs[key] = found
        return found[1](state, *example)


@cache
def _compiled(function: Callable[..., Any], structure: Any) -> Any:
    return jax.jit(lambda leaves, *rest: _checked_call(function, jax.tree.unflatten(structure, leaves), *rest))


def _checked_call(function: Callable[..., Any], learner: Any, state: Any, *example: Any) -> Any:
    """Shapes are known while a program is traced, so these checks cost nothing at later calls."""
    sizes = (learner.network.inputs, learner.network.outputs)
    for name, value, size in zip("xy", example, sizes, strict=False):
        check.shape(name, value, (size,))
    check_state(learner, state)
    return function(learner, state, *(jnp.asarray(value) for value in example))


def check_state(learner: Any, state: Any, name: str = "state") -> None:
    """A ValueError if `state` does not have the structure and shapes of this learner's states."""
    expected = jax.eval_shape(learner.init, jax.random.key(0))
    shape_of = lambda tree: (jax.tree.structure(tree), [np.shape(leaf) for leaf in jax.tree.leaves(tree)])
    if shape_of(state) != shape_of(expected):
        raise ValueError(
            f"{name} must be a state of this {type(learner).__name__}, with leaves of shapes {shape_of(expected)[1]}, "
            f"got {shape_of(state)[1]}"
        )


ARRAYS = (np.ndarray, jax.Array)


def as_arrays(network: Any, x: Any, *targets: Any) -> tuple[Any, ...]:
    """`x` and `y` as arrays; a class becomes one-hot where the loss is softmax."""
    return (_numbers("x", x), *(one_hot("y", y, network) for y in targets))


def one_hot(name: str, y: Any, network: Any) -> Any:
    """Numbers as they are; integer classes, one or a list of them, one-hot where the loss is softmax."""
    values = _numbers(name, y)
    if check.is_traced(values) or network.loss != "softmax" or values.dtype.kind not in "ui":
        return values
    if values.ndim and values.shape[-1] == network.outputs and set(np.unique(values)) <= {0, 1}:
        return values.astype(float_type())
    check.integer(f"the smallest class in {name}", int(values.min()), low=0)
    check.integer(f"the largest class in {name}", int(values.max()), low=0, high=network.outputs - 1)
    return np.eye(network.outputs, dtype=float_type())[values]


def _numbers(name: str, value: Any) -> Any:
    if isinstance(value, Tracer | jax.Array):
        return value
    try:
        values = np.asarray(value)
    except ValueError:
        values = np.asarray(None)
    if values.dtype.kind not in "buif":
        raise TypeError(f"{name} must be numbers, got {value!r}")
    return values
