"""What comes back from a run goes on: states, starts, snapshots and checkpoints, bit for bit."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

import crossprop as cp
from crossprop._support.files import write_json
from crossprop.checkpoints import Checkpoints
from crossprop.engines import chunked, scan
from crossprop.engines.gpu import kernel
from crossprop.engines.session import Session, plain_numbers
from crossprop.experiments import charts
from crossprop.experiments.measures import Runs
from crossprop.library.arena_page import _charts, per_task
from own_learners import Replay
from own_streams import Noise
from same import assert_same_records, assert_same_states
from sessions import advanced, session

pytestmark = pytest.mark.usefixtures("quick_unless_full")

NET = cp.Network(inputs=6, hidden=7, bias=True)
STREAM = cp.Geoff(inputs=6, features=30, tasks="ABA", examples=100)
LEARNERS = {
    "crossprop": cp.Crossprop(NET, 0.01, eta=0.3),
    "momentum": cp.CrosspropApprox(NET, 0.01, optimizer="momentum"),
    "adam": cp.Backprop(NET, 0.01, optimizer="adam"),
    "replay": Replay(NET, 0.01),
}
RULES = {name: LEARNERS[name] for name in ("crossprop", "momentum")}
run = partial(cp.run, record_every=50, progress=False)


def assert_half_and_half_equals_whole(learners, stream, **options):
    whole, last = run(learners, stream, seeds=[2, 5], return_states=True, **options)
    half = int(whole.step[-1]) // 2
    first, states = run(learners, stream, seeds=[2, 5], return_states=True, **options | {"steps": half})
    again, second = run(learners, stream, seeds=[2, 5], start=states, return_states=True, **options | {"steps": half})
    assert again.step.values.tolist() == [step for step in whole.step.values if step > half]
    joined = xr.concat([first, again], "step", data_vars="minimal", compat="override", coords="minimal")
    assert_same_records(joined, whole)
    assert_same_states(dict(second), dict(last))


# States.


def test_half_a_run_and_the_other_half_equal_the_whole():
    assert_half_and_half_equals_whole(LEARNERS, STREAM, steps=200, engine="scan")


def test_half_a_run_and_the_other_half_equal_the_whole_in_chunked():
    assert_half_and_half_equals_whole(RULES, STREAM, steps=200, engine="chunked")


def test_half_a_run_and_the_other_half_equal_the_whole_of_an_endless_stream():
    assert_half_and_half_equals_whole(cp.Backprop(cp.Network(3, 4), 0.01), Noise(), steps=200)


def test_the_last_states_are_those_of_a_loop_of_update():
    _, states = run(LEARNERS, STREAM, seeds=[4], steps=40, return_states=True)
    examples = STREAM.sample(cp.keys(4)[0])
    for name, learner in LEARNERS.items():
        state = learner.init(cp.keys(4)[1])
        for x, y in zip(examples.x[:40], examples.y[:40], strict=True):
            state, _ = learner.update(state, x, y)
        close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
        jax.tree.map(lambda one, other: close(plain_numbers(one), plain_numbers(other)), states[name][4], state)  # noqa: B023


def test_a_start_on_another_stream_equals_a_loop_of_update():
    learner, other = LEARNERS["crossprop"], cp.Geoff(inputs=6, features=9, tasks="C", examples=30)
    _, states = run(learner, STREAM, seeds=[1], steps=50, return_states=True)
    records, last = run(learner, other, seeds=[1], start=states, return_states=True)
    assert records.step.values.tolist() == [30]
    state, examples, losses = states["crossprop"][1], other.sample(cp.keys(1)[0]), []
    for x, y in zip(examples.x, examples.y, strict=True):
        state, outcome = learner.update(state, x, y)
        losses.append(float(outcome.loss))
    np.testing.assert_allclose(records.loss[0, 0, 0], np.mean(losses), rtol=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), last["crossprop"][1], state)


TALL = cp.Geoff(inputs=6, features=30, tasks="AB", examples=430)


@pytest.fixture(scope="module")
def tails():
    """The last part of a run: continued in the middle of a task and of a window, and cut out of the whole."""
    pair = {name: LEARNERS[name] for name in ("crossprop", "adam")}
    _, states = run(pair, TALL, seeds=4, steps=330, return_states=True)
    plasticity = {"plasticity": cp.metrics.plasticity}
    continued = run(pair, TALL, seeds=4, start=states, metrics=plasticity)
    whole = run(pair, TALL, seeds=4, metrics=plasticity)
    return continued, whole


def test_records_tell_how_many_examples_each_window_has(tails):
    continued, whole = tails
    assert whole.window.values.tolist() == [50] * 17 + [10] and whole.window.dtype == whole.step.dtype
    assert continued.window.values.tolist() == [20] + [50] * 10 + [10]
    assert int(continued.window.sum()) == 2 * 430 - 330


def test_a_continued_run_is_compared_by_the_mean_over_its_own_examples(tails):
    continued, whole = tails
    for records in (continued, whole.isel(step=slice(6, None))):
        means = np.average(records.loss, axis=2, weights=records.window)
        found = cp.compare(records, {"crossprop": "adam"})[0]
        assert found.difference.mean == pytest.approx((means[0] - means[1]).mean())
        assert found.percent.mean == pytest.approx(100 * (means[0].mean() / means[1].mean() - 1))


def test_charts_claims_and_pages_of_a_tail_are_the_same_continued_and_cut_out(tails):
    continued, whole = (records.sel(step=slice(400, None)) for records in tails)
    assert_same_records(continued, whole)
    charts.POINTS, points = 4, charts.POINTS
    try:
        chart, expected = (charts.curves(each, ["loss"])[0] for each in (continued, whole))
    finally:
        charts.POINTS = points
    assert charts.to_json(chart) == charts.to_json(expected) and len(chart.lines[0].x) <= 4
    assert [mark.start for mark in chart.tasks] == [350, 400] and chart.tasks[0].end == 400
    assert charts.examples_per_point(continued) == 50
    runs = Runs(continued)
    np.testing.assert_allclose(
        runs.over(runs.phase("all"), "loss", "adam"), np.average(whole.loss[1], axis=1, weights=[50] * 10 + [10])
    )
    one, other = per_task(continued), per_task(whole)
    assert one.loss.identical(other.loss) and one.window.values.tolist() == [50, 460]
    one, other = (_charts(each)["Plasticity"] for each in (continued, whole))
    assert charts.to_json(one) == charts.to_json(other)
    assert max(line.y.max() for line in one.lines) <= 1


def test_records_of_a_tail_without_its_windows_are_an_error(tails):
    bare = tails[0].drop_vars("window")
    runs = Runs(bare)
    for use in (
        lambda: cp.compare(bare, {"adam": "crossprop"}),
        lambda: charts.curves(bare),
        lambda: runs.over(runs.phase("all"), "loss", "adam"),
    ):
        with pytest.raises(ValueError, match="must have the coordinate window"):
            use()


class Shifted(cp.Stream):
    """A stream that is no dataclass."""

    inputs, outputs, one_hot, steps = 3, 1, False, None

    def __init__(self, shift, held=None):
        self.shift, self.held = shift, held

    def begin(self, key):
        return Noise().begin(key)

    def deal(self, place, count):
        place, x, y = Noise().deal(place, count)
        return place, x + self.shift, y


def test_another_stream_of_the_same_class_is_told_from_the_one_of_the_start():
    learner = cp.Backprop(cp.Network(3, 4), 0.01)
    ends = lambda stream, states: run(learner, stream, seeds=1, steps=50, start=states).step.values.tolist()
    _, states = run(learner, Shifted(1.0), seeds=1, steps=100, return_states=True)
    assert ends(Shifted(1.0), states) == [150] and ends(Shifted(2.0), states) == [50]
    _, states = run(learner, Shifted(1.0, threading.Lock()), seeds=1, steps=50, return_states=True)
    with pytest.raises(ValueError, match=r"^start must come from a run on the same object as stream"):
        ends(Shifted(1.0, threading.Lock()), states)
    assert ends(states.stream, states) == [100] and ends(Shifted(1.0, threading.Lock()), dict(states)) == [50]


def test_a_plain_dict_of_states_starts_at_the_first_example():
    _, states = run(LEARNERS["crossprop"], STREAM, seeds=[1], steps=50, return_states=True)
    records = run(LEARNERS["crossprop"], STREAM, seeds=[1], start={"crossprop": {1: states["crossprop"][1]}}, steps=50)
    assert records.step.values.tolist() == [50]


def test_no_more_steps_than_the_stream_has_left():
    _, states = run(RULES, STREAM, seeds=1, steps=250, return_states=True)
    with pytest.raises(ValueError, match=r"^steps must be at most the 50 examples that the stream has left, got 51$"):
        run(RULES, STREAM, seeds=1, start=states, steps=51)
    assert run(RULES, STREAM, seeds=1, start=states).step.values.tolist() == [300]


# Sessions.


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (scan, "crossprop"),
        (chunked, "momentum"),
        (kernel, "crossprop"),
        pytest.param(scan, "momentum", marks=pytest.mark.long),
        pytest.param(chunked, "crossprop", marks=pytest.mark.long),
        pytest.param(kernel, "momentum", marks=pytest.mark.long),
    ],
)
def test_a_session_goes_on_from_states_and_from_snapshots(engine, name):
    whole = advanced(session(engine, RULES[name]), 3)
    first = advanced(session(engine, RULES[name]), 1)
    snapshot, states = first.snapshot(), first.states()
    restored = session(engine, RULES[name])
    restored.restore({name: np.array(values) for name, values in snapshot.items()}, 40)
    started = session(engine, RULES[name], states, first=40)
    for other, skipped in ((advanced(restored, 2), 0), (advanced(started, 2), 2)):
        for one, expected in zip(other.results(), whole.results(), strict=True):
            for variable, values in expected.records.items():
                np.testing.assert_array_equal(one.records[variable], values[skipped:], err_msg=variable)
        assert_same_states(other.states(), whole.states())


@pytest.mark.long
def test_a_replaying_learner_goes_on_side_by_side():
    whole = advanced(session(scan, LEARNERS["replay"]), 3)
    first = advanced(session(scan, LEARNERS["replay"]), 1)
    started = advanced(session(scan, LEARNERS["replay"], first.states(), first=40), 2)
    restored = session(scan, LEARNERS["replay"])
    restored.restore(first.snapshot(), 40)
    assert_same_states(started.states(), whole.states())
    assert_same_states(advanced(restored, 2).states(), whole.states())


# Checkpoints.


def loss_of(outcome, y):
    return outcome.loss


SCRIPT = """
import sys, time
import jax
import crossprop as cp
from sessions import advanced, session
from crossprop import checkpoints
from crossprop.engines import segments
from own_learners import Replay

