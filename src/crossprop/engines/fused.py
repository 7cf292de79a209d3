"""Short instructions: what Triton's compiler, as JAX calls it, leaves undone in a traced function."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import triton
from jax.extend.core import Literal, Var


class _Product(NamedTuple):
    """A product that is not computed yet, for who adds to it."""

    left: Any
    right: Any


class Instructions(NamedTuple):
    """How to compute what is worth an instruction of its own, of arrays of float32 of one shape."""

    multiply_add: Callable[[Any, Any, Any], Any]
    divide: Callable[[Any, Any], Any]
    square_root: Callable[[Any], Any]


def fused(function: Callable[..., Any], use: Instructions) -> Callable[..., Any]:
    """The function with `a * b + c` in one instruction wherever a product is used once, in a sum, without dividing each
    of many numbers by the same one, and with short divisions and square roots. Triton's compiler, as JAX calls it, does
    none of that."""

    def with_short_instructions(*arguments):
        jaxpr, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
        values = dict(zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True))
        values |= zip(jaxpr.jaxpr.invars, jax.tree.leaves(arguments), strict=True)
        uses = Counter(v for equation in jaxpr.eqns for v in equation.invars if isinstance(v, Var))
        uses.update(v for v in jaxpr.jaxpr.outvars if isinstance(v, Var))

        def pending(atom):
            return values[atom] if isinstance(atom, Var) and isinstance(values[atom], _Product) else None

        def read(atom):
            if isinstance(atom, Literal):
                return atom.val
            if isinstance(values[atom], _Product):
                values[atom] = lax.mul(*values[atom])
            return values[atom]

        for equation in jaxpr.eqns:
            name, atoms, out = equation.primitive.name, equation.invars, equation.outvars[0]
            product = next(filter(None, map(pending, atoms)), None)
            bind = partial(equation.primitive.bind, **equation.params)
            if name == "mul" and out.aval.shape and out.aval.dtype == jnp.float32 and uses[out] == 1:
                values[out] = _Product(*(jnp.broadcast_to(read(atom), out.aval.shape) for atom in atoms))
            elif name == "div" and out.aval.shape and not atoms[1].aval.shape and uses[out] == 1:
                values[out] = _Product(read(atoms[0]), jnp.broadcast_to(1 / read(atoms[1]), out.aval.shape))
            elif name in ("squeeze", "reshape", "broadcast_in_dim") and product is not None:
                values[out] = _Product(*map(bind, product))
            elif name == "reduce_sum" and product is not None and out.aval.size == product.left.size:
                squeezed = partial(lax.squeeze, dimensions=equation.params["axes"])
                values[out] = _Product(*map(squeezed, product))
            elif name in ("add", "sub") and product is not None:
                first = pending(atoms[0]) is product
                other = jnp.broadcast_to(read(atoms[1] if first else atoms[0]), out.aval.shape)
                minus = name == "sub"
                left = -product.left if minus and not first else product.left
                values[out] = use.multiply_add(left, product.right, -other if minus and first else other)
            elif name == "div" and out.aval.shape and out.aval.dtype == jnp.float32:
                values[out] = use.divide(*(jnp.broadcast_to(read(atom), out.aval.shape) for atom in atoms))
            elif name == "sqrt" and out.aval.shape and out.aval.dtype == jnp.float32:
                values[out] = use.square_root(read(atoms[0]))
            else:
                answers = bind(*map(read, atoms))
                values |= zip(
                    equation.outvars, answers if equation.primitive.multiple_results else [answers], strict=True
                )
        return jax.tree.unflatten(jax.tree.structure(result), [read(atom) for atom in jaxpr.jaxpr.outvars])

    return with_short_instructions


def _instruction(assembly: str) -> Callable[..., Any]:
    """One instruction of a GPU, on every number of its arguments."""

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
    _instruction("div.full.f32 $0, $1, $2;"),
    _instruction("sqrt.approx.f32 $0, $1;"),
)
"""Division is good to 2 units in the last place, the square root to 1."""
PLAIN = Instructions(lambda left, right, other: left * right + other, lax.div, lax.sqrt)
"""The same, where those instructions are not known."""
