"""The public contract checks: all learners and streams pass, and each check finds what it is for."""

# pyright: reportIncompatibleMethodOverride=false

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from jax.core import Tracer
from jax.experimental import io_callback

import crossprop as cp
import own_streams
from crossprop.learners import LEARNERS
from crossprop.learners.base import Credit
from crossprop.replacements.base import Choice
from crossprop.streams import STREAMS
from crossprop.testing import check_learner, check_stream, learner_checks, stream_checks
from own_learners import Replay
from registered import OWN_STREAMS

pytestmark = pytest.mark.usefixtures("quick_compilation")

NETWORKS = {
    "squared": cp.Network(inputs=3, hidden=4, outputs=2, bias=True),
    "softmax": cp.Network(inputs=3, hidden=4, outputs=3, loss="softmax", activation="sigmoid"),
}
SMALL_STREAMS = {
    "geoff": {"inputs": 4, "features": 6, "examples": 5, "tasks": "ABA"},
    "tracking": {"steps": 50},
    "slowly-changing": {"change_every": 5},
    "random-walk": {"steps": 50},
    "trace-conditioning": {"wait": (1, 2), "pause": (1, 3), "distractors": 0},
    "trace-patterning": {"steps": 300},
    "temperatures": {},
    "atari": {"frames": 40, "seed": 0},
    "traced": {"stream": {"name": "trace-patterning", "wait": (1, 2), "pause": (1, 3)}},
    "permuted-inputs": {"data": "digits", "examples": 5, "tasks": "ABA"},
    "random-labels": {"data": "digits", "images": 4, "passes": 2, "tasks": 3},
    "class-pairs": {"data": "digits", "train": 3, "tasks": "ABA"},
    **{name: {"examples": 5, "tasks": "ABA"} for name in ("digits", "mnist5k", "mnist", "fashion", "cifar10")},
    **{name: {"examples": 20} for name in ("elec2", "covertype")},
}
FULL_GRID = os.environ.get("CROSSPROP_FULL_GRID") == "1"
"""Whether every registered learner meets every network; else they take turns."""
QUICK_STREAMS = {"geoff", "tracking", "elec2", "random-walk", "trace-patterning", "traced"}
QUICK_LEARNERS = {"crossprop", "foresight", "adam", "hindsight"}
"""One of each kind; the others are checked with the long tests."""
CASES = [
    pytest.param(name, network, marks=[pytest.mark.long] * (name not in QUICK_LEARNERS))
    for (turn, name), (other, network) in itertools.product(enumerate(LEARNERS), enumerate(NETWORKS))
    if FULL_GRID or turn % len(NETWORKS) == other
]


@pytest.mark.parametrize(("name", "network"), CASES)
def test_every_registered_learner_keeps_the_contract(name, network):
    check_learner(LEARNERS[name](NETWORKS[network], 0.05), learns=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK_STREAMS)) for name in OWN_STREAMS]
)
def test_every_registered_stream_keeps_the_contract(name, monkeypatch):
    if name == "atari":
        pytest.importorskip("ale_py")
    if name == "temperatures":
        days = np.arange(100)
        monkeypatch.setattr(cp.datasets, "temperatures", lambda: (days, np.random.default_rng(0).normal(size=(100, 3))))
    for fetched in cp.datasets.ARCHIVES:
        monkeypatch.setitem(cp.datasets.DATA_SETS, fetched, cp.datasets.digits)  # which needs no download
    check_stream(STREAMS[name](**SMALL_STREAMS[name]))


@pytest.mark.parametrize("check", ["run", "engines"])
def test_a_replacement_of_ones_own_that_counts_keeps_the_contract(check, optimized):
    """JAX 0.12 once dropped its loop: loss 0, and an untrained state."""
    dict(learner_checks())[check](cp.Backprop(NETWORKS["squared"], 0.01, replacement=Every()))


@pytest.mark.parametrize("network", ["squared", pytest.param("softmax", marks=pytest.mark.long)])
def test_a_learner_that_is_no_credit_rule_keeps_the_contract(network):
    check_learner(Replay(NETWORKS[network], 0.05), learns=True)


