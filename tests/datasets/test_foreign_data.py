"""Data from outside: labels and tables of any package are understood, and no file takes more than its size bounds."""

import gzip
from dataclasses import replace

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop.datasets import fetching
from crossprop.datasets.images import MNIST
from crossprop.experiments.blocks import build_blocks
from crossprop.experiments.toml import read_spec

NET = cp.Network(inputs=3, hidden=4)
X = np.arange(18.0).reshape(6, 3)


class Tensor:
    """As torch's tensors: what needs a gradient must be detached first."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return np.asarray(self.values)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach first")


class Series:
    """As pandas's series: labels are Python objects."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return np.array(self.values, object)


@pytest.mark.parametrize("wrapped", [list, np.array, Tensor, Series])
def test_labels_are_numbered_in_sorted_order(wrapped):
    stream = cp.Arrays(X, wrapped(["dog", "cat", "dog", "bird", "cat", "dog"]))
    assert stream.classes == ("bird", "cat", "dog") and stream.outputs == 3 and stream.one_hot
    np.testing.assert_array_equal(stream.sample(jax.random.key(0)).y.argmax(axis=1), [2, 1, 2, 0, 1, 2])
    assert replace(stream, x=X + 1).classes == stream.classes


def test_text_and_numbers_are_no_labels_together():
    with pytest.raises(ValueError, match=r"^y must be numbers or labels of shape .*, got 1 at index \(4,\)$"):
        cp.Arrays(X, ["a", "b", "a", "b", 1, "a"])


@pytest.mark.parametrize("wrapped", [np.ndarray.tolist, Tensor, Series, np.asfortranarray])
def test_numbers_of_any_package_are_taken(wrapped):
    y = np.linspace(0, 1, 6)
    stream = cp.Arrays(wrapped(X), wrapped(y))
    np.testing.assert_array_equal(stream.x, X)
    np.testing.assert_array_equal(stream.y[:, 0], y)
    learner = cp.Backprop(NET, 0.01)
    state = learner.init(jax.random.key(0))
    np.testing.assert_array_equal(cp.predict(learner, state, wrapped(X)), cp.predict(learner, state, X))


DOUBTFUL = [[0, 1, 2, 1, 0, 200_000], [-1, 1, -1, 1, 1, 1], [0.0, 1.0, 2.0, 1.0, 0.0, 2.0]]
DOUBTFUL += [[[0], [1], [2], [1], [0], [2]]]


@pytest.mark.parametrize("y", DOUBTFUL, ids=str)
def test_the_kind_of_doubtful_targets_is_asked_for(y):
    with pytest.raises(ValueError, match="kind must be given"):
        cp.Arrays(X, y)
    assert not cp.Arrays(X, y, kind="regression").one_hot
    assert cp.Arrays(X, y, kind="classification").one_hot


def test_classes_beyond_doubt_need_no_word():
    assert cp.Arrays(X, [0, 1, 2, 1, 0, 2]).classes == 3
    assert cp.Arrays(X, [0, 1, 2, 1, 0, 2], classes=5).outputs == 5
    assert cp.Arrays(X, [0.5, 1, 2, 1, 0, 2]).kind == "regression"
    assert cp.Arrays(X, [-1, 1, -1, 1, 1, 1], kind="classification").classes == (-1, 1)
    assert cp.Arrays(X, np.eye(6), kind="classification").classes == 6


def test_many_classes_take_no_more_memory_than_their_number():
    stream = cp.Arrays(X, [0, 1, 2, 1, 0, 50_000], kind="classification")
    table = stream.pool(jax.random.key(0)).y
    assert table.shape == (50_001, 50_001) and table.base is not None
    np.testing.assert_array_equal(table[[0, 50_000], :][:, [0, 1, 50_000]], [[1, 0, 0], [0, 0, 1]])


def test_softmax_on_numbers_names_the_kind():
    learner = cp.Backprop(cp.Network(3, 4, 3, loss="softmax"), 0.01)
    with pytest.raises(ValueError, match=r"needs classes.*kind=\"classification\""):
        cp.run(learner, cp.Arrays(X, np.linspace(0, 1, 6)))


def test_live_and_predict_are_parts_of_a_compiled_function():
    learner = cp.Backprop(NET, 0.01)
    state, y = learner.init(jax.random.key(0)), np.linspace(0, 1, 6)
    inside = jax.jit(lambda x: (cp.live(learner, state, x, y), cp.predict(learner, state, x)))(X)
    outside = cp.live(learner, state, X, y), cp.predict(learner, state, X)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), inside, outside)


def test_a_gzip_file_is_read_no_further_than_the_data_set_is_long(tmp_path, monkeypatch):
    monkeypatch.setattr(MNIST, "largest", 1000)
    for name in MNIST.files:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(bytes(10**6)))
    lengths = []
    monkeypatch.setattr(fetching, "sha256", lambda content: lengths.append(len(content)))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte from .* has the wrong hash"):
        MNIST.fetch(tmp_path)
    assert lengths == [1001]


BAD_TOML = {
    b"\xff\xfe": "must be a TOML file in UTF-8",
    b"": 'has no stream and no learners: give stream = "geoff"',
    b"[" * 50_000: "must be a TOML file",
    b"seeds = " + b"9" * 5000: "must be a TOML file",
    b"a" * (2**20 + 1): "holds more than the 1,048,576 bytes",
    b"over." + b"a." * 2000 + b"a = 1": "at most 20 tables and lists within each other",
    b"a." * 50_000 + b"a = 1": "at most 5,000 dots, got 50,000",
}


@pytest.mark.parametrize("content", BAD_TOML, ids=lambda content: str(content[:9]))
def test_a_bad_toml_file_is_named(content, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"sweep\.toml.*{BAD_TOML[content]}"):
        read_spec(path)


def test_a_toml_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "sweep.toml").write_text('stream = "geoff"\nlearners = ["backprop"]\n', encoding="utf-8-sig")
    assert read_spec(tmp_path / "sweep.toml").grids[0].name == "backprop"


def test_logspace_is_bounded():
    assert cp.logspace(2**-3, 2**-1, base=np.int64(2)) == [0.125, 0.25, 0.5]
    for bounds in ((1, 1e30, 1.000000001), (1, 1e38, 1e200)):
        with pytest.raises(ValueError, match=r"times a power of base|must give at most 10,000 values|can hold"):
            cp.logspace(*bounds)


@pytest.mark.parametrize("values", ["0**-1", "2**9999", "2**" + "9" * 5000, "9" * 5000])
def test_axes_that_are_no_finite_numbers_are_named(values):
    flags = {"stream": {"name": "geoff"}, "learners": ["backprop"], "seeds": 1}
    with pytest.raises(ValueError, match=r"over .*step_size|a power in over"):
        build_blocks(read_spec(None, [f"step_size={values}"], **flags), "auto")


def test_a_grid_larger_than_memory_is_refused():
    axes = {f"network.{name}": [*range(1, 500)] for name in ("inputs", "hidden", "outputs")}
    with pytest.raises(ValueError, match=r"over has .* settings .* would take .* of memory"):
        cp.sweep(cp.Backprop(NET, 0.01), cp.Arrays(X, np.linspace(0, 1, 6)), axes | {"step_size": [*range(1, 100)]})
