"""The description of a learner, network or stream in JSON's types: for attributes, files and comparisons."""

import hashlib
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.hyperparameters import given_for


def configuration(value: Any) -> Any:
    """`value` in JSON's types: of an object the name of its class as `type`, and its fields; of a function its name as
    `function`. Numbers keep every bit; an array is named by its shape, dtype and hash.

    `crossprop.descriptions` builds a learner from it.
    """
    value = given_for(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.memmap) and value.filename is not None:  # too large to hash
        about = Path(value.filename).stat()
        return {"file": str(value.filename), "bytes": about.st_size, "changed": about.st_mtime_ns} | {
            "shape": list(value.shape),
            "offset": value.offset,
            "begin": _place_in_file(value),
            "strides": list(value.strides),
            "dtype": str(value.dtype),
        }
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        if array.ndim == 0:
            return array.item()
        in_order = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # a copy only where needed
        named = {"shape": list(array.shape), "dtype": array.dtype.str}
        return named | {"sha256": hashlib.sha256(in_order.data).hexdigest()}
    if isinstance(value, dict):
        return {str(name): configuration(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [configuration(each) for each in value]
    if is_dataclass(value):
        described = [field.name for field in fields(value) if field.metadata.get("configuration", True)]
        return {"type": class_name(type(value))} | {name: configuration(getattr(value, name)) for name in described}
    if isinstance(value, partial):
        parts = {"func": value.func, "args": value.args, "keywords": value.keywords}
        return {"type": "functools:partial"} | {name: configuration(each) for name, each in parts.items()}
    if hasattr(value, "__qualname__"):
        return {"function": f"{getattr(value, '__module__', '?')}:{value.__qualname__}"}
    return {"function": f"{type(value).__module__}:{type(value).__qualname__}"}


def class_name(kind: type) -> str:
    """The name of a class of this package; with its module, that of any other."""
    own = kind.__module__.partition(".")[0] == "crossprop"
    return kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"


def _place_in_file(value: np.memmap) -> int:
    """The offset of a slice of a memory-mapped array from the start of the mapping, which `offset` does not include."""
    whole: Any = value
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
