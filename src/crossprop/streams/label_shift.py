"""Label-shifted classification: the same images, other labels with every task."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import parameter
from crossprop.network import float_type
from crossprop.streams.arrays import one_hot_table
from crossprop.streams.base import Pool, PoolStream, Tasks, checked_tasks, set_fields, task_numbers
from crossprop.streams.over_data import Data, OverData


@dataclass(frozen=True, eq=False)
class LabelShift(OverData, PoolStream):
    """A labelled data set, one pass per task: task A (0) has its labels, B (1) each label c as c + 1, C as c + 2 ...

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.mnist()`, or its name.
    - `tasks`: the tasks in the order of visits: letters, or a sequence of numbers from 0.
    - `examples`: examples per task; None is all of them.
    - `shuffle`: False deals them in the data set's order; True in an order drawn by the stream's key. Either way every
      task of a run has the same examples in the same order.

    ```python
    stream = LabelShift(datasets.digits(), tasks="ABC", shuffle=True)
    ```

    Veeriah, Zhang and Sutton (2017), "MNIST tasks".
    """

    data: Data
    tasks: Tasks = "ABC"
    examples: int | None = parameter(None, whole=True, low=1)
    shuffle: bool = parameter(False)

    def __post_init__(self):
        super().__post_init__()
        set_fields(self, tasks=checked_tasks(self.tasks))
        if self.examples is not None:
            check.integer("examples", self.examples, low=1, high=len(self.data.y))

    @property
    def steps(self) -> int:
        return len(self.tasks) * self._examples

    @property
    def _examples(self) -> int:
        return len(self.data.y) if self.examples is None else self.examples

    def task(self, steps: np.ndarray) -> np.ndarray:
        return task_numbers(self.tasks)[np.asarray(steps) // self._examples]

    def pool(self, key: Key[Array, ""]) -> Pool:
        count = len(self.data.y)
        order = np.asarray(jax.random.permutation(key, count)) if self.shuffle else np.arange(count)
        index = (order[: self._examples].astype(np.int32), self.data.y.astype(np.int32), task_numbers(self.tasks))
        return Pool(self.data.x, one_hot_table(self.data.classes, float_type()), index)

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        order, labels, shifts = index
        x_rows = order[steps % self._examples]
        return x_rows, (labels[x_rows] + shifts[steps // self._examples]) % self.data.classes
