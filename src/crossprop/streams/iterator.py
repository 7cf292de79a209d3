"""A Python iterable as a stream."""

import queue
import threading
from collections.abc import Iterable, Mapping
from collections.abc import Iterator as Iterating
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from crossprop._support import checks as check
from crossprop.network import float_type
from crossprop.streams.base import Stream, set_fields

PREFETCHED = 2
"""Batches of examples in the queue."""


@dataclass(frozen=True, eq=False)
class Iterator(Stream):
    """Examples from any iterable of `(x, y)`, in one pass: a generator, a file, a queue.

    They are read ahead in a thread. Every learner and every seed of a call sees the same examples; seeds differ in
    initial weights only. Without `steps` the run ends with the iterable.

    **Arguments:**

    - `iterable`: gives pairs `(x, y)`: `x` of `inputs` numbers, `y` of `outputs` numbers (a single number will do for
      one output), or the number of a class if `classes` is set.
    - `inputs`, `outputs`: the sizes. With `classes`, `outputs` may be left out.
    - `classes`: the number of classes, if `y` is a class; the learner then sees it one-hot.
    - `steps`: the number of examples, if it is known.

    ```python
    examples = (([float(i % 2), 1.0], float(i % 2)) for i in range(1000))
    records = run(Backprop(Network(2, 10), 0.01), Iterator(examples, inputs=2, outputs=1), seeds=2)
    ```
    """

    iterable: Iterable[Any] = field(repr=False, metadata={"configuration": False})
    inputs: int
    outputs: int | None = None
    classes: int | None = None
    steps: int | None = None

    def __post_init__(self):
        if not isinstance(self.iterable, Iterable):
            raise TypeError(f"iterable must be an iterable of (x, y), got {check.shown(self.iterable)}")
        set_fields(self, inputs=check.integer("inputs", self.inputs, low=1))
        if self.classes is not None:
            set_fields(self, classes=check.integer("classes", self.classes, low=2))
            if self.outputs is not None and check.integer("outputs", self.outputs, low=1) != self.classes:
                found = f"{check.shown(self.outputs)} and {check.shown(self.classes)}"
                raise ValueError(f"outputs must be left out or equal classes, got {found}")
            set_fields(self, outputs=self.classes)
        set_fields(self, outputs=check.integer("outputs", self.outputs, low=1), one_hot=self.classes is not None)
        if self.steps is not None:
            set_fields(self, steps=check.integer("steps", self.steps, low=1))

    def begin(self, key: Any) -> NoReturn:
        raise TypeError("a crossprop.Iterator has one pass only and cannot be dealt by place: give it to crossprop.run")

    def deal(self, place: Any, count: int) -> NoReturn:
        self.begin(place)

    @contextmanager
    def batches(self, size: int, limit: int | None = None) -> Iterating[Iterating[tuple[np.ndarray, np.ndarray]]]:
        """Checked arrays of up to `size` examples, `limit` in all, prefetched in a thread that ends with this."""
        ready: queue.Queue[Any] = queue.Queue(PREFETCHED)
        stop = threading.Event()

        def offer(item: Any) -> bool:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.1)
                except queue.Full:
                    continue
                return True
            return False

        def read() -> None:
            try:
                examples, start = islice(self.iterable, limit), 0
                while batch := list(islice(examples, size)):
                    if not offer(self._arrays(batch, start)):
                        return
                    start += len(batch)
                offer(None)
            except BaseException as problem:  # handed to the thread that asked
                offer(problem)

        def batches() -> Iterating[tuple[np.ndarray, np.ndarray]]:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item

        reader = threading.Thread(target=read, name="crossprop-iterator", daemon=True)
        reader.start()
        try:
            yield batches()
        finally:
            stop.set()
            # An iterable that blocks, such as an idle queue, cannot be interrupted: the thread ends with its next item.
            reader.join(timeout=0.5)

    def _arrays(self, batch: list[Any], start: int) -> tuple[np.ndarray, np.ndarray]:
        assert self.outputs is not None
        x = np.empty((len(batch), self.inputs), float_type())
        y = np.zeros((len(batch), self.outputs), float_type())
        for row, example in enumerate(batch):
            where = f"example {start + row} of the iterable"
            try:
                if isinstance(example, Mapping):
                    raise TypeError
                one_x, one_y = example
            except (TypeError, ValueError):
                raise TypeError(f"{where} must be a pair (x, y), got {check.shown(example)}") from None
            x[row] = _numbers(f"x of {where}", one_x, self.inputs)
            if self.classes is None:
                y[row] = _numbers(f"y of {where}", one_y, self.outputs)
            else:
                check.integer(f"y of {where}", one_y, low=0, high=self.classes - 1)
                y[row, int(one_y)] = 1
        check.finite("x of the iterable", x, start)
        check.finite("y of the iterable", y, start)
        return x, y


def _numbers(name: str, values: Any, size: int) -> np.ndarray:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "buif":
        raise TypeError(f"{name} must be numbers, got {check.shown(values)}")
    numbers = numbers[None] if numbers.ndim == 0 else numbers
    check.shape(name, numbers, (size,))
    return numbers