@pytest.mark.long
@pytest.mark.usefixtures("x64")
def test_the_checks_hold_in_float64():
    check_learner(Replay(NETWORKS["squared"], 0.05), learns=True)


@pytest.fixture
def optimized():
    """Programs are compiled as for users."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


# Broken learners, one or more for each check


class Sizes(eqx.Module):
    inputs: int = eqx.field(static=True, default=2)
    outputs: int = eqx.field(static=True, default=1)
    loss: Any = eqx.field(static=True, default="squared")


class Linear(cp.Learner):
    """What the broken ones are made from; it breaks nothing."""

    network: Sizes = Sizes()
    step_size: float = 0.1

    def init(self, key):
        return {"w": 0.1 * jax.random.normal(key, (2, 1))}

    def predict(self, state, x):
        return x @ state["w"]

    def update(self, state, x, y):
        outputs = x @ state["w"]
        delta = y - outputs
        return {"w": state["w"] + self.step_size * x[:, None] * delta[None, :]}, cp.Outcome(jnp.sum(delta**2), outputs)

    def weights(self, state):
        return {"w": state["w"]}


COUNT = itertools.count(1)


class StaticNumber(Linear):
    rate: float = eqx.field(static=True, default=0.5)


class TextLeaf(Linear):
    kind: str = "plain"


class Flag(Linear):
    fast: bool = True


class NumberInState(Linear):
    def init(self, key):
        return {"w": jnp.zeros((2, 1)), "count": 0}


class CountingInit(Linear):
    def init(self, key):
        return {"w": jnp.full((2, 1), 0.1 * next(COUNT))}


class InPlace(Linear):
    def init(self, key):
        return {"w": np.ones((2, 1), np.float32)}

    def update(self, state, x, y):
        outputs = x @ state["w"]
        state["w"] += 0.1 * x[:, None]
        return state, cp.Outcome(jnp.sum((y - outputs) ** 2), outputs)


class Counting(Linear):
    """Another step size whenever it is called or traced."""

    def update(self, state, x, y):
        return Linear.update(eqx.tree_at(lambda self: self.step_size, self, 0.01 * next(COUNT)), state, x, y)


class Growing(Linear):
    def update(self, state, x, y):
        return {"w": jnp.concatenate([state["w"], x[:, None]])}, Linear.update(self, state, x, y)[1]


class Rounding(Linear):
    def update(self, state, x, y):
        return {"w": state["w"].astype(jnp.bfloat16)}, Linear.update(self, state, x, y)[1]


class Restructured(Linear):
    def update(self, state, x, y):
        return [state["w"]], Linear.update(self, state, x, y)[1]


class Hindsight(Linear):
    def update(self, state, x, y):
        state, outcome = Linear.update(self, state, x, y)
        return state, cp.Outcome(outcome.loss, x @ state["w"])


class LossPerOutput(Linear):
    def update(self, state, x, y):
        state, outcome = Linear.update(self, state, x, y)
        return state, cp.Outcome(outcome.loss[None], outcome.outputs)


class PlainPair(Linear):
    def update(self, state, x, y):
        state, outcome = Linear.update(self, state, x, y)
        return state, tuple(outcome)


class ScalarPrediction(Linear):
    def predict(self, state, x):
        return (x @ state["w"])[0]


class OddFeatures(Linear):
    def features(self, state, x):
        return jnp.zeros((2, 3))


class ListOfWeights(Linear):
    def weights(self, state):
        return [state["w"]]


class OddName(Linear):
    def weights(self, state):
        return {"layer/1": state["w"]}


class IntegerWeights(Linear):
    def weights(self, state):
        return {"w": state["w"].astype(int)}


class Branching(Linear):
    def update(self, state, x, y):
        return Linear.update(self, state, x if x[0] > 0 else -x, y)


class Unmappable(Linear):
    def update(self, state, x, y):
        x = io_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
        return Linear.update(self, state, x, y)


class Halving(Linear):
    rate: float = eqx.field(converter=lambda value: value / 2, default=1.0)


class CountingRule(cp.Backprop):
    def credit(self, units, delta):
        return Credit(from_input=next(COUNT) * units.slope)


class Every(cp.Replacement):
    """Counts examples, and never replaces a unit."""

    def init(self, network):
        return {"n": jnp.zeros((), jnp.int32)}

    def update(self, memory, watched):
        return {"n": memory["n"] + 1}

    def due(self, memory):
        return memory["n"] < 0

    def choose(self, memory, key):
        return Choice(jnp.zeros((), jnp.int32), memory)


class Still(Linear):
    def update(self, state, x, y):
        return state, Linear.update(self, state, x, y)[1]


BROKEN = [
    ("fields", StaticNumber(), "its numbers are leaves", "the number rate=0.5 is static"),
    ("fields", TextLeaf(), "its other fields are static", "the leaf kind='plain', which needs eqx.field(static=True)"),
    ("fields", Flag(), "its other fields are static", "the leaf fast=True"),
    ("fields", Linear(Sizes(loss="mse")), "a `network` with sizes and a loss", "network.loss is 'mse'"),
    ("fields", Linear(Sizes(inputs=0)), "a `network` with sizes", "network.inputs is 0"),
    ("init", NumberInState(), "a pytree of arrays", "['count'] is 0, a int"),
    ("init", CountingInit(), "a pure function of its key", "two calls with the same key differ: ['w']"),
    ("pure", InPlace(), "it changes nothing", "the state that was given, after and before the call differ: ['w']"),
    ("pure", Counting(), "the same result when called again", "two calls with the same arguments differ: [0]['w']"),
    ("state", Growing(), "structure, shapes and types", "['w'] is float32[4, 1] after float32[2, 1]"),
    ("state", Rounding(), "structure, shapes and types", "['w'] is bfloat16[2, 1] after float32[2, 1]"),
    ("state", Restructured(), "structure, shapes and types", "PyTreeDef([*]) after PyTreeDef({'w': *})"),
    ("outcome", Hindsight(), "outputs from before learning", "outputs and predict on the state before differ"),
    ("outcome", LossPerOutput(), "a scalar loss", "loss has shape (1,), not ()"),
    ("outcome", PlainPair(), "a `crossprop.Outcome`", "Found: a tuple"),
    ("predict", ScalarPrediction(), "`(outputs,)`", "has shape (), not (1,)"),
    ("features", OddFeatures(), "returns `(units,)`", "layer 0 has shape (2, 3), not (2,)"),
    ("weights", ListOfWeights(), "a dict of float arrays", "Found: ["),
    ("weights", OddName(), "the names are identifiers", "the name 'layer/1'"),
    ("weights", IntegerWeights(), "float arrays", "weights['w'] is Array("),
    ("compiled", Branching(), "can be compiled by `jax.jit`", "TracerBoolConversionError"),
    ("mapped", Unmappable(), "`jax.vmap` can map", "ValueError"),
    ("run", Counting(), "what a loop of `update` gives", "of the run and of the loop differ"),
    ("seeds", CountingInit(), "alone and among others", "alone and among three seeds differ"),
    ("continued", Counting(), "goes on from `return_states`", "continued and whole differ"),
    ("saved", Halving(), "the same learner and state", "numbers of the learner loaded and saved differ: .rate 0.25"),
    ("engines", CountingRule(cp.Network(2, 3), 0.01), "Every engine that supports", "of scan and of the loop differ"),
    ("learns", Still(), "300 updates", "at the last update"),
]


@pytest.mark.parametrize(
    ("name", "learner", "promise", "found"), BROKEN, ids=[f"{case[0]}-{type(case[1]).__name__}" for case in BROKEN]
)
def test_a_broken_learner_fails_its_check(name, learner, promise, found):
    assert_fails(dict(learner_checks(learns=True))[name], learner, promise, found)


def assert_fails(check, thing, promise, found):
    with pytest.raises(AssertionError) as caught:
        check(thing)
    message = str(caught.value)
    assert message.startswith(f"{type(thing).__name__}: ")
    assert promise in message and found in message, message


def test_every_check_of_a_learner_has_a_learner_that_breaks_it():
    assert {name for name, _ in learner_checks(learns=True)} == {case[0] for case in BROKEN}
    check_learner(Linear(), learns=True)


# Broken streams


@dataclass(frozen=True)
class Noise(own_streams.Noise):
    """What the broken ones are made from; it breaks nothing."""

    outputs: int = 2


class FlatTargets(Noise):
    def deal(self, place, count):
        place, x, y = Noise.deal(self, place, count)
        return place, x, y[:, 0]


class Infinite(Noise):
    def deal(self, place, count):
        place, x, y = Noise.deal(self, place, count)
        return place, x / 0, y


class Unplaced(Noise):
    def deal(self, place, count):
        return Noise.deal(self, place, count)[1:]


class GrowingPlace(Noise):
    def deal(self, place, count):
        (key, _), x, y = Noise.deal(self, place, count)
        return (key, np.zeros(count)), x, y


class Drawn(Noise):
    def deal(self, place, count):
        place, x, y = Noise.deal(self, place, count)
        return place, x + next(COUNT), y


class Counted(Noise):
    def begin(self, key):
        return key, next(COUNT)


class ChangedPlace(Noise):
    def begin(self, key):
        return {"key": key, "step": np.zeros((), int)}

    def deal(self, place, count):
        _, x, y = Noise.deal(self, (place["key"], 0), count)
        place["step"] += count
        return place, x, y


class ByCount(Noise):
    def deal(self, place, count):
        x = jax.random.normal(place[0], (count, self.inputs))
        return place, x, x[:, : self.outputs]


class OneTask(Noise):
    def task(self, steps):
        return np.zeros(1, int)


class NegativeTask(Noise):
    def task(self, steps):
        return np.asarray(steps) - 1


class RelativeTask(Noise):
    def task(self, steps):
        return np.arange(len(steps)) // 3


class OtherSample(Noise):
    def sample(self, key):
        return cp.Stream.sample(self, jax.random.fold_in(key, 1))


class OtherWhenTraced(Noise):
    def deal(self, place, count):
        place, x, y = Noise.deal(self, place, count)
        return place, x, y + isinstance(x, Tracer)


@dataclass(frozen=True)
class NoOneHot(Noise):
    one_hot: Any = field(default=None)


BROKEN_STREAMS = [
    ("attributes", NoOneHot(), "a bool `one_hot`", "one_hot is None"),
    ("attributes", Noise(steps=0), "`steps`, a whole number or None", "steps is 0"),
    ("attributes", Noise(inputs=2.5), "whole numbers `inputs`", "inputs is 2.5"),
    ("deal", FlatTargets(), "`y (count, outputs)`", "y of shape (7,), not (7, 2)"),
    ("deal", Infinite(), "of finite numbers", "x must be finite, got"),
    ("deal", Unplaced(), "returns the next place", "a tuple in place of three values"),
    ("deal", GrowingPlace(), "returns the next place", "a place of another form"),
    ("one_hot", Noise(one_hot=True), "every row of `y` has one 1", "y[0] is ["),
    ("pure", Drawn(), "the same when called again", "two calls of deal from the same place differ"),
    ("pure", Counted(), "the same when called again", "two calls of begin with the same key differ"),
    ("pure", ChangedPlace(), "they change nothing", "the place that was given, after and before the call differ"),
    ("parts", ByCount(), "Dealing 3 examples and then 4", "x dealt in parts and at once differ"),
    ("task", OneTask(), "the task at each step", "shape (1,) for (1000,)"),
    ("task", NegativeTask(), "from 0", "int64 from -1"),
    ("task", RelativeTask(), "whatever other steps", "the tasks of the steps backwards and forwards differ"),
    ("sample", OtherSample(steps=5), "all that is dealt", "x sampled and dealt differ"),
    ("run", OtherWhenTraced(), "the examples that are dealt", "losses of a run and of the examples"),
]


@pytest.mark.parametrize(
    ("name", "stream", "promise", "found"),
    BROKEN_STREAMS,
    ids=[f"{case[0]}-{type(case[1]).__name__}" for case in BROKEN_STREAMS],
)
def test_a_broken_stream_fails_its_check(name, stream, promise, found):
    assert_fails(dict(stream_checks())[name], stream, promise, found)


def test_every_check_of_a_stream_has_a_stream_that_breaks_it():
    assert {name for name, _ in stream_checks()} == {case[0] for case in BROKEN_STREAMS}


@pytest.mark.parametrize("steps", [None, pytest.param(2, marks=pytest.mark.long), 40])
def test_streams_on_the_device_keep_the_contract(steps):
    check_stream(Noise(steps=steps))


def test_what_is_no_learner_or_no_stream_that_can_be_dealt_is_refused():
    with pytest.raises(TypeError, match=r"learner must be a crossprop.*, got 3"):
        check_learner(3)
    with pytest.raises(TypeError, match=r"stream must be a crossprop.*, got 3"):
        check_stream(3)
    with pytest.raises(TypeError, match="Iterator has one pass"):
        check_stream(cp.Iterator([], inputs=1, outputs=1))


# A learner of one's own, everywhere


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(LEARNERS._builders, "replay", partial(Replay))
    return tmp_path


def test_a_learner_of_ones_own_runs_from_the_command_line(call, folder):
    words = ("--tasks", "AB", "--examples", "30", "--seeds", "2", "--hidden", "4", "--record-every", "20")
    answer = call("run", "geoff", "--import", "own_learner", "--learners", "replay", "frozen", "--out", "out", *words)
    assert (answer.code, answer.err) == (0, "")
    records = xarray.load_dataset(folder / "out" / "records.nc")
    assert records.learner.values.tolist() == ["replay", "frozen"]
    learner = Replay(cp.Network(20, 4))
    expected = cp.run(learner, cp.Geoff(tasks="AB", examples=30), seeds=2, record_every=20)
    np.testing.assert_array_equal(records.loss.values[0], expected.loss.values[0])


def test_a_learner_of_ones_own_is_swept_from_toml_into_a_store(call, folder):
    (folder / "sweep.toml").write_text(
        'import = ["own_learner"]\nlearners = ["replay"]\nseeds = 2\nrecord_every = 10\n'
        'stream = {name = "geoff", inputs = 4, features = 5, examples = 10}\nover = {step_size = [0.01, 0.1]}\n'
    )
    answer = call("sweep", "sweep.toml", "--store", "store")
    assert (answer.code, answer.err) == (0, "")
    swept = cp.open_sweep("store")["replay"]
    assert dict(swept.sizes) == {"step_size": 2, "seed": 2, "step": 3}
    stream = cp.Geoff(inputs=4, features=5, examples=10)
    alone = cp.run(Replay(cp.Network(4, 500), 0.1), stream, seeds=[1], record_every=10)
    np.testing.assert_array_equal(swept.loss.sel(step_size=0.1, seed=1), alone.loss.values[0, 0])


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler with one worker, which can import the user's module."""
    support = str(Path(__file__).parent / "support")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([support, *filter(None, sys.path)])}
    environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    file = tmp_path / "scheduler.json"
    where = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    with contextlib.ExitStack() as stack, (tmp_path / "log").open("w") as log:
        for words in (("scheduler", "--port", "0"), ("worker", "--no-nanny", "--nthreads", "1")):
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, *where], cwd=tmp_path, env=environment, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        end = time.monotonic() + 30
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.02)
        yield json.loads(file.read_text())["address"]


@pytest.mark.long
def test_a_learner_of_ones_own_is_swept_on_a_cluster(cluster, tmp_path):
    learners, stream = {"replay": Replay(cp.Network(4, 1))}, cp.Geoff(inputs=4, features=5, examples=10)
    sweep = partial(cp.sweep, learners, stream, over={"step_size": [0.01, 0.1]}, seeds=2, record_every=10)
    there = sweep(cluster=cluster, store=tmp_path / "there")["replay"]
    here = sweep(store=tmp_path / "here")["replay"]
    assert there.loss.shape == (2, 2, 3)
    for name in here.data_vars:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-5, err_msg=str(name))
