"""Learners and their states in files: a JSON header and plain arrays in an npz archive, no pickle."""

import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._files import atomic_write
from crossprop.configuration import configuration
from crossprop.learners import LEARNERS, Learner
from crossprop.learners.optimizers import Optimizer
from crossprop.network import Network, float_type

SCHEMA = 1


def save(path: str | Path, learner: Learner, state: Any) -> None:
    """Writes a learner and its state to one file, whole or not at all."""
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a crossprop learner, got {learner!r}")
    if jax.tree.structure(state) != jax.tree.structure(_template(learner)):
        raise ValueError(f"state must be a state of this {type(learner).__name__}, got {jax.tree.structure(state)}")
    header = {
        "schema": SCHEMA,
        "learner": configuration(learner),
        "named_optimizer": isinstance(learner.optimizer, str),
    }
    leaves = {name: np.asarray(leaf) for name, leaf in _named_leaves(state).items()}
    with atomic_write(Path(path)) as scratch, scratch.open("wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), **leaves)  # pyright: ignore[reportArgumentType]


def load(path: str | Path, optimizer: Optimizer | None = None) -> tuple[Learner, Any]:
    """Reads back what `save` wrote. A learner whose optimizer is a function of yours wants that function again."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
        header = json.loads(str(arrays.pop("header")))
        schema = header["schema"]
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as problem:
        raise ValueError(f"path must be a file written by crossprop.save, got {str(path)!r}: {problem}") from None
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema}, this version of crossprop reads {SCHEMA}")
    fields = header["learner"]
    if not header["named_optimizer"] and optimizer is None:
        raise ValueError(f"{path} was saved with the optimizer {fields['optimizer']}: give it as optimizer=")
    learner = _build(fields, optimizer)
    template = _template(learner)
    expected = {name: leaf.shape for name, leaf in _named_leaves(template).items()}
    if expected != {name: array.shape for name, array in arrays.items()}:
        raise ValueError(f"{path} holds another state than its learner has: {sorted(arrays)}, not {sorted(expected)}")
    if any(array.dtype == np.float64 for array in arrays.values()) and float_type() == np.float32:
        raise ValueError(f"{path} holds float64 numbers: turn JAX's x64 on to load it")
    return learner, jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(arrays[name]) for name in expected])


def _build(fields: dict[str, Any], optimizer: Optimizer | None) -> Learner:
    rules = {build.func.__name__: build.func for build in LEARNERS.values()}
    rule = fields["type"]
    if rule not in rules:
        raise ValueError(f"no learner {rule!r} is registered: add it to crossprop.learners.LEARNERS")
    values = {name: value for name, value in fields.items() if name != "type"}
    values["network"] = Network(**{name: value for name, value in fields["network"].items() if name != "type"})
    if optimizer is not None:
        values["optimizer"] = optimizer
    return rules[rule](**values)


def _template(learner: Learner) -> Any:
    return jax.eval_shape(learner.init, jax.random.key(0))


def _named_leaves(state: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
