"""A labelled data set."""

from dataclasses import dataclass

import numpy as np

from crossprop._support import checks as check


@dataclass(frozen=True, eq=False)
class DataSet:
    """Labelled examples: `x (examples, inputs)` and integer labels `y (examples,)` from 0 to `classes - 1`.

    ```python
    data = DataSet("coin", x=np.array([[0.0], [1.0]]), y=np.array([0, 1]), classes=2)
    ```
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    classes: int

    def __post_init__(self):
        for name in ("x", "y"):
            values = check.array(name, getattr(self, name))
            if values.flags.writeable or values.base is not None:  # others could change it
                values = np.array(values)
                values.flags.writeable = False
            object.__setattr__(self, name, values)
        check.integer("classes", self.classes, low=2)
        if self.x.ndim != 2 or self.x.size == 0 or self.x.dtype.kind not in "uif":
            raise ValueError(f"x must be numbers of shape (examples, inputs), got {self.x.shape} of {self.x.dtype}")
        check.shape("y", self.y, (len(self.x),))
        check.finite("x", self.x)
        if self.y.dtype.kind not in "ui":
            raise TypeError(f"y must hold integer labels, got {self.y.dtype}")
        check.integer("the smallest label in y", int(self.y.min()), low=0)
        check.integer("the largest label in y", int(self.y.max()), low=0, high=self.classes - 1)

    def __repr__(self) -> str:
        return f"DataSet({self.name!r}, {len(self.x)} examples, {self.x.shape[1]} inputs, {self.classes} classes)"
