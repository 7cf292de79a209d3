"""`crossprop bench` and the scripts of `benchmarks/`: output, consistent numbers, and peers that do the same work."""

import json
import re
import tracemalloc
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop.cli import bench, main

pytestmark = pytest.mark.usefixtures("quick_compilation")


def script(name):
    """A script in `benchmarks/`, imported as when it runs: with that folder on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
        return import_module(name)


peers, turns, against_others = script("peers"), script("turns"), script("against_others")
TINY = ("--steps", "100", "--repeats", "2", "--engines", "scan")
SQUARED, SOFTMAX = cp.Network.paper(20, 8), cp.Network.paper(64, 8, 10, loss="softmax")
STEPS = 100
GEOFF = cp.Geoff(tasks="AB", examples=50)


def skip_if_missing(peer):
    package = {"pytorch": "torch", "alberta": "alberta_framework"}.get(peer)
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


# the command


def test_bench_json_says_what_was_run_where(tmp_path):
    main(["bench", *TINY, "--workloads", "geoff", "--out", str(tmp_path / "benchmark")])
    quick = json.loads((tmp_path / "benchmark" / "bench.json").read_text())
    assert "cpu" in quick["device"] and "cores" in quick["device"]
    assert f"jax {jax.__version__}" in quick["versions"] and f"crossprop {cp.__version__}" in quick["versions"]
    assert quick["command"].startswith("crossprop") and quick["record_every"] == 50
    rows = [(row["workload"], row["learner"], row["engine"], row["runs"], row["steps"]) for row in quick["rows"]]
    assert rows == [("geoff", learner, "scan", 30, 100) for learner in ("crossprop", "backprop")]


def test_rates_follow_from_the_clock_that_is_given(tmp_path, capsys):
    ticks = iter(range(100))
    bench.time_engines(bench.Bench(tmp_path, ("geoff",), ("scan",), 50, 3), clock=lambda: next(ticks))
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert all(row["seconds"] == [1, 1, 1] and row["examples_per_second"] == 30 * 50 for row in rows)
    lines = capsys.readouterr().out.splitlines()
    assert any(re.search(r"geoff +backprop +scan +1,500", line) for line in lines)


def test_all_engines_that_can_run_a_learner_are_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda learner, stream, runs, every, engine, progress: None)
    bench.time_engines(bench.Bench(tmp_path, ("mnist",), steps=50, repeats=1))
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert {row["engine"] for row in rows} == {"scan", "chunked"}  # the kernel needs a GPU


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--workloads", "geof"), r"^crossprop: workloads must be one of .* 'geof'; did you mean 'geoff'\?$"),
        (("--engines", "steam"), r"^crossprop: engines must be one of .* got 'steam'$"),
        (("--steps", "0"), r"^crossprop: steps must be between 50 and 200000, got 0$"),
        (("--steps", "75"), r"^crossprop: steps must be a multiple of 50, .* got 75$"),
        (("--repeats", "0"), r"^crossprop: repeats must be at least 1, got 0$"),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_named_before_work_starts(words, expected, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_, **__: pytest.fail("work began"))
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *TINY, "--out", str(tmp_path / "out"), *words])
    assert re.search(expected, capsys.readouterr().err, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused_before_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_, **__: pytest.fail("work began"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *TINY, "--out", str(tmp_path / "file")])
    assert "out must be a folder" in capsys.readouterr().err


# the scripts


def test_contenders_take_turns_after_a_call_each_that_does_not_count():
    order, ticks = [], iter(range(100))
    contenders = {name: lambda name=name: order.append(name) for name in "ab"}
    assert turns.take_turns(contenders, 2, lambda: next(ticks)) == {"a": [1, 1], "b": [1, 1]}
    assert order == [*"ab", *"ab", *"ab"]
    assert turns.take_turns({"slow": int}, 5, iter([0, 7, 7, 14]).__next__, enough=10) == {"slow": [7, 7]}


@pytest.mark.long
def test_other_libraries_are_timed_beside_the_engines():
    times = against_others.main(["geoff-30", "figure-1a", "--quick", "--repeats", "1", "--engines", "scan"])
    assert {*times} == {("geoff-30", "crossprop"), ("geoff-30", "backprop"), ("figure-1a", "9 learners")}
    assert times["geoff-30", "backprop"].keys() >= {"scan", "plain jax", "numpy"}
    assert times["figure-1a", "9 learners"].keys() == {"scan"}


def test_a_case_of_every_workload_can_be_made():
    for workload in against_others.WORKLOADS:
        for case in against_others.cases(workload, quick=True):
            assert case.runs <= 2 and case.stream.steps == 102


@pytest.mark.parametrize(
    ("peer", "network", "rule"),
    [
        ("plain jax", SQUARED, cp.Crossprop),
        ("plain jax", SOFTMAX, cp.CrosspropApprox),
        *product(("numpy", "pytorch"), (SQUARED, SOFTMAX), (cp.Crossprop, cp.CrosspropApprox, cp.Backprop)),
    ],
)
def test_a_peer_gives_the_records_of_run(peer, network, rule):
    skip_if_missing(peer)
    learner = rule(network, 5e-3)
    stream = GEOFF if network is SQUARED else cp.LabelShift(cp.datasets.digits(), tasks="AB", examples=50)
    records = cp.run({"it": learner}, stream, seeds=1, record_every=peers.RECORD_EVERY)
    case = against_others.Case("it", {"it": learner}, against_others.CachedStream(stream), 1)
    call, run_steps = against_others.prepare(case, peer)
    assert run_steps == STEPS
    for variable, values in call()._asdict().items():
        np.testing.assert_allclose(values, records[variable].values[0], rtol=1e-3, atol=1e-6, err_msg=variable)


@pytest.mark.skipif(find_spec("alberta_framework") is None, reason="alberta-framework is not installed")
def test_alberta_gives_the_losses_of_backprop_from_its_own_weights():
    from alberta_framework import LMS, MLPLearner

    network = cp.Network(20, 10, activation="relu", bias=True)
    learner = cp.Backprop(network, 5e-3)
    x, y = (np.asarray(each)[None] for each in cp.Geoff(examples=100, tasks="A").sample(cp.keys(0)[0])[:2])
    initial = jax.vmap(learner.init)(jax.random.key(0)[None])
    given = peers.alberta_batched(learner, initial, x, y)
    key = jax.random.split(jax.random.split(jax.random.key(0), 1)[0])[1]
    theirs = MLPLearner((10,), LMS(5e-3), use_layer_norm=False, leaky_relu_slope=0.0, sparsity=0.0).init(20, key).params
    rows = [jnp.concatenate([w.T, b[None]]) for w, b in zip(theirs.weights, theirs.biases, strict=True)]
    state = eqx.tree_at(lambda state: (state.incoming[0], state.outgoing), initial, (rows[0][None], rows[1].T[None]))
    np.testing.assert_allclose(given.loss, peers.plain_jax(learner, state, x, y).loss, rtol=1e-3)


@pytest.mark.parametrize("peer", ["numpy", "pytorch"])
@pytest.mark.parametrize(
    "learner",
    [
        cp.Backprop(SQUARED, 5e-3, optimizer="adam"),
        cp.Crossprop(SQUARED, 5e-3, eta=0.5),
        cp.Crossprop(SOFTMAX, 5e-3, projections=1),
        cp.Frozen(SQUARED, 5e-3),
        cp.Backprop(cp.Network(2, 2, bias=True), 5e-3),
    ],
)
def test_a_peer_refuses_what_it_was_not_written_for(peer, learner):
    skip_if_missing(peer)
    with pytest.raises(ValueError, match="written for"):
        peers.PEERS[peer].run(learner, None, np.zeros((1, 50, 2)), np.zeros((1, 50, 1)))


def test_the_numpy_loop_allocates_no_matrix():
    shapes = ((200, 500), (500, 1), (STEPS, 200), (STEPS, 1))
    u, w, x, y = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
    tracemalloc.start()
    peers.NUMPY[cp.Crossprop](u, w, x, y, np.float32(5e-4), peers._squared_error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The initial U, the memory and three buffers, one of them for 131 of 200 rows, are allocated before the loop.
    assert peak < 5 * u.nbytes


def test_a_cached_stream_is_sampled_once():
    class Counted(cp.Arrays):
        made = 0

        def pool(self, key):
            object.__setattr__(self, "made", self.made + 1)
            return super().pool(key)

    stream = Counted(np.arange(100.0), np.arange(100.0))
    cached = against_others.CachedStream(stream)
    for key in (0, 1, 0):
        assert np.array_equal(cached.sample(jax.random.key(key)).x[:, 0], np.arange(100))
    assert stream.made == 2


def test_slow_contenders_are_timed_on_a_part():
    learner = cp.Backprop(cp.Network(20, 500), 5e-4)
    part = lambda name: peers.PEERS[name].part(1056, 6000, learner)
    assert part("numpy") == (1, 2000) and part("pytorch") == (1, 500) and part("plain jax") == (1056, 150)
    assert peers.PEERS["numpy"].part(2, 100, learner) == (1, 100)


@pytest.mark.long
def test_compilation_is_timed_with_nothing_compiled_and_the_cache_left_as_it_was():
    compilation = script("compilation")
    before = jax.config.values["jax_enable_compilation_cache"]
    cases = compilation.cases(quick=True)
    for _ in range(2):  # of three later calls one may compile again, where old programs are freed
        assert compilation.seconds_to_compile(cases[0], "scan", repeats=3) > 0.01
    assert jax.config.values["jax_enable_compilation_cache"] == before
    assert len(cases) == 6


@pytest.mark.long
def test_the_loops_in_c_and_plain_jax_learn_as_the_engines_do(capsys):
    """The script compares their records before it times them."""
    script("floor.floor").main(["--quick"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ours ")[0].strip() for line in lines if " ours " in line] == [
        *(f"20-500-1, {name}" for name in ("crossprop", "backprop", "adam")),
        "GEOFF's examples",
        *(f"both, {name}" for name in ("crossprop", "backprop")),
    ]
