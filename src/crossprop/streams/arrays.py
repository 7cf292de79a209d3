"""A user's own data as a stream."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from crossprop import _checks as check
from crossprop.network import float_type
from crossprop.streams.base import Life


@dataclass(frozen=True, eq=False)
class Arrays:
    """Your own data, one pass in order, the same for every seed.

    **Arguments:**

    - `x`: `(steps, inputs)`, or `(steps,)` for one input.
    - `y`: numbers, `(steps, outputs)` or `(steps,)`; or integer classes from 0, `(steps,)`.
    - `classes`: how many classes there are, where `y` holds classes; None is the largest class and one.

    ```python
    stream = Arrays(x=np.zeros((100, 3)), y=np.zeros(100))
    ```
    """

    x: Any
    y: Any
    classes: int | None = None

    def __post_init__(self):
        x, y = np.array(self.x), np.array(self.y)
        for name, values in (("x", x), ("y", y)):
            if values.dtype.kind not in "buif" or values.ndim not in (1, 2) or values.size == 0:
                raise ValueError(
                    f"{name} must be numbers of shape (steps,) or (steps, size), "
                    f"got shape {values.shape} of {values.dtype}"
                )
            check.finite(name, values)
        if len(x) != len(y):
            raise ValueError(f"x and y must have as many steps as each other, got {len(x)} and {len(y)}")
        if y.dtype.kind in "bui" and y.ndim == 1:
            largest = int(y.max())
            check.integer("the smallest class in y", int(y.min()), low=0)
            if self.classes is not None:
                check.integer("classes", self.classes, low=largest + 1)
            y = np.eye(self.classes or largest + 1, dtype=bool)[y.astype(int)]
        elif self.classes is not None:
            raise ValueError(f"classes is for y of integer classes, got {self.classes} with y of {y.dtype}")
        else:
            y = y.astype(float_type()) if y.dtype == bool else y
        object.__setattr__(self, "x", x.reshape(len(x), -1))
        object.__setattr__(self, "y", y.reshape(len(y), -1))

    @property
    def inputs(self) -> int:
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        return self.y.shape[1]

    @property
    def one_hot(self) -> bool:
        return self.y.dtype == bool

    @property
    def schedule(self) -> np.ndarray:
        return np.zeros(len(self.x), int)

    def sample(self, key: Key[Array, ""]) -> Life:
        del key
        x, y = self.x.astype(float_type(), copy=False), self.y.astype(float_type(), copy=False)
        return Life(x, np.arange(len(x)), y, self.schedule)
