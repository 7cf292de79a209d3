"""Engines differ in speed, never in meaning: each against the scan engine, and each against itself in other company."""

import itertools
import json
import os
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

import crossprop as cp
from crossprop.engines import ENGINES, choose, chunked, kernel, kernel_layout, scan, segments
from crossprop.engines.fma_rewrite import PLAIN, fma_rewritten
from crossprop.execution import key_data
from crossprop.learners import LEARNERS
from crossprop.learners.base import UnitMajorState

RULES = {
    "crossprop": partial(cp.Crossprop, eta=0.3),
    "projected": partial(cp.Crossprop, eta=0.3, projections=3),
    "approx": partial(cp.CrosspropApprox, eta=0.3, memory_eta=0.1),
    "sum": cp.CrosspropSum,
    "backprop": cp.Backprop,
    "frozen": cp.Frozen,
}
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam")
ACTIVATIONS = ("tanh", "sigmoid", "relu")
KEYS = {seed: data[1] for seed, data in key_data(range(8)).items()}
STEP_SIZES = (5e-5, 5e-4, 5e-3)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def random_life(network, steps, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(steps, network.inputs)) / np.sqrt(network.inputs)
    classes = network.loss == "softmax"
    y = random.integers(network.outputs, size=steps) if classes else random.normal(size=(steps, network.outputs))
    return cp.Arrays(x, y.astype(np.int32 if classes else np.float32)).sample(cp.keys(seed)[0])


def runs_of(learner, steps, seeds=(0,)):
    return [segments.Run(learner, random_life(learner.network, steps, seed), KEYS[seed]) for seed in seeds]


def assert_agree(one, other, loss, drift):
    assert one.diverged_at == other.diverged_at == -1
    for name, values in other.records.items():
        distance = np.linalg.norm(one.records[name] - values)
        limit = {"loss": loss, "error": 0.02}.get(name, drift)
        assert distance <= limit * np.linalg.norm(values), name


def assert_same_bits(one, other):
    assert one.diverged_at == other.diverged_at
    for name, values in other.records.items():
        np.testing.assert_array_equal(one.records[name], values, err_msg=name)


# Agreement.


@pytest.mark.parametrize(("rule", "optimizer"), [*((rule, "sgd") for rule in RULES), ("backprop", "momentum")])
def test_chunked_agrees_with_scan(rule, optimizer):
    kind = [*RULES].index(rule)
    network = cp.Network(40, 21, 1 + kind % 3, ACTIVATIONS[kind % 3], ("squared", "softmax")[kind % 2], kind % 4 < 2)
    learner = RULES[rule](network, STEP_SIZES[kind % 3], optimizer=optimizer)
    (run,) = runs_of(learner, 2000)
    assert_agree(*(engine.live([run], "cpu", 70)[0] for engine in (chunked, scan)), loss=1e-4, drift=2e-3)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("rule", "record_every", "optimizer", "platform", "outputs"),
    [
        *((rule, every, "sgd", "cpu", 3) for rule, every in zip(RULES, (1, 50, 3, 997, 50, 50), strict=True)),
        *(("crossprop", every, "momentum", "cpu", 3) for every in (3, 50, 997)),
        *((rule, 50, "momentum", "gpu", 3) for rule in ("projected", "approx", "backprop")),
        ("crossprop", 50, "sgd", "cpu", chunked.MOST_APART + 1),
        ("frozen", 50, "adam", "gpu", 3),
    ],
)
def test_chunked_is_exact_in_float64_whatever_the_blocks(rule, record_every, optimizer, platform, outputs):
    network = cp.Network(30, 9, outputs, bias=True, loss="softmax")
    (run,) = runs_of(RULES[rule](network, 5e-3, optimizer=optimizer), 300)
    one, other = chunked.live([run], platform, record_every)[0], scan.live([run], "cpu", record_every)[0]
    assert_agree(one, other, loss=1e-9, drift=1e-9)
    one, other = one.state(), other.state()
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for leaf, expected in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(
    ("rule", "optimizer"), [*zip(RULES, itertools.cycle(OPTIMIZERS)), ("crossprop", "adam"), ("backprop", "rmsprop")]
)
def test_kernel_agrees_with_scan_in_the_interpreter(rule, optimizer):
    kind = [*RULES].index(rule)
    network = cp.Network(5, 6, 1 + kind % 3, ACTIVATIONS[kind % 3], ("squared", "softmax")[kind % 2], kind % 4 < 2)
    runs = runs_of(RULES[rule](network, STEP_SIZES[kind % 3], optimizer=optimizer), 2000, seeds=[3, 4])
    for number, lived in enumerate(kernel.live(runs, "gpu", 70, interpret=True)):
        assert_agree(lived, scan.live([runs[number]], "cpu", 70)[0], loss=1e-4, drift=2e-3)


