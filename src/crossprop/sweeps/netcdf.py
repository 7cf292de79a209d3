"""A block as a file in netCDF-3, which plain xarray opens, and which takes a millisecond to write."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop.running import further_dims
from crossprop.sweeps.blocks import Block, BlockResult, StoredBlock

if TYPE_CHECKING:
    from scipy.io import netcdf_file

HEADER = ("seed", "step", "task", "diverged_at")
MADE_WITH = ("schema", "crossprop", "jax", "engine", "device")


def write_block(path: Path, block: Block, result: BlockResult, seconds: float) -> None:
    from scipy.io import netcdf_file

    with netcdf_file(path, "w") as file:
        file.createDimension("seed", len(block.seeds))
        file.createDimension("step", len(result.step))
        for name, values in result.records.items():
            further = further_dims(name, values.ndim - 2)
            for dim, size in zip(further, values.shape[2:], strict=True):
                file.createDimension(dim, size)
            _put(file, name, values, ("seed", "step", *further))
        _put(file, "diverged_at", result.diverged_at.astype(np.int32), ("seed",))
        _put(file, "seed", np.array(block.seeds, np.uint32).view(np.int32), ("seed",), _Unsigned="true")
        _put(file, "step", result.step.astype(np.int32), ("step",))
        _put(file, "task", result.task.astype(np.int32), ("step",))
        for name, value in ({"learner": block.name} | block.point).items():
            _put_scalar(file, name, value)
        file.coordinates = " ".join(["learner", "task", *block.point])
        file.setting = json.dumps(block.setting)
        file.seconds = np.float64(seconds)
        for name in MADE_WITH:
            setattr(file, name, result.made_with[name])


def _put(file: "netcdf_file", name: str, values: np.ndarray, dims: tuple[str, ...], **attributes: Any) -> None:
    variable = file.createVariable(name, values.dtype, dims)
    variable[...] = values
    for attribute, value in attributes.items():
        setattr(variable, attribute, value)


def _put_scalar(file: "netcdf_file", name: str, value: Any) -> None:
    if isinstance(value, str):
        letters = np.frombuffer(value.encode() or b" ", "S1")
        file.createDimension(f"{name}_length", len(letters))
        _put(file, name, letters, (f"{name}_length",), _Encoding="utf-8")
    elif isinstance(value, bool):
        _put(file, name, np.array(value, np.int8), (), dtype="bool")
    else:
        _put(file, name, np.array(np.nan if value is None else value, np.float64), ())


def read_block(path: Path) -> StoredBlock:
    from scipy.io import netcdf_file

    try:
        with netcdf_file(path) as file:
            values = {name: _native(file.variables[name][:]) for name in HEADER}
            name = file.variables["learner"][:].tobytes().decode()
            made = {each: getattr(file, each) for each in ("setting", "seconds", *MADE_WITH)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise ValueError(f"{path} is damaged: delete it, and the sweep runs it again. {problem}") from None
    made: dict[str, Any] = {
        each: value.decode() if isinstance(value, bytes) else value.item() for each, value in made.items()
    }
    return StoredBlock(
        name=name,
        identity=path.stem.partition("-")[0],
        setting=json.loads(made.pop("setting")),
        seeds=values["seed"].view(np.uint32).astype(np.int64),
        diverged_at=values["diverged_at"],
        step=values["step"],
        task=values["task"],
        seconds=made.pop("seconds"),
        made_with=made,
        records=partial(read_records, path),
    )


def read_records(path: Path) -> dict[str, np.ndarray]:
    from scipy.io import netcdf_file

    with netcdf_file(path) as file:
        names = [name for name, each in file.variables.items() if each.dimensions[:2] == ("seed", "step")]
        return {name: _native(file.variables[name][:]) for name in names}


def _native(values: np.ndarray) -> np.ndarray:
    """A copy in the machine's byte order; the file's is big-endian and memory-mapped."""
    return values.astype(values.dtype.newbyteorder("="))
