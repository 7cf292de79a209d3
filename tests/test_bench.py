"""`crossprop bench` and the scripts of `benchmarks/`: output, consistent numbers, and peers that do the same work."""

import json
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop.bench import Benchmark, floors, output, timing
from crossprop.bench.floors import Ceilings, count, floor
from crossprop.bench.peers import PLAIN_JAX, RECORD_EVERY, Limit, plain_jax
from crossprop.bench.workloads import RULES, WORKLOADS, CachedStream, Case, Scale
from crossprop.cli import main
from crossprop.engines import ENGINES
from crossprop.optimizers.base import OPTIMIZERS

# All on one worker, because they share one quick bench.
pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.xdist_group("bench")]


def script(name):
    """A script in `benchmarks/`, imported as when it runs: with that folder on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
        return import_module(name)


peers = script("peers")
PEERS = {**PLAIN_JAX, **peers.PEERS}
CEILINGS = Ceilings(operations=1e9, bytes=1e9)
TINY = ("--quick", "--repeats", "2", "--engines", "scan")
SQUARED, SOFTMAX = cp.Network(20, 8), cp.Network(64, 8, 10, loss="softmax")
STEPS = 100
GEOFF = cp.Geoff(tasks="ABCABC", examples=17)
"""The quick version's, so that programs compiled for it are used again."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory, quick_compilation):
    """The folder of a quick bench and the content of its `bench.json`."""
    out = tmp_path_factory.mktemp("quick") / "benchmark"
    main(["bench", *TINY, "--workloads", "geoff-30", "figure-1a", "--out", str(out)])
    return out, json.loads((out / "bench.json").read_text())


@pytest.fixture
def case():
    peers = {name: PEERS[name] for name in ("plain jax", "numpy")}
    return Case("backprop", {"backprop": cp.Backprop(SQUARED, 5e-4)}, CachedStream(GEOFF, STEPS), 2, peers)


def skip_if_missing(peer):
    package = {"pytorch": "torch", "alberta": "alberta_framework"}.get(peer)
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


# what is written


def test_quick_bench_writes_json_and_a_figure_that_say_what_was_run_where(quick):
    folder, content = quick
    assert {path.name for path in folder.iterdir()} == {"bench.json", "bench.png"}
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert content["quick"] is True and content["record_every"] == 50
    assert content["machine"]["backend"] == "cpu" and content["machine"]["cores"] >= 1
    assert content["versions"]["jax"] == jax.__version__ and content["versions"]["crossprop"] == cp.__version__
    assert content["command"].startswith("crossprop")
    assert all(value > 0 for value in content["ceilings"].values())


def test_every_contender_of_a_workload_has_a_row(quick):
    _, content = quick
    geoff = {(row["learner"], row["contender"]) for row in content["rows"] if row["workload"] == "geoff-30"}
    assert geoff == set(product(("crossprop", "backprop"), ("scan", "plain jax")))


def test_ratios_rates_and_percentages_follow_from_the_times(quick):
    _, content = quick
    timed = [row for row in content["rows"] if "reason" not in row]
    assert len(timed) >= 5 and any(row["learners"] > 1 for row in timed)
    for row in timed:
        assert len(row["seconds"]) == 2 and row["median_seconds"] == median(row["seconds"])
        run_steps = row["timed_runs"] * row["timed_steps"] * row["learners"]
        one = row["seconds_per_run_step"]
        assert one == pytest.approx(row["median_seconds"] / run_steps)
        assert row["run_steps_per_second"] == pytest.approx(1 / one)
        assert row["case_seconds"] == pytest.approx(one * row["runs"] * row["steps"] * row["learners"])
        assert row["percent_of_floor"] == pytest.approx(100 * row["floor_seconds_per_run_step"] / one)
        beside = [each for each in timed if (each["workload"], each["learner"]) == (row["workload"], row["learner"])]
        expected = {each["contender"]: each["seconds_per_run_step"] / one for each in beside if each is not row}
        assert row["speedup_over"] == pytest.approx(expected)


