"""A Python iterable as a stream: one pass, the same examples for every run, bad items named, no thread left behind."""

import contextlib
import json
import threading

import numpy as np
import pytest

import crossprop as cp
from crossprop import execution
from same import assert_same_records

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network(inputs=4, hidden=5)
PAIR = {"crossprop": cp.Crossprop(NET, 0.01), "backprop": cp.Backprop(NET, 0.01)}
X = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
Y = X[:, :1] * X[:, 1:2]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Segments end with windows, so that sums over windows are rounded as in one segment."""
    monkeypatch.setattr(execution, "ITERATOR_SEGMENT", 32)


def pairs(count=100, taken=None):
    for x, y in zip(X[:count], Y, strict=False):
        if taken is not None:
            taken.append(x)
        yield x, y


def stream_of(items, **options):
    return cp.Iterator(items, inputs=4, outputs=1, **options)


def test_every_learner_and_seed_sees_the_same_examples_in_one_pass():
    taken = []
    records = cp.run(PAIR, stream_of(pairs(taken=taken)), seeds=[1, 5], record_every=32)
    assert len(taken) == 100 and records.step.values.tolist() == [32, 64, 96, 100]
    assert_same_records(records, cp.run(PAIR, cp.Arrays(X, Y), seeds=[1, 5], record_every=32))
    alone = cp.run(PAIR["crossprop"], stream_of(pairs()), seeds=[5], record_every=32)
    assert_same_records(alone, records.sel(learner=["crossprop"], seed=[5]))


@pytest.mark.parametrize(("given", "steps"), [({"steps": 50}, None), ({}, 50), ({"steps": 80}, 50)])
def test_steps_end_the_run_before_the_iterable(given, steps):
    records = cp.run(PAIR["backprop"], stream_of(pairs(), **given), seeds=1, steps=steps, record_every=16)
    assert records.step.values.tolist() == [16, 32, 48, 50]
    assert_same_records(records, cp.run(PAIR["backprop"], cp.Arrays(X[:50], Y[:50]), seeds=1, record_every=16))


def test_an_endless_iterable_is_read_no_further_than_needed():
    taken = []

    def forever():
        while True:
            taken.append(0)
            yield X[0], Y[0]

    cp.run(PAIR["backprop"], stream_of(forever()), seeds=1, steps=64)
    assert len(taken) <= 64 + 32 * 4


def test_an_iterable_shorter_than_steps_is_an_error():
    for given, steps in (({"steps": 200}, None), ({}, 200)):
        with pytest.raises(ValueError, match=r"^the stream's iterable must give 200 examples, got 100$"):
            cp.run(PAIR["backprop"], stream_of(pairs(), **given), seeds=1, steps=steps)
    with pytest.raises(ValueError, match=r"^the stream's iterable must give at least one example, got 0; what was"):
        cp.run(PAIR["backprop"], stream_of([]), seeds=1)


def test_classes_become_one_hot():
    learner = cp.Backprop(cp.Network(4, 5, 3, loss="softmax"), 0.01)
    labels = np.arange(100) % 3
    pairs = ((x.tolist(), int(label)) for x, label in zip(X, labels, strict=True))
    records = cp.run(learner, cp.Iterator(pairs, inputs=4, classes=3), seeds=1, record_every=32)
    assert_same_records(records, cp.run(learner, cp.Arrays(X, labels), seeds=1, record_every=32))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ((X[0], Y[0], 3), r"^example 40 of the iterable must be a pair \(x, y\), got "),
        (3, r"^example 40 of the iterable must be a pair \(x, y\), got 3$"),
        ((X[0, :3], Y[0]), r"^x of example 40 of the iterable must have shape \(4,\), got \(3,\)$"),
        ((X[0], [1.0, 2.0]), r"^y of example 40 of the iterable must have shape \(1,\), got \(2,\)$"),
        ((["a"] * 4, 1.0), r"^x of example 40 of the iterable must be numbers, got "),
        ((X[0] * np.nan, 1.0), r"^x of the iterable must be finite, got nan at index \(40, 0\)$"),
        ((X[0], np.inf), r"^y of the iterable must be finite, got inf at index \(40, 0\)$"),
    ],
)
def test_a_bad_item_is_named_by_its_number(item, said):
    items = [*pairs(40), item, *pairs()]
    with pytest.raises((ValueError, TypeError), match=said):
        cp.run(PAIR["backprop"], stream_of(items), seeds=1)


def test_a_class_that_there_is_not_is_named():
    learner = cp.Backprop(cp.Network(4, 5, 3, loss="softmax"), 0.01)
    with pytest.raises(ValueError, match=r"^y of example 1 of the iterable must be between 0 and 2, got 3$"):
        cp.run(learner, cp.Iterator([(X[0], 0), (X[1], 3)], inputs=4, classes=3), seeds=1)


def test_what_the_iterable_raises_comes_out_of_run():
    def failing():
        yield from pairs(40)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        cp.run(PAIR["backprop"], stream_of(failing()), seeds=1)


@pytest.mark.parametrize(
    ("items", "ends"),
    [
        (pairs, contextlib.nullcontext()),
        (lambda: [*pairs(40), 3], pytest.raises(TypeError, match=r"^example 40 of the iterable must be a pair")),
        (lambda: ((X[0], Y[0]) for _ in iter(int, 1)), contextlib.nullcontext()),
    ],
    ids=["to its end", "broken", "endless"],
)
def test_no_thread_is_left_behind(items, ends):
    before = threading.active_count()
    with ends:
        cp.run(PAIR["backprop"], stream_of(items()), seeds=1, steps=90)
    assert threading.active_count() == before


def test_an_iterator_cannot_be_dealt_sampled_or_checkpointed(tmp_path):
    with pytest.raises(TypeError, match="one pass only"):
        stream_of(pairs()).begin(cp.keys(0)[0])
    with pytest.raises((TypeError, ValueError)):
        stream_of(pairs(), steps=10).sample(cp.keys(0)[0])
    with pytest.raises(ValueError, match=r"^checkpoint must be None for a crossprop\.Iterator"):
        cp.run(PAIR, stream_of(pairs()), seeds=1, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"iterable": 3, "inputs": 4, "outputs": 1}, "^iterable must be an iterable"),
        ({"iterable": [], "inputs": 0, "outputs": 1}, "^inputs must be at least 1, got 0$"),
        ({"iterable": [], "inputs": 4}, "^outputs must be a whole number, got None$"),
        ({"iterable": [], "inputs": 4, "outputs": 2, "classes": 3}, "^outputs must be left out or equal classes"),
        ({"iterable": [], "inputs": 4, "classes": 1}, "^classes must be at least 2, got 1$"),
        ({"iterable": [], "inputs": 4, "outputs": 1, "steps": 0}, "^steps must be at least 1, got 0$"),
    ],
)
def test_bad_arguments_are_named(given, said):
    built = object.__new__(cp.Iterator)
    for name, value in ({"outputs": None, "classes": None, "steps": None} | given).items():
        object.__setattr__(built, name, value)
    with pytest.raises((ValueError, TypeError), match=said):
        built.__post_init__()


def test_records_describe_the_stream_without_its_examples():
    records = cp.run(PAIR["backprop"], stream_of(pairs()), seeds=1)
    described = json.loads(records.attrs["stream"])
    assert described["type"] == "Iterator" and described["inputs"] == 4 and "iterable" not in described


def test_states_go_on_with_the_first_example_of_another_iterable():
    examples = list(pairs())
    learner = PAIR["backprop"]
    _, states = cp.run(learner, stream_of(examples), seeds=1, return_states=True)
    _, once_more = cp.run(learner, stream_of(examples), seeds=1, start=states, return_states=True)
    assert states.steps == once_more.steps == len(examples)
    whole, _ = cp.live(learner, states["backprop"][0], *map(np.stack, zip(*examples, strict=True)))
    np.testing.assert_allclose(once_more["backprop"][0].outgoing, whole.outgoing, rtol=1e-5, atol=1e-6)
