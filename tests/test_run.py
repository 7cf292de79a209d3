"""What `run` promises: identity, isolation, records that mean what they say, clear errors before any work."""

import json
import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import crossprop as cp
from crossprop.learners import LEARNERS
from crossprop.network import ACTIVATIONS, activation_and_slope
from crossprop.running import ProgressEvent
from crossprop.streams import Pool
from own_learners import Radial, Replay
from same import assert_same_records

NET = cp.Network.paper(inputs=6, hidden=16)
STREAM = cp.Geoff(inputs=6, features=30, tasks="ABA", examples=100)
CLASSES = cp.LabelShift(cp.datasets.digits(), tasks="AB", examples=90, shuffle=True)
CLASS_NET = cp.Network(inputs=64, hidden=12, outputs=10, loss="softmax", bias=True)
WIDER = cp.Backprop(cp.Network.paper(inputs=6, hidden=17), 0.01)
PAIR = {"crossprop": cp.Crossprop(NET, 0.01), "adam": cp.Backprop(NET, 0.01, optimizer="adam")}


@pytest.fixture(scope="module")
def seven():
    return cp.run(PAIR, STREAM, seeds=[7])


# Identity.


@pytest.mark.parametrize(
    "seeds",
    [range(5, 10), pytest.param(range(64), marks=pytest.mark.long), [9, 7, 8], np.array([7, 3])],
    ids=["among 5", "among 64", "in another order", "array"],
)
def test_seed_alone_equals_seed_among_others(seven, seeds):
    assert_same_records(cp.run(PAIR, STREAM, seeds=seeds).sel(seed=[7]), seven)


@pytest.mark.long
def test_seed_equals_itself_with_other_learners(seven):
    everyone = {name: build(NET, 0.01) for name, build in LEARNERS.items()}
    assert_same_records(cp.run(everyone, STREAM, seeds=[7]).sel(learner=["crossprop", "adam"]), seven)
    assert_same_records(cp.run(PAIR["adam"], STREAM, seeds=[7]).isel(learner=0), seven.sel(learner="adam"))


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.long)])
def test_seed_equals_itself_in_another_process_on_one_device_or_two(seven, devices, tmp_path):
    script = (
        "import crossprop as cp, jax\n"
        "net = cp.Network.paper(inputs=6, hidden=16)\n"
        "pair = {'crossprop': cp.Crossprop(net, 0.01), 'adam': cp.Backprop(net, 0.01, optimizer='adam')}\n"
        "stream = cp.Geoff(inputs=6, features=30, tasks='ABA', examples=100)\n"
        f"assert len(jax.devices()) == {devices}\n"
        f"cp.run(pair, stream, seeds=[3, 7]).to_netcdf({str(tmp_path / 'records.nc')!r}, engine='scipy')\n"
    )
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=300)
    with xr.open_dataset(tmp_path / "records.nc", engine="scipy") as other:
        assert_same_records(other.load().sel(seed=[7]), seven)


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_projection_of_one_output_is_the_exact_rule_bit_for_bit(optimizer):
    net = cp.Network(inputs=6, hidden=33, bias=True)
    options = {"step_size": 0.01, "eta": 0.4, "optimizer": optimizer, "memory_step_size": 0.02}
    both = {"exact": cp.Crossprop(net, **options), "projected": cp.Crossprop(net, projections=1, **options)}
    records = cp.run(both, STREAM, seeds=3)
    assert_same_records(records.sel(learner="exact"), records.sel(learner="projected"))
    by_hand = [learner.init(cp.keys(0)[1]) for learner in both.values()]
    examples = STREAM.sample(cp.keys(0)[0])
    for x, y in zip(examples.x[:5], examples.y[:5], strict=True):
        by_hand = [learner.update(state, x, y)[0] for learner, state in zip(both.values(), by_hand, strict=True)]
    exact, projected = by_hand
    np.testing.assert_array_equal(exact.outgoing, projected.outgoing)
    for part in ("weights", "memory"):
        np.testing.assert_array_equal(getattr(exact.layers[0], part), getattr(projected.layers[0], part))


