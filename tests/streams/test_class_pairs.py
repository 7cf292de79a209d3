"""Class pairs, the accuracy on held-out images at the end of a task, and ImageNet32 in the forms that people have."""

import pickle

import numpy as np
import pytest

import crossprop as cp
from crossprop.specification import build_stream
from crossprop.testing import check_stream


def images(classes=5, each=7, inputs=4, dtype=float):
    """A data set whose first input is the number of an example's class, in mixed order."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), each))
    x = np.random.default_rng(1).uniform(size=(len(y), inputs)) * 10
    x[:, 0] = y
    return cp.datasets.DataSet("made", x.astype(dtype), y, classes)


DATA = images()


@pytest.mark.parametrize(("tasks", "numbers"), [(4, [0, 1, 2, 3]), ("ABA", [0, 1, 0]), ([3, 0, 3], [3, 0, 3])])
def test_a_task_is_the_first_images_of_two_classes_in_fresh_orders(tasks, numbers):
    stream = cp.ClassPairs(DATA, tasks, train=3, passes=2)
    key = cp.keys(7)[0]
    x, y, task = stream.sample(key)
    count = len(numbers)
    assert len(x) == count * 12 and stream.outputs == 2 and stream.one_hot
    orders = set()
    for visit, (first, second) in enumerate(stream.pairs(7, count)):
        rows = {which: DATA.x[np.flatnonzero(DATA.y == which)[:3]] for which in (first, second)}
        assert first != second
        for at in (0, 6):
            mine = slice(visit * 12 + at, visit * 12 + at + 6)
            expected = np.where(y[mine, 1] == 1, second, first)
            np.testing.assert_array_equal(x[mine, 0], expected)
            for which in (first, second):
                seen = x[mine][expected == which]
                np.testing.assert_allclose(np.sort(seen, axis=0), np.sort(rows[which], axis=0), rtol=1e-6)
            orders.add(tuple(x[mine, 1]))
    assert len(orders) == 2 * count
    assert task[::12].tolist() == numbers
    pairs = {number: stream.pairs(7, count)[visit].tolist() for visit, number in enumerate(task[::12])}
    assert all(pairs[number] == stream.pairs(7, count)[visit].tolist() for visit, number in enumerate(task[::12]))


def test_class_pairs_keep_the_promises_of_streams():
    check_stream(cp.ClassPairs(DATA, 3, train=3, passes=2))
    check_stream(cp.ClassPairs(images(dtype=np.uint8), None, train=2))
    assert cp.ClassPairs(DATA).train == 6
    assert isinstance(build_stream({"name": "class-pairs", "tasks": 3}), cp.ClassPairs)


def test_seeds_have_pairs_of_their_own():
    stream = cp.ClassPairs(DATA)
    assert len({tuple(stream.pairs(seed, 10).ravel()) for seed in range(5)}) == 5


def test_bytes_are_scaled():
    stream = cp.ClassPairs(images(dtype=np.uint8), 2, train=3)
    assert stream.sample(cp.keys(0)[0]).x.max() <= 10 / 255


def test_accuracy_is_the_share_of_held_out_images_right_at_the_end_of_each_task():
    data = images(each=20)
    stream = cp.ClassPairs(data, 5, train=12, passes=2)
    learner = cp.Backprop(cp.Network(4, 6, 2, loss="softmax"), 0.1)
    probes = {"held_out": stream.held_out(learner)}
    records, states = cp.run(learner, stream, [3, 8], record_every=24, probes=probes, return_states=True)
    found = stream.accuracy(records)
    assert found.dims == ("learner", "seed", "task") and found.shape == (1, 2, 5)
    for seed in (3, 8):
        first, second = stream.pairs(seed, 5)[-1]
        right = []
        for which, output in ((first, 0), (second, 1)):
            x = data.x[np.flatnonzero(data.y == which)[12:]]
            outputs = cp.predict(learner, states["backprop"][seed], x)
            right.append(np.mean(np.argmax(outputs, axis=1) == output))
        np.testing.assert_allclose(found.sel(seed=seed, task=4).item(), np.mean(right), rtol=1e-6)
    few = cp.run(learner, stream, [3], record_every=48, probes={"few": stream.held_out(learner, most=3)})
    assert stream.accuracy(few, "few").shape == (1, 1, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.ClassPairs(DATA, train=8), "train must be between 1 and 7, got 8"),
        (lambda: cp.ClassPairs(DATA, passes=0), "passes must be at least 1, got 0"),
        (lambda: cp.ClassPairs(cp.datasets.DataSet("gap", np.ones((4, 1)), np.array([0, 0, 2, 2]), 3)), "every class"),
        (lambda: cp.ClassPairs(DATA, train=7).held_out(None), "train must leave images of every class, got 7"),
        (lambda: cp.ClassPairs(DATA).held_out(None, most=0), "most must be at least 1, got 0"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_records_without_the_ends_of_tasks_are_refused():
    stream = cp.ClassPairs(DATA, 2, train=3)
    learner = cp.Backprop(cp.Network(4, 2, 2, loss="softmax"), 0.1)
    records = cp.run(learner, stream, 1, record_every=5, probes={"held_out": stream.held_out(learner)}, steps=5)
    with pytest.raises(ValueError, match="records must have windows that end with a task of 6 examples, got none"):
        stream.accuracy(records)
    with pytest.raises(ValueError, match="probe must be one of"):
        stream.accuracy(records.drop_vars("held_out"))


# ImageNet32.


def bytes_of_class(which, count=3):
    return np.random.default_rng(which).integers(0, 256, (count, 3, 32, 32), np.uint8)


def batch(*classes):
    """Images of these classes, whose labels count from 1, in mixed order."""
    x = np.concatenate([bytes_of_class(which).reshape(3, -1) for which in classes])
    labels = np.repeat(classes, 3) + 1
    order = np.random.default_rng(0).permutation(len(x))
    return {"data": x[order], "labels": labels[order].tolist(), "mean": x.mean(axis=0)}


def write(folder, form):
    folder.mkdir(exist_ok=True)
    if form == "classes":
        (folder / "classes").mkdir()
        for which in (0, 1, 10):
            np.save(folder / "classes" / f"{which}.npy", bytes_of_class(which))
    elif form == "npz":
        np.savez(folder / "train_data_batch_1.npz", **batch(0, 1))
        np.savez(folder / "train_data_batch_2.npz", **batch(10))
    else:
        protocol = int(form.removeprefix("pickles "))
        (folder / "train_data_batch_1").write_bytes(pickle.dumps(batch(0, 1), protocol))
        (folder / "train_data_batch_2").write_bytes(pickle.dumps(batch(10), protocol))
        (folder / "val_data").write_bytes(b"is not read")
    return folder


@pytest.mark.parametrize("form", ["classes", "npz", "pickles 2", "pickles 4", "pickles 5"])
def test_imagenet_is_read_in_every_form(tmp_path, form):
    data = cp.datasets.imagenet32(write(tmp_path / form, form))
    assert data.classes == 3 and data.x.dtype == np.uint8 and data.x.shape == (9, 3072)
    for at, which in enumerate((0, 1, 10)):
        expected = bytes_of_class(which).reshape(3, -1)
        found = data.x[data.y == at]
        assert {each.tobytes() for each in found} == {each.tobytes() for each in expected}
    assert cp.ClassPairs(data, 2, train=2).sample(cp.keys(0)[0]).x.max() <= 1


# numpy.ndarray((1,), "O", b"A" * 8): an array whose only object is at the address 0x4141414141414141
FORGED = (
    b"cnumpy\nndarray\n"
    + (pickle.MARK + pickle.MARK + b"K\x01" + pickle.TUPLE + b"X\x01\0\0\0O" + b"C\x08" + b"A" * 8)
    + (pickle.TUPLE + pickle.REDUCE)
)


class Hostile:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def numbers(**wrong):
    return pickle.dumps(batch(0) | wrong)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_data_batch_1", pickle.dumps(Hostile(print, "hacked")), "asks for builtins.print, and only arrays"),
        ("train_data_batch_1", pickle.dumps({"data": Hostile(np.load, "x")}), "asks for numpy.*load, and only arrays"),
        ("train_data_batch_1", pickle.dumps(Hostile(eval, "1")), "asks for builtins.eval"),
        ("train_data_batch_1", pickle.dumps(Hostile(__import__("codecs").encode, "a", "rot13")), "encoding rot13"),
        ("train_data_batch_1", FORGED + pickle.STOP, "_Array.* takes no arguments"),
        ("train_data_batch_1", pickle.dumps(np.array(["a"], object)), "arrays must hold numbers, got 'O8'"),
        ("train_data_batch_1", pickle.dumps(np.dtype("u1,O")), "arrays must hold numbers, got 'V9'"),
        (
            "train_data_batch_1",
            pickle.dumps(Hostile(np.zeros(1).__reduce_ex__(5)[0], np.zeros(1), np.dtype("f8"), (1,), "C")),
            "arrays must be made of bytes",
        ),
        ("train_data_batch_1", b"no pickle", "is no file of ImageNet32"),
        ("train_data_batch_1", pickle.BINBYTES8 + b"\0\0\0\0\0\1\0\0x.", "is no file of ImageNet32: MemoryError"),
        ("train_data_batch_1", pickle.dumps([1, 2]), "must have data and labels"),
        (
            "train_data_batch_1",
            numbers(data=np.zeros((3, 5), np.uint8)),
            r"must be \(images, 3, 32, 32\).*got \(3, 5\)",
        ),
        ("train_data_batch_1", numbers(data=np.zeros((3, 3072))), "its images must be bytes, got float64"),
        ("train_data_batch_1", numbers(data="images"), "its images must be bytes, got str"),
        ("train_data_batch_1", numbers(labels=[1, 2]), r"its labels must be 3 whole numbers, got \(2,\)"),
        ("0.npy", b"nothing", "is no file of ImageNet32"),
        ("train_data_batch_1.npz", b"nothing", "is no file of ImageNet32"),
        ("other", b"", "folder must have files 0.npy, 1.npy, ... or train_data_batch_1"),
    ],
)
def test_wrong_and_hostile_files_are_refused_by_name(tmp_path, name, content, message, capsys):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as refused:
        cp.datasets.imagenet32(tmp_path)
    assert name in str(refused.value) or name == "other"
    assert capsys.readouterr().out == ""


def test_pickled_objects_within_arrays_are_refused(tmp_path):
    np.save(tmp_path / "0.npy", np.array([Hostile(print, "hacked")], object))
    with pytest.raises(ValueError, match=r"0\.npy is no file of ImageNet32: Object arrays"):
        cp.datasets.imagenet32(tmp_path)


def test_a_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"folder must be a folder with ImageNet32, got .*nowhere"):
        cp.datasets.imagenet32(tmp_path / "nowhere")