def test_cost_over_backprop_is_of_the_same_contender(quick):
    _, content = quick
    geoff = {(row["learner"], row["contender"]): row for row in content["rows"] if row["workload"] == "geoff-30"}
    exact, backprop = geoff["crossprop", "scan"], geoff["backprop", "scan"]
    ratio = exact["seconds_per_run_step"] / backprop["seconds_per_run_step"]
    assert exact["cost_over_backprop"] == pytest.approx(ratio) and backprop["cost_over_backprop"] is None


def test_a_table_names_the_parts_that_were_timed_and_those_not_timed_with_the_reason(
    case, tmp_path, capsys, monkeypatch
):
    def refuse(*_, **__):
        raise ValueError("engine='scan' cannot run learners['backprop']: too wide for a multiprocessor")

    monkeypatch.setattr(timing, "run", refuse)
    less = {**case.peers, "numpy": case.peers["numpy"]._replace(limit=Limit(runs=1, steps=50))}
    case = replace(case, peers=less)
    monkeypatch.setitem(WORKLOADS, "rules", replace(WORKLOADS["rules"], cases=lambda scale: [case]))
    Benchmark(tmp_path, ("rules",), ("scan",), repeats=1, quick=True).run()
    printed = capsys.readouterr().out
    assert re.search(r"^  scan +-", printed, re.MULTILINE)
    assert "scan: not timed, too wide for a multiprocessor." in printed
    assert "numpy: timed on 1 run x 50 steps, and scaled." in printed
    assert "(quick version)" in printed
    row = json.loads((tmp_path / "bench.json").read_text())["rows"][0]
    assert row["contender"] == "scan" and row["reason"] == "too wide for a multiprocessor" and "seconds" not in row


@pytest.mark.parametrize(
    ("learner", "contenders"),
    [
        ("crossprop-projected", ("scan", "chunked", "plain jax", "numpy", "pytorch")),
        ("crossprop", ("scan", "chunked", "kernel", *PEERS)),
    ],
)
def test_a_table_fits_in_80_columns(learner, contenders, case):
    from rich.console import Console

    seconds = {"chunked": 3e-5, "numpy": 1e-2, "pytorch": 2.5e-2, "alberta": 3e-3}
    case = replace(case, peers={name: PEERS[name] for name in contenders if name in PEERS})
    rows = [
        timing.Row("mnist", each, name, 1, 50, (seconds.get(name, 1e-4),), 1e-7)
        for each in (case, replace(case, name=learner))
        for name in contenders
    ]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(output.table(rows))
    assert max(map(len, captured.get().splitlines())) <= 80 and "…" not in captured.get()
    assert re.search(r"chunked +1\.67 M +3\.33x +3\.33x +333x +833x ", captured.get())