def test_records_do_not_depend_on_the_length_of_segments(seven, monkeypatch):
    monkeypatch.setattr("crossprop.engines.segments.steps_per_call", lambda learner, width: 32)
    assert_same_records(
        cp.run(PAIR, STREAM, seeds=[7])[["incoming_drift", "outgoing_drift", "diverged_at"]],
        seven[["incoming_drift", "outgoing_drift", "diverged_at"]],
    )
    np.testing.assert_allclose(cp.run(PAIR, STREAM, seeds=[7]).loss, seven.loss, rtol=1e-6)


# Records.


@pytest.mark.long
def test_a_last_shorter_window_is_kept():
    records = cp.run(PAIR, STREAM, seeds=2, record_every=70)
    assert records.step.values.tolist() == [70, 140, 210, 280, 300]
    whole = cp.run(PAIR, STREAM, seeds=2, record_every=1)
    np.testing.assert_allclose(records.loss[..., -1], whole.loss[..., 280:].mean("step"), rtol=1e-5)
    np.testing.assert_array_equal(records.incoming_drift, whole.incoming_drift.sel(step=records.step))
    assert cp.run(PAIR, STREAM, seeds=1, record_every=1000).step.values.tolist() == [300]


def test_records_name_their_learners_seeds_tasks_and_settings():
    records = cp.run(PAIR, STREAM, seeds=2)
    assert records.loss.dims == ("learner", "seed", "step")
    assert records.learner.values.tolist() == ["crossprop", "adam"] and records.seed.values.tolist() == [0, 1]
    assert records.task.values.tolist() == [0, 0, 1, 1, 0, 0]
    assert "error" not in records and records.attrs["engine"] == "scan"
    assert records.attrs["crossprop"] == cp.__version__ and records.attrs["schema"] == 1
    assert json.loads(records.attrs["learners"])["adam"]["optimizer"] == "adam"
    assert json.loads(records.attrs["stream"])["tasks"] == "ABA"


@pytest.mark.long
def test_squared_and_softmax_learners_can_share_a_call():
    squared = cp.Network(inputs=64, hidden=12, outputs=10)
    both = {"squared": cp.Backprop(squared, 0.01), "softmax": cp.Backprop(CLASS_NET, 0.01)}
    records = cp.run(both, CLASSES, seeds=2)
    assert np.isnan(records.error.sel(learner="squared")).all()
    assert ((records.error.sel(learner="softmax") >= 0) & (records.error.sel(learner="softmax") <= 1)).all()


@pytest.mark.long
@pytest.mark.usefixtures("x64")
def test_with_x64_on_everything_is_float64():
    records = cp.run(PAIR, STREAM, seeds=1)
    assert records.loss.dtype == records.incoming_drift.dtype == np.float64
    assert np.abs(records.loss - records.loss.astype(np.float32)).max() > 0


def test_probes_see_the_initial_and_the_present_state():
    batch = STREAM.sample(cp.keys(0)[0]).x[:40]
    probes = {
        "moved": lambda initial, state: jnp.linalg.norm(state.incoming[0] - initial.incoming[0]),
        "saturated": cp.probes.saturated(NET, batch),
        "rank": cp.probes.effective_rank(NET, batch),
    }
    records = cp.run(PAIR, STREAM, seeds=2, probes=probes)
    np.testing.assert_allclose(records.moved, records.incoming_drift, rtol=1e-5)
    assert ((records.saturated >= 0) & (records["rank"] >= 1) & (records["rank"] <= NET.units)).all()


def test_effective_rank_and_saturation_on_features_known_by_hand():
    net, tanh = cp.Network.paper(2, 4, activation="relu"), cp.Network.paper(2, 4)
    learner, other = cp.Backprop(net, 0.1), cp.Backprop(tanh, 0.1)
    state = learner.init(jax.random.key(0))
    rank = cp.probes.effective_rank(net, np.eye(2))
    with_incoming = lambda rows: state.with_first(state.layers[0]._replace(weights=jnp.array(rows)))
    orthogonal = with_incoming([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, -1.0, 0.0]])
    assert rank(state, orthogonal, learner) == pytest.approx(2, rel=1e-5)
    same = with_incoming([[1.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0]])
    assert rank(state, same, learner) == pytest.approx(1, rel=1e-3)
    assert cp.probes.saturated(net, np.eye(2))(state, orthogonal, learner) == 0.5
    pinned = with_incoming([[9.0, 9.0, -9.0, 0.1], [9.0, 0.1, -9.0, 0.1]])
    assert cp.probes.saturated(tanh, np.eye(2))(state, pinned, other) == 0.5
    assert cp.probes.dormant(net, np.eye(2))(state, orthogonal, learner) == 0.5
    assert cp.probes.dormant(tanh, np.eye(2), threshold=0.2)(state, pinned, other) == 0.25


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_follow_from_values(activation):
    z = np.linspace(-3, 3, 13)
    phi, slope = activation_and_slope(activation, jnp.asarray(z))
    np.testing.assert_allclose(cp.probes.SLOPES[activation](phi), slope, rtol=1e-5)


