"""Records on disk: one file that plain xarray opens, of which every bit counts, and nothing else is read."""

import io
import json
import os
import resource
import zlib

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

from crossprop._support.array_files import read_arrays, write_arrays
from crossprop.record_files import check_replaceable, read_records, write_records

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
    for number in (2**31, -(2**31) - 1, 10**30):
        with pytest.raises(ValueError, match=f"the attribute odd must be a whole number of 32 bits .* got {number}"):
            write_records(tmp_path / "records.nc", xarray.Dataset(attrs={"odd": number}))
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


def sealed(index, data=b""):
    """A file with any index, whose checksum is right."""
    index = index if isinstance(index, bytes) else json.dumps(index).encode()
    content = data + index + len(index).to_bytes(8, "big")
    return content + zlib.crc32(content).to_bytes(4, "big")


def indexed(*array, begin=0, data=bytes(12)):
    """A file with one array."""
    return sealed({"begin": begin, "arrays": {"loss": array}, "attributes": {}}, data)


def archive():
    with io.BytesIO() as content:
        np.savez(content, header=np.array("{}"))
        return content.getvalue()


HOSTILE = {
    "another-type": indexed(["step"], [6], "<i2", "int16"),
    "objects": indexed(["step"], [3], "i1", "object", [0]),
    "objects-of-numbers": indexed(["step"], [3], ">f4", "object"),
    "large-items": indexed(["step"], [3], ">f4", "S1000000000"),
    "fewer": indexed(["step"], [2], ">f4", "float32"),
    "more": indexed(["step"], [2**40], ">f4", "float32"),
    "negative": indexed(["step"], [-1], ">f4", "float32", begin=16),
    "no-number": indexed(["step"], [3.0], ">f4", "float32"),
    "another-shape": indexed(["bytes"], [9], "i1", "float32", [10**12]),
    "many-dims": indexed(["step"] * 99, [1] * 98 + [3], ">f4", "float32"),
    "before-the-file": indexed(["step"], [4], ">f4", "float32", begin=-4),
    "no-index": sealed({}),
    "a-list": sealed([]),
    "nested": sealed(b"[" * 100_000),
    "digits": sealed(b"9" * 5000),
    "not-utf-8": sealed(b'{"\xff": 1}'),
    "a-pickle": b"\x80\x04\x95",
    "an-archive": archive(),
    "empty": b"",
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
    with pytest.raises(ValueError, match=f"{written} is damaged"):
        read_records(written)


def test_a_file_larger_than_memory_is_not_read(tmp_path, monkeypatch):
    write_records(tmp_path / "records.nc", dataset().isel(step=np.zeros(10_000, int)))
    monkeypatch.setattr("crossprop._support.memory.free_memory", lambda device: 2**16)
    monkeypatch.setattr("crossprop._support.memory.SMALL", 2**16)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/records.nc would take .* MiB of memory"):
        read_records(tmp_path / "records.nc")


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int32", "int64", "uint32", "uint64", "float16", "bfloat16", "complex128"]
)
def test_arrays_of_states_come_back_in_their_types_and_shapes(tmp_path, dtype, shape):
    values = np.random.default_rng(0).integers(0, 256, (*shape, jnp.dtype(dtype).itemsize), np.uint8)
    values = (values % 2 if dtype == "bool" else values).view(dtype)[..., 0]
    write_arrays(tmp_path / "state.nc", {"one": (None, values), "other": (None, values.T)}, {})
    for name, whole in {"one": values, "other": values.T}.items():
        found = read_arrays(tmp_path / "state.nc").variables[name][1]
        assert found.dtype == whole.dtype and found.shape == whole.shape and found.tobytes() == whole.tobytes()
    with xarray.open_dataset(tmp_path / "state.nc") as plain:
        assert {*plain.variables} == {"one", "other"}


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
