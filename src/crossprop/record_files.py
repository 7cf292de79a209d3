"""Records on disk: one file, which plain xarray opens."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._support.array_files import DamagedFile, read_arrays, write_arrays
from crossprop._support.files import HOSTILE
from crossprop.running import SCHEMA

if TYPE_CHECKING:
    import xarray


def write_records(path: str | Path, records: "xarray.Dataset") -> None:
    """Writes records that `run` returned to the file `path`, completely or not at all."""
    variables = {str(name): ([*map(str, each.dims)], each.values) for name, each in records.variables.items()}
    coordinates = " ".join(str(name) for name in records.coords if name not in records.dims)
    write_arrays(Path(path), variables, records.attrs | {"coordinates": coordinates})


def read_records(path: str | Path) -> "xarray.Dataset":
    """Reads records that `write_records` wrote. A ValueError names the file if it is damaged or something else."""
    import xarray

    variables, attributes = read_arrays(Path(path))
    if attributes.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {attributes.get('schema')}, this version of crossprop reads {SCHEMA}")
    try:
        coordinates = attributes.pop("coordinates").split()
        return xarray.Dataset(variables, attrs=attributes).set_coords(coordinates)
    except HOSTILE as problem:
        raise DamagedFile(f"{path} does not hold records: {problem}") from None


def check_replaceable(path: str | Path, experiment: dict[str, str], steps: int | None = None) -> None:
    """Raises a ValueError that names the difference if `path` holds anything but records of the same experiment, and of
    as many `steps` if these are given."""
    if not Path(path).exists():
        return
    records = read_records(path)
    stored = records.attrs
    if steps is not None:
        experiment = experiment | {"steps": json.dumps(steps)}
        stored = stored | {"steps": json.dumps(int(records.step[-1]) if "step" in records else None)}
    for name, value in experiment.items():
        if stored.get(name) != value:
            try:
                there = json.loads(stored.get(name, "null"))
            except HOSTILE as problem:
                raise DamagedFile(f"{path} does not hold records: {name} is no JSON: {problem}") from None
            where, there, here = _difference(name, there, json.loads(value))
            raise ValueError(
                f"{path} holds records of another experiment, which are kept: {where} is {there!r} there and {here!r} "
                "here. Choose another folder"
            )


def _difference(name: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """The first place where two configurations differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        if there.keys() != here.keys():
            return name, list(there), list(here)
        key = next(key for key in there if there[key] != here[key])
        return _difference(f"{name}.{key}", there[key], here[key])
    return name, there, here
