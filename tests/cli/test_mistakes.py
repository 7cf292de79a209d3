"""Mistakes that were found by trying, each kept from coming back."""

import errno
import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop._support.files import atomic_write
from crossprop._support.warning import warn
from crossprop.learners import LEARNERS
from crossprop.specification import build_learner
from crossprop.streams import SUITED_TO
from own_streams import Noise

pytestmark = pytest.mark.usefixtures("quick_compilation")
NET = cp.Network(inputs=3, hidden=4)


class Counting(cp.Learner):
    """A linear unit that counts its examples."""

    network: cp.Network
    step_size: float = 0.1

    def init(self, key):
        return {"count": jnp.zeros((), int), "whole": jnp.zeros(2, jnp.uint8), "weights": jnp.zeros((3, 1))}

    def update(self, state, x, y):
        outputs = self.predict(state, x)
        weights = state["weights"] + self.step_size * jnp.outer(x, y - outputs)
        state = {"count": state["count"] + 1, "whole": state["whole"] - jnp.uint8(1), "weights": weights}
        return state, cp.Outcome(jnp.sum((y - outputs) ** 2), outputs)

    def predict(self, state, x):
        return x @ state["weights"]

    def weights(self, state):
        return {"linear": state["weights"], "whole": state["whole"]}


def stream():
    numbers = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    return cp.Arrays(numbers[:, 1:], numbers[:, :1])


def test_a_counter_in_the_state_counts():
    learner, data = Counting(NET), stream()
    records, states = cp.run(learner, data, seeds=1, record_every=20, return_states=True)
    state, losses = learner.init(jax.random.key(0)), []
    for x, y in zip(data.x, data.y, strict=True):
        state, outcome = learner.update(state, x, y)
        losses.append(outcome.loss)
    assert states["counting"][0]["count"] == 60
    np.testing.assert_allclose(records.loss[0, 0], np.mean(np.reshape(losses, (3, 20)), axis=1), rtol=1e-5)
    np.testing.assert_allclose(states["counting"][0]["weights"], state["weights"], rtol=1e-5)


def test_drift_of_whole_numbers_is_measured_in_floats():
    records = cp.run(Counting(NET), stream(), seeds=1, record_every=60)
    assert records.drift_whole.values[0, 0, 0] == pytest.approx(np.sqrt(2) * (256 - 60), rel=1e-5)


@pytest.mark.long
def test_a_run_that_goes_on_in_the_middle_of_a_segment_skips_no_example(monkeypatch):
    monkeypatch.setattr("crossprop.engines.segments.steps_per_call", lambda learner, width: 64)
    learner, noise = cp.Backprop(NET, 0.01), Noise()
    _, states = cp.run(learner, noise, seeds=1, steps=30, record_every=10, return_states=True)
    _, states = cp.run(learner, noise, seeds=1, steps=170, record_every=10, start=states, return_states=True)
    _, whole = cp.run(learner, noise, seeds=1, steps=200, record_every=10, return_states=True)
    jax.tree.map(np.testing.assert_array_equal, states["backprop"][0], whole["backprop"][0])


def test_update_works_outside_after_it_was_first_used_inside_jit():
    learner = cp.Backprop(NET, 0.01)
    state, x, y = learner.init(jax.random.key(0)), np.ones(3), np.ones(1)
    inside = jax.jit(lambda state: learner.update(state, x, y))(state)
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, inside, learner.update(state, x=x, y=y))


