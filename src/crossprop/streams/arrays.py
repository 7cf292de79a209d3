"""A user's own data as a stream."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop._support import files
from crossprop._support.memory import check_memory
from crossprop.network import float_type
from crossprop.streams.base import Pool, PoolStream, set_fields

KINDS = ("regression", "classification", "prediction")
FEW = 1000
"""Integers from 0 to below this number are taken for classes."""

BYTES_PER_LABEL = 100
"""Estimated bytes of memory per label."""


@dataclass(frozen=True, eq=False)
class Arrays(PoolStream):
    """Your own data, one pass in order, the same for every seed.

    `x` and `y` may be arrays of any package, lists, tensors of torch, data frames and series. Memory-mapped arrays
    (`np.load(path, mmap_mode="r")`) are read a segment at a time; other arrays are copied. Learners see them in JAX's
    float type, float32 by default, which rounds integers above 2**24.

    **Arguments:**

    - `x`: `(steps, inputs)`, or `(steps,)` for one input.
    - `y`: numbers, `(steps, outputs)` or `(steps,)`; or classes, `(steps,)`: integers from 0, or labels of any kind.
    - `classes`: the number of classes, or a list of the labels in the order of the outputs. None is the largest class
      plus one for integers from 0, and all labels in `y`, sorted, otherwise; the attribute then has the labels.
    - `kind`: `"regression"`, `"classification"`, or `"prediction"`, where a row of `y` has a cumulant, a discount from
      0 to 1 and a return, or NaN, for each prediction. None takes floats for numbers and strings, booleans and
      integers from 0 for classes; where that is not beyond doubt, it is an error that asks for `kind`.
    - `tasks`: the number of the task of each step, `(steps,)`; None is one task.

    ```python
    stream = Arrays(x=np.zeros((100, 3)), y=np.zeros(100))
    animals = Arrays(x=np.zeros((4, 3)), y=["dog", "cat", "dog", "bird"])  # animals.classes: bird, cat, dog
    ```
    """

    x: Any
    y: Any
    classes: Any = None
    kind: str | None = field(default=None, metadata={"configuration": False})  # y and classes tell
    tasks: Any = field(default=None, metadata={"configuration": False})  # learners are not told
    about: str = field(default="", metadata={"configuration": False})
    """The columns and types that `read_table` found in a file."""
    standardized: bool = field(default=False, metadata={"configuration": False})
    """Whether `read_table` standardised the target."""

    def __post_init__(self):
        given = check.array("x", self.x), check.array("y", self.y)
        x, y = (each if isinstance(each, np.memmap) else np.array(each) for each in given)
        if self.kind is not None:
            check.choice("kind", self.kind, KINDS)
        if self.kind == "prediction" and (y.ndim != 2 or y.shape[1] % 3 or y.dtype.kind != "f"):
            raise ValueError(
                "y must be a cumulant, a discount and a return for each prediction, floats of shape (steps, 3), got "
                f"shape {y.shape} of {y.dtype}"
            )
        for name, values, kinds in (("x", x, "buif"), ("y", y, "buifUS")):
            mixed = values.dtype.kind == "U" and not _all_text(getattr(self, name))
            if mixed or values.dtype.kind not in kinds or values.ndim not in (1, 2) or values.size == 0:
                raise ValueError(
                    f"{name} must be numbers {'or labels ' * (name == 'y')}of shape (steps,) or (steps, size), "
                    f"got {_description(values, getattr(self, name), kinds)}"
                )
            _check_finite(name, values, returns=name == "y" and self.kind == "prediction")
        if len(x) != len(y):
            raise ValueError(f"x and y must have as many steps as each other, got {len(x)} and {len(y)}")
        classes = None
        if (self.kind or _guessed(y, self.classes)) == "classification":
            y, classes = _as_classes(y, self.classes)
        elif self.classes is not None:
            raise ValueError(f"classes must be None for regression, got {check.shown(self.classes)}")
        elif y.dtype.kind not in "buif":
            raise TypeError(f"y must be numbers for regression, got {y.dtype}")
        y = y.reshape(len(y), -1) if classes is None else y
        x = x.reshape(len(x), -1)
        for values in (x, y):
            if not isinstance(values, np.memmap):
                values.flags.writeable = False
        if self.tasks is not None:
            tasks = check.array("tasks", self.tasks)
            if tasks.shape != (len(x),) or tasks.dtype.kind not in "ui" or tasks.min() < 0:
                raise ValueError(f"tasks must be a number from 0 for each of {len(x)} steps, got {check.shown(tasks)}")
            set_fields(self, tasks=tasks)
        kind = "classification" if classes is not None else "prediction" if self.kind == "prediction" else "regression"
        outputs = y.shape[1] if classes is None else classes if isinstance(classes, int) else len(classes)
        set_fields(self, x=x, y=y, classes=classes, kind=kind, inputs=x.shape[1], outputs=outputs, steps=len(x))
        set_fields(self, one_hot=classes is not None, predicts=kind == "prediction")

    def task(self, steps: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(steps), int) if self.tasks is None else self.tasks[steps]

    def pool(self, key: Key[Array, ""]) -> Pool:
        del key
        if self.classes is None:
            return Pool(self.x, self.y)
        return Pool(self.x, one_hot_table(self.outputs, float_type()), self.y)

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        return steps, steps if index is None else index[steps].astype(int)


def _all_text(given: Any) -> bool:
    """Whether a list has only texts: NumPy would turn numbers among them into texts."""
    return not isinstance(given, list | tuple) or all(isinstance(each, str) for each in np.array(given, object).flat)


def _description(values: np.ndarray, given: Any, kinds: str) -> str:
    """The first of `values` that is not a number or label, or else their shape and type."""
    if not values.ndim:
        return check.shown(given)
    if values.ndim in (1, 2) and values.dtype.kind in "OUS":
        fits = str if "U" in kinds and any(isinstance(each, str) for each in values.flat) else int | float
        objects = np.array(given if isinstance(given, list | tuple) else values, dtype=object)
        for at, each in np.ndenumerate(objects):
            if not isinstance(check.plain(each), fits):
                named = getattr(given, "columns", None)
                column = f", in column {named[at[1]]!r}" if named is not None and len(at) == 2 else ""
                return f"{check.shown(each)} at index {at}{column}"
    return f"shape {values.shape} of {values.dtype}"


def _guessed(y: np.ndarray, classes: Any) -> str:
    """The kind of `y`; a ValueError where it is in doubt."""
    if classes is not None:
        return "classification"
    ask = 'say kind="regression" or kind="classification"'
    if y.ndim == 2:
        if y.shape[1] == 1 and y.dtype.kind in "bui":
            raise ValueError(f"kind must be given for a column of integers, got y of shape {y.shape}: {ask}")
        return "regression"
    match y.dtype.kind:
        case "f":
            few = np.unique(y[: 10 * FEW])
            if 2 < len(few) <= 20 and (few == np.round(few)).all() and few[0] in (0, 1) and few[-1] < 100:
                raise ValueError(f"kind must be given for floats that are all whole numbers, got y of {few}: {ask}")
            return "regression"
        case "b" | "u" | "i":
            if int(y.min()) < 0 or int(y.max()) >= FEW:
                found = f"integers from {y.min()} to {y.max()}"
                raise ValueError(f"kind must be given for integers below 0 or above {FEW - 1}, got y of {found}: {ask}")
            return "classification"
        case _:
            return "classification"


def _as_classes(y: np.ndarray, classes: Any) -> tuple[np.ndarray, Any]:
    """The class of every step as a number, and the number of classes or their labels."""
    if y.ndim == 2 and y.shape[1] > 1:
        if y.dtype.kind not in "buif" or not (((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()):
            raise ValueError(f"y must be one label per step, or one-hot, for classification, got shape {y.shape}")
        y = np.argmax(y, axis=1)
    y = y.reshape(len(y))
    if y.dtype.kind == "f" and classes is None and (y != np.round(y)).any():
        found = float(y[np.flatnonzero(y != np.round(y))[0]])
        raise ValueError(f"y must be labels for classification, got {found}: give classes if it is one")
    if y.dtype.kind == "f" and (y == np.round(y)).all() and np.abs(y).max() < 2**53:
        y = y.astype(np.int64)
    classes = check.plain(classes)
    if y.dtype.kind in "bui" and int(y.min()) >= 0 and (classes is None or isinstance(classes, int)):
        largest = int(y.max())
        if classes is not None:
            check.integer("classes", classes, low=largest + 1)
        return y, int(classes or largest + 1)
    is_list = np.iterable(classes) and hasattr(classes, "__len__") and not isinstance(classes, str)
    if classes is not None and not is_list:
        raise TypeError(f"classes must be a list of the labels in y, got {check.shown(classes)} with y of {y.dtype}")
    if classes is not None:
        check_memory(f"classes: {check.length(classes):,} labels", check.length(classes) * BYTES_PER_LABEL)
    labels = np.unique(y) if classes is None else check.array("classes", list(classes)).ravel()
    place = {label: at for at, label in enumerate(labels.tolist())}
    if len(place) < len(labels) or not len(labels):
        raise ValueError(f"classes must be different labels, at least one, got {check.shown(classes)}")
    unknown = [label for label in np.unique(y).tolist() if label not in place]
    if unknown and y.dtype.kind in "ui" and y.min() >= 0 and y.max() < len(labels):
        return y, tuple(labels.tolist())  # numbered before, in a copy of a stream
    if unknown:
        raise ValueError(f"classes must have every label of y, got {check.shown(classes)} without {unknown[0]!r}")
    return np.array([place[label] for label in y.tolist()]), tuple(labels.tolist())


@lru_cache(16)
def one_hot_table(size: int, dtype: np.dtype) -> np.ndarray:
    """The identity matrix as a view of one row: any number of classes takes next to no memory."""
    row = np.zeros(2 * size - 1, dtype)
    row[size - 1] = 1
    row.flags.writeable = False
    return np.lib.stride_tricks.sliding_window_view(row, size)[::-1]


def _check_finite(name: str, values: np.ndarray, *, returns: bool = False) -> None:
    """Checks part by part, so that a memory-mapped array never is in memory as a whole."""
    size = max(1, 2**22 // max(1, values[:1].size))
    for start in range(0, len(values) if values.dtype.kind == "f" else 0, size):
        part = values[start : start + size]
        (check.predictions if returns else check.finite)(name, part, start)
        check.fits_float(name, values[start : start + size], start)
        files.release_pages(values)
