"""One GPU program per example: agrees with scan, and a run's numbers depend on no other run. The programs run in
Pallas's interpreter, and lower for CUDA."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import crossprop as cp
from crossprop.engines import fused, gpu_programs, scan
from crossprop.engines.fused import FusedLoop
from crossprop.engines.protocol import Batch, Observers, Rows, Run, Sums
from crossprop.engines.segments import LoopSession
from crossprop.metrics import plasticity
from for_cuda import lower_for_cuda
from test_engines import KEYS, assert_agree, assert_close_states, assert_same_bits, finish, live, random_source

RULES = {
    "approx": partial(cp.CrosspropApprox, eta=0.3, optimizer="rmsprop"),
    "projected": partial(cp.Crossprop, eta=0.3, projections=2, optimizer="adam"),
    "crossprop": partial(cp.Crossprop, eta=0.3, optimizer="rmsprop"),
    "backprop": partial(cp.Backprop, optimizer="adam"),
    "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0, optimizer="adam"),
}
QUICK, LOWERED = ("backprop",), ("crossprop", "foresight")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def by_programs(runs, units=4):
    """Runs as on a GPU, in the interpreter, four side by side, four units to a program."""
    batch = Batch(runs, 10, steps=runs[0].source.stream.steps)
    return finish(LoopSession(FusedLoop(10, units, interpret=True), batch, width=4), batch.steps)


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(gpu_programs, "FOR_WIDE_NETWORKS", True)


@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_agree_with_scan(rule):
    network = cp.Network(21, 11, 3, loss="softmax", bias=rule in ("approx", "crossprop"))
    learner = RULES[rule](network, 5e-3)
    runs = [Run(learner, random_source(network, 40, seed), KEYS[seed]) for seed in (3, 4)]
    session = by_programs(runs)
    for run, result, state in zip(runs, session.results(), session.states(), strict=True):
        expected = live(scan, [run], "cpu", 10)
        assert_agree(result, expected.results()[0], loss=1e-4, drift=1e-3)
        assert_close_states(state, expected.states()[0], rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_run_is_the_same_in_any_company():
    network = cp.Network(21, 11, 2)
    build = partial(cp.Backprop, network, optimizer="rmsprop")
    source = random_source(network, 20)
    seven, others = Run(build(0.01), source, KEYS[7]), [Run(build(0.01), source, KEYS[seed]) for seed in range(3)]
    (alone,) = by_programs([seven]).results()
    assert_same_bits(by_programs([*others, seven]).results()[-1], alone)
    beside = by_programs([Run(build(1e25), source, KEYS[1]), seven]).results()
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and alone.diverged_at == -1


@pytest.mark.parametrize(
    "rule", [rule if rule in LOWERED else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_lower_for_cuda(rule, verified):
    network = cp.Network(50, 32, 3, loss="softmax", bias=True)
    learner = RULES[rule](network, 1e-3)
    units = fused._units(jax.tree.structure(learner))
    assert units == 8
    loop = FusedLoop(10, units, interpret=False)

    def stretch(learner, key, x, y, alive):
        zero = jnp.zeros(())
        sums = Sums(zero, zero, {}, jnp.full((), -1))
        return loop.advance(
            learner, loop.enter(learner, learner.init(key)), sums, Rows(x, y, 0, alive * 10, 0), Observers()
        )

    lower_for_cuda(stretch, learner)
    assert verified == ["example"] * 2


def test_examples_are_programs_by_device_sizes_and_rule(on_a_gpu):
    network = cp.Network(784, 1024, 10, loss="softmax")
    adam = cp.Backprop(network, 1e-3, optimizer="adam")
    units = partial(fused.units_for, platform="gpu", observers=Observers())
    assert units(adam) == 8 and units(cp.Crossprop(network, 1e-3, optimizer="rmsprop")) == 2
    assert fused.units_for(adam, "cpu", Observers()) is None
    assert fused.units_for(adam, "gpu", Observers(metrics=(("plasticity", plasticity),))) is None
    assert units(cp.Backprop(cp.Network(784, (256, 256), 10), 1e-3, optimizer="adam")) is None
    assert units(cp.Backprop(cp.Network(100, 1024, 10), 1e-3, optimizer="adam")) is None
    assert units(cp.Crossprop(cp.Network(5000, 64, 10), 1e-3, optimizer="adam")) is None
    assert units(cp.Frozen(network, 1e-3, optimizer="adam")) is None
    with jax.enable_x64(True):
        assert units(adam) is None


def test_the_scan_engine_takes_them_where_they_are_worthwhile(on_a_gpu):
    network = cp.Network(130, 16, 2)
    start = lambda learner: scan.start(Batch([Run(learner, random_source(network, 20), KEYS[0])], 10, steps=20), "gpu")
    assert start(cp.Backprop(network, 1e-3, optimizer="adam")).loop == FusedLoop(10, 8)
    assert not isinstance(start(cp.Backprop(network, 1e-3)).loop, FusedLoop)