checkpoints.SECONDS = 0
segments.steps_per_call = lambda learner, width: 50

def row_sums(initial, state):
    return jax.tree.leaves(state)[0].sum(axis=1)

def is_far(outcome, y):
    return outcome.loss > 1

net = cp.Network.paper(inputs=6, hidden=7)
learners = {"adam": cp.Backprop(net, 0.01, optimizer="adam"), "replay": Replay(net, 0.01)}
stream = cp.Geoff(inputs=6, features=30, tasks="ABA", examples=200)
folder, out, pause = sys.argv[1] or None, sys.argv[2], float(sys.argv[3])

def hear(event):
    print(f"{event.steps}\\n", end="", flush=True)
    time.sleep(pause)

records, states = cp.run(
    learners, stream, seeds=3, record_every=25, progress=hear, checkpoint=folder, return_states=True,
    probes={"sum": row_sums}, metrics={"far": is_far},
)
records["last"] = ("seed", [float(states["replay"][seed].weights.sum()) for seed in range(3)])
records.to_netcdf(out, engine="scipy")
"""


def start_script(folder, out, pause=0.0):
    command = [sys.executable, "-c", SCRIPT, str(folder), str(out), str(pause)]
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(jax.config.read("jax_disable_most_optimizations"))}
    here = Path(__file__).parent / "support"
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here, env=os.environ | quick)


@pytest.mark.long
def test_a_killed_run_goes_on_as_if_it_had_never_been_killed(tmp_path):
    folder, killed = tmp_path / "folder", None
    killed = start_script(folder, tmp_path / "never.nc", pause=0.3)
    until = time.monotonic() + 60
    while time.monotonic() < until and len(list(folder.glob("batch-*.nc"))) < 2:
        time.sleep(0.02)
    time.sleep(0.4)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "never.nc").exists() and len(list(folder.glob("batch-*.nc"))) >= 2
    resumed, whole = start_script(folder, tmp_path / "resumed.nc"), start_script("", tmp_path / "whole.nc")
    heard = [sum(map(int, each.communicate(timeout=120)[0].split())) for each in (resumed, whole)]
    assert 0 < heard[0] < heard[1] == 2 * 3 * 600
    with xr.open_dataset(tmp_path / "resumed.nc") as one, xr.open_dataset(tmp_path / "whole.nc") as other:
        assert_same_records(one, other)
        assert one["sum"].dims[-1] == "sum_0" and one.far.max() > 0


def test_a_finished_call_is_taken_from_its_checkpoint(tmp_path):
    heard = []
    first = run(RULES, STREAM, seeds=2, checkpoint=tmp_path, steps=100)
    again = run(RULES, STREAM, seeds=2, checkpoint=tmp_path, steps=100, **{"progress": heard.append})
    assert_same_records(again, first)
    assert not heard


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seeds": [0, 2]}, "seeds"),
        ({"record_every": 25}, "record_every"),
        ({"steps": 150}, "steps"),
        ({"learners": {"crossprop": cp.Crossprop(NET, 0.02)}}, "learners"),
        ({"stream": cp.Geoff(inputs=6)}, "stream"),
        ({"metrics": {"m": loss_of}}, "variables"),
    ],
)
def test_the_folder_of_another_call_is_refused_and_kept(changed, named, tmp_path):
    call = {"learners": RULES, "stream": STREAM, "seeds": 2, "steps": 100, "checkpoint": tmp_path}
    write_json(tmp_path / "call.json", {})
    with pytest.raises(ValueError, match="belongs to another call, which is kept"):
        run(**call)
    (tmp_path / "call.json").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crossprop.running.Executor", _Nothing)
        with pytest.raises(_Reached):
            run(**call)
        with pytest.raises(ValueError, match=rf"belongs to another call, which is kept: {named} is "):
            run(**call | changed)
        with pytest.raises(_Reached):
            run(**call)


class _Reached(Exception):
    pass


class _Nothing:
    """An executor that says that the checks before it have passed."""

    def __init__(self, *arguments, **options):
        pass

    def results(self):
        raise _Reached


def test_other_states_to_start_from_are_another_call(tmp_path):
    _, one = run(RULES, STREAM, seeds=1, steps=50, return_states=True)
    _, other = run(RULES, cp.Geoff(inputs=6, features=9), seeds=1, steps=50, return_states=True)
    mixed = type(one)(other, one.stream, one.steps)
    first = run(RULES, STREAM, seeds=1, start=one, steps=50, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="belongs to another call"):
        run(RULES, STREAM, seeds=1, start=mixed, steps=50, checkpoint=tmp_path)
    assert_same_records(run(RULES, STREAM, seeds=1, start=one, steps=50, checkpoint=tmp_path), first)


def test_a_damaged_or_foreign_folder_is_named(tmp_path):
    call = partial(run, RULES["crossprop"], STREAM, seeds=1, steps=50, checkpoint=tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^checkpoint must be an empty folder or one that run wrote"):
        call()
    (tmp_path / "notes.txt").unlink()
    records = call()
    (batch,) = tmp_path.glob("batch-*.nc")
    whole = batch.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"nonsense", whole[:200] + bytes(400) + whole[600:]):
        batch.write_bytes(damaged)
        with pytest.warns(UserWarning, match=rf"^{re.escape(str(batch))} is damaged, .* and its runs begin again"):
            assert_same_records(call(), records)
    assert len(list((tmp_path / "damaged").iterdir())) == 4 and batch.read_bytes() == whole
    (tmp_path / "call.json").write_text("{")
    with pytest.raises(ValueError, match=r"call\.json is damaged"):
        call()


class _Kept(Session):
    """A session that only keeps what it is given."""

    def __init__(self, step=0, **values):
        self.step, self.values = step, values

    def snapshot(self):
        return self.values

    def restore(self, snapshot, step):
        self.step, self.values = step, snapshot

    segment = 1

    def examples(self, count):
        pass

    def execute(self, examples, count):
        return {}

    def advance(self, count):
        pass

    def results(self):
        return []

    def states(self):
        return []


def test_every_flipped_byte_and_every_swap_of_a_checkpoint_is_noticed(tmp_path):
    saved = Checkpoints(tmp_path, call := {"learners": "some"})
    for number in (0, 1):
        saved.save(number, _Kept(7, weights=np.full(3, number)), done=True)
    saved.restore(1, session := _Kept())
    assert session.step == 7 and session.values["weights"].tolist() == [1, 1, 1]
    one, other = (tmp_path / f"batch-{number}.nc" for number in (0, 1))
    whole, noticed = one.read_bytes(), 0
    flipped = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(len(whole))]
    for content in (*flipped, other.read_bytes(), whole[:-1]):
        one.write_bytes(content)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            saved.restore(0, session := _Kept())
        assert len(told) == (not one.exists()) and all(str(one) in str(each.message) for each in told)
        assert [*session.values] == ([] if told else ["weights"])
        assert not np.any(session.values.get("weights", 0))
        noticed += len(told)
        shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
    assert noticed == len(flipped) + 2
    one.write_bytes(whole)
    with pytest.warns(UserWarning, match="is of another call or batch"):
        Checkpoints(tmp_path, call | {"steps": "9"}).restore(0, _Kept())