def test_kernel_takes_lives_that_are_too_large_together_one_by_one(monkeypatch):
    runs = runs_of(cp.Backprop(cp.Network(5, 6), 0.01), 60, seeds=[1, 2, 3])
    together, heard = kernel.live(runs, "gpu", 30, interpret=True), []
    monkeypatch.setattr(kernel, "NUMBERS_OF_EXAMPLES", 700)
    apart = kernel.live(runs, "gpu", 30, after_segment=heard.append, interpret=True)
    for one, other in zip(together, apart, strict=True):
        assert_same_bits(one, other)
    assert sum(heard) == 60 and len(heard) == 2


@pytest.mark.parametrize("engine", [scan, chunked])
@pytest.mark.parametrize("tile", [2, 64])
def test_side_by_side_agrees_with_one_at_a_time(engine, tile, monkeypatch):
    monkeypatch.setattr(engine, "TILE_BYTES", tile * 4 * 5 * 6)
    runs = runs_of(cp.Crossprop(cp.Network(5, 6, 2), 5e-3), 230, seeds=[1, 2])
    assert engine.width(runs[0].learner, "gpu") == tile
    for number, lived in enumerate(engine.live(runs, "gpu", 70)):
        assert_agree(lived, scan.live([runs[number]], "cpu", 70)[0], loss=1e-5, drift=1e-4)
    states = [engine.live(runs[:1], platform, 70)[0].state() for platform in ("gpu", "cpu")]
    for one, other in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("engine", [scan, chunked])
def test_all_segments_of_a_life_are_one_program(engine, platform, monkeypatch):
    monkeypatch.setattr(segments, "steps_per_call", lambda learner, width: 64)
    (run,) = runs_of(cp.Backprop(cp.Network(3, 4), 1e-3), 192)
    before = segments._compiled_segment()._cache_size()
    engine.live([run], platform, 64)
    assert segments._compiled_segment()._cache_size() == before + 1


# Padding.