def test_classes_are_classes_whatever_their_number():
    learner = cp.Backprop(cp.Network(3, 4, 2, loss="softmax"), 0.01)
    state, x = learner.init(jax.random.key(0)), np.ones((2, 3))
    one, other = cp.live(learner, state, x, [0, 1]), cp.live(learner, state, x, np.eye(2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    expected = learner.update(state, x[0], [0.0, 1.0])[1].loss
    for label in (1, np.array(1), jnp.array(1)):
        assert learner.update(state, x[0], label)[1].loss == expected


def test_a_stream_with_an_array_among_its_fields_can_be_dealt():
    @dataclass(frozen=True)
    class Scaled(Noise):
        scale: object = None

    records = cp.run(cp.Backprop(NET, 0.01), Scaled(scale=np.ones(3)), seeds=2, steps=20)
    assert np.isfinite(records.loss).all()


def test_states_of_another_precision_are_named():
    learner = cp.Backprop(NET, 0.01)
    with jax.enable_x64(True):
        state = learner.init(jax.random.key(0))
    with pytest.raises(
        ValueError, match=r"start\['backprop'\]\[0\] must be a state .* of types float32, float32, got float64, float64"
    ):
        cp.run(learner, stream(), seeds=1, start={"backprop": {0: state}})


def test_an_own_update_that_returns_something_else_is_named_before_work():
    class Broken(Counting):
        def update(self, state, x, y):
            return state

    with pytest.raises(TypeError, match=r"learners\['broken'\]\.update must return a state and a crossprop\.Outcome"):
        cp.run(Broken(NET), stream(), seeds=1)


def test_a_probe_cannot_have_the_name_of_an_axis():
    with pytest.raises(ValueError, match="must not be named as an axis of over, got 'step_size'"):
        cp.sweep(
            cp.Backprop(NET, 0.01), stream(), {"step_size": [0.1]}, seeds=1, probes={"step_size": lambda a, b: 1.0}
        )


def test_a_sweep_takes_no_more_steps_than_every_stream_has():
    short = cp.Geoff(inputs=3, features=5, tasks="AB", examples=100)
    with pytest.raises(ValueError, match=r"over has {'stream.examples': 10}: steps must be between 1 and 20, got 150"):
        cp.sweep(cp.Backprop(NET, 0.01), short, {"stream.examples": [10, 100]}, seeds=1, steps=150)
    unit, finite = cp.Backprop(cp.Network(20, ()), 0.01), cp.Tracking(steps=40)
    with pytest.raises(ValueError, match=r"over has {'stream.steps': None}: steps must be given for an endless stream"):
        cp.sweep(unit, finite, {"stream.steps": [40, None]}, seeds=1)


@pytest.mark.long
def test_tasks_by_number_can_be_an_axis_beside_letters(tmp_path):
    geoff = cp.Geoff(inputs=3, features=5, tasks=[0, 1], examples=10)
    swept = cp.sweep(cp.Backprop(NET, 0.01), geoff, {"stream.tasks": ["AB", "BA"]}, seeds=1, store=tmp_path)
    np.testing.assert_array_equal(cp.open_sweep(tmp_path)["backprop"].loss, swept["backprop"].loss)


def test_a_registered_step_size_is_kept(own_registries):
    LEARNERS["fast"] = partial(cp.Backprop, step_size=0.5)
    assert build_learner("fast", {}, NET, SUITED_TO["squared"], {}).step_size == 0.5


def test_an_iterator_takes_no_more_examples_than_it_needs():
    examples = iter([(np.ones(3), 1.0)] * 200)
    cp.run(cp.Backprop(NET, 0.01), cp.Iterator(examples, inputs=3, outputs=1), seeds=1, steps=50)
    assert len(list(examples)) == 150


class Named(Counting):
    mode: str = "fast"


class Masked(Counting):
    mask: object = None


class Misshapen(Counting):
    def update(self, state, x, y) -> Any:
        return x @ jnp.ones((9, 9))


class Listing(Counting):
    def weights(self, state) -> Any:
        return [state["weights"]]


X, Y = np.ones((4, 3)), np.ones(4)
TABLES = {
    "text in a table": ([[1, "a", 2.0]], [1.0], "x must be numbers .* got 'a' at index \\(0, 1\\)$"),
    "a gap among labels": (X, ["b", None, "a", "b"], "y must be numbers or labels .* got None at index \\(1,\\)$"),
    "a path": ("x.npy", Y, "x must be numbers .* got 'x.npy'$"),
    "beyond float32": (X * [1, 1e39, 1], Y, "x at index \\(0, 1\\) must be a number that float32 can hold, got 1e"),
}


@pytest.mark.parametrize(("x", "y", "message"), TABLES.values(), ids=TABLES)
def test_a_value_that_arrays_cannot_take_is_named_with_its_place(x, y, message):
    with pytest.raises(ValueError, match=message):
        cp.Arrays(x, y)


def test_a_column_that_arrays_cannot_take_is_named():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"height": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match=r"got 'red' at index \(0, 1\), in column 'colour'$"):
        cp.Arrays(table, [1.0, 2.0])


def test_fractions_are_no_classes_unless_they_are_listed():
    with pytest.raises(ValueError, match=r"^y must be labels for classification, got 0\.5: give classes if it is one$"):
        cp.Arrays(X, [0.0, 0.5, 1.0, 0.5], kind="classification")
    assert cp.Arrays(X, [0.0, 0.5, 1.0, 0.5], classes=[0.0, 0.5, 1.0]).outputs == 3


OWN = {
    "text that is not static": (
        Named(NET),
        TypeError,
        r"\.mode must be a number, or declared as eqx\.field\(static=True\)",
    ),
    "an array": (Masked(NET, mask=np.ones(3)), ValueError, r"\.mask must be a number, got an array of shape \(3,\)"),
    "shapes that do not fit": (Misshapen(NET), TypeError, r"\.update: dot_general requires contracting dimensions"),
    "a list of weights": (Listing(NET), TypeError, r"\.weights must return a dict of arrays by name"),
}


@pytest.mark.parametrize(("learner", "error", "message"), OWN.values(), ids=OWN)
def test_what_an_own_learner_cannot_have_is_named_before_work(learner, error, message):
    with pytest.raises(error, match=rf"^learners\['mine'\]{message}"):
        cp.run({"mine": learner}, stream(), seeds=1)


def test_classes_for_a_network_of_numbers_are_told_apart_from_a_wrong_size():
    with pytest.raises(
        ValueError, match=r"must be 2, as the stream has, got 1; its y are classes.* kind=\"regression\""
    ):
        cp.run(cp.Backprop(NET, 0.01), cp.Arrays(X, [0, 1, 0, 1]), seeds=1)


def test_an_iterable_that_was_read_before_is_told():
    spent = iter([])
    with pytest.raises(ValueError, match="at least one example, got 0; what was read before, such as a generator"):
        cp.run(cp.Backprop(NET, 0.01), cp.Iterator(spent, inputs=3, outputs=1), seeds=1)
    with pytest.raises(TypeError, match=r"^example 0 of the iterable must be a pair \(x, y\), got \{'x': 1, 'y': 2\}$"):
        cp.run(cp.Backprop(NET, 0.01), cp.Iterator([{"x": 1, "y": 2}], inputs=3, outputs=1), seeds=1)


def test_a_seed_in_the_place_of_a_key_is_told():
    with pytest.raises(TypeError, match=r"^key must be a key of JAX, such as crossprop\.keys\(7\)\[1\], got 7$"):
        cp.Backprop(NET, 0.01).init(7)


def test_a_warning_points_at_the_line_that_called_the_package():
    inside = {"__name__": "crossprop.inside", "warn": inspect.unwrap(warn)}  # the tests wrap it to check its types
    exec("def outer(): inner()\ndef inner(): warn('look here')", inside)
    with pytest.warns(UserWarning, match="look here") as found:
        inside["outer"]()
    assert found[0].filename == __file__


@pytest.mark.parametrize("full", [True, False])
def test_a_file_for_which_there_is_no_room_is_named(tmp_path, full):
    problem = OSError(errno.ENOSPC if full else errno.ECONNRESET, "told by the system")
    with pytest.raises(type(problem)) as found, atomic_write(tmp_path / "records"):
        raise problem
    assert found.value.filename == (str(tmp_path / "records") if full else None) and not list(tmp_path.iterdir())


def test_an_interrupted_run_with_a_checkpoint_says_that_it_can_go_on(tmp_path):
    def stop(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^what is in .*folder is kept, and the same call goes on from there$"):
        cp.run(cp.Backprop(NET, 0.01), stream(), seeds=1, checkpoint=tmp_path / "folder", progress=stop)
