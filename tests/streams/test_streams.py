"""The contract that all streams keep; label shifts, and a user's arrays and streams."""

import itertools
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop.configuration import configuration
from crossprop.datasets import DataSet
from crossprop.network import float_type
from crossprop.streams import Stream
from own_streams import Noise, Waves, build

LABELS = np.array([0, 1, 2, 2, 1, 0, 1])
COIN = DataSet("coin", np.arange(14, dtype=np.float32).reshape(7, 2) / 14, LABELS, classes=3)
NUMBERS = np.random.default_rng(0).normal(size=(7, 4))

# One line adds a stream to the contract.
STREAMS = {
    "geoff": cp.Geoff(inputs=6, features=50, tasks="ABCAB", examples=5),
    "geoff-constant": cp.Geoff(inputs=19, features=40, tasks="CAC", examples=20, noise=0.0, constant=True),
    "tracking": cp.Tracking(inputs=4, relevant=3, flip_every=3, noise=0.5, steps=23),
    "slowly-changing": cp.SlowlyChanging(inputs=40, slow=5, change_every=4, features=7, steps=23),
    "slowly-changing-one": cp.SlowlyChanging(6, slow=6, change_every=1, change="one", as_run=False, steps=23),
    "permuted-inputs": cp.PermutedInputs(COIN, tasks=4),
    "permuted-inputs-passes": cp.PermutedInputs(COIN, tasks="ABA", examples=9),
    "random-labels": cp.RandomLabels(COIN, tasks="ABA", images=4, passes=2),
    "label-shift": cp.LabelShift(COIN),
    "label-shift-shuffled": cp.LabelShift(COIN, tasks="ADA", examples=4, shuffle=True),
    "arrays": cp.Arrays(NUMBERS, NUMBERS[:, :2]),
    "arrays-1d": cp.Arrays(NUMBERS[:, 0], NUMBERS[:, 1]),
    "arrays-classes": cp.Arrays(NUMBERS, LABELS, classes=5),
    "arrays-flags": cp.Arrays(NUMBERS > 0, LABELS > 0),
    "arrays-many-flags": cp.Arrays(NUMBERS, NUMBERS > 0),
}


pytestmark = pytest.mark.usefixtures("quick_compilation")


def sample(stream, seed=0):
    return stream.sample(jax.random.key(seed))


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# The contract


VARIANTS = {"geoff-constant", "slowly-changing-one", "permuted-inputs-passes"}
"""Streams like others, with other options."""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.long] * (name in VARIANTS)) for name in STREAMS])
def stream(request):
    return STREAMS[request.param]


def test_a_sample_has_the_shapes_that_its_stream_says(stream):
    examples, steps = sample(stream), stream.steps
    assert isinstance(stream, Stream)
    assert examples.x.shape == (steps, stream.inputs)
    assert examples.y.shape == (steps, stream.outputs)
    assert examples.task.shape == (steps,) and np.issubdtype(examples.task.dtype, np.integer)
    assert np.array_equal(examples.task, stream.task(np.arange(steps)))


def test_a_sample_is_of_finite_numbers(stream):
    examples = sample(stream)
    assert np.isfinite(examples.x).all() and np.isfinite(examples.y).all()


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.long)])
def test_examples_have_the_float_type_of_jax(stream, wide):
    with jax.enable_x64(wide):
        examples = sample(stream)
        _, x, y = stream.deal(stream.begin(jax.random.key(0)), 2)
        for values in (examples.x, examples.y, x, y):
            assert values.dtype == float_type() == (np.float64 if wide else np.float32)


def test_dealing_three_and_then_four_equals_dealing_seven(stream):
    place = stream.begin(jax.random.key(1))
    _, *whole = stream.deal(place, 7)
    after, *first = stream.deal(place, 3)
    _, *rest = stream.deal(after, 4)
    for all_at_once, *parts in zip(whole, first, rest, strict=True):
        np.testing.assert_array_equal(all_at_once, np.concatenate(parts))


def test_dealing_all_examples_equals_sampling_them(stream):
    examples = sample(stream, 1)
    _, x, y = stream.deal(stream.begin(jax.random.key(1)), stream.steps)
    np.testing.assert_array_equal(x, examples.x)
    np.testing.assert_array_equal(y, examples.y)