def test_weight_size_is_the_mean_over_all_layers_without_biases():
    net = cp.Network(2, (3, 2), 1, bias=True)
    learner = cp.Backprop(net, 0.1)
    state = learner.init(jax.random.key(0))
    rows = [np.abs(np.asarray(matrix)[:-1]).ravel() for matrix in (*state.incoming, state.outgoing.T)]
    expected = pytest.approx(np.concatenate(rows).mean(), rel=1e-6)
    assert cp.probes.weight_size(net)(state, state, learner) == expected


def test_probes_ask_a_learner_of_ones_own_for_its_features():
    """One with a hidden layer of its own has a rank, and no slopes; one without features has neither."""
    net = cp.Network(6, 5)
    batch = np.random.default_rng(0).normal(size=(40, 6))
    probes = {"rank": cp.probes.effective_rank(net, batch), "saturated": cp.probes.saturated(net, batch)}
    probes |= {"dormant": cp.probes.dormant(net, batch), "size": cp.probes.weight_size(net)}
    around = cp.Whiten(cp.Normalize(cp.Best(cp.Hindsight(net, 0.01), (0.01, 0.1))))
    kmeans = LEARNERS["kmeans"](net, 0.01)
    learners = {"radial": Radial(net), "kmeans": kmeans, "replay": Replay(net), "around": around}
    with pytest.warns(UserWarning, match=r"'rank'\], .* and probes\['dormant'\] will be NaN without .*x\): replay$"):
        records = cp.run(learners, STREAM, seeds=1, probes=probes).isel(step=-1, seed=0)
    shown = {name: np.isfinite([records[probe].sel(learner=name).item() for probe in probes]) for name in learners}
    assert shown["radial"].tolist() == shown["kmeans"].tolist() == [True, False, True, True]
    assert shown["replay"].tolist() == [False, False, False, True] and shown["around"].all()


# Isolation.


def test_a_diverging_run_says_when_and_spoils_no_other(seven):
    wild = {"wild": cp.Backprop(NET, 1e4)}
    records = cp.run(wild | PAIR, STREAM, seeds=[3, 7, 8])
    assert_same_records(records.sel(seed=[7], learner=["crossprop", "adam"]), seven)
    assert (records.diverged_at.sel(learner=["crossprop", "adam"]) == -1).all()
    every_step = cp.run(wild, STREAM, seeds=[7], record_every=1).isel(learner=0, seed=0)
    at = int(every_step.diverged_at)
    assert 0 < at < 300 and at == int(records.diverged_at.sel(learner="wild", seed=7))
    assert np.isfinite(every_step.loss[:at]).all() and np.isnan(every_step.loss[at:]).all()
    assert np.isnan(every_step.incoming_drift[at:]).all() and np.isnan(every_step.outgoing_drift[at:]).all()


# Progress and interruption.


def test_progress_is_heard_for_every_step_of_every_run():
    heard: list[ProgressEvent] = []
    cp.run(PAIR, STREAM, seeds=3, progress=heard.append)
    assert sum(each.steps for each in heard) == 2 * 3 * 300
    assert {(each.learner, each.seed) for each in heard} == {(name, seed) for name in PAIR for seed in range(3)}


def test_an_interruption_ends_the_run_and_leaves_no_thread(monkeypatch):
    monkeypatch.setattr("crossprop.engines.segments.steps_per_call", lambda learner, width: 16)
    calls = []

    def interrupt(heard):
        calls.append(heard)
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        cp.run(PAIR, STREAM, seeds=20, progress=interrupt)
    assert threading.active_count() == before
    assert len(calls) < 40


