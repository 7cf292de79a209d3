"""A run as several GPU programs: they agree with scan, and a run's numbers depend on no other run.

A program that has all units runs in Pallas's interpreter, which cannot run programs that wait for each other; several
are tried as functions under `jax.vmap`. All lower for CUDA."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import crossprop as cp
from crossprop.engines import ENGINES, scan
from crossprop.engines.fold import Fold, Window
from crossprop.engines.gpu import sliced, support
from crossprop.engines.gpu.layout import in_pieces, input_pieces, out_of_pieces
from crossprop.engines.gpu.sliced import Slice, SlicedLoop
from crossprop.engines.protocol import Batch, Rows, Run, RunOptions
from crossprop.engines.segments import LoopSession
from crossprop.learners.stack import Stack
from crossprop.learners.update import learn
from crossprop.metrics import plasticity
from crossprop.variables import Variable, of_examples
from for_cuda import Gathered, joined, lower_for_cuda, split
from sessions import assert_agree, assert_close_states, assert_same_bits, finish, live, random_examples

RULES = {
    "approx": partial(cp.CrosspropApprox, eta=0.3, optimizer="rmsprop"),
    "projected": partial(cp.Crossprop, eta=0.3, projections=2, optimizer="adam"),
    "crossprop": partial(cp.Crossprop, eta=0.3, optimizer="rmsprop"),
    "backprop": partial(cp.Backprop, optimizer="adam"),
    "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0, optimizer="adam"),
    "correlation": partial(cp.Correlation, weight=2.0, horizon=20.0),
}
QUICK, LOWERED = ("backprop",), ("foresight",)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def by_programs(runs):
    """Runs as on a GPU, in the interpreter, four side by side, each with one program."""
    batch = Batch(runs, RunOptions(10))
    return finish(LoopSession(SlicedLoop(10, 1, interpret=True), batch, width=4, fixed_turns=True), batch.stop)


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(support, "FOR_WIDE_NETWORKS", True)
    monkeypatch.setattr(support, "multiprocessors", lambda: 132)


@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_agree_with_scan(rule):
    network = cp.Network.paper(21, 11, 3, loss="softmax", bias=rule in ("approx", "crossprop"))
    learner = RULES[rule](network, 5e-3)
    runs = [Run(learner, random_examples(network, 40, seed), seed) for seed in (3, 4)]
    session = by_programs(runs)
    for run, result, state in zip(runs, session.results(), session.states(), strict=True):
        expected = live(scan, [run], "cpu", 10)
        assert_agree(result, expected.results()[0], loss=1e-4, drift=1e-3)
        assert_close_states(state, expected.states()[0], rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_run_is_the_same_in_any_company():
    network = cp.Network.paper(21, 11, 2)
    build = partial(cp.Backprop, network, optimizer="rmsprop")
    stream = random_examples(network, 20)
    seven, others = Run(build(0.01), stream, 7), [Run(build(0.01), stream, seed) for seed in range(3)]
    (alone,) = by_programs([seven]).results()
    assert_same_bits(by_programs([*others, seven]).results()[-1], alone)
    beside = by_programs([Run(build(1e25), stream, 1), seven]).results()
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and alone.diverged_at == -1


@pytest.mark.parametrize(
    "rule", [rule if rule in LOWERED else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_several_programs_are_one_run(rule):
    """Four programs of four units each, the last of them with two that are padding."""
    network = cp.Network.paper(21, 14, 3, loss="softmax", bias=True)
    learner, programs = RULES[rule](network, 5e-3), 4
    stream = random_examples(network, 40)
    x, y, _ = stream.sample(cp.keys(0)[0])
    x, y = jnp.asarray(x), jnp.pad(jnp.asarray(y, jnp.float32), ((0, 0), (0, 1)))
    work = in_pieces(learner, learner.init(cp.keys(3)[1]))
    axes = jax.tree.map(lambda leaf: -int(leaf.ndim > 0 and leaf.shape[-1] == 16), work)
    slices = jax.tree.map(partial(split, programs=programs), axes, work)

    def example(number, work, x, y):
        net = Slice(network, number * 4, Gathered())
        inputs = (*(x[piece] for piece in input_pieces(learner)), jnp.ones(1))
        return learn(Stack(learner, learner.by_layer(), (net,), net), work, inputs, y)

    each = jax.vmap(example, in_axes=(0, 0, None, None), axis_name="programs")
    slices, outcomes = lax.scan(lambda work, xy: each(jnp.arange(programs), work, *xy), slices, (x, y))
    state = out_of_pieces(learner, jax.tree.map(joined, axes, slices))
    expected = live(scan, [Run(learner, stream, 3)], "cpu", 10)
    assert_close_states(state, expected.states()[0], rtol=1e-3, atol=1e-4)
    losses = expected.results()[0].records["loss"]
    np.testing.assert_allclose(outcomes.loss.reshape(4, 10, programs).mean(axis=1), losses[:, None] + np.zeros(4), 1e-4)


@pytest.mark.parametrize(
    "rule", [rule if rule in LOWERED else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_lower_for_cuda(rule, verified):
    network = cp.Network.paper(50, 32, 3, loss="softmax", bias=True)
    loop = SlicedLoop(10, 4)

    def stretch(learner, key, x, y, alive):
        window, fold = Window({"loss": jnp.zeros(())}, jnp.full((), -1)), Fold("squared", of_examples("squared"))
        rows = Rows(x, y, 0, alive * 10, 0)
        return loop.advance(learner, loop.enter(learner, learner.init(key)), window, rows, fold)

    lower_for_cuda(stretch, RULES[rule](network, 1e-3))
    assert verified == ["slices"]


def test_runs_are_several_programs_by_device_sizes_and_rule(on_a_gpu, monkeypatch):
    network, small = cp.Network.paper(784, 1024, 10, loss="softmax"), cp.Network.paper(784, 256, 10, loss="softmax")
    adam = cp.Backprop(network, 1e-3, optimizer="adam")
    programs = partial(sliced.programs_for, platform="gpu", observed=())
    assert programs(adam) == 128 and programs(cp.Backprop(small, 1e-3, optimizer="adam")) == 32
    assert programs(cp.Crossprop(small, 1e-3, optimizer="rmsprop")) == 128
    assert programs(cp.Crossprop(network, 1e-3, optimizer="rmsprop")) is None
    assert sliced.programs_for(adam, "cpu", ()) is None
    assert sliced.programs_for(adam, "gpu", (Variable("plasticity", plasticity, after=True),)) is None
    assert programs(cp.Backprop(cp.Network.paper(784, (256, 256), 10), 1e-3, optimizer="adam")) is None
    assert programs(cp.Backprop(cp.Network.paper(100, 1024, 10), 1e-3, optimizer="adam")) is None
    assert programs(cp.Frozen(network, 1e-3, optimizer="adam")) is None
    with jax.enable_x64(True):
        assert programs(adam) is None
    monkeypatch.setattr(support, "multiprocessors", lambda: 100)
    assert programs(adam) == 64  # twice as many numbers each
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "there")
    assert programs(adam) is None


def test_the_scan_engine_takes_them_where_they_are_worthwhile(on_a_gpu):
    network = cp.Network.paper(130, 16, 2)
    start = lambda learner: ENGINES["scan"].start(
        Batch([Run(learner, random_examples(network, 20), 0)], RunOptions(10)), "gpu"
    )
    assert start(cp.Backprop(network, 1e-3, optimizer="adam")).loop == SlicedLoop(10, 1)
    assert not isinstance(start(cp.Backprop(network, 1e-3)).loop, SlicedLoop)