def test_dealing_more_examples_than_there_are_is_an_error(stream):
    place, *_ = stream.deal(stream.begin(jax.random.key(0)), 2)
    with pytest.raises(ValueError, match=rf"^count must be at most the {stream.steps - 2} examples left, got 100000$"):
        stream.deal(place, 100_000)


def test_a_sample_is_a_pure_function_of_its_key(stream):
    first, _, again = sample(stream, 1), sample(stream, 2), sample(stream, 1)
    assert same((first.x, first.y, first.task), (again.x, again.y, again.task))


def test_one_hot_says_whether_every_y_is_one_hot(stream):
    y = sample(stream).y
    one_hot = np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()
    assert stream.one_hot == one_hot


@pytest.mark.long
@pytest.mark.parametrize(
    "stream", [cp.Geoff(4, 20, tasks=range(200), examples=2), cp.LabelShift(COIN, tasks=range(200), examples=2)]
)
def test_a_stream_can_have_200_tasks(stream):
    examples = sample(stream)
    assert np.array_equal(examples.task, np.repeat(np.arange(200), 2)) and len(examples.x) == stream.steps == 400
    records = cp.run(cp.Backprop(cp.Network(stream.inputs, 3, stream.outputs), 0.01), stream, seeds=1, record_every=2)
    assert records.task.values.tolist() == list(range(200))


# Label shifts


def labels(sampled):
    return sampled.y.argmax(axis=1).tolist()


def places(sampled):
    """Where in the data set each example stands."""
    return [np.flatnonzero((COIN.x == x).all(axis=1)).item() for x in sampled.x]


def test_each_task_shifts_the_labels_by_its_letter_round_the_classes():
    sampled = sample(cp.LabelShift(COIN, tasks="ABCDA"))
    expected = {"A": [0, 1, 2, 2, 1, 0, 1], "B": [1, 2, 0, 0, 2, 1, 2], "C": [2, 0, 1, 1, 0, 2, 0]}
    assert labels(sampled) == [*expected["A"], *expected["B"], *expected["C"], *expected["A"], *expected["A"]]
    assert sampled.task.tolist() == [0] * 7 + [1] * 7 + [2] * 7 + [3] * 7 + [0] * 7


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("examples", [1, 4, 7, None])
def test_unshuffled_is_the_data_sets_order_whatever_the_key(seed, examples):
    sampled = sample(cp.LabelShift(COIN, tasks="AB", examples=examples), seed)
    assert places(sampled) == list(range(examples or 7)) * 2


@pytest.mark.parametrize("examples", [4, 7, None])
def test_shuffled_is_an_order_by_key_that_every_task_shares(examples):
    samples = [sample(cp.LabelShift(COIN, tasks="ABA", examples=examples, shuffle=True), seed) for seed in range(20)]
    orders = set()
    for sampled in samples:
        count = len(sampled.x) // 3
        assert count == (examples or 7)
        order = places(sampled)
        assert order == order[:count] * 3 and len(set(order)) == count
        assert labels(sampled) == [(LABELS[at] + task) % 3 for at, task in zip(order, sampled.task, strict=True)]
        orders.add(tuple(order[:count]))
    assert len(orders) > 15
    assert {at for order in orders for at in order} == set(range(7))


@pytest.mark.parametrize(
    ("x_type", "y_type"),
    [
        *((x_type, "int64") for x_type in ("float16", "float64", "uint8", "int64", ">f4")),
        *(("float32", y_type) for y_type in ("int8", "uint8", "uint64", ">i8")),
    ],
)
def test_label_shift_takes_every_type_of_numbers_that_a_data_set_does(x_type, y_type):
    data = DataSet("typed", np.arange(14).reshape(7, 2).astype(x_type), LABELS.astype(y_type), classes=3)
    sampled, usual = sample(cp.LabelShift(data)), sample(cp.LabelShift(COIN))
    assert sampled.x.dtype == np.float32
    assert np.array_equal(sampled.x, np.tile(np.arange(14).reshape(7, 2), (3, 1)))
    assert np.array_equal(sampled.y, usual.y)


# Arrays


