"""Memorising random labels: the same few images, with new random labels in every task."""

# pyright: reportIncompatibleVariableOverride=false
# (a stream may compute what the contract calls an attribute)

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from crossprop import _checks as check
from crossprop.datasets import DataSet
from crossprop.network import float_type
from crossprop.streams.base import Tasks, check_left
from crossprop.streams.visits import InPasses, Passes, drawn, visited


class RandomLabelsPlace(NamedTuple):
    """Where the stream stands: the number of the next example, the order of examples and their labels at it."""

    step: Any
    order: Any
    labels: Any
    order_key: Any
    labels_key: Any
    x: Any


@dataclass(frozen=True, eq=False)
class RandomLabels(InPasses):
    """Some images of a data set, drawn once per run, with labels drawn anew for every task.

    A task is `passes` passes over the images, each in a fresh order. Labels are uniform over the classes and have
    nothing to do with the images: a learner can only memorise them, and how well it still can, task after task, is its
    plasticity.

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.mnist()`; its labels are not used.
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

    data: DataSet
    tasks: Tasks | int | None = 50
    images: int | None = 1200
    passes: int = 400

    def __post_init__(self):
        super().__post_init__()
        if self.images is not None:
            object.__setattr__(self, "images", check.integer("images", self.images, low=1, high=len(self.data.y)))
        object.__setattr__(self, "passes", check.integer("passes", self.passes, low=1))

    @property
    def _passes(self) -> Passes:
        images = self.images or len(self.data.y)
        return Passes(images, images * self.passes)

    def begin(self, key: Key[Array, ""]) -> RandomLabelsPlace:
        images_key, order_key, labels_key = jax.random.split(key, 3)
        chosen = np.asarray(jax.random.permutation(images_key, len(self.data.y))[: self._passes.size])
        order, labels = self._order(order_key, 0), self._labels(labels_key, jnp.zeros((), int))
        x = jnp.asarray(self.data.x[chosen].astype(float_type()))
        return RandomLabelsPlace(jnp.zeros((), int), order, labels, order_key, labels_key, x)

    def deal(self, place: RandomLabelsPlace, count: int) -> tuple[RandomLabelsPlace, Array, Array]:
        check_left(self, place.step, count)
        visit, number, at = self._passes.at(place.step + jnp.arange(count + 1))
        orders, row = self._orders(place, number, count)
        labels, own = drawn(
            lambda visit: self._labels(place.labels_key, visit),
            place.labels,
            visit,
            self._passes.most_visits(count),
        )
        image = orders[row, at][:count]
        y = jax.nn.one_hot(labels[own[:count], image], self.outputs, dtype=float_type())
        return place._replace(step=place.step + count, order=orders[row[-1]], labels=labels[own[-1]]), place.x[image], y

    def _labels(self, key: Key[Array, ""], visit: Any) -> Array:
        own = jax.random.fold_in(key, visited(self.tasks, visit))
        return jax.random.randint(own, (self._passes.size,), 0, self.outputs)
