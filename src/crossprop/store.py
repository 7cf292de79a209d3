"""Records on disk as zarr, readable by plain xarray, written completely or not at all."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._files import atomic_write, recover
from crossprop.running import SCHEMA

if TYPE_CHECKING:
    import xarray


def write_records(path: str | Path, records: "xarray.Dataset") -> None:
    """Writes the records that `run` returned to the folder `path`, replacing its contents."""
    with atomic_write(Path(path)) as scratch:
        records.to_zarr(scratch, mode="w", zarr_format=2, consolidated=True)


def read_records(path: str | Path) -> "xarray.Dataset":
    """Reads records that `write_records` wrote."""
    import xarray

    recover(Path(path))
    if not (Path(path) / ".zmetadata").is_file():
        raise ValueError(f"path must be a folder of records, written whole, got {str(path)!r}")
    with xarray.open_zarr(path) as stored:
        records = stored.load()
    if records.attrs.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {records.attrs.get('schema')}, this version of crossprop reads {SCHEMA}")
    return records


def check_replaceable(path: str | Path, experiment: dict[str, str]) -> None:
    """Raises a ValueError that names the difference if `path` holds anything but records of the same experiment."""
    recover(Path(path))
    if not Path(path).exists():
        return
    stored = read_records(path).attrs
    for name, value in experiment.items():
        if stored.get(name) != value:
            where, there, here = _difference(name, json.loads(stored.get(name, "null")), json.loads(value))
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
