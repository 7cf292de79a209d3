"""Rewrites a traced function into fewer GPU instructions, which Triton as called by JAX does not do itself."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.engines.gpu.support import triton


class Instructions(NamedTuple):
    """Implementations of operations that have an instruction of their own, on float32 arrays of one shape."""

    multiply_add: Callable[[Any, Any, Any], Any]
    div: Callable[[Any, Any], Any]
    sqrt: Callable[[Any], Any]
    rsqrt: Callable[[Any], Any]


class _Product(NamedTuple):
    """A product that is not computed yet, so that an addition to it can become a multiply-add."""

    left: Any
    right: Any
    shape: tuple[int, ...]

    def factors(self) -> tuple[Any, Any]:
        return jnp.broadcast_to(self.left, self.shape), jnp.broadcast_to(self.right, self.shape)

    def negative(self) -> "_Product":
        return self._replace(left=-self.left)

    def map(self, change: Callable[[Any], Any], shape: tuple[int, ...]) -> "_Product":
        left, right = map(change, self.factors())
        return _Product(left, right, shape)


def fma_rewritten(function: Callable[..., Any], use: Instructions) -> Callable[..., Any]:
    """The function with `a * b + c` as one instruction wherever a product is used once, in a sum; with divisions of an
    array by one number as multiplications; with fast divisions, square roots and powers of constants."""

    def with_short_instructions(*arguments):
        traced, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
        answers = _evaluate(use, traced.jaxpr, traced.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(result), [*map(_computed, answers)])

    return with_short_instructions


def _computed(value: Any) -> Any:
    return lax.mul(*value.factors()) if isinstance(value, _Product) else value


def _evaluate(use: Instructions, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The outputs of the program; a product among them may not be computed yet."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    values |= zip(jaxpr.invars, arguments, strict=True)
    uses = Counter(v for equation in jaxpr.eqns for v in equation.invars if not _is_literal(v))
    uses.update(v for v in jaxpr.outvars if not _is_literal(v))

    def look(atom):
        return atom.val if _is_literal(atom) else values[atom]

    for equation in jaxpr.eqns:
        given = [*map(look, equation.invars)]
        if equation.primitive.name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            answers = _evaluate(use, inner.jaxpr, inner.consts, given)
        else:
            answers = _answers(use, equation, given)
        for variable, answer in zip(equation.outvars, answers, strict=True):
            values[variable] = answer if uses[variable] == 1 else _computed(answer)
    return [*map(look, jaxpr.outvars)]


def _is_literal(atom: Any) -> bool:
    """Whether an input of an equation is a literal, not a variable."""
    return hasattr(atom, "val")


def _answers(use: Instructions, equation: Any, given: list[Any]) -> list[Any]:
    """The outputs of one equation for these inputs."""
    if any(isinstance(value, _Product) for value in given):
        answer = _from_product(use, equation, given)
        if answer is not None:
            return [answer]
    name, numbers = equation.primitive.name, [*map(_computed, given)]
    out: Any = equation.outvars[0].aval if equation.outvars else None
    if name == "dot_general" and 1 in map(np.ndim, numbers):
        return _vector_product(use, equation, numbers)
    if name == "pow" and isinstance(given[0], float | np.generic | np.ndarray):
        return [lax.exp2(math.log2(given[0]) * numbers[1].astype(out.dtype))]
    if getattr(out, "shape", ()) and out.dtype == jnp.float32:
        if name == "mul":
            return [_Product(numbers[0], numbers[1], out.shape)]
        if name == "div" and not np.shape(numbers[1]):
            return [_Product(numbers[0], 1 / numbers[1], out.shape)]
        if name in ("div", "sqrt", "rsqrt"):
            return [getattr(use, name)(*(jnp.broadcast_to(number, out.shape) for number in numbers))]
    answers = equation.primitive.bind(*numbers, **equation.params)
    return answers if equation.primitive.multiple_results else [answers]


def _vector_product(use: Instructions, equation: Any, numbers: list[Any]) -> list[Any]:
    """A product with a vector as a sum of products, since Triton multiplies matrices only."""
    contracted, _ = equation.params["dimension_numbers"]
    which = 0 if np.ndim(numbers[0]) == 1 else 1
    axis = contracted[1 - which][0]

    def summed(vector: jax.Array, matrix: jax.Array) -> jax.Array:
        spread = lax.broadcast_in_dim(vector, [len(vector) if at == axis else 1 for at in range(matrix.ndim)], [axis])
        return jnp.sum(matrix * spread, axis=axis, keepdims=True).squeeze(axis)

    traced = jax.make_jaxpr(summed)(numbers[which], numbers[1 - which])
    return _evaluate(use, traced.jaxpr, traced.consts, [numbers[which], numbers[1 - which]])


def _from_product(use: Instructions, equation: Any, given: list[Any]) -> Any:
    """The output of an equation for a product that is not computed yet, or None if it must be computed first."""
    out: Any = equation.outvars[0].aval
    name, shape = equation.primitive.name, out.shape
    product = next(value for value in given if isinstance(value, _Product))
    if name in ("squeeze", "reshape", "broadcast_in_dim"):
        return product.map(partial(equation.primitive.bind, **equation.params), shape)
    if name == "reduce_sum" and math.prod(shape) == math.prod(product.shape):
        return product.map(partial(lax.squeeze, dimensions=equation.params["axes"]), shape)
    if name == "neg":
        return product.negative()
    if name in ("add", "sub"):
        first = given[0] is product
        other = jnp.broadcast_to(_computed(given[1] if first else given[0]), shape)
        if name == "sub":
            product, other = (product, -other) if first else (product.negative(), other)
        return use.multiply_add(*product._replace(shape=shape).factors(), other)
    return None


def _instruction(assembly: str) -> Callable[..., Any]:
    """A GPU instruction, applied elementwise."""

    def call(*arguments):
        (result,) = triton.elementwise_inline_asm(
            assembly,
            args=arguments,
            constraints=",".join(["=f", *"f" * len(arguments)]),
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(arguments[0].shape, arguments[0].dtype)],
        )
        return result

    return call


GPU = Instructions(
    _instruction("fma.rn.f32 $0, $1, $2, $3;"),
    _instruction("div.approx.ftz.f32 $0, $1, $2;"),
    _instruction("sqrt.approx.ftz.f32 $0, $1;"),
    _instruction("rsqrt.approx.ftz.f32 $0, $1;"),
)
"""Divisions and roots are exact to one or two units in the last place; numbers below 1e-38 count as 0."""
PLAIN = Instructions(lambda left, right, other: left * right + other, lax.div, lax.sqrt, lax.rsqrt)
"""The same in plain JAX."""
