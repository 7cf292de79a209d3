"""Short instructions: what Triton's compiler, as JAX calls it, leaves undone in a traced function."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import triton
from jax.extend.core import Jaxpr, Literal, Var


class Instructions(NamedTuple):
    """How to compute what is worth an instruction of its own, of arrays of float32 of one shape."""

    multiply_add: Callable[[Any, Any, Any], Any]
    divide: Callable[[Any, Any], Any]
    sqrt: Callable[[Any], Any]
    rsqrt: Callable[[Any], Any]


class _Product(NamedTuple):
    """A product that is not computed yet, for who adds to it."""

    left: Any
    right: Any
    shape: tuple[int, ...]

    def factors(self) -> tuple[Any, Any]:
        return jnp.broadcast_to(self.left, self.shape), jnp.broadcast_to(self.right, self.shape)

    def map(self, change: Callable[[Any], Any], shape: tuple[int, ...]) -> "_Product":
        return _Product(*map(change, self.factors()), shape)


def fused(function: Callable[..., Any], use: Instructions) -> Callable[..., Any]:
    """The function with `a * b + c` in one instruction wherever a product is used once, in a sum; without dividing each
    of many numbers by the same one; with short divisions and square roots, and short powers of known numbers. Triton's
    compiler, as JAX calls it, does none of that."""

    def with_short_instructions(*arguments):
        traced, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
        answers = _evaluate(use, traced.jaxpr, traced.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(result), [*map(_computed, answers)])

    return with_short_instructions


def _computed(value: Any) -> Any:
    return lax.mul(*value.factors()) if isinstance(value, _Product) else value


def _evaluate(use: Instructions, jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """What the program answers; a product among the answers may not be computed yet."""
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    values |= zip(jaxpr.invars, arguments, strict=True)
    uses = Counter(v for equation in jaxpr.eqns for v in equation.invars if isinstance(v, Var))
    uses.update(v for v in jaxpr.outvars if isinstance(v, Var))

    def look(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    def read(atom):
        value = _computed(look(atom))
        if isinstance(atom, Var):
            values[atom] = value
        return value

    for equation in jaxpr.eqns:
        name, atoms, out = equation.primitive.name, equation.invars, equation.outvars[0]
        shape, once = getattr(out.aval, "shape", ()), uses[out] == 1
        many = shape != () and out.aval.dtype == jnp.float32
        product = next((look(atom) for atom in atoms if isinstance(look(atom), _Product)), None)
        bind = partial(equation.primitive.bind, **equation.params)
        if name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            answers = _evaluate(use, inner.jaxpr, inner.consts, [*map(look, atoms)])
            for variable, answer in zip(equation.outvars, answers, strict=True):
                values[variable] = answer if uses[variable] == 1 else _computed(answer)
        elif name == "mul" and many and once:
            values[out] = _Product(*map(read, atoms), shape)
        elif name == "div" and many and once and not atoms[1].aval.shape:
            values[out] = _Product(read(atoms[0]), 1 / read(atoms[1]), shape)
        elif name == "neg" and product is not None:
            product = product._replace(left=-product.left)
            values[out] = product if once else _computed(product)
        elif name in ("squeeze", "reshape", "broadcast_in_dim") and product is not None:
            values[out] = product.map(bind, shape)
        elif name == "reduce_sum" and product is not None and math.prod(shape) == math.prod(product.shape):
            values[out] = product.map(partial(lax.squeeze, dimensions=equation.params["axes"]), shape)
        elif name in ("add", "sub") and product is not None:
            first, minus = look(atoms[0]) is product, name == "sub"
            other = jnp.broadcast_to(read(atoms[1] if first else atoms[0]), shape)
            if minus and not first:
                product = product._replace(left=-product.left)
            values[out] = use.multiply_add(*product.factors(), -other if minus and first else other)
        elif name == "div" and many:
            values[out] = use.divide(*(jnp.broadcast_to(read(atom), shape) for atom in atoms))
        elif name in ("sqrt", "rsqrt") and many:
            values[out] = getattr(use, name)(read(atoms[0]))
        elif name == "pow" and isinstance(look(atoms[0]), float | np.generic | np.ndarray):
            values[out] = lax.exp2(math.log2(look(atoms[0])) * read(atoms[1]).astype(out.aval.dtype))
        else:
            answers = bind(*map(read, atoms))
            values |= zip(equation.outvars, answers if equation.primitive.multiple_results else [answers], strict=True)
    return [*map(look, jaxpr.outvars)]


def _instruction(assembly: str) -> Callable[..., Any]:
    """Instructions of a GPU, for every number of the arguments."""

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
"""Divisions and roots are good to a unit or two in the last place; numbers under 1e-38 are 0 to them."""
PLAIN = Instructions(lambda left, right, other: left * right + other, lax.div, lax.sqrt, lax.rsqrt)
"""The same, where those instructions are not known."""
