"""The contract of streams, pools of examples dealt in an order, and names of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from crossprop._support import checks as check
from crossprop._support.memory import bytes_of, check_memory
from crossprop._support.programs import program
from crossprop._support.transfers import to_device
from crossprop.network import float_type

Tasks = str | Sequence[int] | np.ndarray

MOST_TASKS = 10**6


class Sample(NamedTuple):
    """All examples of one run of a finite stream, and the number of each one's task."""

    x: Float[np.ndarray, "steps inputs"]
    y: Float[np.ndarray, "steps outputs"]
    task: Int[np.ndarray, " steps"]


class Stream(ABC):
    """A source of examples: a sequence of tasks whose switches the learner is not told about.

    A stream is an immutable description, usually a frozen dataclass. It has the attributes `inputs`, `outputs`,
    `one_hot` (whether `y` is one-hot) and `steps` (None for an endless stream), and deals its examples in order:

    - `begin(key)`: where the stream stands before its first example, as any pytree.
    - `deal(place, count)`: the next `count` examples and the place after them. It is a pure function, and dealing 3
      and then 4 examples gives the same ones as dealing 7. If JAX can trace it, examples are made on the device;
      otherwise it is called with ordinary arrays on the host.

    ```python
    @dataclass(frozen=True)
    class Noise(cp.Stream):
        inputs: int = 3
        outputs: int = 1
        one_hot: bool = False
        steps: int | None = None

        def begin(self, key):
            return key, 0

        def deal(self, place, count):
            key, step = place
            keys = jax.vmap(partial(jax.random.fold_in, key))(step + jnp.arange(count))
            x = jax.vmap(lambda key: jax.random.normal(key, (self.inputs,)))(keys)
            return (key, step + count), x, x[:, :1]
    ```
    """

    inputs: int
    outputs: int
    one_hot: bool
    steps: int | None
    predicts: bool = False
    """Whether `y` has a cumulant, a discount and a return for each prediction; the return may be NaN."""

    @abstractmethod
    def begin(self, key: Key[Array, ""]) -> Any:
        """The place before the first example, as a pytree."""

    @abstractmethod
    def deal(self, place: Any, count: int) -> tuple[Any, Any, Any]:
        """The place after `count` more examples, their `x (count, inputs)` and their `y (count, outputs)`."""

    def task(self, steps: np.ndarray) -> np.ndarray:
        """The number of the task at these steps, counted from 0; the same for every key."""
        return np.zeros(np.shape(steps), int)

    def sample(self, key: Key[Array, ""]) -> Sample:
        """All examples of one run, for a finite stream."""
        if self.steps is None:
            raise ValueError(f"stream must be finite to be sampled whole, got {self!r}: use begin and deal")
        _, x, y = self.deal(self.begin(key), self.steps)
        x, y = (np.asarray(values, float_type()) for values in (x, y))
        return Sample(x, y, np.asarray(self.task(np.arange(self.steps))))


class Pool(NamedTuple):
    """Examples that are kept once and dealt by row: `x (examples, inputs)`, `y (targets, outputs)`."""

    x: Any
    y: Any
    index: Any = None
    """Arrays that the stream's `rows` needs, as a pytree."""


class PoolPlace(NamedTuple):
    """The position in a pool stream."""

    step: Any
    pool: Pool


class PoolStream(Stream):
    """A finite stream whose examples are rows of two tables. Engines look rows up instead of calling `deal`."""

    @abstractmethod
    def pool(self, key: Key[Array, ""]) -> Pool:
        """The tables of one run, as NumPy arrays."""

    def pools(self, keys: Key[Array, " runs"]) -> Pool | None:
        """The tables of several runs, made together on JAX's default device: `x (runs, examples, inputs)`,
        `y (runs, targets, outputs)`, and one index for all. They must equal those of `pool`. None if the stream makes
        them one by one."""
        return None

    @abstractmethod
    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        """The rows of the pool's `x` and `y` at these steps. Written in operations that NumPy and JAX share."""

    def begin(self, key: Key[Array, ""]) -> PoolPlace:
        pool = self.pool(key)
        check_memory("the examples of this stream", bytes_of(pool))
        return PoolPlace(jnp.zeros((), int), to_device(pool))

    def deal(self, place: PoolPlace, count: int) -> tuple[PoolPlace, Array, Array]:
        check_left(self, place.step, count)
        x, y, index = place.pool
        x_rows, y_rows = self.rows(index, place.step + jnp.arange(count))
        return place._replace(step=place.step + count), x[x_rows].astype(float_type()), y[y_rows].astype(float_type())


class Simulated(Stream):
    """A stream that computes its examples, by one compiled program for each count."""

    one_hot = False

    def deal(self, place: Any, count: int) -> tuple[Any, Array, Array]:
        check_left(self, place.step, count)
        changed, x, y = self._compiled(place, count)
        return place._replace(step=place.step + count, **changed), x, y

    @abstractmethod
    def _deal(self, place: Any, count: int) -> tuple[dict[str, Array], Array, Array]:
        """The fields of `place` besides `step` that change, and `count` examples."""

    @partial(program, static_argnums=(0, 2))
    def _compiled(self, place: Any, count: int) -> tuple[dict[str, Array], Array, Array]:
        return self._deal(place, count)


def set_fields(stream: Stream, **values: Any) -> None:
    """Sets fields of a stream that is a frozen dataclass, from its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(stream, name, value)


def check_left(stream: Stream, step: Any, count: int) -> None:
    """A ValueError unless `count` examples are left from this step on; a traced step is not checked."""
    if stream.steps is not None and not check.is_traced(step) and int(step) + count > stream.steps:
        raise ValueError(f"count must be at most the {stream.steps - int(step)} examples left, got {count}")


def checked_tasks(tasks: Any) -> str | tuple[int, ...]:
    """Tasks as letters, or as a tuple of numbers from 0."""
    if isinstance(tasks, str):
        if not tasks or not all("A" <= letter <= "Z" for letter in tasks):
            raise ValueError(
                f"tasks must be letters A to Z such as 'ABCABC', or a sequence of numbers, got {check.shown(tasks)}"
            )
        return tasks
    is_flat = isinstance(tasks, Sequence | np.ndarray) and getattr(tasks, "ndim", 1) == 1
    if is_flat and check.length(tasks) > MOST_TASKS:
        raise ValueError(f"tasks must be at most {MOST_TASKS:,} tasks, got {check.length(tasks):,}")
    if isinstance(tasks, bytes) or not is_flat or any(isinstance(task, list | tuple) for task in tasks):
        raise TypeError(
            f"tasks must be letters such as 'ABC' or a sequence of numbers from 0, got {check.shown(tasks)}"
        )
    if len(tasks) == 0:
        raise ValueError(f"tasks must be at least one task, got {check.shown(tasks)}")
    return tuple(check.integer("a task in tasks", task, low=0, high=MOST_TASKS) for task in tasks)


def task_numbers(tasks: Tasks) -> np.ndarray:
    """The number of each visited task: 0 for A, 1 for B ..."""
    return np.array([ord(task) - ord("A") if isinstance(task, str) else task for task in tasks])
