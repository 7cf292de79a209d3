"""Engines differ in speed, never in meaning: each against the scan engine, and each against itself in other company."""

import itertools
import json
from collections import Counter
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

import crossprop as cp
from crossprop._support import xla
from crossprop.engines import ENGINES, choose, chunked, scan, segments
from crossprop.engines.gpu import kernel, layout, parts, support
from crossprop.engines.gpu.fma_rewrite import PLAIN, fma_rewritten
from crossprop.engines.protocol import Run
from crossprop.learners import LEARNERS
from crossprop.learners.stack import Stack
from crossprop.learners.update import learn
from crossprop.variables import Variable
from sessions import (
    assert_agree,
    assert_close_states,
    assert_kernel_agrees_with_scan,
    assert_same_bits,
    live,
    random_examples,
    results,
    results_in_batches,
    runs_of,
    traced_kernel,
)

__all__ = ["results_in_batches"]

RULES = {
    "crossprop": partial(cp.Crossprop, eta=0.3),
    "projected": partial(cp.Crossprop, eta=0.3, projections=3),
    "approx": partial(cp.CrosspropApprox, eta=0.3, memory_eta=0.1),
    "sum": cp.CrosspropSum,
    "backprop": cp.Backprop,
    "frozen": cp.Frozen,
}
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam", "adadelta")
ACTIVATIONS = ("tanh", "sigmoid", "relu")
LOSSES = ("squared", "softmax")
STEP_SIZES = (5e-5, 5e-4, 5e-3)

pytestmark = pytest.mark.usefixtures("quick_compilation")


# Agreement.


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        ("crossprop", "sgd"),
        ("backprop", "momentum"),
        *(pytest.param(rule, "sgd", marks=pytest.mark.long) for rule in [*RULES][1:]),  # in float64 they are quick
    ],
)
def test_chunked_agrees_with_scan(rule, optimizer):
    kind = [*RULES].index(rule)
    network = cp.Network.paper(
        40, 21, 1 + kind % 3, ACTIVATIONS[kind % 3], ("squared", "softmax")[kind % 2], kind % 4 < 2
    )
    learner = RULES[rule](network, STEP_SIZES[kind % 3], optimizer=optimizer)
    (run,) = runs_of(learner, 2000)
    assert_agree(*(results(engine, [run])[0] for engine in (chunked, scan)), loss=1e-4, drift=2e-3)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("rule", "record_every", "optimizer", "platform", "outputs"),
    [
        *((rule, every, "sgd", "cpu", 3) for rule, every in zip(RULES, (1, 50, 3, 997, 50, 50), strict=True)),
        pytest.param("crossprop", 3, "momentum", "cpu", 3, marks=pytest.mark.long),
        *(pytest.param("crossprop", every, "momentum", "cpu", 3, marks=pytest.mark.long) for every in (50, 997)),
        *(
            pytest.param(rule, 50, "momentum", "gpu", 3, marks=pytest.mark.long)
            for rule in ("projected", "approx", "backprop")
        ),
        pytest.param("crossprop", 50, "sgd", "cpu", chunked.MOST_APART + 1, marks=pytest.mark.long),
        pytest.param("frozen", 50, "adam", "gpu", 3, marks=pytest.mark.long),
    ],
)
def test_chunked_is_exact_in_float64_whatever_the_blocks(rule, record_every, optimizer, platform, outputs):
    network = cp.Network.paper(30, 9, outputs, bias=True, loss="softmax")
    (run,) = runs_of(RULES[rule](network, 5e-3, optimizer=optimizer), 300)
    one, other = live(chunked, [run], platform, record_every), live(scan, [run], "cpu", record_every)
    assert_agree(one.results()[0], other.results()[0], loss=1e-9, drift=1e-9)
    assert_close_states(one.states()[0], other.states()[0], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        *(
            pytest.param(rule, optimizer, marks=[pytest.mark.long] * (rule in ("approx", "projected", "sum")))
            for rule, optimizer in zip(RULES, itertools.cycle(OPTIMIZERS), strict=False)
        ),
        pytest.param("crossprop", "adam", marks=pytest.mark.long),
        pytest.param("backprop", "rmsprop", marks=pytest.mark.long),
    ],
)
def test_kernel_agrees_with_scan_in_the_interpreter(rule, optimizer):
    kind = [*RULES].index(rule)
    network = cp.Network.paper(
        5, 6, 1 + kind % 3, ACTIVATIONS[kind % 3], ("squared", "softmax")[kind % 2], kind % 4 < 2
    )
    runs = runs_of(RULES[rule](network, STEP_SIZES[kind % 3], optimizer=optimizer), 500, seeds=[3, 4])
    assert_kernel_agrees_with_scan(runs)


