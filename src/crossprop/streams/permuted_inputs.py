"""Classification with permuted inputs: the same images, with their pixels in another order in every task."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from crossprop._support.transfers import to_device
from crossprop.hyperparameters import parameter
from crossprop.network import float_type
from crossprop.streams.base import Tasks
from crossprop.streams.over_data import Data
from crossprop.streams.visits import InPasses, Passes, PassesPlace, on_device


@dataclass(frozen=True, eq=False)
class PermutedInputs(InPasses):
    """A labelled data set whose inputs are in another random order in every task; labels stay as they are.

    Each task has its own permutation of the inputs, and begins a new pass over the data in a fresh order. The data set
    is kept once, whatever the number of tasks and seeds.

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.mnist()`, or its name.
    - `tasks`: how many tasks; or the tasks in the order of visits, as letters or a sequence of numbers from 0, where a
      task visited again has its permutation again; None is endless.
    - `examples`: examples per task; None is one pass. If they are more than the data set has, passes follow each other,
      each in a fresh order.

    ```python
    stream = PermutedInputs(datasets.digits(), tasks=200, examples=500)
    online_permuted_mnist = PermutedInputs(datasets.mnist())  # 800 tasks, one pass of 60,000 each
    ```

    Goodfellow et al. (2013), "An empirical investigation of catastrophic forgetting"; Dohare et al. (2024), "Online
    Permuted MNIST", one pass per task; Elsayed and Mahmood (2024), "Input-permuted MNIST", 5,000 examples per task.
    """

    data: Data = "mnist5k"
    tasks: Tasks | int | None = 800
    examples: int | None = parameter(None, whole=True, low=1)

    @property
    def _passes(self) -> Passes:
        return Passes(len(self.data.y), self.examples or len(self.data.y))

    def begin(self, key: Key[Array, ""]) -> PassesPlace:
        order_key, columns_key = jax.random.split(key)
        return self._begin(order_key, columns_key, on_device(self.data), to_device(self.data.y.astype(np.int32)))

    def _draw(self, key: Key[Array, ""]) -> Array:
        """The order of the inputs."""
        return jax.random.permutation(key, self.inputs)

    def _examples(
        self, place: PassesPlace, rows: Int[Array, " count"], drawn: Array, own: Int[Array, " count"]
    ) -> tuple[Array, Array]:
        x = jnp.take_along_axis(place.x[rows].astype(float_type()), drawn[own], axis=1)
        return x, jax.nn.one_hot(place.labels[rows], self.outputs, dtype=float_type())
