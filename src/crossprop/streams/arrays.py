"""A user's own data as a stream."""

# pyright: reportIncompatibleVariableOverride=false
# (a stream may compute what the contract calls an attribute)

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from crossprop import _checks as check
from crossprop import _files as files
from crossprop.network import float_type
from crossprop.streams.base import Pool, PoolStream


@dataclass(frozen=True, eq=False)
class Arrays(PoolStream):
    """Your own data, one pass in order, the same for every seed.

    Memory-mapped arrays (`np.load(path, mmap_mode="r")`) are read a segment at a time; other arrays are copied.

    **Arguments:**

    - `x`: `(steps, inputs)`, or `(steps,)` for one input.
    - `y`: numbers, `(steps, outputs)` or `(steps,)`; or integer classes from 0, `(steps,)`.
    - `classes`: the number of classes, if `y` holds classes; None is the largest class plus one.

    ```python
    stream = Arrays(x=np.zeros((100, 3)), y=np.zeros(100))
    ```
    """

    x: Any
    y: Any
    classes: int | None = None

    def __post_init__(self):
        x, y = (values if isinstance(values, np.memmap) else np.array(values) for values in (self.x, self.y))
        for name, values in (("x", x), ("y", y)):
            if values.dtype.kind not in "buif" or values.ndim not in (1, 2) or values.size == 0:
                raise ValueError(
                    f"{name} must be numbers of shape (steps,) or (steps, size), "
                    f"got shape {values.shape} of {values.dtype}"
                )
            _check_finite(name, values)
        if len(x) != len(y):
            raise ValueError(f"x and y must have as many steps as each other, got {len(x)} and {len(y)}")
        if y.dtype.kind in "bui" and y.ndim == 1:
            largest = int(y.max())
            check.integer("the smallest class in y", int(y.min()), low=0)
            if self.classes is not None:
                check.integer("classes", self.classes, low=largest + 1)
            object.__setattr__(self, "classes", int(self.classes or largest + 1))
        elif self.classes is not None:
            raise ValueError(f"classes is for y of integer classes, got {self.classes} with y of {y.dtype}")
        for name, values in (("x", x.reshape(len(x), -1)), ("y", y if self.classes else y.reshape(len(y), -1))):
            if not isinstance(values, np.memmap):
                values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def inputs(self) -> int:
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        return self.y.shape[1] if self.classes is None else self.classes

    @property
    def one_hot(self) -> bool:
        return self.classes is not None

    @property
    def steps(self) -> int:
        return len(self.x)

    def pool(self, key: Key[Array, ""]) -> Pool:
        del key
        if self.classes is None:
            return Pool(self.x, self.y)
        return Pool(self.x, np.eye(self.classes, dtype=float_type()), self.y)

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        return steps, steps if index is None else index[steps].astype(int)


def _check_finite(name: str, values: np.ndarray) -> None:
    """Checks part by part, so that a memory-mapped array never is in memory as a whole."""
    size = max(1, 2**22 // max(1, values[:1].size))
    for start in range(0, len(values) if values.dtype.kind == "f" else 0, size):
        check.finite(name, values[start : start + size], start)
        files.release_pages(values)