def test_kernel_runs_of_several_segments_equal_those_of_one(monkeypatch):
    runs = runs_of(cp.Backprop(cp.Network.paper(5, 6), 0.01), 60, seeds=[1, 2, 3])
    together = results(kernel, runs, "gpu", 30)
    monkeypatch.setattr(kernel, "STEPS", 30)
    session = live(kernel, runs, "gpu", 30)
    assert session.segment == 30
    for one, other in zip(together, session.results(), strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("engine", [scan, chunked])
@pytest.mark.parametrize("tile", [2, pytest.param(64, marks=pytest.mark.long)])
def test_side_by_side_agrees_with_one_at_a_time(engine, tile, monkeypatch):
    monkeypatch.setattr(engine, "TILE_BYTES", tile * 4 * 5 * 6)
    runs = runs_of(cp.Crossprop(cp.Network.paper(5, 6, 2), 5e-3), 230, seeds=[1, 2])
    assert engine.width(runs[0].learner, "gpu") == tile
    together = live(engine, runs, "gpu")
    for run, result, state in zip(runs, together.results(), together.states(), strict=True):
        assert_agree(result, results(scan, [run])[0], loss=1e-5, drift=1e-4)
        assert_close_states(state, live(engine, [run]).states()[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("engine", [scan, chunked])
def test_all_segments_of_a_run_are_one_program(engine, platform, monkeypatch):
    monkeypatch.setattr(segments, "steps_per_call", lambda learner, width: 64)
    (run,) = runs_of(cp.Backprop(cp.Network.paper(3, 4), 1e-3), 192)
    compiled = segments._compiled_segment("cpu")
    compiled.clear_cache()  # else programs of other tests may be freed meanwhile
    live(engine, [run], platform, 64)
    assert compiled._cache_size() == 1


# Padding.

SIZES = (1, 2, 20, 21, 33, 500, 513)


def test_a_call_of_the_kernel_has_about_twice_the_runs_that_fit_on_chip(monkeypatch):
    monkeypatch.setattr(kernel, "multiprocessors", lambda: 132)
    wide, narrow = cp.Network.paper(20, 500), cp.Network.paper(20, 50)
    assert kernel.width(cp.Crossprop(wide, 0.1), "gpu") == 132 * 4
    assert kernel.width(cp.Backprop(wide, 0.1, optimizer="adam"), "gpu") == 132 * 2
    assert kernel.width(cp.Backprop(narrow, 0.1), "gpu") == 4096
    monkeypatch.setattr(kernel, "multiprocessors", lambda: 0)  # unknown
    assert kernel.width(cp.Crossprop(wide, 0.1), "gpu") == 4096


@pytest.mark.parametrize(
    ("optimizer", "matrices", "sizes"),
    [("sgd", False, [16, 4]), ("adam", False, [1] * 20), ("sgd", True, [1] * 20)],
)
def test_inputs_are_distributed_one_by_one_where_much_is_kept_on_chip(optimizer, matrices, sizes):
    network = cp.Network.paper(20, 500, bias=True)
    learner = (cp.Crossprop if matrices else cp.Backprop)(network, 0.1, optimizer=optimizer)
    assert [piece.stop - piece.start for piece in layout.pieces(learner)] == [*sizes, 1]
    assert [piece.stop - piece.start for piece in layout.input_pieces(learner)] == sizes


@pytest.mark.parametrize(
    ("inputs", "hidden", "activation"),
    [
        pytest.param(*sizes, activation, marks=[pytest.mark.long] * (turn % 3 > 0 or kind != turn // 3))
        for turn, sizes in enumerate(zip(SIZES, SIZES[::-1], strict=True))
        for kind, activation in enumerate(ACTIVATIONS)
    ],
)
def test_padding_stays_zero_and_is_never_seen(inputs, hidden, activation):
    network = cp.Network.paper(inputs, hidden, 3, activation, "softmax", bias=inputs % 2 == 1)
    learner = cp.Crossprop(network, 0.01, eta=0.5)
    sample = random_examples(network, 12).sample(cp.keys(0)[0])
    state = learner.init(cp.keys(0)[1])
    pieces, whole = layout.in_pieces(learner, state), state
    rows = [piece for piece in layout.pieces(learner) if piece.start < inputs]
    step = jax.jit(fma_rewritten(partial(learn, layout.padded_stack(learner)), PLAIN))
    plain = jax.jit(partial(learn, Stack.of(learner)))
    for x, y in zip(sample.x, sample.y, strict=True):
        parts = tuple(jnp.asarray(x[row]) for row in rows) + (jnp.ones(1),) * network.bias
        pieces, outcome = step(pieces, parts, jnp.pad(y, (0, 1)))
        whole, expected = plain(whole, network.with_constant(jnp.asarray(x)), y)
        np.testing.assert_allclose(outcome.loss, expected.loss, rtol=1e-4)
    incoming = jnp.concatenate(pieces.layers[0].weights)
    np.testing.assert_allclose(incoming[:, :hidden], whole.layers[0].weights, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(pieces.outgoing[0][:3, :hidden], whole.outgoing[:, :hidden], rtol=1e-3, atol=1e-5)
    assert not incoming[:, hidden:].any()
    assert not pieces.outgoing[0][3:].any() and not pieces.outgoing[0][:, hidden:].any()
    assert not any(piece[..., hidden:].any() or piece[3:].any() for piece in pieces.layers[0].memory)
    joined = layout.out_of_pieces(learner, pieces)
    assert_close_states(joined, whole, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        pytest.param(rule, optimizer, marks=[pytest.mark.long] * (i % 4 != j))
        for i, rule in enumerate(RULES)
        for j, optimizer in enumerate(OPTIMIZERS)
    ],
)
def test_a_state_in_pieces_and_back_is_the_same_state(rule, optimizer):
    learner = RULES[rule](cp.Network.paper(5, 6, 3, bias=True), 1e-3, optimizer=optimizer)
    filled = iter(range(100))
    state = jax.tree.map(lambda leaf: leaf + next(filled), learner.init(cp.keys(0)[1]))
    if rule == "frozen":  # what its optimizer keeps for the incoming weights never changes, and is left out
        first = learner.init(cp.keys(0)[1]).layers[0]
        state = state.with_first(state.layers[0]._replace(optimizer=first.optimizer))
    back = layout.out_of_pieces(learner, layout.in_pieces(learner, state))
    assert jax.tree.structure(back) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, back, state)


# The kernel, for a GPU that is not here.


def kernel_network(rule, optimizer):
    """Activation, loss and bias: any two of rule, optimizer and these meet."""
    i, j = [*RULES].index(rule), OPTIMIZERS.index(optimizer)
    return ACTIVATIONS[(i + j) % 3], LOSSES[(i + j // 2) % 2], (i // 2 + j) % 2 == 1


def test_any_two_settings_of_the_kernel_meet():
    met = [(*both, *kernel_network(*both)) for both in itertools.product(RULES, OPTIMIZERS)]
    values = (RULES, OPTIMIZERS, ACTIVATIONS, LOSSES, (False, True))
    for one, other in itertools.combinations(range(len(values)), 2):
        assert {(row[one], row[other]) for row in met} == set(itertools.product(values[one], values[other]))


@pytest.mark.parametrize(
    "optimizer", [*OPTIMIZERS][:1] + [pytest.param(each, marks=pytest.mark.long) for each in [*OPTIMIZERS][1:]]
)
@pytest.mark.parametrize("rule", RULES)
def test_every_kernel_lowers_for_cuda(rule, optimizer):
    gpu = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))
    learner = RULES[rule](cp.Network.paper(2, 2, 2, *kernel_network(rule, optimizer)), 1e-3, optimizer=optimizer)
    with use_abstract_mesh(gpu):
        assert "triton" in traced_kernel(learner).lower(lowering_platforms=("cuda",)).as_text()


def test_products_are_joined_with_the_sums_they_are_used_in():
    def function(a, b, c, n, k):
        used_twice = a * b
        return {
            "sum": a * b + c,
            "difference": c - a * b,
            "rest": (a * b)[None] - c[None],
            "twice": used_twice + used_twice,
            "share": a / n + c,
            "ratio": jnp.sqrt(a * a) / c,
            "root": lax.rsqrt(a * a),
            "within": jax.jit(lambda n: a / (1 - 0.9**n))(k) - c,
        }

    arguments = (*np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32), np.float32(3), np.int32(5))
    used = Counter()

    def counting(kind):
        def instruction(*parts):
            used[kind] += 1
            return getattr(PLAIN, kind)(*parts)

        return instruction

    counted = type(PLAIN)(*map(counting, PLAIN._fields))
    for name, values in fma_rewritten(function, counted)(*map(jnp.asarray, arguments)).items():
        np.testing.assert_allclose(values, function(*arguments)[name], rtol=1e-5, err_msg=name)
    assert used == {"multiply_add": 5, "div": 1, "sqrt": 1, "rsqrt": 1}


def test_multiply_adds_are_one_instruction():
    program = str(traced_kernel(cp.Crossprop(cp.Network.paper(16, 500), 1e-3)).jaxpr)
    # U from H and H from x, a row at a time, and W; the sum of the losses stays what it is.
    assert program.count("fma.rn.f32") >= 2 * 16 + 1
    program = str(traced_kernel(cp.Backprop(cp.Network.paper(16, 500), 1e-3, optimizer="adam")).jaxpr)
    # A row of U at a time, and W.
    assert program.count("sqrt.approx.ftz.f32") == program.count("div.approx.ftz.f32") == 16 + 1


# Identity and isolation.


def test_a_run_is_the_same_in_any_company_on_every_engine(results_in_batches):
    network = cp.Network.paper(5, 6, 2)
    learner, wild = cp.Crossprop(network, 0.01), cp.Crossprop(network, 1e6)
    stream = random_examples(network, 60, seed=7)
    seven = Run(learner, stream, 7)
    others = [Run(learner, stream, seed) for seed in range(4)]
    (alone,) = results_in_batches([seven])
    assert_same_bits(results_in_batches([*others, seven])[-1], alone)
    assert_same_bits(results_in_batches([seven, *others * 20])[0], alone)
    beside = results_in_batches([Run(wild, stream, 1), seven, Run(wild, stream, 2)])
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and beside[2].diverged_at > 0 and alone.diverged_at == -1


def test_a_diverging_run_says_when_on_every_engine(results_in_batches):
    (run,) = runs_of(cp.Backprop(cp.Network.paper(5, 6), 1e6), 60)
    (result,) = results_in_batches([run])
    assert result.diverged_at == results(scan, [run], "cpu", 30)[0].diverged_at > 0


# The choice.

GEOFF, MNIST = cp.Network.paper(20, 500), cp.Network.paper(784, 1024, 10, loss="softmax")
CHOICES = {
    "GEOFF on a CPU": (cp.Crossprop(GEOFF, 1e-3), "cpu", "scan"),
    "GEOFF on a GPU": (cp.Crossprop(GEOFF, 1e-3), "gpu", "kernel"),
    "GEOFF with adam on a GPU": (cp.Backprop(GEOFF, 1e-3, optimizer="adam"), "gpu", "kernel"),
    "GEOFF with an optimizer of one's own on a GPU": (cp.Backprop(GEOFF, 1e-3, optimizer=optax.lion), "gpu", "scan"),
    "GEOFF's inputs, 5,000 units, on a GPU": (cp.Crossprop(cp.Network.paper(20, 5000), 1e-3), "gpu", "scan"),
    "MNIST on a CPU": (cp.CrosspropApprox(MNIST, 1e-3), "cpu", "chunked"),
    "MNIST on a GPU": (cp.CrosspropApprox(MNIST, 1e-3), "gpu", "chunked"),
    "MNIST, exact, with momentum, on a CPU": (cp.Crossprop(MNIST, 1e-3, optimizer="momentum"), "cpu", "chunked"),
    "MNIST with adam on a CPU": (cp.Backprop(MNIST, 1e-3, optimizer="adam"), "cpu", "scan"),
    "MNIST with adam on a GPU": (cp.Backprop(MNIST, 1e-3, optimizer="adam"), "gpu", "scan"),
    "MNIST, frozen, with adam, on a CPU": (cp.Frozen(MNIST, 1e-3, optimizer="adam"), "cpu", "chunked"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_auto_chooses_by_device_sizes_and_rule(case):
    learner, platform, engine = CHOICES[case]
    assert choose(learner, platform) == engine


def test_a_probe_needs_an_engine_that_sees_states():
    probes = (Variable("norm", lambda initial, state: jnp.linalg.norm(state.incoming), "state"),)
    assert choose(cp.Crossprop(GEOFF, 1e-3), "gpu", probes) == "scan"
    assert choose(cp.CrosspropApprox(MNIST, 1e-3), "gpu", probes) == "chunked"
    with jax.enable_x64(True):
        assert choose(cp.Crossprop(GEOFF, 1e-3), "gpu") == "scan"


def test_records_say_which_engine_it_was():
    data = cp.Arrays(np.ones((40, 130), np.float32), np.ones(40, np.float32))
    network = cp.Network.paper(130, 4)
    both = {"sgd": cp.Backprop(network, 0.01), "adam": cp.Backprop(network, 0.01, optimizer="adam")}
    assert cp.run(both["sgd"], data, seeds=1).attrs["engine"] == "chunked"
    assert cp.run(both["sgd"], data, seeds=1, engine="scan").attrs["engine"] == "scan"
    assert json.loads(cp.run(both, data, seeds=1).attrs["engine"]) == {"sgd": "chunked", "adam": "scan"}


def test_probes_work_on_chunked():
    data = cp.Arrays(np.random.default_rng(0).normal(size=(90, 130)).astype(np.float32), np.ones(90, np.float32))
    probes = {"moved": lambda initial, state: jnp.linalg.norm(state.incoming[0] - initial.incoming[0])}
    records = cp.run(cp.Crossprop(cp.Network.paper(130, 4), 0.01), data, seeds=1, record_every=40, probes=probes)
    assert records.attrs["engine"] == "chunked"
    np.testing.assert_allclose(records.moved, records.incoming_drift, rtol=1e-5)


@pytest.mark.parametrize(
    ("engine", "learner", "reason"),
    [
        ("kernel", cp.Backprop(GEOFF, 1e-3), "needs a GPU, and this device is a cpu"),
        (
            "chunked",
            cp.Backprop(GEOFF, 1e-3, optimizer="adam"),
            "whose steps add up, 'sgd' or 'momentum', got 'adam'",
        ),
    ],
)
def test_an_engine_that_cannot_says_why(engine, learner, reason):
    with pytest.raises(ValueError, match=f"engine='{engine}' cannot run learners\\['backprop'\\].*{reason}"):
        cp.run(learner, cp.Geoff(tasks="A" * 26, examples=10**6), engine=engine)


def test_what_the_kernel_cannot_do_is_said(monkeypatch):
    assert kernel.why_unsupported(cp.Backprop(cp.Network.paper(20, 9000), 1e-3), "gpu") == (
        "the kernel engine keeps a run's state on chip, at most 45,000 numbers with their padding; "
        "this learner has 344,064"
    )
    monkeypatch.setattr(support, "triton", None)
    assert "needs Pallas's Triton backend" in str(kernel.why_unsupported(cp.Backprop(GEOFF, 1e-3), "gpu"))
    assert choose(cp.Backprop(GEOFF, 1e-3), "gpu") == "scan"
    monkeypatch.undo()
    for capability in ("7.5", "gfx942"):
        with monkeypatch.context() as patched:
            patched.setattr(support, "FOR_WIDE_NETWORKS", True)
            patched.setattr(jax, "local_devices", lambda: [SimpleNamespace(compute_capability=capability)])  # noqa: B023
            assert f"this one has {capability}" in str(kernel.why_unsupported(cp.Backprop(GEOFF, 1e-3), "gpu"))
            assert parts.programs_for(cp.Backprop(cp.Network.paper(784, 1024, 10), 1e-3), "gpu") is None
    assert "elementwise" in str(kernel.why_unsupported(cp.Backprop(GEOFF, 1e-3, optimizer=optax.lion), "gpu"))
    assert set(ENGINES) == {"scan", "chunked", "kernel"} and all(
        kernel.why_unsupported(learner, "gpu") is None
        for learner in (build(GEOFF, 1e-3) for build in LEARNERS.values())
        if isinstance(learner, cp.CreditRule)
    )


def test_an_option_that_the_compiler_does_not_know_is_left_out():
    assert xla.known_options({"xla_cpu_enable_fast_math": False, "xla_cpu_faster": True}) == {
        "xla_cpu_enable_fast_math": False
    }
