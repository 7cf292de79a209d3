"""ImageNet with 32 x 32 pixels, from a folder of files that people have of it.

Chrabaszcz, Loshchilov and Hutter (2017), "A Downsampled Variant of ImageNet as an Alternative to the CIFAR datasets".
"""

import codecs
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crossprop._support import checks as check
from crossprop.datasets.base import DataSet

INPUTS = 3 * 32 * 32
BATCH = "train_data_batch_"


class _Array:
    """The class of arrays in a pickle; a real one would make arrays of any pointers."""


def _reconstruct(kind: Any, shape: Any, code: Any) -> np.ndarray:
    return np.empty(0, "u1")  # what it holds follows as its state


def _dtype(code: Any, *flags: Any) -> np.dtype:
    """A dtype of numbers: NumPy's own object for it, which a pickled state cannot change."""
    dtype = np.dtype(code) if isinstance(code, str) else None
    if dtype is None or dtype.kind not in "biuf":
        raise pickle.UnpicklingError(f"its arrays must hold numbers, got {code!r}")
    return np.dtype(dtype.type)


def _frombuffer(content: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    if not isinstance(content, bytes | bytearray) or not isinstance(dtype, np.dtype):
        raise pickle.UnpicklingError("its arrays must be made of bytes and a type")
    return np.frombuffer(content, dtype).reshape(shape, order=order)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding}")
    return codecs.encode(text, encoding)


ADMITTED = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _dtype,
    ("numpy.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.numeric", "_frombuffer"): _frombuffer,
    ("_codecs", "encode"): _latin1,
}
"""The functions and classes that pickled arrays need, by module and name."""


class _Arrays(pickle.Unpickler):
    """Reads arrays, numbers, strings, and lists and dicts of these, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        core = module.replace("._core.", ".").replace(".core.", ".")
        if (core, name) in ADMITTED:
            return ADMITTED[core, name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are read")


def imagenet32(folder: str | Path) -> DataSet:
    """The training images of ImageNet32 in a folder, as bytes: 32 x 32 reds, then greens, then blues.

    The folder has one of three forms:

    - `0.npy`, `1.npy`, ..., one file per class, `(images, 3, 32, 32)`, as in Dohare et al. (2024); or a folder
      `classes` of them;
    - `train_data_batch_1`, ..., the pickled batches of image-net.org. They are read by an unpickler that makes arrays
      and nothing else;
    - `train_data_batch_1.npz`, ..., with `data (images, 3072)` and `labels` from 1, as in the batches.

    A part of the classes or of the batches will do. `ClassPairs` scales the bytes.
    """
    folder = check.path("folder", folder, "a folder with ImageNet32")
    if not folder.is_dir():
        raise ValueError(f"folder must be a folder with ImageNet32, got {folder}")
    classes = folder / "classes" if (folder / "classes").is_dir() else folder
    by_class = sorted(
        (each for each in classes.glob("*.npy") if each.stem.isdecimal()), key=lambda each: int(each.stem)
    )
    batches = sorted(each for each in folder.glob(f"{BATCH}*") if each.suffix in ("", ".npz"))
    if by_class:
        x = [_read(each, lambda path: _images(np.load(path, allow_pickle=False))) for each in by_class]
        y = np.repeat(np.arange(len(x)), [len(each) for each in x])
    elif batches:
        x, labels = zip(*(_read(each, _batch) for each in batches), strict=True)
        y = np.unique(np.concatenate(labels), return_inverse=True)[1]
    else:
        raise ValueError(f"folder must have files 0.npy, 1.npy, ... or {BATCH}1, ... of ImageNet32, got {folder}")
    return DataSet("imagenet32", np.concatenate(x), y, int(y.max()) + 1)


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except Exception as problem:  # a damaged or hostile file can fail in any way
        raise ValueError(f"{path} is no file of ImageNet32: {str(problem) or repr(problem)}") from None


def _images(values: Any) -> np.ndarray:
    if not isinstance(values, np.ndarray) or values.dtype != np.uint8:
        raise ValueError(f"its images must be bytes, got {getattr(values, 'dtype', type(values).__name__)}")
    if values.shape[1:] not in ((INPUTS,), (3, 32, 32)) or not len(values):
        raise ValueError(f"its images must be (images, 3, 32, 32) or (images, {INPUTS}), got {values.shape}")
    return values.reshape(len(values), INPUTS)


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix:
        with np.load(path, allow_pickle=False) as arrays:
            held: Any = dict(arrays)
    else:
        with path.open("rb") as file:
            held = _Arrays(file).load()
    if not isinstance(held, dict) or not {"data", "labels"} <= held.keys():
        raise ValueError("it must have data and labels")
    images, labels = _images(held["data"]), np.asarray(held["labels"])
    if labels.shape != (len(images),) or labels.dtype.kind not in "ui":
        raise ValueError(f"its labels must be {len(images)} whole numbers, got {labels.shape} of {labels.dtype}")
    return images, labels
