"""The shapes, types and bytes of a learner's state, and a check of states."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support.memory import bytes_of
from crossprop.hyperparameters import by_structure


@by_structure
def state_shapes(learner: Any) -> Any:
    """The state of a learner as shapes and types."""
    return jax.eval_shape(lambda: learner.init(jax.random.key(0)))


def state_bytes(learner: Any) -> int:
    """The bytes of a learner's state."""
    return bytes_of(state_shapes(learner))


def check_state(learner: Any, state: Any, name: str = "state", *, types: bool = False) -> None:
    """A ValueError if `state` does not have the structure and shapes, or also the types, of this learner's states; a
    TypeError if it holds anything that JAX cannot take."""
    expected, what = state_shapes(learner), f"{name} must be a state of this {type(learner).__name__}"
    if not all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state)):
        try:
            jax.eval_shape(lambda state: state, state)
        except (OverflowError, TypeError, ValueError):
            raise TypeError(f"{what}, got {check.shown(state)}") from None
    shapes_of = lambda tree: [np.shape(leaf) for leaf in jax.tree.leaves(tree)]
    types_of = lambda tree: ", ".join(str(jnp.result_type(leaf)) for leaf in jax.tree.leaves(tree))
    if shapes_of(state) != shapes_of(expected):
        raise ValueError(f"{what}, with leaves of shapes {shapes_of(expected)}, got {shapes_of(state)}")
    if (found := jax.tree.structure(state)) != (structure := jax.tree.structure(expected)):
        raise ValueError(f"{what}, with the structure of init's, {structure}, got {found}")
    if types and types_of(state) != types_of(expected):
        raise ValueError(f"{what}, of types {types_of(expected)}, got {types_of(state)}")