def test_an_engine_or_optimizer_of_somebody_else_is_timed_without_a_floor(case, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(ENGINES, "mine", ENGINES["scan"])
    own = {"backprop": cp.Backprop(SQUARED, 5e-4, optimizer=optax.sgd)}
    cases = [case, replace(case, name="own optimizer", learners=own, peers=PLAIN_JAX)]
    monkeypatch.setitem(WORKLOADS, "rules", replace(WORKLOADS["rules"], cases=lambda scale: cases))
    Benchmark(tmp_path, ("rules",), ("mine",), repeats=1, quick=True).run()
    known, unknown = re.findall(r"^  mine .*$", capsys.readouterr().out, re.MULTILINE)
    assert re.search(r"\d $", known) and unknown.endswith(" - ")
    rows = [row for row in json.loads((tmp_path / "bench.json").read_text())["rows"] if row["contender"] == "mine"]
    assert rows[0]["percent_of_floor"] > 0 and rows[1]["percent_of_floor"] is None
    assert (tmp_path / "bench.png").exists()


@pytest.mark.long
def test_other_libraries_are_timed_beside_the_engines_and_have_rows_in_the_same_table(capsys):
    rows = script("against_others").main(["geoff-30", "mnist", *TINY])
    timed = {(row.workload, row.case.name, row.contender) for row in rows}
    loops = ("scan", "plain jax", "numpy", "pytorch")
    geoff = {*product(["geoff-30"], ("crossprop", "backprop"), loops), ("geoff-30", "backprop", "alberta")}
    assert timed == geoff | set(product(["mnist"], ("crossprop-approx", "backprop"), loops))
    assert re.search(r"run-steps +vs +vs", capsys.readouterr().out)


def test_contenders_are_timed_by_the_clock_that_is_given():
    ticks = iter(range(100))
    (case,) = [case for case in WORKLOADS["geoff-30"].cases(Scale(True, False, None)) if case.name == "backprop"]
    (row,) = timing.time_case("geoff-30", replace(case, peers={}), ["scan"], 3, CEILINGS, lambda: next(ticks))
    assert row.seconds == (1, 1, 1)


@pytest.mark.long
def test_growth_draws_a_figure_per_quantity(tmp_path):
    points = script("growth").main([*TINY, "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {
        f"growth-{quantity}.png" for quantity in ("hidden", "inputs", "outputs", "runs", "steps")
    }
    lines = {(point.quantity, point.row.case.name, point.row.contender) for point in points}
    assert {("runs", "crossprop", "scan"), ("outputs", "crossprop-projected", "plain jax")} <= lines


# what is refused


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--workloads", "geof-30"), r"^crossprop: workloads must be one of .* 'geof-30'; did you mean 'geoff-30'\?$"),
        (("--engines", "steam"), r"^crossprop: engines must be one of .* got 'steam'$"),
        (("--steps", "0"), r"^crossprop: steps must be between 50 and 180000, got 0$"),
        (("--steps", "75"), r"^crossprop: steps must be a multiple of 50, .* got 75$"),
        (("--repeats", "0"), r"^crossprop: repeats must be at least 1, got 0$"),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_named_before_work_starts(words, expected, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cp.bench, "measure_ceilings", lambda quick: pytest.fail("work began"))
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *TINY, "--out", str(tmp_path / "out"), *words])
    assert re.search(expected, capsys.readouterr().err, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused_before_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cp.bench, "measure_ceilings", lambda quick: pytest.fail("work began"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *TINY, "--out", str(tmp_path / "file")])
    assert "out must be a folder" in capsys.readouterr().err


# floors