@pytest.mark.long
def test_ctrl_c_ends_the_process_cleanly():
    script = (
        "import crossprop as cp, sys\n"
        "net = cp.Network(inputs=20, hidden=500)\n"
        "say = lambda heard: print('going\\n', end='', flush=True)\n"
        "cp.run(cp.Crossprop(net, 1e-4), cp.Geoff(tasks='ABC' * 50), seeds=50, progress=say)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    process.send_signal(2)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert errors.strip().endswith("KeyboardInterrupt") and process.returncode != 0


# Bad input.

LONG = cp.Geoff(inputs=6, tasks="A" * 26, examples=10**6)
BAD = {
    "no learners": (lambda: cp.run({}, STREAM), "learners", "{}"),
    "not a learner": (lambda: cp.run({"a": 3}, STREAM), "learners['a']", "3"),
    "name": (lambda: cp.run({3: PAIR["adam"]}, STREAM), "names", "3"),
    "stream": (lambda: cp.run(PAIR, "geoff"), "stream", "geoff"),
    "inputs": (lambda: cp.run(PAIR, cp.Geoff(inputs=7)), "inputs", "got 6"),
    "outputs": (lambda: cp.run(cp.Backprop(cp.Network(64, 3, 9), 0.1), CLASSES), "outputs", "got 9"),
    "softmax on numbers": (
        lambda: cp.run(cp.Backprop(cp.Network(6, 3, 1, loss="softmax"), 0.1), STREAM),
        "loss",
        "softmax",
    ),
    "seeds empty": (lambda: cp.run(PAIR, LONG, seeds=[]), "seeds", "[]"),
    "seeds zero": (lambda: cp.run(PAIR, LONG, seeds=0), "seeds", "0"),
    "seeds negative": (lambda: cp.run(PAIR, LONG, seeds=[1, -2]), "seeds", "-2"),
    "seeds repeated": (lambda: cp.run(PAIR, LONG, seeds=[1, 1]), "seeds", "[1, 1]"),
    "seeds float": (lambda: cp.run(PAIR, LONG, seeds=[1.5]), "seeds", "1.5"),
    "seeds text": (lambda: cp.run(PAIR, LONG, seeds="12"), "seeds", "12"),
    "record_every": (lambda: cp.run(PAIR, LONG, record_every=0), "record_every", "0"),
    "engine": (lambda: cp.run(PAIR, LONG, engine="warp"), "engine", "warp"),
    "probe name": (lambda: cp.run(PAIR, LONG, probes={"loss": lambda a, b: 0.0}), "probes", "loss"),
    "probe kind": (lambda: cp.run(PAIR, LONG, probes={"p": 3}), "probes['p']", "3"),
    "probe result": (lambda: cp.run(PAIR, LONG, probes={"p": lambda a, b: [b.incoming[0]]}), "probes['p']", "[Shape"),
    "probe shapes": (
        lambda: cp.run({"a": PAIR["adam"], "b": WIDER}, LONG, probes={"p": lambda a, b: b.incoming[0]}),
        "probes['p']",
        "{'a': (6, 16), 'b': (6, 17)}",
    ),
    "metric name": (lambda: cp.run(PAIR, LONG, metrics={"drift_u": lambda a, b: 0.0}), "metrics", "drift_u"),
    "metric kind": (lambda: cp.run(PAIR, LONG, metrics={"m": 3}), "metrics['m']", "3"),
    "metric shape": (lambda: cp.run(PAIR, LONG, metrics={"m": lambda o, y: o.outputs}), "metrics['m']", "(1,)"),
    "metric type": (lambda: cp.run(PAIR, LONG, metrics={"m": lambda o, y: o.loss + 1j}), "metrics['m']", "complex64"),
    "metric key": (lambda: cp.run(PAIR, LONG, metrics={"m": lambda o, y: jax.random.key(0)}), "metrics['m']", "key<"),
    "probe type": (
        lambda: cp.run(PAIR, LONG, probes={"p": lambda a, b: b.outgoing * 1j}),
        "probes['p']",
        "complex64",
    ),
    "metric window": (lambda: cp.run(PAIR, LONG, metrics={"window": lambda o, y: 0.0}), "metrics", "window"),
    "window too long": (lambda: cp.run(PAIR, LONG, record_every=1_000_001), "record_every", "1,000,001"),
    "metrics": (lambda: cp.run(PAIR, LONG, metrics=[len]), "metrics", "built-in function len"),
    "one name": (
        lambda: cp.run(PAIR, LONG, probes={"m": lambda a, b: 0.0}, metrics={"m": lambda o, y: o.loss}),
        "probes and metrics",
        "'m'",
    ),
    "steps zero": (lambda: cp.run(PAIR, LONG, steps=0), "steps", "0"),
    "steps half": (lambda: cp.run(PAIR, LONG, steps=1.5), "steps", "1.5"),
    "steps too many": (lambda: cp.run(PAIR, STREAM, steps=301), "steps", "301"),
    "start": (lambda: cp.run(PAIR, LONG, start=3), "start", "3"),
    "start without a seed": (lambda: cp.run(PAIR, LONG, seeds=[2], start={"crossprop": {0: 1}}), "start", "2"),
    "start of another learner": (
        lambda: cp.run(WIDER, LONG, seeds=1, start={"backprop": {0: PAIR["adam"].init(jax.random.key(0))}}),
        "start['backprop'][0]",
        "(6, 16)",
    ),
    "checkpoint": (lambda: cp.run(PAIR, LONG, checkpoint="/dev/null/folder"), "checkpoint", "/dev/null/folder"),
    "mapped learner": (lambda: cp.run(cp.Backprop(NET, np.array([0.1, 0.2])), LONG), "step_size", "(2,)"),
    "keys": (lambda: cp.keys(-1), "seed", "-1"),
    "batch": (lambda: cp.probes.effective_rank(NET, np.zeros((3, 5))), "batch", "(3, 5)"),
    "batch nan": (lambda: cp.probes.saturated(NET, np.full((3, 6), np.nan)), "batch", "nan"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_with_its_value_before_any_work(case):
    call, argument, value = BAD[case]
    began = time.monotonic()
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert argument in str(caught.value) and value in str(caught.value)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("rows", "y", "said"),
    [
        ([0, 1, 2, 3, 4], np.nan, r"^the stream's y must be finite, got nan at index \(3, 0\)"),
        ([0, 1, 2, 5, 4], 0.0, r"^the stream's rows of x must be rows of its pool, 0 to 4, got 0 to 5"),
        ([0, 1, 2, -1, 4], 0.0, r"^the stream's rows of x must be rows of its pool, 0 to 4, got -1 to 4"),
    ],
)
def test_a_pool_stream_of_ones_own_that_gives_nonsense_is_named(rows, y, said):
    class Broken(cp.Arrays):
        def pool(self, key):
            targets = np.zeros((5, 1), np.float32)
            targets[3] = y
            return Pool(np.zeros((5, 6), np.float32), targets)

        def rows(self, index, steps):
            return np.array(rows)[steps], steps

    with pytest.raises(ValueError, match=said):
        cp.run(PAIR, Broken(np.zeros((5, 6)), np.zeros(5)), seeds=1)


# Import.


def test_importing_crossprop_brings_nothing_heavy_along():
    heavy = {
        "xarray",
        "pandas",
        "matplotlib",
        "sklearn",
        "plotly",
        "tyro",
        "rich",
        "urllib.request",
        "mlxtend",
        "scipy.stats",
    }
    script = f"import sys, crossprop; print(*({heavy} & set(sys.modules) - set(before)))"
    script = "import sys, jax, equinox, optax; before = set(sys.modules)\n" + script
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == ""


def test_the_first_call_in_a_process_compiles_few_programs():
    """Each costs a tenth of a second or more, also where a cache on disk has it."""
    script = """
import jax
import crossprop as cp
compiled = []
event = "/jax/core/compile/backend_compile_duration"
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: name == event and compiled.append(name))
net = cp.Network(inputs=20, hidden=50)
learners = {"crossprop": cp.Crossprop(net, 5e-4), "backprop": cp.Backprop(net, 5e-4)}
cp.run(learners, cp.Geoff(tasks="A", examples=100), seeds=2, progress=False)
print(len(compiled))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 8
