"""Learners and their states in files: the learner in JSON and plain arrays, no pickle."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support.array_files import DamagedFile, read_arrays, write_arrays
from crossprop.configuration import configuration
from crossprop.descriptions import built
from crossprop.learners import Learner
from crossprop.learners.base import checked_learner
from crossprop.learners.states import check_state

SCHEMA = 3


def save(path: str | Path, learner: Learner, state: Any) -> None:
    """Writes a learner and its state to one file, completely or not at all."""
    checked_learner(learner)
    path = check.path("path", path, "a file to write")
    check_state(learner, state)
    leaves = {name: jnp.asarray(leaf) for name, leaf in _named_leaves(state).items()}
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    keys = {name: str(jax.random.key_impl(leaf)) for name, leaf in leaves.items() if is_key(leaf)}
    header = {"schema": SCHEMA, "learner": json.dumps(configuration(learner)), "keys": json.dumps(keys)}
    arrays = {name: np.asarray(jax.random.key_data(leaf) if name in keys else leaf) for name, leaf in leaves.items()}
    write_arrays(path, {name: (None, values) for name, values in arrays.items()}, header)


def load(path: str | Path, **functions: Any) -> tuple[Learner, Any]:
    """Reads back what `save` wrote, as `learner, state`.

    The class of a learner of your own must be registered, or its module imported before, as those of its parts.
    Functions are not kept in the file: a learner whose optimizer is a function needs it again,
    `load(path, optimizer=my_function)`.
    """
    path = check.path("path", path, "a file written by crossprop.save")
    try:
        variables, header = read_arrays(path)
    except DamagedFile as problem:
        raise ValueError(f"path must be a file written by crossprop.save: {problem}") from None
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {header.get('schema')}, this version of crossprop reads {SCHEMA}")
    try:
        arrays, keys = {name: values for name, (_, values) in variables.items()}, json.loads(header["keys"])
        learner = built(json.loads(header["learner"]), functions)
        blank = jax.eval_shape(lambda: learner.init(jax.random.key(0)))
        template = _named_leaves(blank)
        if {*arrays} != {*template}:
            raise ValueError(f"it holds another state than its learner has: {sorted(arrays)}, not {sorted(template)}")
        leaves = [_restored(arrays[name], keys.get(name)) for name in template]
        state = jax.tree.unflatten(jax.tree.structure(blank), leaves)
        check_state(learner, state)
    except Exception as problem:  # a damaged header can make a learner fail in any way
        raise ValueError(f"{path} cannot be loaded: {problem}") from problem
    return learner, state


def _named_leaves(state: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {f"state{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves}


def _restored(array: np.ndarray, impl: str | None) -> jax.Array:
    if impl is not None:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"it holds {array.dtype} numbers: turn JAX's x64 on")
    return jnp.asarray(array)