SIZES = (1, 2, 20, 21, 33, 500, 513)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("inputs", "hidden"), [*zip(SIZES, SIZES[::-1], strict=True)])
def test_padding_stays_zero_and_is_never_seen(inputs, hidden, activation):
    network = cp.Network(inputs, hidden, 3, activation, "softmax", bias=inputs % 2 == 1)
    learner = cp.Crossprop(network, 0.01, eta=0.5)
    life = random_life(network, 12)
    filled = jax.tree.map(lambda leaf: leaf, learner)
    object.__setattr__(filled, "network", kernel_layout.Padded.of(network))
    pieces = kernel_layout.first_work(learner, *kernel_layout.initial_weights(learner, cp.keys(0)[1]))
    whole = UnitMajorState.of(learner.init(cp.keys(0)[1]))
    rows = [piece for piece in kernel_layout.pieces(network) if piece.start < inputs]
    step = jax.jit(fma_rewritten(filled.learn, PLAIN))
    plain = jax.jit(learner.learn)
    for x, y in zip(life.x, life.y, strict=True):
        parts = tuple(jnp.asarray(x[row]) for row in rows) + (jnp.ones(1),) * network.bias
        pieces, outcome = step(pieces, parts, jnp.pad(y, (0, 1)))
        whole, expected = plain(whole, network.with_constant(jnp.asarray(x)), y)
        np.testing.assert_allclose(outcome.loss, expected.loss, rtol=1e-4)
    incoming = jnp.concatenate(pieces.incoming)
    np.testing.assert_allclose(incoming[:, :hidden], whole.incoming, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(pieces.outgoing[0][:3, :hidden], whole.outgoing[:, :hidden], rtol=1e-3, atol=1e-5)
    assert not incoming[:, hidden:].any()
    assert not pieces.outgoing[0][3:].any() and not pieces.outgoing[0][:, hidden:].any()
    assert not any(piece[..., hidden:].any() or piece[3:].any() for piece in pieces.memory)


# The kernel, for a GPU that is not here.


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("rule", RULES)
def test_every_kernel_lowers_for_cuda(rule, optimizer):
    """Every two of activation, loss and bias meet; all three with CROSSPROP_FULL_GRID."""
    kinds = itertools.product(enumerate(ACTIVATIONS), enumerate(("squared", "softmax")), (False, True))
    gpu = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))
    for (i, activation), (j, loss), bias in kinds:
        if "CROSSPROP_FULL_GRID" in os.environ or (i + j + bias + OPTIMIZERS.index(optimizer)) % 2 == 0:
            learner = RULES[rule](cp.Network(2, 2, 2, activation, loss, bias), 1e-3, optimizer=optimizer)
            with use_abstract_mesh(gpu):
                assert "triton" in kernel.traced(learner).lower(lowering_platforms=("cuda",)).as_text()


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
    program = str(kernel.traced(cp.Crossprop(cp.Network(16, 500), 1e-3)).jaxpr)
    # U from H and from x, H from x, W, and the sum of the losses stays what it is.
    assert program.count("fma.rn.f32") >= 4
    program = str(kernel.traced(cp.Backprop(cp.Network(16, 500), 1e-3, optimizer="adam")).jaxpr)
    assert program.count("sqrt.approx.ftz.f32") == program.count("div.approx.ftz.f32") == 2


# Identity and isolation.


@pytest.fixture(params=["scan", "scan side by side", "chunked", "chunked side by side", "kernel"])
def live(request):
    if request.param == "kernel":
        return partial(kernel.live, platform="gpu", record_every=30, interpret=True)
    engine, platform = ENGINES[request.param.split()[0]], "gpu" if "side by side" in request.param else "cpu"

    def in_batches(runs):
        width = engine.width(runs[0].learner, platform)
        batches = [runs[i : i + width] for i in range(0, len(runs), width)]
        return [lived for batch in batches for lived in engine.live(batch, platform, 30)]

    return in_batches


def test_a_run_is_the_same_in_any_company_on_every_engine(live):
    network = cp.Network(5, 6, 2)
    learner, wild = cp.Crossprop(network, 0.01), cp.Crossprop(network, 1e6)
    life = random_life(network, 60, seed=7)
    seven = segments.Run(learner, life, KEYS[7])
    others = [segments.Run(learner, life, KEYS[seed]) for seed in range(4)]
    (alone,) = live([seven])
    assert_same_bits(live([*others, seven])[-1], alone)
    assert_same_bits(live([seven, *others * 75])[0], alone)
    beside = live([segments.Run(wild, life, KEYS[1]), seven, segments.Run(wild, life, KEYS[2])])
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and beside[2].diverged_at > 0 and alone.diverged_at == -1


def test_a_diverging_run_says_when_on_every_engine(live):
    (run,) = runs_of(cp.Backprop(cp.Network(5, 6), 1e6), 60)
    (lived,) = live([run])
    assert lived.diverged_at == scan.live([run], "cpu", 30)[0].diverged_at > 0


# The choice.