def test_arrays_is_one_pass_in_order_whatever_the_key():
    stream = cp.Arrays(NUMBERS, NUMBERS[:, :2])
    for seed in (0, 1):
        sampled = sample(stream, seed)
        assert np.array_equal(sampled.x, NUMBERS.astype(np.float32))
        assert np.array_equal(sampled.y, NUMBERS[:, :2].astype(np.float32))
        assert sampled.task.tolist() == [0] * 7


@pytest.mark.parametrize("y", [NUMBERS[:, 0], NUMBERS[:, 0].tolist(), NUMBERS[:, :1], np.float16(NUMBERS[:, 0])])
def test_numbers_for_y_are_regression(y):
    stream = cp.Arrays(NUMBERS, y)
    assert (stream.outputs, stream.one_hot) == (1, False)
    assert np.array_equal(sample(stream).y, np.asarray(y, np.float32).reshape(7, 1))


def test_whole_numbers_in_columns_are_regression():
    y = np.arange(14).reshape(7, 2)
    stream = cp.Arrays(NUMBERS, y)
    assert not stream.one_hot
    assert np.array_equal(sample(stream).y, y)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint64, list])
@pytest.mark.parametrize(("classes", "outputs"), [(None, 3), (3, 3), (5, 5)])
def test_whole_numbers_for_y_are_classes(kind, classes, outputs):
    stream = cp.Arrays(NUMBERS, LABELS.tolist() if kind is list else LABELS.astype(kind), classes=classes)
    assert (stream.outputs, stream.one_hot) == (outputs, True)
    assert np.array_equal(sample(stream).y, np.eye(outputs)[LABELS])


def test_flags_for_y_are_two_classes():
    assert np.array_equal(sample(cp.Arrays(NUMBERS, LABELS > 0)).y, np.eye(2)[(LABELS > 0).astype(int)])


# Input that does not fit


