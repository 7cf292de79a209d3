"""Learners and their states in files: a JSON header and plain arrays in an npz archive, no pickle."""

import dataclasses
import inspect
import json
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import checks as check
from crossprop._support.archives import read_arrays, write_arrays
from crossprop.hyperparameters import unwrapped
from crossprop.learners import LEARNERS, Learner
from crossprop.learners.calling import check_state
from crossprop.network import Network
from crossprop.optimizers.base import NetworkOptimizer
from crossprop.replacements import Replacement

SCHEMA = 2
PARTS = (Learner, Network, NetworkOptimizer, Replacement)
"""Classes that a file can name, with their subclasses, besides networks of other classes."""
NETWORK = ("inputs", "outputs", "loss")
"""What every network has."""


def save(path: str | Path, learner: Learner, state: Any) -> None:
    """Writes a learner and its state to one file, completely or not at all."""
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a crossprop learner, got {check.shown(learner)}")
    path = check.path("path", path, "a file to write")
    check_state(learner, state)
    leaves = {name: jnp.asarray(leaf) for name, leaf in _named_leaves(state).items()}
    keys = {name: str(jax.random.key_impl(leaf)) for name, leaf in leaves.items() if _is_key(leaf)}
    header = json.dumps({"schema": SCHEMA, "learner": _described(learner), "keys": keys})
    arrays = {name: np.asarray(jax.random.key_data(leaf) if name in keys else leaf) for name, leaf in leaves.items()}
    write_arrays(path, {"header": np.array(header), **arrays})


def load(path: str | Path, **functions: Any) -> tuple[Learner, Any]:
    """Reads back what `save` wrote, as `learner, state`.

    The class of a learner of your own must be registered, or its module imported before. Of other classes only
    networks, optimizers and replacements are built. Anything else is not kept in the file: a learner whose optimizer is
    a function needs it again, `load(path, optimizer=my_function)`.
    """
    header, arrays = _read(path)
    if header["schema"] != SCHEMA:
        raise ValueError(f"{path} has schema {header['schema']}, this version of crossprop reads {SCHEMA}")
    try:
        learner = _built("learner", header["learner"], functions)
        blank = jax.eval_shape(learner.init, jax.random.key(0))
        template = _named_leaves(blank)
        if {*arrays} != {*template}:
            raise ValueError(f"it holds another state than its learner has: {sorted(arrays)}, not {sorted(template)}")
        leaves = [_restored(arrays[name], header["keys"].get(name), leaf) for name, leaf in template.items()]
        state = jax.tree.unflatten(jax.tree.structure(blank), leaves)
        check_state(learner, state)
    except Exception as problem:  # a damaged header can make a learner fail in any way
        raise ValueError(f"{path} cannot be loaded: {problem}") from problem
    return learner, state


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    path = check.path("path", path, "a file written by crossprop.save")
    with path.open("rb") as file:
        try:
            arrays = read_arrays(file)
            header = json.loads(str(arrays.pop("header")))
            if not isinstance(header["schema"], int) or not isinstance(header.get("learner", {}), dict):
                raise ValueError("its header is damaged")
        except Exception as problem:  # a damaged archive raises errors of many kinds
            raise ValueError(f"path must be a file written by crossprop.save, got {str(path)!r}: {problem}") from None
    return header, arrays


def _described(value: Any) -> Any:
    """`value` in JSON's types."""
    value = unwrapped(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic | jax.Array) and value.ndim == 0 and not _is_key(value):
        return value.item()
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return {type(value).__name__: [_described(each) for each in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and _is_part(type(value)):
        fields = {field.name: _described(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": _full_name(type(value)), "fields": fields}
    return {"function": _full_name(value)}


def _built(name: str, value: Any, functions: dict[str, Any]) -> Any:
    """What `_described` wrote, built again; `name` is that of the field."""
    match value:
        case {"tuple": items} | {"list": items}:
            return (tuple if "tuple" in value else list)(_built(name, each, functions) for each in items)
        case {"function": function}:
            if name not in functions:
                raise ValueError(f"{name} was {function}, which is not kept in files: give it as {name}=")
            return functions[name]
        case {"class": class_name, "fields": fields}:
            if name in functions and find_class(class_name) is None:
                return functions[name]
            return _instance(class_name, {name: _built(name, each, functions) for name, each in fields.items()})
        case _:
            return value


def _instance(class_name: str, fields: dict[str, Any]) -> Any:
    cls = find_class(class_name)
    if cls is None:
        module = class_name.partition(":")[0]
        raise ValueError(f"its class {class_name} is not known here: import {module} first, or register the class")
    own = [field for field in dataclasses.fields(cls) if field.name in fields]  # older files lack newer fields
    arguments = {field.name: fields[field.name] for field in own if field.init}
    if {*arguments} <= {*inspect.signature(cls).parameters}:
        return cls(**arguments)
    built = object.__new__(cls)  # its __init__ takes other arguments than its fields
    for field in own:
        object.__setattr__(built, field.name, fields[field.name])
    return built


def find_class(name: str) -> Any:
    """The class `module:QualName` of a learner or of its part, if its module is imported or it is registered, else
    None."""
    module, _, path = name.partition(":")
    # Not getattr, which may run code of a module: `__getattr__`, or a property.
    found = reduce(
        lambda owner, part: getattr(owner, "__dict__", {}).get(part), path.split("."), sys.modules.get(module)
    )
    if _is_part(found) and _full_name(found) == name:
        return found
    return next((cls for cls in _registered() if _full_name(cls) == name), None)


def _is_part(cls: Any) -> bool:
    """Whether a class is that of a learner, an optimizer, a replacement or a network, which is anything with `inputs`,
    `outputs` and `loss`."""
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return False
    return issubclass(cls, PARTS) or all(name in {*dir(cls), *cls.__dataclass_fields__} for name in NETWORK)


def _registered() -> list[type]:
    return [build.func for build in LEARNERS.values() if isinstance(build.func, type)]


def _full_name(value: Any) -> str:
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"


def _named_leaves(state: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {f"state{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _restored(array: np.ndarray, impl: str | None, like: Any) -> jax.Array:
    if impl is not None:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
    if array.dtype.kind == "V":  # raw bytes: types that NumPy does not know, such as bfloat16
        return jnp.asarray(array.view(like.dtype))
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"it holds {array.dtype} numbers: turn JAX's x64 on")
    return jnp.asarray(array)