GEOFF, MNIST = cp.Network(20, 500), cp.Network(784, 1024, 10, loss="softmax")
CHOICES = {
    "GEOFF on a CPU": (cp.Crossprop(GEOFF, 1e-3), "cpu", "scan"),
    "GEOFF on a GPU": (cp.Crossprop(GEOFF, 1e-3), "gpu", "kernel"),
    "GEOFF with adam on a GPU": (cp.Backprop(GEOFF, 1e-3, optimizer="adam"), "gpu", "kernel"),
    "GEOFF with an optimizer of one's own on a GPU": (cp.Backprop(GEOFF, 1e-3, optimizer=optax.lion), "gpu", "scan"),
    "GEOFF's inputs, 5,000 units, on a GPU": (cp.Crossprop(cp.Network(20, 5000), 1e-3), "gpu", "scan"),
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
    assert choose(learner, platform, ()) == engine


def test_a_probe_needs_an_engine_that_sees_states():
    probes = (("norm", lambda initial, state: jnp.linalg.norm(state.incoming)),)
    assert choose(cp.Crossprop(GEOFF, 1e-3), "gpu", probes) == "scan"
    assert choose(cp.CrosspropApprox(MNIST, 1e-3), "gpu", probes) == "chunked"
    with jax.enable_x64(True):
        assert choose(cp.Crossprop(GEOFF, 1e-3), "gpu", ()) == "scan"


def test_the_records_say_which_engine_it_was():
    data = cp.Arrays(np.ones((40, 130), np.float32), np.ones(40, np.float32))
    network = cp.Network(130, 4)
    both = {"sgd": cp.Backprop(network, 0.01), "adam": cp.Backprop(network, 0.01, optimizer="adam")}
    assert cp.run(both["sgd"], data, seeds=1).attrs["engine"] == "chunked"
    assert cp.run(both["sgd"], data, seeds=1, engine="scan").attrs["engine"] == "scan"
    assert json.loads(cp.run(both, data, seeds=1).attrs["engine"]) == {"sgd": "chunked", "adam": "scan"}


def test_probes_work_on_chunked():
    data = cp.Arrays(np.random.default_rng(0).normal(size=(90, 130)).astype(np.float32), np.ones(90, np.float32))
    probes = {"moved": lambda initial, state: jnp.linalg.norm(state.incoming - initial.incoming)}
    records = cp.run(cp.Crossprop(cp.Network(130, 4), 0.01), data, seeds=1, record_every=40, probes=probes)
    assert records.attrs["engine"] == "chunked"
    np.testing.assert_allclose(records.moved, records.incoming_drift, rtol=1e-5)


@pytest.mark.parametrize(
    ("engine", "learner", "reason"),
    [
        ("kernel", cp.Backprop(GEOFF, 1e-3), "needs a GPU, and this device is a cpu"),
        ("chunked", cp.Backprop(GEOFF, 1e-3, optimizer="adam"), "'sgd' or 'momentum', whose steps add up, got 'adam'"),
    ],
)
def test_an_engine_that_cannot_says_why(engine, learner, reason):
    with pytest.raises(ValueError, match=f"engine='{engine}' cannot run learners\\['backprop'\\].*{reason}"):
        cp.run(learner, cp.Geoff(tasks="A" * 26, examples=10**6), engine=engine)


def test_what_the_kernel_cannot_do_is_said(monkeypatch):
    assert kernel.why_unsupported(cp.Backprop(cp.Network(20, 9000), 1e-3), "gpu", ()) == (
        "the kernel engine keeps a run's state on chip, at most 45,000 numbers with their padding; "
        "this learner has 344,064"
    )
    monkeypatch.setattr(kernel, "triton", None)
    assert "needs Pallas's Triton backend" in str(kernel.why_unsupported(cp.Backprop(GEOFF, 1e-3), "gpu", ()))
    assert choose(cp.Backprop(GEOFF, 1e-3), "gpu", ()) == "scan"
    monkeypatch.undo()
    assert "by name" in str(kernel.why_unsupported(cp.Backprop(GEOFF, 1e-3, optimizer=optax.lion), "gpu", ()))
    assert set(ENGINES) == {"scan", "chunked", "kernel"} and all(
        kernel.why_unsupported(build(GEOFF, 1e-3), "gpu", ()) is None for build in LEARNERS.values()
    )


def test_an_option_that_the_compiler_does_not_know_is_left_out():
    assert segments.known_options({"xla_cpu_enable_fast_math": False, "xla_cpu_faster": True}) == {
        "xla_cpu_enable_fast_math": False
    }
