"""Records on disk: one file that plain xarray opens, of which every bit counts, and nothing else is read."""

import io
import os
import resource
import zlib

import numpy as np
import pytest
import xarray
from scipy.io import netcdf_file

from crossprop.record_files import check_replaceable, read_records, write_arrays, write_records

COORDS = {
    "learner": ["größer", "b"],
    "seed": [0, 7, 2**32 - 1],
    "step": [1, 2, 3, 4],
    "task": ("step", [0, 0, 1, 1]),
    "window": ("step", [1, 1, 1, 1]),
    "rule": ("learner", ["crossprop-approx", ""]),
}


def dataset():
    generator = np.random.default_rng(0)
    data = {
        "loss": (("learner", "seed", "step"), generator.normal(size=(2, 3, 4)).astype(np.float32)),
        "wide": ("step", [0.1, np.nan, np.inf, 1e300]),
        "done": ("step", [True, False, True, True]),
        "diverged_at": (("learner", "seed"), np.full((2, 3), -1)),
    }
    return xarray.Dataset(data, COORDS, {"schema": 1, "learners": '{"größer": 1}', "empty": "", "seconds": 0.5})


@pytest.fixture
def written(tmp_path):
    write_records(tmp_path / "records.nc", dataset())
    return tmp_path / "records.nc"


def test_records_come_back_as_they_were(written):
    records, found = dataset(), read_records(written)
    assert found.identical(records)
    for name, variable in records.variables.items():
        assert found[name].dtype == variable.dtype and (name in found.coords) == (name in records.coords)


def test_plain_xarray_opens_records(written):
    with xarray.open_dataset(written) as plain:
        assert plain.load().identical(dataset())
        assert plain.done.dtype == bool and plain.loss.dtype == np.float32


def test_other_values_are_refused_before_anything_is_written(tmp_path):
    for values in (1j, 2**32, -(2**31) - 1, [-1, 2**31], np.array(None), np.zeros((0, 2)), np.longdouble(1)):
        with pytest.raises(ValueError, match="odd must"):
            write_records(tmp_path / "records.nc", xarray.Dataset({"odd": (("a", "b")[: np.ndim(values)], values)}))
    with pytest.raises(TypeError, match="the attribute odd must be a text or a number to be written, got None"):
        write_records(tmp_path / "records.nc", xarray.Dataset(attrs={"odd": None}))
    assert not list(tmp_path.iterdir())


def test_every_flipped_bit_and_every_cut_of_records_is_noticed(tmp_path):
    path = tmp_path / "records.nc"
    write_records(path, dataset()[["loss", "task"]])
    whole = path.read_bytes()
    damaged = [whole[:place] for place in range(len(whole))] + [whole + b"\0", whole + whole]
    for place in range(len(whole)):
        damaged += [whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :] for bit in range(8)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            read_records(path)
    assert len(damaged) > 5000


def sealed(content):
    return content + zlib.crc32(content).to_bytes(4, "big")


def classic(**variables):
    """A file of netCDF-3 that something else wrote."""
    with io.BytesIO() as content:
        file = netcdf_file(content, "w", version=2)
        for name, values in variables.items():
            dims = [f"{name}_{axis}" for axis in range(np.ndim(values))]
            for dim, size in zip(dims, np.shape(values), strict=True):
                file.createDimension(dim, size)
            file.createVariable(name, values.dtype, dims)[...] = values
        file.flush()
        return content.getvalue()


def overlaid():
    """A file with two arrays of three numbers that lie in the same place."""
    content = classic(one=np.zeros(3, np.float32), two=np.ones(3, np.float32))
    second = len(content) - 12
    return content[:second].replace(second.to_bytes(8, "big"), (second - 12).to_bytes(8, "big"))


HOSTILE = {
    "another-type": sealed(classic(loss=np.zeros(3, np.int16))),
    "overlaid": sealed(overlaid()),
    "a-pickle": b"\x80\x04\x95",
    "empty": b"",
    "many-dims": sealed(
        b"CDF\x02" + bytes(12) + bytes(8) + b"\0\0\0\x0b\0\0\0\x01\0\0\0\x01v\0\0\0\x7f\xff\xff\xff" * 9
    ),
    "huge": sealed(classic(loss=np.zeros(3, np.float32)).replace(b"\0\0\0\x03", b"\x7f\xff\xff\xff")),
    "not-utf-8": sealed(classic(loss=np.zeros(3, np.float32)).replace(b"loss", b"\xff\xff\xff\xff")),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_records_never_are_is_refused_by_name(tmp_path, content):
    path = tmp_path / "records.nc"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path} is damaged, or crossprop did not write it: "):
        read_records(path)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "has schema None"),
        ({"schema": 1}, "does not hold records"),
        ({"schema": 1, "coordinates": 3}, "does not hold records"),
        ({"schema": 1, "coordinates": "nothing"}, "does not hold records"),
        ({"schema": 1, "coordinates": "", "seeds": "[" * 100_000}, "does not hold records: seeds is no JSON"),
        ({"schema": 1, "coordinates": "", "seeds": 3}, "does not hold records: seeds is no JSON"),
        ({"schema": 1, "coordinates": ""}, r"another experiment, which are kept: seeds is None there and \[0\] here"),
    ],
)
def test_attributes_of_anything_else_are_refused_by_name(tmp_path, attributes, message):
    path = tmp_path / "records.nc"
    write_arrays(path, {"loss": (("step",), np.zeros(3))}, attributes)
    with pytest.raises(ValueError, match=f"{path} {message}|{path} holds records of {message}"):
        check_replaceable(path, {"seeds": "[0]"})


def test_a_sparse_file_of_many_gigabytes_is_not_read(written):
    os.truncate(written, 2**40)
    with pytest.raises(ValueError, match=rf"{written} is damaged.*: it has 1,099,511,627,776 bytes"):
        read_records(written)


def test_a_large_file_is_read_in_parts(tmp_path, monkeypatch):
    records = dataset().isel(step=np.zeros(10_000, int))
    monkeypatch.setattr("crossprop.record_files.MOST_HEADER", 2000)
    write_records(tmp_path / "records.nc", records)
    assert read_records(tmp_path / "records.nc").identical(records)
    monkeypatch.setattr("crossprop._support.memory.free_memory", lambda device: 2**16)
    monkeypatch.setattr("crossprop._support.memory.SMALL", 2**16)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/records.nc would take .* MiB of memory"):
        read_records(tmp_path / "records.nc")


def test_a_folder_in_the_place_of_records_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} is no plain file"):
        read_records(tmp_path)


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path):
    """No file may grow past 16 KiB."""
    values = np.random.default_rng(0).normal(size=(40, 100, 300))
    records = xarray.Dataset({"loss": (("learner", "seed", "step"), values)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*records\.nc"):
            write_records(tmp_path / "records.nc", records)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
