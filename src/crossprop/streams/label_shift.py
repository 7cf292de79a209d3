"""Label-shifted classification: the same images, other labels with every task."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Key

from crossprop import _checks as check
from crossprop.datasets import DataSet
from crossprop.network import float_type
from crossprop.streams.base import Life, check_tasks, letters


@dataclass(frozen=True, eq=False)
class LabelShift:
    """A labelled data set, gone through once a task: task A has its labels, B each label c as c + 1, C as c + 2 ...

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.mnist()`.
    - `tasks`: the tasks in the order of visits, a letter each.
    - `examples`: how many examples a task has; None is all of them.
    - `shuffle`: False deals them in the data set's order; True in an order drawn by the stream's key. Either way every
      task of a life has the same examples in the same order.

    ```python
    stream = LabelShift(datasets.digits(), tasks="ABC", shuffle=True)
    ```

    Veeriah, Zhang and Sutton (2017), "MNIST tasks".
    """

    data: DataSet
    tasks: str = "ABC"
    examples: int | None = None
    shuffle: bool = False

    def __post_init__(self):
        if not isinstance(self.data, DataSet):
            raise TypeError(f"data must be a crossprop DataSet, such as datasets.digits(), got {type(self.data)}")
        check_tasks(self.tasks)
        if self.examples is not None:
            check.integer("examples", self.examples, low=1, high=len(self.data.y))
        check.flag("shuffle", self.shuffle)

    @property
    def inputs(self) -> int:
        return self.data.x.shape[1]

    @property
    def outputs(self) -> int:
        return self.data.classes

    @property
    def one_hot(self) -> bool:
        return True

    @property
    def schedule(self) -> np.ndarray:
        return np.repeat(letters(self.tasks), self.examples or len(self.data.y))

    def sample(self, key: Key[Array, ""]) -> Life:
        dealt = np.arange(len(self.data.y))
        if self.shuffle:
            dealt = np.asarray(jax.random.permutation(key, len(self.data.y)))
        order = np.tile(dealt[: self.examples], len(self.tasks))
        shifted = (self.data.y[order].astype(int) + self.schedule) % self.data.classes
        return Life(self.data.x, order, np.eye(self.data.classes, dtype=float_type())[shifted], self.schedule)