@pytest.mark.parametrize(
    ("learner", "operations", "blocked", "state"),
    [
        # 3 inputs, 2 hidden units, 1 output: 6 incoming weights and 2 outgoing ones.
        (cp.Crossprop(cp.Network(3, 2), 0.1), 5 * 6 + 3 * 2, 4 * 6 + 3 * 2, 6 + 2 + 6),
        (cp.CrosspropSum(cp.Network(3, 2), 0.1), 5 * 6 + 3 * 2, 4 * 6 + 3 * 2, 6 + 2 + 6),
        (cp.CrosspropApprox(cp.Network(3, 2), 0.1), 2 * 6 + 6 * 2, 2 * 6 + 6 * 2, 6 + 2 + 2),
        (cp.Backprop(cp.Network(3, 2), 0.1), 2 * 6 + 3 * 2, 2 * 6 + 3 * 2, 6 + 2),
        (cp.Frozen(cp.Network(3, 2), 0.1), 1 * 6 + 2 * 2, 1 * 6 + 2 * 2, 2),
        (cp.Backprop(cp.Network(3, 2), 0.1, "momentum"), 4 * 6 + 5 * 2, 4 * 6 + 5 * 2, 2 * 8),
        (cp.Backprop(cp.Network(3, 2), 0.1, "adam"), 13 * 6 + 14 * 2, None, 3 * 8),
        # 4 outputs: 8 outgoing weights; a bias: 8 incoming weights and 3 outgoing ones.
        (cp.Crossprop(cp.Network(3, 2, 4), 0.1), 14 * 6 + 3 * 8, 10 * 6 + 3 * 8, 6 + 8 + 4 * 6),
        (cp.Crossprop(cp.Network(3, 2, 4), 0.1, projections=1), 5 * 6 + 3 * 8, 4 * 6 + 3 * 8, 6 + 8 + 6),
        (cp.Backprop(cp.Network(3, 2, bias=True), 0.1), 2 * 8 + 3 * 3, 2 * 8 + 3 * 3, 8 + 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, cp.learners.Learner) else "",
)
def test_operations_and_state_are_those_counted_by_hand(learner, operations, blocked, state):
    counted = count(learner)
    assert (counted.operations, counted.blocked, counted.state) == (operations, blocked, state)
    assert counted.data == pytest.approx(3 + learner.network.outputs + 3 / 50)


def test_a_small_run_is_bound_by_arithmetic_and_a_large_one_by_the_cheaper_of_two_ways():
    small, large = cp.Network(20, 500), cp.Network(784, 1024, 10)
    assert floor(cp.Crossprop(small, 0.1), 1000, CEILINGS) == pytest.approx(51_500e-9)
    backprop, adam = cp.Backprop(large, 0.1), cp.Backprop(large, 0.1, "adam")
    assert floor(backprop, 1000, CEILINGS) == pytest.approx((2 * 784 * 1024 + 3 * 10_240) * 1e-9)
    numbers = 3 * (784 * 1024 + 10_240)
    once = 4 * (794.06 + 2 * numbers / 1000)
    assert floor(adam, 1000, Ceilings(1e12, 1e9)) == pytest.approx((8 * numbers + once) * 1e-9)


def test_a_slow_memory_is_the_floor_of_a_small_run():
    assert floor(cp.Frozen(cp.Network(1, 1), 0.1), 10, Ceilings(1e12, 1e9)) == pytest.approx(4 * (2.06 + 0.2) * 1e-9)


def test_ceilings_are_measured():
    measured = floors.measure_ceilings(quick=True)
    assert measured.operations > 1e6 and measured.bytes > 1e6


# contenders


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
    stream = CachedStream(stream, STEPS)
    records = cp.run({"it": learner}, stream, seeds=2, record_every=RECORD_EVERY)
    (given,) = timing.prepare(Case("it", {"it": learner}, stream, 2, PEERS), peer, 2, STEPS)()
    for variable, values in given._asdict().items():
        np.testing.assert_allclose(values, records[variable].values[0], rtol=1e-3, atol=1e-6, err_msg=variable)


@pytest.mark.skipif(find_spec("alberta_framework") is None, reason="alberta-framework is not installed")
def test_alberta_gives_the_losses_of_backprop_from_its_own_weights():
    from alberta_framework import LMS, MLPLearner

    network = cp.Network(20, 10, activation="relu", bias=True)
    learner = cp.Backprop(network, 5e-3)
    x, y = CachedStream(cp.Geoff(examples=100, tasks="A"), 100).examples(runs=1)
    initial = jax.vmap(learner.init)(jax.random.key(0)[None])
    given = peers.alberta_batched(learner, initial, x, y)
    key = jax.random.split(jax.random.split(jax.random.key(0), 1)[0])[1]
    theirs = MLPLearner((10,), LMS(5e-3), use_layer_norm=False, leaky_relu_slope=0.0, sparsity=0.0).init(20, key).params
    rows = [jnp.concatenate([w.T, b[None]]) for w, b in zip(theirs.weights, theirs.biases, strict=True)]
    state = eqx.tree_at(lambda state: (state.incoming, state.outgoing), initial, tuple(row[None] for row in rows))
    np.testing.assert_allclose(given.loss, plain_jax(learner, state, x, y).loss, rtol=1e-3)


@pytest.mark.parametrize("peer", ["numpy", "pytorch"])
@pytest.mark.parametrize(
    "learner",
    [
        cp.Backprop(SQUARED, 5e-3, "adam"),
        cp.Crossprop(SQUARED, 5e-3, eta=0.5),
        cp.Crossprop(SOFTMAX, 5e-3, projections=1),
        cp.Frozen(SQUARED, 5e-3),
        cp.Backprop(cp.Network(2, 2, bias=True), 5e-3),
    ],
)
def test_a_peer_refuses_what_it_was_not_written_for(peer, learner):
    skip_if_missing(peer)
    with pytest.raises(ValueError, match="written for"):
        PEERS[peer].run(learner, None, np.zeros((1, 50, 2)), np.zeros((1, 50, 1)))


def test_the_numpy_loop_allocates_no_matrix():
    shapes = ((200, 500), (500, 1), (STEPS, 200), (STEPS, 1))
    u, w, x, y = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
    tracemalloc.start()
    peers.NUMPY[cp.Crossprop](u, w, x, y, np.float32(5e-4), peers._squared_error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The initial U, the memory and three buffers, one of them for 131 of 200 rows, are allocated before the loop.
    assert peak < 5 * u.nbytes


def test_a_cached_stream_is_sampled_once_and_shortened():
    class Counted(cp.Arrays):
        made = 0

        def pool(self, key):
            object.__setattr__(self, "made", self.made + 1)
            return super().pool(key)

    stream = Counted(np.arange(100.0), np.arange(100.0))
    cached = CachedStream(stream, 80)
    for key in (0, 1, 0):
        for each in (cached, cached.shortened(50)):
            assert np.array_equal(each.sample(jax.random.key(key)).x[:, 0], np.arange(each.steps))
    assert stream.made == 2 and cached.shortened(50).steps == 50 and cached.shortened(100) is cached


def test_slow_contenders_are_timed_on_a_part(case):
    stream = CachedStream(cp.Geoff(examples=2000), 6000)
    wide = Case("backprop", {"backprop": cp.Backprop(cp.Network(20, 500), 5e-4)}, stream, 1056, PEERS)
    parts = {name: timing.part(wide, name) for name in ("scan", *PEERS)}
    assert parts["scan"] == (1056, 6000) and parts["numpy"] == (1, 2000) and parts["pytorch"] == (1, 500)
    assert parts["plain jax"] == (1056, 150)
    assert timing.part(case, "numpy") == (1, 100)


def test_every_workload_can_be_made_for_every_device():
    for workload in WORKLOADS.values():
        for gpu in (False, True):
            cases = workload.cases(Scale(quick=False, gpu=gpu, steps=100))
            assert cases and all(each.stream.steps == 100 for each in cases)
            quick = workload.cases(Scale(quick=True, gpu=gpu, steps=None))
            assert all(each.network.hidden <= 8 and each.runs <= 2 for each in quick)
    rules = WORKLOADS["rules"].cases(Scale(quick=False, gpu=True, steps=100))
    assert len({each.name for each in rules}) == len(RULES) * len(OPTIMIZERS)


@pytest.mark.long
def test_compilation_is_timed_with_nothing_compiled_and_the_cache_left_as_it_was(case):
    before = jax.config.values["jax_enable_compilation_cache"]
    for _ in range(2):  # of three later calls one may compile again, where old programs are freed
        assert script("compilation").seconds_to_compile(case, "scan", repeats=3) > 0.01
    assert jax.config.values["jax_enable_compilation_cache"] == before
    assert [each.size for each in script("compilation").cases(quick=True)] == 2 * ["20-8-1"] + 4 * ["64-8-10"]


def test_bench_imports_neither_the_paper_nor_what_only_its_output_needs():
    heavy = "{'rich', 'matplotlib', 'torch', 'xarray', 'crossprop.papers'}"
    script = (
        f"import sys; sys.modules['tyro'] = None; import crossprop.bench; print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
