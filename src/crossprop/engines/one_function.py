"""Loops that a CPU runs as one compiled function.

Up to JAX 0.11 XLA compiles the body of a loop into a list of small functions for a CPU. To call one takes 50 to 100 ns:
for a network of a few hundred units the calls take as long as their work. A call that is marked with
`xla_cpu_small_call`, as XLA itself marks loops over a few numbers, is compiled into one function with all that it
calls. Newer versions do so by themselves.
"""

import math
from collections.abc import Callable
from typing import Any

import jax

from crossprop._support import xla

IS_NEEDED = jax.__version_info__ < (0, 12)
MOST_NUMBERS = 2**16
"""In an array that is computed: XLA gives the work on large ones to all cores, which one function cannot do."""
MOST_SUMMED = 2**11
"""Numbers that are reduced to one: XLA leaves the sums of more to a library, which such a function cannot call."""
OPERATIONS = """abs add add_any and argmax argmin bitcast_convert_type broadcast_in_dim clamp concatenate
convert_element_type copy cos cumsum div dot_general dynamic_slice eq erf erf_inv exp exp2 expm1 floor ge gt
integer_pow iota is_finite le log log1p logistic lt max min mul ne neg not or pad pow random_bits random_fold_in
random_split random_unwrap random_wrap reduce_and reduce_max reduce_min reduce_or reduce_sum rem reshape round rsqrt
select_n shift_left shift_right_arithmetic shift_right_logical sign sin slice split sqrt square squeeze sub tanh
threefry2x32 transpose unstack xla_metadata_value xor"""
"""Primitives that XLA compiles itself; for others it calls libraries."""
CALLS = ("closed_call", "cond", "custom_jvp_call", "custom_vjp_call", "jit", "pjit", "scan", "while")


def as_one_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, as one compiled function on a CPU if it consists of simple operations on small arrays."""
    if not IS_NEEDED or not _all_simple(function, arguments):
        return function(*arguments)
    # XLA aborts if the call does not use all arguments. A function that only calls another one uses all.
    call = _marked(_marked(function, inlineable="false"), inlineable="false", xla_cpu_small_call="true")
    return call(*arguments)


def as_own_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, on a CPU as a function that is not joined with what comes before and after it."""
    return _marked(function, inlineable="false")(*arguments)


def _marked(function: Callable[..., Any], **marks: str) -> Callable[..., Any]:
    """The function, called by an operation that has these marks."""

    def call(*arguments: Any) -> Any:
        # The operation that makes a result gets the mark; results that are arguments come from outside.
        given = jax.tree.leaves(arguments)
        is_given = lambda result: any(result is argument for argument in given)
        mark = lambda result: result if is_given(result) else xla.with_metadata(result, **marks)
        return jax.tree.map(mark, jax.jit(function)(*arguments))

    return call


def _all_simple(function: Callable[..., Any], arguments: Any) -> bool:
    traced: Any = jax.make_jaxpr(function)(*arguments)
    try:
        return all(map(_is_simple, xla.equations(traced)))
    except (AttributeError, KeyError):  # a version of JAX that describes programs in another way
        return False


def _is_simple(equation: Any) -> bool:
    name = equation.primitive.name
    if name in CALLS:
        return True
    given: list[Any] = [variable.aval for variable in equation.invars]
    made: list[Any] = [variable.aval for variable in equation.outvars]
    if name == "dynamic_update_slice":
        return math.prod(given[1].shape) <= MOST_NUMBERS
    if name not in OPERATIONS.split() or any(math.prod(array.shape) > MOST_NUMBERS for array in made):
        return False
    if name in ("random_bits", "random_fold_in", "random_split"):
        return str(given[0].dtype) == "key<fry>"
    if name == "dot_general":  # it has no function for products of matrices
        (contracted, _), _ = equation.params["dimension_numbers"]
        summed = math.prod(given[0].shape[axis] for axis in contracted)
        return summed <= MOST_SUMMED and min(len(array.shape) for array in given) <= 1
    return not name.startswith(("reduce_", "arg")) or math.prod(given[0].shape) <= MOST_SUMMED
