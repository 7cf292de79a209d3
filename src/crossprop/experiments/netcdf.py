"""A block as a file of the same format as records, which takes a millisecond to write.

The attribute `about` holds all that the records depend on, apart from the seeds; a hash of it and the first seed are
the file's name.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._support.array_files import HOSTILE, Contents, DamagedFile, read_arrays, write_arrays
from crossprop.experiments.blocks import Block, BlockResult, scores_of
from crossprop.experiments.grid import SCHEMA, identity, value_label
from crossprop.running import further_dims

HEADER = {"seed": "seed", "step": "step", "window": "step", "task": "step", "diverged_at": "seed"}
"""What a block has besides its records, with the dim of each."""
MADE_WITH = ("schema", "crossprop", "jax", "engine", "device")


def file_name(identity: str, seeds: Any) -> str:
    """The name of a block's file."""
    return f"{identity}-{seeds[0]}.nc"


def write_block(path: Path, block: Block, result: BlockResult) -> None:
    variables = {
        name: (("seed", "step", *further_dims(name, values.ndim - 2)), values)
        for name, values in result.records().items()
    }
    header = {name: getattr(result, "seeds" if name == "seed" else name) for name in HEADER}
    point = {name: value_label(value) for name, value in ({"learner": block.name} | block.point).items()}
    attributes = {
        "coordinates": " ".join(["window", "task", *point]),
        "about": json.dumps(block.about),
        "store": result.store,
        "seconds": float(result.seconds),
    }
    write_arrays(
        path,
        variables
        | {name: ((dim,), header[name]) for name, dim in HEADER.items()}
        | {name: ((), value if isinstance(value, str | bool) else float(value)) for name, value in point.items()},
        attributes | {name: result.made_with[name] for name in MADE_WITH},
        make_folder=False,  # the store can have been moved
    )


def read_block(path: Path) -> BlockResult:
    """The block in a file, without its records. A `DamagedFile` says what is wrong with it, an OSError that it cannot
    be read."""
    contents = read_arrays(path)
    try:
        block = _block(path, contents)
        name = file_name(block.identity, block.seeds)
    except HOSTILE as problem:
        raise DamagedFile(f"{path} is no block of schema {SCHEMA}: {problem!r}") from None
    if path.name != name:
        raise DamagedFile(f"{path} is another block than its name says, {name}")
    return block


def _block(path: Path, contents: Contents) -> BlockResult:
    values: dict[str, np.ndarray] = {}
    for name, dim in HEADER.items():
        dims, values[name] = contents.variables[name]
        if dims != (dim,) or values[name].dtype.kind != "i":
            raise TypeError(f"{name} must be integers by {dim}")
    about = json.loads(contents.attributes["about"])
    seconds, store = contents.attributes["seconds"], contents.attributes["store"]
    if not (isinstance(about["learner"], str) and isinstance(seconds, float) and isinstance(store, str)):
        raise TypeError("learner and store must be texts, and seconds a number")
    return BlockResult(
        identity=identity(about),
        about=about,
        seconds=seconds,
        store=store,
        made_with={name: contents.attributes[name] for name in MADE_WITH},
        records=partial(read_records, path),
        scores=scores_of(_records(contents), values["window"], values["task"], values["diverged_at"]),
        seeds=values.pop("seed"),
        **values,
    )


def read_records(path: Path) -> dict[str, np.ndarray]:
    return _records(read_arrays(path))


def _records(contents: Contents) -> dict[str, np.ndarray]:
    return {
        name: values
        for name, (dims, values) in contents.variables.items()
        if dims[:2] == ("seed", "step") and values.dtype.kind == "f"
    }
