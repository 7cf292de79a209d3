"""The base of streams whose tasks are passes over one data set, each in a fresh order."""

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from crossprop._support import checks as check
from crossprop._support.memory import check_memory
from crossprop._support.transfers import SentTable, this_device
from crossprop.datasets import DataSet
from crossprop.streams.base import MOST_TASKS, Tasks, check_left, checked_tasks, set_fields, task_numbers
from crossprop.streams.over_data import OverData


def checked_visits(tasks: Any) -> str | tuple[int, ...] | int | None:
    """Tasks as letters or a sequence of numbers, their count, or None for one new task after another without end."""
    tasks = check.plain(tasks)
    if tasks is None:
        return None
    if isinstance(tasks, int):
        return check.integer("tasks", tasks, low=1, high=MOST_TASKS)
    return checked_tasks(tasks)


class Passes(NamedTuple):
    """Tasks of `examples` steps, each of passes over `size` examples; every pass of every task has its own number."""

    size: int
    examples: int

    @property
    def per_task(self) -> int:
        return -(-self.examples // self.size)

    def at(self, steps: Any) -> tuple[Any, Any, Any]:
        """Number of the visit, number of the pass, and place in the pass at these steps."""
        visit, within = steps // self.examples, steps % self.examples
        return visit, visit * self.per_task + within // self.size, within % self.size

    def most_visits(self, count: int) -> int:
        """How many visits `count + 1` steps can touch at most."""
        return -(-count // self.examples) + 1

    def most_passes(self, count: int) -> int:
        """How many passes `count + 1` steps can touch at most."""
        return self.most_visits(count) + (-(-count // self.size) if self.per_task > 1 else 0)


def drawn(
    draw: Callable[[Any], Array], current: Array, numbers: Int[Array, " steps"], rows: int
) -> tuple[Array, Int[Array, " steps"]]:
    """A table with `current` for the first of these rising numbers and `draw(number)` for each later one, and the row
    of each number. It has `rows` rows; those after the last number are not drawn."""
    first, last = numbers[0], numbers[-1]
    if not check.is_traced(numbers):  # a loop on the device would be compiled for every call
        further = [draw(jnp.asarray(number)) for number in range(int(first) + 1, int(last) + 1)]
        return jnp.stack([current, *further]), numbers - first

    def row(number: Any) -> Array:
        return lax.cond(number <= last, draw, lambda _: current, number)

    table = current[None]
    if rows > 1:
        table = jnp.concatenate([table, lax.map(row, first + jnp.arange(1, rows))])
    return table, numbers - first


class PassesPlace(NamedTuple):
    """The position in the stream: the number of the next example, the order of the examples in its pass, and the random
    parameters of its task; then constants."""

    step: Any
    order: Any
    drawn: Any
    order_key: Any
    task_key: Any
    x: Any
    labels: Any


class InPasses(OverData):
    """A stream over a data set whose tasks are passes, each in a fresh order, with random parameters for every task."""

    tasks: Tasks | int | None

    def __post_init__(self):
        super().__post_init__()
        set_fields(self, tasks=checked_visits(self.tasks))

    @property
    @abstractmethod
    def _passes(self) -> Passes:
        """The lengths of a pass and of a task."""

    @abstractmethod
    def _draw(self, key: Key[Array, ""]) -> Array:
        """The random parameters of a task."""

    @abstractmethod
    def _examples(
        self, place: PassesPlace, rows: Int[Array, " count"], drawn: Array, own: Int[Array, " count"]
    ) -> tuple[Array, Array]:
        """Inputs and targets of these rows of the data; row `own` of `drawn` has the random parameters of each."""

    @property
    def steps(self) -> int | None:
        if self.tasks is None:
            return None
        return (self.tasks if isinstance(self.tasks, int) else len(self.tasks)) * self._passes.examples

    def task(self, steps: np.ndarray) -> np.ndarray:
        return self._visited(np.asarray(steps) // self._passes.examples)

    def _visited(self, visits: Any) -> Any:
        """The numbers of the tasks of these visits, which are counted from 0."""
        if self.tasks is None or isinstance(self.tasks, int):
            return visits
        numbers = task_numbers(self.tasks)
        if isinstance(visits, jax.Array):
            return jnp.asarray(numbers)[jnp.minimum(visits, len(numbers) - 1)]
        return numbers[visits]

    def _order(self, key: Key[Array, ""], number: Any) -> Array:
        """The examples of a pass."""
        return jax.random.permutation(jax.random.fold_in(key, number), self._passes.size)

    def _of_visit(self, key: Key[Array, ""], visit: Any) -> Array:
        """The random parameters of the task of a visit."""
        return self._draw(jax.random.fold_in(key, self._visited(visit)))

    def _begin(self, order_key: Key[Array, ""], task_key: Key[Array, ""], x: Array, labels: Any = None) -> PassesPlace:
        zero = jnp.zeros((), int)
        return PassesPlace(
            zero, self._order(order_key, 0), self._of_visit(task_key, zero), order_key, task_key, x, labels
        )

    def deal(self, place: PassesPlace, count: int) -> tuple[PassesPlace, Array, Array]:
        check_left(self, place.step, count)
        passes = self._passes
        visit, number, at = passes.at(place.step + jnp.arange(count + 1))
        order, of_visit = partial(self._order, place.order_key), partial(self._of_visit, place.task_key)
        orders, row = drawn(order, place.order, number, passes.most_passes(count))
        table, own = drawn(of_visit, place.drawn, visit, passes.most_visits(count))
        x, y = self._examples(place, orders[row, at][:count], table, own[:count])
        return place._replace(step=place.step + count, order=orders[row[-1]], drawn=table[own[-1]]), x, y


_shared: weakref.WeakKeyDictionary[DataSet, dict[Any, Array]] = weakref.WeakKeyDictionary()
_sharing = threading.Lock()


def on_device(data: DataSet) -> Array:
    """The inputs of a data set on the default device, in one copy for all runs."""
    dtype = jax.dtypes.canonicalize_dtype(data.x.dtype.newbyteorder("="))
    device = this_device()
    with _sharing:
        kept = _shared.setdefault(data, {})
        if (device, dtype) not in kept:
            check_memory(f"the inputs of {data.name}", data.x.size * dtype.itemsize, device)
            kept[device, dtype] = SentTable(data.x).array
        return kept[device, dtype]
