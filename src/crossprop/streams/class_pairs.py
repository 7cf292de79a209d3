"""Class pairs: one task of two classes after another, and the accuracy on held-out images at the end of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from crossprop._support import checks as check
from crossprop._support.transfers import to_device
from crossprop.hyperparameters import parameter
from crossprop.network import float_type
from crossprop.seeds import keys
from crossprop.streams.base import Tasks, set_fields
from crossprop.streams.over_data import Data
from crossprop.streams.visits import InPasses, Passes, PassesPlace, on_device

if TYPE_CHECKING:
    import xarray

HELD_OUT = "held_out"


@dataclass(frozen=True, eq=False)
class ClassPairs(InPasses):
    """Two classes of a data set to tell apart, drawn anew for every task. The learner does not know when a task begins.

    A task is `passes` passes over the first images of both classes, each in a fresh order. There are two outputs, one
    for each class of the pair. Inputs that are bytes are scaled to 0 to 1.

    **Arguments:**

    - `data`: a `DataSet`, such as `datasets.digits()`, or its name.
    - `tasks`: how many tasks; or the tasks in the order of visits, as letters or a sequence of numbers from 0, where a
      task visited again has its classes again; None is endless.
    - `train`: how many images of every class to learn from; None is six in seven of the smallest class. The others are
      held out.
    - `passes`: passes over the images in a task.

    `held_out(learner)` is a probe of the held-out images, and `accuracy(records)` says what share of those of its two
    classes a learner had right at the end of each task:

    ```python
    stream = ClassPairs(datasets.digits(), tasks=20, passes=5)
    learner = Backprop(Network(64, hidden=50, outputs=2, loss="softmax"), step_size=0.01)
    records = run(learner, stream, record_every=stream.examples, probes={"held_out": stream.held_out(learner)})
    print(stream.accuracy(records).mean("seed"))
    ```

    Dohare et al. (2024), "Loss of plasticity in deep continual learning": Continual ImageNet, with 600 images of a
    class in 250 passes. There the outgoing weights are set to 0 when a task begins; here they stay.
    """

    data: Data = "digits"
    tasks: Tasks | int | None = 100
    train: int | None = parameter(None, whole=True, low=1)
    passes: int = parameter(1, whole=True, low=1)

    def __post_init__(self):
        super().__post_init__()
        smallest = int(np.bincount(self.data.y, minlength=self.data.classes).min())
        if not smallest:
            raise ValueError(f"data must have images of every class, got {self.data} without some")
        train = max(1, smallest * 6 // 7) if self.train is None else self.train
        set_fields(self, train=check.integer("train", train, low=1, high=smallest))
        set_fields(self, outputs=2)

    @property
    def examples(self) -> int:
        """The examples of a task."""
        return self._passes.examples

    @property
    def _train(self) -> int:
        assert self.train is not None
        return self.train

    @property
    def _passes(self) -> Passes:
        return Passes(2 * self._train, 2 * self._train * self.passes)

    def _rows(self, first: int, last: int | None) -> list[np.ndarray]:
        """Of every class, the rows of its images from the first to the last."""
        order = np.argsort(self.data.y, kind="stable")
        counts = np.bincount(self.data.y, minlength=self.data.classes)
        return [rows[first:last] for rows in np.split(order, np.cumsum(counts)[:-1])]

    def begin(self, key: Key[Array, ""]) -> PassesPlace:
        order_key, pairs_key = jax.random.split(key)
        rows = to_device(np.stack(self._rows(0, self._train)).astype(np.int32))
        return self._begin(order_key, pairs_key, on_device(self.data), rows)

    def _draw(self, key: Key[Array, ""]) -> Array:
        """The two classes."""
        return jax.random.permutation(key, self.data.classes)[:2]

    def _examples(
        self, place: PassesPlace, rows: Int[Array, " count"], drawn: Array, own: Int[Array, " count"]
    ) -> tuple[Array, Array]:
        second = rows // self._train
        x = place.x[place.labels[drawn[own, second], rows % self._train]]
        return self._scaled(x), jax.nn.one_hot(second, 2, dtype=float_type())

    def _scaled(self, x: Any) -> Any:
        return x.astype(float_type()) / (255 if self.data.x.dtype == np.uint8 else 1)

    def pairs(self, seed: int, tasks: int) -> Int[np.ndarray, "tasks 2"]:
        """The classes of the first tasks of a run with this seed, for the first and for the second output."""
        pairs_key = jax.random.split(keys(seed)[0])[1]
        return np.asarray(jax.vmap(lambda visit: self._of_visit(pairs_key, visit))(jnp.arange(tasks)))

    def held_out(self, learner: Any, most: int = 100) -> Callable[[Any, Any], Array]:
        """A probe: for every class, the share of its held-out images (the first `most` of them) for which the learner's
        second output is the larger one."""
        count = min(check.integer("most", most, low=1), *(len(rows) for rows in self._rows(self._train, None)))
        if not count:
            raise ValueError(f"train must leave images of every class, got {self.train} for {self.data}")
        x = self.data.x[np.stack([rows[:count] for rows in self._rows(self._train, None)])]

        def share(initial: Any, state: Any) -> Array:
            del initial
            predict = jax.vmap(lambda one: learner.predict(state, one))
            outputs = jax.lax.map(lambda of_class: predict(self._scaled(of_class)), jnp.asarray(x))
            return jnp.mean(outputs[..., 1] > outputs[..., 0], axis=1, dtype=float_type())

        return share

    def accuracy(self, records: "xarray.Dataset", probe: str = HELD_OUT) -> "xarray.DataArray":
        """The accuracy on the held-out images at the end of every task, with dims `learner`, `seed` and `task`. The
        records need the probe of this name, and windows that end with the tasks."""
        import xarray

        check.choice("probe", probe, [str(name) for name in records.data_vars])
        ends = np.flatnonzero(records["step"].values % self.examples == 0)
        visits = records["step"].values[ends] // self.examples - 1
        if not len(ends):
            raise ValueError(f"records must have windows that end with a task of {self.examples} examples, got none")
        shares = records[probe].isel(step=ends).transpose("learner", "seed", "step", ...).values
        right = np.empty(shares.shape[:3])
        for at, seed in enumerate(records["seed"].values):
            first, second = self.pairs(int(seed), int(visits[-1]) + 1)[visits].T
            of = lambda classes, at=at: np.take_along_axis(shares[:, at], classes[None, :, None], axis=2)[..., 0]
            right[:, at] = (1 - of(first) + of(second)) / 2
        dims = ("learner", "seed", "task")
        return xarray.DataArray(right, {"learner": records["learner"], "seed": records["seed"], "task": visits}, dims)
