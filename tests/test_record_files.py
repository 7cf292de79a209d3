"""Records on disk: every file of them counts."""

import resource
import time

import numpy as np
import pytest
import xarray

from crossprop.record_files import read_records, write_records


@pytest.fixture
def written(tmp_path):
    loss = np.arange(6.0).reshape(2, 3)
    data = {"loss": (("seed", "step"), loss), "diverged_at": ("seed", [-1, -1])}
    records = xarray.Dataset(data, {"step": [1, 2, 3]}, {"schema": 1, "learners": "{}"})
    write_records(tmp_path / "records.zarr", records)
    return tmp_path / "records.zarr", records


def test_records_that_are_whole_are_read_here_and_by_plain_xarray(written):
    path, records = written
    assert read_records(path).identical(records)
    with xarray.open_zarr(path) as plain:
        assert plain.load().identical(records)


def test_a_missing_altered_or_added_file_of_records_is_named(written):
    path, records = written
    files = sorted(each for each in path.rglob("*") if each.is_file() and each.name != ".checksums.json")
    assert len(files) > 10 and path / "loss" / "0.0" in files
    for file in files:
        whole = file.read_bytes()
        file.unlink()
        with pytest.raises(ValueError, match=rf"{file} is missing|folder of records, written whole, got '{path}'"):
            read_records(path)
        for place in range(len(whole)) if file.name == "0.0" else (len(whole) // 2,):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ValueError, match=f"{file} is damaged"):
                read_records(path)
        file.write_bytes(whole)
    (path / "loss" / "1.0").write_bytes(b"0")
    with pytest.raises(ValueError, match=r"1\.0 is not one of the files"):
        read_records(path)
    (path / "loss" / "1.0").unlink()
    assert read_records(path).identical(records)
    (path / ".checksums.json").unlink()
    with pytest.raises(ValueError, match=r"has no \.checksums.json"):
        read_records(path)


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path):
    """No file may grow past 16 KiB, and the records have many files that would."""
    values = np.random.default_rng(0).normal(size=(40, 100, 300))
    records = xarray.Dataset({"loss": (("learner", "seed", "step"), values)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
    try:
        for _ in range(5):
            with pytest.raises(OSError, match=r"File too large: .*records\.zarr"):
                write_records(tmp_path / "records.zarr", records)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    time.sleep(0.1)  # for anything that still writes
    assert not list(tmp_path.iterdir())
