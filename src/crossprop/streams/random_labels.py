"""Memorising random labels: the same few images, with new random labels in every task."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Int, Key

from crossprop._support import checks as check
from crossprop._support.transfers import to_device
from crossprop.hyperparameters import parameter
from crossprop.network import float_type
from crossprop.streams.base import Tasks, set_fields
from crossprop.streams.over_data import Data
from crossprop.streams.visits import InPasses, Passes, PassesPlace


@dataclass(frozen=True, eq=False)
class RandomLabels(InPasses):
    """Some images of a data set, drawn once per run, with labels drawn anew for every task.

    A task is `passes` passes over the images, each in a fresh order. Labels are uniform over the classes and have
    nothing to do with the images: a learner can only memorise them, and how well it still can, task after task, is its
    plasticity.

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.mnist()`, or its name; its labels are not used.
    - `tasks`: how many tasks; or the tasks in the order of visits, as letters or a sequence of numbers from 0, where a
      task visited again has its labels again; None is endless.
    - `images`: how many images; None is all of them.
    - `passes`: passes over the images in a task.

    ```python
    stream = RandomLabels(datasets.digits(), tasks=50, images=1200, passes=20)
    ```

    Kumar, Marklund and Van Roy (2023), "Maintaining Plasticity in Continual Learning via Regenerative Regularization",
    with 400 passes in batches of 16.
    """

    data: Data = "mnist5k"
    tasks: Tasks | int | None = 50
    images: int | None = 1200
    passes: int = parameter(400, whole=True, low=1)

    def __post_init__(self):
        super().__post_init__()
        if self.images is not None:
            set_fields(self, images=check.integer("images", self.images, low=1, high=len(self.data.y)))

    @property
    def _passes(self) -> Passes:
        images = self.images or len(self.data.y)
        return Passes(images, images * self.passes)

    def begin(self, key: Key[Array, ""]) -> PassesPlace:
        images_key, order_key, labels_key = jax.random.split(key, 3)
        chosen = np.asarray(jax.random.permutation(images_key, len(self.data.y))[: self._passes.size])
        return self._begin(order_key, labels_key, to_device(self.data.x[chosen].astype(float_type())))

    def _draw(self, key: Key[Array, ""]) -> Array:
        """The labels of all images."""
        return jax.random.randint(key, (self._passes.size,), 0, self.outputs)

    def _examples(
        self, place: PassesPlace, rows: Int[Array, " count"], drawn: Array, own: Int[Array, " count"]
    ) -> tuple[Array, Array]:
        return place.x[rows], jax.nn.one_hot(drawn[own, rows], self.outputs, dtype=float_type())