NAN, INF = float("nan"), float("inf")
BAD_TASKS = ["", "abc", "A1", "A B", "AÉ", 3, None, [], [[0, 1]], b"AB"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((size, value) for size in ("inputs", "features", "examples") for value in (0, -1, 2.5, 2.0, "3", None, True)),
        *((share, value) for share in ("beta", "mutation") for value in (-0.1, 1.1, NAN, INF, "0.5", None, True)),
        *(("noise", value) for value in (-1.0, NAN, INF, "1", None)),
        *(("tasks", value) for value in BAD_TASKS),
        *(("constant", value) for value in (1, None, "yes")),
    ],
)
def test_geoff_names_the_argument_and_the_value_that_do_not_fit(name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be .* got {re.escape(repr(value))}$"):
        build(cp.Geoff, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tasks", value) for value in BAD_TASKS),
        *(("examples", value) for value in (0, -1, 8, 2.5, True)),
        *(("shuffle", value) for value in (1, None)),
    ],
)
def test_label_shift_names_the_argument_and_the_value_that_do_not_fit(name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be .* got {re.escape(repr(value))}$"):
        build(cp.LabelShift, data=COIN, **{name: value})


@pytest.mark.parametrize("task", [-1, 2.0, "A", True, 10**6 + 1])
def test_a_task_that_is_no_number_from_zero_is_named(task):
    for kind, given in ((cp.Geoff, {}), (cp.LabelShift, {"data": COIN})):
        with pytest.raises((ValueError, TypeError), match=rf"^a task in tasks must be .* got '?{task}'?$"):
            build(kind, tasks=[0, task], **given)


@pytest.mark.parametrize("data", [(NUMBERS, LABELS), None])
def test_label_shift_takes_nothing_but_a_data_set(data):
    with pytest.raises(TypeError, match=f"^data must be .* got .*{type(data).__name__}"):
        build(cp.LabelShift, data=data)


def test_a_data_set_may_be_given_by_its_name():
    by_name = cp.PermutedInputs("digits", tasks=2)
    assert by_name.data is cp.datasets.digits() and by_name.inputs == 64
    with pytest.raises(ValueError, match=r"^data must be one of .* got 'digit'; did you mean 'digits'"):
        cp.LabelShift("digit")


def spoilt(values, value):
    values = np.array(values)
    values[(2, 1) if values.ndim == 2 else 2] = value
    return values


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (spoilt(NUMBERS, NAN), NUMBERS, None, r"^x must be finite, got nan at index \(2, 1\)"),
        (spoilt(NUMBERS, INF), NUMBERS, None, r"^x must be finite, got inf at index \(2, 1\)"),
        (NUMBERS, spoilt(NUMBERS, -INF), None, r"^y must be finite, got -inf at index \(2, 1\)"),
        (NUMBERS, spoilt(NUMBERS[:, 0], NAN), None, r"^y must be finite, got nan at index \(2,\)"),
        (NUMBERS, NUMBERS[:5], None, r"^x and y .* got 7 and 5$"),
        (NUMBERS, LABELS[:5], None, r"^x and y .* got 7 and 5$"),
        (NUMBERS, spoilt(LABELS, -1), None, r"^kind must be given .* got y of integers from -1 to"),
        (NUMBERS, LABELS, 2, r"^classes must be at least 3, got 2$"),
        (NUMBERS, LABELS, 0, r"^classes must be .* got 0$"),
        (NUMBERS, LABELS, 3.0, r"^classes must be .* got 3.0 with y of int64$"),
        (NUMBERS, LABELS, range(10**12), r"^classes: 1,000,000,000,000 labels would take .* of memory, and "),
        (NUMBERS, LABELS, itertools.count(), r"^classes must be a list of the labels in y, got count\(0\) with"),
        (NUMBERS, NUMBERS[:, 0], 3, r"^classes .* got 3 with y of float64$"),
        (NUMBERS[:0], LABELS[:0], None, r"^x must be .* got shape \(0, 4\)"),
        (NUMBERS[None], NUMBERS, None, r"^x must be .* got shape \(1, 7, 4\)"),
        (NUMBERS, NUMBERS[..., None], None, r"^y must be .* got shape \(7, 4, 1\)"),
        (NUMBERS.astype(str), NUMBERS, None, r"^x must be numbers .* got '.*' at index \(0, 0\)$"),
        (NUMBERS, NUMBERS.astype(complex), None, r"^y must be numbers .* of complex128"),
        (None, NUMBERS, None, r"^x must be numbers .* got None$"),
    ],
)
def test_arrays_names_the_argument_and_the_value_that_do_not_fit(x, y, classes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build(cp.Arrays, x=x, y=y, classes=classes)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": LABELS + 1}, r"label in y must be between 0 and 2, got 3$"),
        ({"y": LABELS - 1}, r"label in y must be .* got -1$"),
        ({"y": LABELS.astype(float)}, r"^y must hold integer labels, got float64$"),
        ({"y": LABELS[:5]}, r"^y must have shape \(7,\), got \(5,\)$"),
        ({"x": spoilt(NUMBERS, NAN)}, r"^x must be finite, got nan at index \(2, 1\)"),
        ({"x": NUMBERS[:, 0]}, r"^x must be numbers .* got \(7,\)"),
        ({"x": NUMBERS.astype(str)}, r"^x must be numbers .* of <U"),
        ({"x": NUMBERS[:0], "y": LABELS[:0]}, r"^x must be numbers .* got \(0, 4\)"),
        ({"classes": 1}, r"^classes must be at least 2, got 1$"),
        ({"classes": 3.0}, r"^classes must be .* got 3.0$"),
    ],
)
def test_a_data_set_names_the_argument_and_the_value_that_do_not_fit(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build(DataSet, **({"name": "bad", "x": NUMBERS, "y": LABELS, "classes": 3} | changed))


# Streams of one's own


LINE = cp.Backprop(cp.Network(3, 4), 0.01)


@pytest.mark.parametrize("steps", [None, pytest.param(10**8, marks=pytest.mark.long)])
def test_an_endless_stream_is_dealt_on_the_device(steps):
    began = time.monotonic()
    stream = Noise(steps=steps)
    records = cp.run(LINE, stream, seeds=1, record_every=1000, steps=10_000)
    assert time.monotonic() - began < 20
    assert records.step.values[-1] == 10_000 and records.task.values.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert records.loss[0, 0, -1] < records.loss[0, 0, 0]


@pytest.mark.parametrize(("stream", "inputs"), [(Noise(steps=200), 3), (Waves(steps=200), 2)])
def test_a_dealt_stream_equals_the_same_examples_as_arrays(stream, inputs, monkeypatch):
    monkeypatch.setattr("crossprop.engines.segments.steps_per_call", lambda learner, width: 64)
    examples = stream.sample(cp.keys(3)[0])
    learner = cp.Backprop(cp.Network(inputs, 4), 0.01)
    dealt = cp.run(learner, stream, seeds=[3], record_every=40)
    held = cp.run(learner, cp.Arrays(examples.x, examples.y), seeds=[3], record_every=40)
    np.testing.assert_array_equal(dealt.loss, held.loss)
    np.testing.assert_array_equal(dealt.incoming_drift, held.incoming_drift)


def test_a_stream_that_deals_no_finite_number_is_named():
    with pytest.raises(ValueError, match=r"^the stream's y must be finite, got nan at index \(30, 0\)$"):
        cp.run(cp.Backprop(cp.Network(2, 4), 0.01), Waves(steps=40, broken=30), seeds=1)


def test_a_stream_that_deals_another_shape_is_named():
    class Narrow(Noise):
        def deal(self, place, count):
            place, x, y = super().deal(place, count)
            return place, x[:, :2], y

    with pytest.raises(ValueError, match=r"^the stream's x must have shape \(\d+, 3\), got \(\d+, 2\)$"):
        cp.run(LINE, Narrow(steps=40), seeds=1)


@pytest.mark.parametrize("stream", [Noise, Waves])
def test_a_stream_that_deals_no_place_is_told_what_to_return(stream, monkeypatch):
    deal = stream.deal
    monkeypatch.setattr(stream, "deal", lambda self, place, count: deal(self, place, count)[1:])
    made = stream(steps=40)
    with pytest.raises(TypeError, match=r"^the stream's deal must return \(place, x, y\), got \("):
        cp.run(cp.Backprop(cp.Network(made.inputs, 4), 0.01), made, seeds=1)


def test_an_endless_stream_needs_steps_and_cannot_be_sampled():
    with pytest.raises(ValueError, match=r"^steps must be given for an endless stream"):
        cp.run(LINE, Noise(), seeds=1)
    with pytest.raises(ValueError, match=r"^stream must be finite to be sampled whole"):
        sample(Noise())


# Memory


def megabytes_of_growth(script):
    """How much more memory a process needs at its peak, from the line `before = peak()` on."""
    head = """
import resource, sys
import numpy as np, crossprop as cp
from own_streams import Noise
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
"""
    done = subprocess.run(
        [sys.executable, "-c", head + script + "\nprint(peak() - before)"],
        check=True, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1] / "support",
    )  # fmt: skip
    return float(done.stdout)


