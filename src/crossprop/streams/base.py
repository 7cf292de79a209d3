"""What all streams share: tasks named by letters, and a life, which is all the examples of one run in order."""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Int, Key, Real

from crossprop.network import float_type

Numbers = np.ndarray | Array


class Life:
    """All the examples of one run. They are dealt from a pool in an order, so that what repeats is kept once.

    `x (steps, inputs)`, `y (steps, outputs)`, `task (steps,)`: 0 for task A, 1 for B and so on.
    """

    def __init__(
        self,
        pool: Real[Numbers, "examples inputs"],
        order: Int[Numbers, " steps"],
        y: Float[Numbers, "steps outputs"],
        task: Int[Numbers, " steps"],
    ):
        self.pool, self.order, self.y, self.task = map(np.asarray, (pool, order, y, task))

    @property
    def x(self) -> np.ndarray:
        return self.pool[self.order].astype(float_type(), copy=False)


@runtime_checkable
class Stream(Protocol):
    """Where examples come from: a sequence of tasks, whose switches the learner is not told of."""

    @property
    @abstractmethod
    def inputs(self) -> int: ...

    @property
    @abstractmethod
    def outputs(self) -> int: ...

    @property
    @abstractmethod
    def one_hot(self) -> bool:
        """Whether `y` is one-hot."""
        ...

    @property
    @abstractmethod
    def schedule(self) -> np.ndarray:
        """The task of every step, `(steps,)`, the same for all keys."""
        ...

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> Life:
        """The whole life of one run, a pure function of the key."""
        ...


def check_tasks(tasks: Any) -> None:
    if not isinstance(tasks, str) or not tasks or not all("A" <= letter <= "Z" for letter in tasks):
        raise ValueError(f"tasks must be a string of the letters A to Z, such as 'ABCABC', got {tasks!r}")


def letters(tasks: str) -> np.ndarray:
    """The number of each task: 0 for A, 1 for B ..."""
    return np.array([ord(letter) - ord("A") for letter in tasks])
