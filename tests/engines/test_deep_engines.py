"""Deep networks on every engine: each agrees with scan, and a run's numbers depend on no other run."""

import os
from functools import partial

import jax
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

import crossprop as cp
from crossprop.engines import choose, chunked, scan
from crossprop.engines.protocol import Run
from sessions import (
    assert_agree,
    assert_close_states,
    assert_kernel_agrees_with_scan,
    assert_same_bits,
    live,
    random_examples,
    results_in_batches,
    runs_of,
    traced_kernel,
)

__all__ = ["results_in_batches"]

RULES = {
    "backprop": cp.Backprop,
    "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0),
    "foresight-top": partial(cp.Foresight, ahead=2.0, horizon=20.0, layers="top"),
    "correlation": partial(cp.Correlation, weight=2.0, horizon=20.0),
    "crossprop": partial(cp.Crossprop, eta=0.3, layers="all"),
    "crossprop-top": partial(cp.Crossprop, eta=0.3),
    "projected": partial(cp.Crossprop, eta=0.3, projections=2, layers="all"),
    "approx": partial(cp.CrosspropApprox, eta=0.3, layers="all"),
    "sum": partial(cp.CrosspropSum, layers="all"),
    "frozen": cp.Frozen,
}
FEW = ("foresight", "projected")
"""Rules that meet every path of the engines: a memory at the units, and memory matrices in all layers."""
SOME = RULES if os.environ.get("CROSSPROP_FULL_GRID") == "1" else FEW

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rule", SOME)
def test_chunked_equals_scan_in_float64(rule):
    optimizer = "momentum" if rule == "foresight" else "sgd"
    network = cp.Network.paper(30, (9, 5), 3, bias=True, loss="softmax", layer_norm=rule == "foresight")
    (run,) = runs_of(RULES[rule](network, 5e-3, optimizer=optimizer), 130)
    one, other = live(chunked, [run], record_every=50), live(scan, [run], record_every=50)
    assert_agree(one.results()[0], other.results()[0], loss=1e-9, drift=1e-9)
    assert_close_states(one.states()[0], other.states()[0], rtol=1e-8, atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("rule", SOME)
def test_kernel_agrees_with_scan_in_the_interpreter(rule):
    optimizer = "adam" if rule == "foresight" else "sgd"
    network = cp.Network.paper(
        5, (6, 3, 4), 2, "sigmoid", bias=True, layer_norm=rule == "foresight", incoming_scale=0.5
    )
    runs = runs_of(RULES[rule](network, 5e-3, optimizer=optimizer), 200, seeds=[3, 4])
    assert_kernel_agrees_with_scan(runs)


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[pytest.mark.long] * (rule != "projected")) for rule in SOME]
)
def test_deep_kernels_lower_for_cuda(rule):
    gpu = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))
    network = cp.Network.paper(5, (4, 8), 3, "tanh", "softmax", bias=True, layer_norm=True)
    learner = RULES[rule](network, 1e-3, optimizer="adam")
    with use_abstract_mesh(gpu):
        assert "triton" in traced_kernel(learner).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(
    "results_in_batches",
    [
        *("scan", "chunked side by side", "kernel"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("scan side by side", "chunked")),
    ],
    indirect=True,
)
def test_a_deep_run_is_the_same_in_any_company_on_every_engine(results_in_batches):
    network = cp.Network.paper(5, (6, 4), 2)
    learner, wild = cp.Foresight(network, 0.01, horizon=10.0), cp.Foresight(network, 1e6)
    stream = random_examples(network, 60, seed=7)
    seven, others = Run(learner, stream, 7), [Run(learner, stream, seed) for seed in range(3)]
    (alone,) = results_in_batches([seven])
    assert_same_bits(results_in_batches([*others, seven])[-1], alone)
    beside = results_in_batches([Run(wild, stream, 1), seven])
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and alone.diverged_at == -1


def test_auto_chooses_by_the_first_layer_and_by_what_fits_on_chip():
    wide = cp.Network.paper(784, (256, 256), 10, loss="softmax")
    assert choose(cp.Foresight(wide, 1e-3), "cpu") == choose(cp.Foresight(wide, 1e-3), "gpu") == "chunked"
    assert choose(cp.Backprop(wide, 1e-3, optimizer="adam"), "cpu") == "scan"
    assert choose(cp.Backprop(cp.Network.paper(20, (64, 64)), 1e-3), "gpu") == "kernel"
    assert choose(cp.Crossprop(cp.Network.paper(20, (64, 64)), 1e-3, layers="all"), "gpu") == "scan"
    for platform in ("cpu", "gpu"):
        assert choose(cp.Backprop(cp.Network.paper(784, ()), 1e-3), platform) == "scan"


def test_an_int_is_one_hidden_layer():
    assert cp.Network.paper(20, 7) == cp.Network.paper(20, (7,)) == cp.Network.paper(20, [7])


def test_a_linear_unit_runs_and_its_features_do_not_drift():
    records, states = cp.run(
        cp.Backprop(cp.Network.paper(20, ()), 1e-3), cp.Geoff(tasks="A", examples=100), seeds=2, record_every=50,
        return_states=True,
    )  # fmt: skip
    assert (records.incoming_drift == 0).all() and (records.outgoing_drift > 0).all()
    state = states["backprop"][0]
    assert state.incoming == state.layers == () and jax.tree.leaves(state.optimizer) == []