@pytest.mark.long
def test_a_memory_mapped_array_is_never_in_memory_as_a_whole(tmp_path):
    script = f"""
x = np.lib.format.open_memmap({str(tmp_path / "x.npy")!r}, "w+", np.float32, (2**18, 2**8))
del x
x, y = np.load({str(tmp_path / "x.npy")!r}, mmap_mode="r"), np.zeros(2**18, np.float32)
learner = cp.Frozen(cp.Network(2**8, 1), 0.01)
cp.run(learner, cp.Arrays(x[: 2**14], y[: 2**14]), seeds=1, engine="scan", progress=False)
before = peak()
cp.run(learner, cp.Arrays(x, y), seeds=1, engine="scan", progress=False)
"""
    assert megabytes_of_growth(script) < 128  # the file, which is sparse, is 256
    assert (tmp_path / "x.npy").stat().st_size > 256 * 2**20


@pytest.mark.long
def test_memory_of_a_run_does_not_grow_with_its_length():
    script = """
learner = cp.Backprop(cp.Network(200, 1), 0.001)
run = lambda steps: cp.run(learner, Noise(200), seeds=1, record_every=8192, steps=steps, engine="scan", progress=False)
run(16_384)
before = peak()
run(524_288)
"""
    assert megabytes_of_growth(script) < 150  # all its examples are 400


def test_parts_of_a_memory_mapped_array_are_different_streams(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40.0).reshape(20, 2))
    whole, again = (np.load(tmp_path / "x.npy", mmap_mode="r") for _ in range(2))
    parts = [whole[:10], whole[10:], whole[::2], whole[1::2]]
    seen = [configuration(cp.Arrays(part, np.zeros(10))) for part in parts]
    assert all(one != other for i, one in enumerate(seen) for other in seen[:i])
    assert configuration(cp.Arrays(again[10:], np.zeros(10))) == seen[1]
