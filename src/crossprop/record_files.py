"""Records on disk as zarr, readable by plain xarray, written completely or not at all.

Zarr itself reads a missing file as fill values. So the SHA-256 of every file is kept in `.checksums.json`, and checked.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossprop._files import atomic_write, read_json, recover, write_json
from crossprop.running import SCHEMA

if TYPE_CHECKING:
    import xarray

CHECKSUMS = ".checksums.json"


def write_records(path: str | Path, records: "xarray.Dataset") -> None:
    """Writes the records that `run` returned to the folder `path`, replacing its contents."""
    from zarr.storage import MemoryStore

    # By way of memory: into a folder zarr writes many files at once, and after an error it goes on with the others.
    files: dict[str, Any] = {}
    records.to_zarr(MemoryStore(files), mode="w", zarr_format=2, consolidated=True)
    with atomic_write(Path(path)) as scratch:
        for name, contents in files.items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(contents.to_bytes())
        write_json(scratch / CHECKSUMS, {name: _digest(file) for name, file in _files(scratch).items()})


def read_records(path: str | Path) -> "xarray.Dataset":
    """Reads records that `write_records` wrote. A ValueError names a file that is missing or damaged."""
    import xarray

    recover(Path(path))
    if not (Path(path) / ".zmetadata").is_file():
        raise ValueError(f"path must be a folder of records, written whole, got {str(path)!r}")
    _check_files(Path(path))
    with xarray.open_zarr(path) as stored:
        records = stored.load()
    if records.attrs.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {records.attrs.get('schema')}, this version of crossprop reads {SCHEMA}")
    return records


def _files(folder: Path) -> dict[str, Path]:
    """All files in a folder by their names, but for that of the checksums."""
    found = {str(each.relative_to(folder)): each for each in sorted(folder.rglob("*")) if each.is_file()}
    return {name: each for name, each in found.items() if name != CHECKSUMS}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _check_files(folder: Path) -> None:
    if not (folder / CHECKSUMS).is_file():
        raise ValueError(f"{folder} has no {CHECKSUMS}, without which damage is not noticed: write its records again")
    written, there = read_json(folder / CHECKSUMS), _files(folder)
    for name in sorted({*written, *there}):
        if name not in there:
            raise ValueError(f"{folder / name} is missing: write the records again")
        if name not in written:
            raise ValueError(f"{folder / name} is not one of the files that were written with the records: move it")
        if _digest(there[name]) != written[name]:
            raise ValueError(f"{folder / name} is damaged: its checksum differs. Write the records again")


def check_replaceable(path: str | Path, experiment: dict[str, str], steps: int | None = None) -> None:
    """Raises a ValueError that names the difference if `path` holds anything but records of the same experiment, of as
    many steps if they are given."""
    recover(Path(path))
    if not Path(path).exists():
        return
    records = read_records(path)
    stored = records.attrs
    if steps is not None:
        experiment = experiment | {"steps": json.dumps(steps)}
        stored = stored | {"steps": json.dumps(int(records.step[-1]) if "step" in records else None)}
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
