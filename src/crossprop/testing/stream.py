"""Checks of streams."""

from typing import Any

import jax
import numpy as np

from crossprop._support import checks as check
from crossprop.learners import TD, Backprop
from crossprop.network import Network, float_type
from crossprop.passes import live
from crossprop.running import run
from crossprop.seeds import keys
from crossprop.streams import Stream
from crossprop.testing.promises import Check, promise, require, require_close, require_same

LARGEST = 10**7
"""The most numbers of a stream that are sampled whole."""
STREAM_CHECKS: dict[str, Check] = {}


@promise(STREAM_CHECKS, "attributes")
def _attributes(stream: Stream) -> None:
    """A stream has whole numbers `inputs` and `outputs`, a bool `one_hot`, and `steps`, a whole number or None."""
    for name in ("inputs", "outputs"):
        value = getattr(stream, name, None)
        require(type(value) is int and value > 0, f"{name} is {value!r}")
    steps, one_hot = getattr(stream, "steps", "missing"), getattr(stream, "one_hot", None)
    require(steps is None or (type(steps) is int and steps > 0), f"steps is {steps!r}")
    require(isinstance(one_hot, bool), f"one_hot is {one_hot!r}")


@promise(STREAM_CHECKS, "deal")
def _dealt(stream: Stream) -> None:
    """`deal(place, count)` returns the next place, `x (count, inputs)` and `y (count, outputs)`, of finite numbers."""
    place, count = stream.begin(jax.random.key(0)), _count(stream)
    dealt = stream.deal(place, count)
    require(isinstance(dealt, tuple) and len(dealt) == 3, f"a {type(dealt).__name__} in place of three values")
    for name, values, size in (("x", dealt[1], stream.inputs), ("y", dealt[2], stream.outputs)):
        array = np.asarray(values)
        require(array.dtype.kind in "buif", f"{name} of {array.dtype}")
        require(array.shape == (count, size), f"{name} of shape {array.shape}, not {(count, size)}")
        (check.predictions if name == "y" and stream.predicts else check.finite)(name, array)
    places = (place, dealt[0])
    forms = [(jax.tree.structure(each), [np.shape(leaf) for leaf in jax.tree.leaves(each)]) for each in places]
    require(forms[0] == forms[1], f"a place of another form: {forms[1]} after {forms[0]}")


@promise(STREAM_CHECKS, "one_hot")
def _one_hot(stream: Stream) -> None:
    """If `one_hot` is True, every row of `y` has one 1 and is 0 elsewhere."""
    _, _, y = _deal(stream, _count(stream))
    rows = np.sort(y, axis=1)
    wrong = np.flatnonzero((rows[:, -1] != 1) | (rows[:, :-1] != 0).any(axis=1)) if stream.one_hot else []
    require(len(wrong) == 0, f"y[{wrong[0]}] is {y[wrong[0]]}" if len(wrong) else "")


@promise(STREAM_CHECKS, "pure")
def _deal_is_pure(stream: Stream) -> None:
    """`begin` and `deal` are pure functions: they change nothing, and give the same when called again."""
    key, count = jax.random.key(0), _count(stream)
    place = stream.begin(key)
    require_same(stream.begin(key), place, "two calls of begin with the same key")
    before = jax.tree.map(lambda leaf: np.array(leaf) if isinstance(leaf, np.ndarray) else leaf, place)
    first = stream.deal(place, count)
    require_same(place, before, "the place that was given, after and before the call")
    require_same(stream.deal(place, count), first, "two calls of deal from the same place")


@promise(STREAM_CHECKS, "parts")
def _parts(stream: Stream) -> None:
    """Dealing 3 examples and then 4 gives the same ones as dealing 7."""
    count = _count(stream)
    part = min(3, count)
    _, *whole = stream.deal(stream.begin(jax.random.key(0)), count)
    middle, *first = stream.deal(stream.begin(jax.random.key(0)), part)
    if part < count:
        _, *rest = stream.deal(middle, count - part)
        first = [np.concatenate([one, other]) for one, other in zip(first, rest, strict=True)]
    for name, one, other in zip("xy", first, whole, strict=True):
        require_same(np.asarray(one), np.asarray(other), f"{name} dealt in parts and at once")


@promise(STREAM_CHECKS, "task")
def _task(stream: Stream) -> None:
    """`task(steps)` gives the number of the task at each step, from 0, whatever other steps are asked for."""
    steps = np.arange(stream.steps or 1000)[:1000]
    tasks = np.asarray(stream.task(steps))
    require(tasks.shape == steps.shape, f"shape {tasks.shape} for {steps.shape}")
    require(tasks.dtype.kind in "ui" and tasks.min() >= 0, f"{tasks.dtype} from {tasks.min()}")
    require_same(np.asarray(stream.task(steps[::-1])), tasks[::-1], "the tasks of the steps backwards and forwards")


@promise(STREAM_CHECKS, "sample")
def _sample(stream: Stream) -> None:
    """`sample(key)` of a finite stream gives all that is dealt, and the same tasks for every key."""
    if stream.steps is None or stream.steps * (stream.inputs + stream.outputs) > LARGEST:
        return
    sample = stream.sample(jax.random.key(0))
    for name, sampled, dealt in zip("xy", sample, _deal(stream, stream.steps)[1:], strict=False):
        require_same(np.asarray(sampled, float_type()), dealt, f"{name} sampled and dealt")
    tasks = np.asarray(stream.task(np.arange(stream.steps)))
    for key in (0, 1):
        require_same(np.asarray(stream.sample(jax.random.key(key)).task), tasks, "tasks of sample and stream")


@promise(STREAM_CHECKS, "run")
def _run_on(stream: Stream) -> None:
    """`crossprop.run` learns from the examples that are dealt."""
    loss, count = "softmax" if stream.one_hot else "squared", _count(stream)
    outputs = stream.outputs // 3 if stream.predicts else stream.outputs
    learner = Backprop(Network(stream.inputs, 2, outputs, loss=loss), 1e-6)
    learner = TD(learner) if stream.predicts else learner
    records = run(learner, stream, [0], 1, "scan", progress=False, steps=count)
    stream_key, initial_key = keys(0)
    _, x, y = stream.deal(stream.begin(stream_key), count)
    _, outcomes = live(learner, learner.init(initial_key), np.asarray(x), np.asarray(y, float_type()))
    require_close(records.loss.values[0, 0], outcomes.loss, "losses of a run and of the examples that are dealt")
    require_same(records.task.values, np.asarray(stream.task(np.arange(count))), "tasks of a run and of the stream")


def _count(stream: Stream) -> int:
    return min(7, stream.steps or 7)


def _deal(stream: Stream, count: int) -> tuple[Any, np.ndarray, np.ndarray]:
    place, x, y = stream.deal(stream.begin(jax.random.key(0)), count)
    return place, np.asarray(x, float_type()), np.asarray(y, float_type())
