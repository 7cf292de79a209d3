"""Methods of learners compiled for quick calls from Python, one example at a time."""

import weakref
from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from crossprop._support import checks as check
from crossprop._support import forks
from crossprop.learners.states import check_state
from crossprop.network import float_type
from crossprop.source_identity import are_bound, drop_outdated_programs

NUMERIC_KINDS = "buif"
"""NumPy's kinds of numbers."""

Method = TypeVar("Method", bound=Callable[..., Any])


def compiled_method(function: Method) -> Method:
    """Decorator for `update(state, x, y)` and `predict(state, x)` of a learner: compiled, and quick to call.

    The learner is flattened once, not at every call, and learners that differ in numbers only share a program. `x` and
    `y` may be lists, `y` of one output a number, and a one-hot `y` the number of its class.
    """
    return cast("Method", _CompiledMethod(function))


class _CompiledMethod:
    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.calls: dict[int, tuple[weakref.ref[Any], Callable[..., Any]]] = {}
        """The compiled method of every learner in memory, by `id`."""
        update_wrapper(self, function)  # pyright: ignore[reportArgumentType]

    def __get__(self, learner: Any, owner: type | None = None) -> Any:
        if learner is None:
            return self
        known = self.calls.get(id(learner))
        return known[1] if known is not None and known[0]() is learner else self._bound(learner)

    def __call__(self, learner: Any, *arguments: Any) -> Any:
        return self.__get__(learner)(*arguments)

    def _bound(self, learner: Any) -> Callable[..., Any]:
        forks.check()
        leaves, structure = jax.tree.flatten(learner)
        if any(isinstance(leaf, Tracer) for leaf in leaves) or any(np.ndim(leaf) for leaf in leaves):
            return partial(_checked_call, self.function, learner)
        key, reference = id(learner), weakref.ref(learner, lambda _: self.calls.pop(key, None))
        call = _quick_call(_compiled(self.function, structure), leaves, reference)
        self.calls[key] = reference, call
        return call


def _quick_call(program: Callable[..., Any], leaves: list[Any], learner: Callable[[], Any]) -> Callable[..., Any]:
    """A call that only runs the program if its arguments are arrays and the learner's code was not edited."""
    bindings = drop_outdated_programs(learner())

    @lru_cache(2)
    def hyperparameters(wide: bool) -> Any:
        with jax.ensure_compile_time_eval():
            return jnp.asarray(np.array(leaves, float))  # one array, since every argument costs time

    def call(state: Any, *example: Any, **named: Any) -> Any:
        if bindings and not are_bound(bindings):
            bindings[:] = drop_outdated_programs(learner())
        if named:
            example = (*example, *(named.pop(name) for name in ("x", "y") if name in named), *named.values())
        for value in example:
            if type(value) is not np.ndarray and not isinstance(value, jax.Array):
                example = _as_arrays(learner(), *example)
                break
        wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return program(hyperparameters(wide), state, *example)
        except (OverflowError, ValueError, TypeError):
            _as_arrays(learner(), *example)
            check_state(learner(), state)
            raise

    return call


@lru_cache(256)
def _compiled(function: Callable[..., Any], structure: Any) -> Any:
    def call(numbers: jax.Array, *rest: Any) -> Any:
        return _checked_call(function, jax.tree.unflatten(structure, list(numbers)), *rest)

    return jax.jit(call)


def _checked_call(function: Callable[..., Any], learner: Any, state: Any, *example: Any) -> Any:
    """Checks shapes while the program is traced, which costs nothing at later calls."""
    example = _as_arrays(learner, *example)
    for name, value, size in zip("xy", example, (learner.network.inputs, learner.targets), strict=False):
        check.shape(name, value, (size,))
    check_state(learner, state)
    return function(learner, state, *(jnp.asarray(value) for value in example))


def _as_arrays(learner: Any, x: Any, *targets: Any) -> tuple[Any, ...]:
    return (_numbers("x", x), *(as_targets("y", y, learner, ndim=0) for y in targets))


def as_targets(name: str, y: Any, learner: Any, ndim: int) -> Any:
    """Targets as an array. With only `ndim` axes, integers are classes if the loss is softmax, and become one-hot, and
    numbers are the targets of one output."""
    values, network = _numbers(name, y), learner.network
    is_class = network.loss == "softmax" and jnp.issubdtype(values.dtype, np.integer)
    if values.ndim != ndim or not (is_class or learner.targets == 1):
        return values.astype(float_type()) if is_class else values
    if not is_class:
        return values[..., None].astype(float_type())
    if check.is_traced(values):
        return jax.nn.one_hot(values, network.outputs)
    if values.size:
        check.integer(f"the smallest class in {name}", int(values.min()), low=0)
        check.integer(f"the largest class in {name}", int(values.max()), low=0, high=network.outputs - 1)
    encoded = np.zeros((*values.shape, network.outputs), float_type())
    np.put_along_axis(encoded, np.asarray(values)[..., None], 1, axis=-1)
    return encoded


def _numbers(name: str, value: Any) -> Any:
    if isinstance(value, Tracer | jax.Array):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{name} must be numbers, got a key of JAX, {check.shown(value)}")
        return value
    values = check.array(name, value)
    if values.dtype.kind not in NUMERIC_KINDS:
        raise TypeError(f"{name} must be numbers, got {check.shown(value)}")
    return values.astype(float) if values.dtype.itemsize > 8 else values  # a long double, which JAX does not have
