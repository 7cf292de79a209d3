"""Foresight on PyTorch networks: gradients by hand, the same runs as ours, and what users do to their networks."""

import copy
import importlib
import inspect
import io
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

if os.environ.get("CROSSPROP_REQUIRE_TORCH") != "1":
    pytest.importorskip("torch")
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import crossprop as cp
from crossprop.torch import Foresight, foresight


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu_(x + self.second(torch.relu_(self.norm(self.first(x)))))


def residual():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(inplace=True), Block(8), Block(8), nn.Flatten(), nn.Linear(8 * 49, 5)
    )
    return model, torch.randn(4, 3, 16, 16), torch.randint(5, (4,))


def transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 20))
    return model, torch.randint(20, (3, 7)), torch.randint(20, (3, 7))


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def gradients(model, x, y):
    model.zero_grad()
    loss_of(model, x, y).backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("network", [residual, transformer])
def test_looking_nowhere_ahead_leaves_every_gradient_as_it_is_bit_for_bit(network):
    model, x, y = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    plain = copy.deepcopy(model)
    other = torch.optim.SGD(plain.parameters(), 0.1)
    handle = foresight(model, ahead=0.0)
    for _ in range(3):
        for (name, one), expected in zip(gradients(model, x, y).items(), gradients(plain, x, y).values(), strict=True):
            assert torch.equal(one, expected), name
        optimizer.step()
        other.step()
    handle.ahead = 5.0
    one, expected = gradients(model, x, y), gradients(plain, x, y)
    assert any(not torch.equal(one[name], expected[name]) for name in one)
    handle.remove()
    one = gradients(model, x, y)
    assert all(torch.equal(one[name], expected[name]) for name in one)


LAYERS = {
    "linear": (lambda: nn.Linear(6, 4), (3, 6)),
    "linear of sequences": (lambda: nn.Linear(6, 4, bias=False), (3, 2, 6)),
    "linear of one": (lambda: nn.Linear(6, 4), (6,)),
    "conv": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 7, 8)),
    "grouped": (lambda: nn.Conv2d(4, 6, (3, 2), groups=2, dilation=(1, 2)), (2, 4, 7, 8)),
    "same": (lambda: nn.Conv1d(4, 6, 5, padding="same"), (2, 4, 9)),
    "unbatched": (lambda: nn.Conv1d(4, 6, 3), (4, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 5, 5)),
    "three dimensions": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_the_error_goes_down_through_the_weights_to_come(kind):
    make, shape = LAYERS[kind]
    torch.manual_seed(0)
    layer = make().double()
    other = copy.deepcopy(layer)
    handle = foresight(layer, ahead=1.5, horizon=4)
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    moves = torch.zeros_like(layer.weight)
    for step in range(4):
        x = torch.randn(shape, dtype=torch.double, requires_grad=True)
        output = layer(x)
        error = torch.randn_like(output)
        output.backward(error)
        other.load_state_dict(layer.state_dict())
        other.zero_grad()
        other(x.detach()).backward(error)  # gradients of the weights: as ever
        torch.testing.assert_close(layer.weight.grad, other.weight.grad, rtol=0, atol=0)
        with torch.no_grad():
            other.weight += 1.5 * moves
        again = x.detach().requires_grad_()
        other(again).backward(error)
        torch.testing.assert_close(x.grad, again.grad, rtol=1e-10, atol=1e-12)
        before = layer.weight.detach().clone()
        optimizer.step()
        optimizer.zero_grad()
        moves = (1 - 1 / 4) * moves + (layer.weight.detach() - before)
        torch.testing.assert_close(handle.state_dict()["moves"][""], moves, rtol=1e-10, atol=1e-12)
        assert step == 0 or moves.abs().max() > 0.01


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_computed_once(kind, monkeypatch):
    make, shape = LAYERS[kind]
    layer, calls = make(), []
    forward = type(layer).forward
    monkeypatch.setattr(type(layer), "forward", lambda *args: (calls.append(1), forward(*args))[1])
    foresight(layer)
    layer(torch.randn(shape, requires_grad=True)).sum().backward()
    assert len(calls) == 1


@pytest.mark.parametrize("way", ["checkpointing", "tensors on the CPU"])
def test_what_autograd_computes_again_or_keeps_elsewhere_has_foresight_too(way):
    def run(call):
        model = deep_model()
        foresight(model, ahead=3.0, horizon=5)
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        torch.manual_seed(1)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(call(model, torch.randn(8, 4)), torch.randint(3, (8,))).backward()
            optimizer.step()
        return [*model.parameters()]

    def elsewhere(model, x):
        if way == "checkpointing":
            return checkpoint(model[2:], model[:2](x), use_reentrant=False)
        with torch.autograd.graph.save_on_cpu():
            return model(x)

    assert all(map(torch.equal, run(lambda model, x: model(x)), run(elsewhere)))


def test_weights_that_change_between_the_passes_are_refused():
    model = deep_model()
    handle = foresight(model)
    loss = loss_of(model, torch.randn(8, 4), torch.randint(3, (8,)))
    with torch.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match=r"has been modified by an inplace operation: .*\[6, 6\]"):
        loss.backward()
    trained(model, torch.optim.SGD(model.parameters(), 0.5))
    with torch.no_grad():  # by hand, after a step
        model[2].weight.mul_(2)
    expected = model[2].weight + handle.state_dict()["moves"]["2"]
    torch.testing.assert_close(handle.weights_to_come(model[2].weight), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_run_is_that_of_our_own_deep_learner(optimizer):
    network = cp.Network(5, (7, 6), 3, loss="softmax", bias=True)
    learner = cp.Foresight(network, 0.05, ahead=2.0, horizon=20.0, optimizer=optimizer)
    state = learner.init(jax.random.key(0))
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    for layer, weights in zip(model[::2], [*state.incoming, state.outgoing.T], strict=True):
        weights = torch.tensor(np.asarray(weights))
        layer.weight.data, layer.bias.data = weights[:-1].T.clone(), weights[-1].clone()
    foresight(model, ahead=2.0, horizon=20.0)
    theirs = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](model.parameters(), 0.05)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(100, 5)), random.integers(3, size=100)
    state, outcomes = cp.live(learner, state, jnp.asarray(x), y)
    losses = []
    for one_x, one_y in zip(torch.tensor(x), torch.tensor(y), strict=True):
        theirs.zero_grad()
        losses.append(nn.functional.cross_entropy(model(one_x), one_y))
        losses[-1].backward()
        theirs.step()
    np.testing.assert_allclose([loss.item() for loss in losses], outcomes.loss, rtol=1e-6)
    np.testing.assert_allclose(model[0].weight.detach().T, state.incoming[0][:-1], rtol=1e-6, atol=1e-9)


def test_layers_that_cannot_take_part_are_left_alone_and_listed():
    class Own(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(5, 4),
            "recurrent": nn.LSTM(4, 4),
            "attention": nn.MultiheadAttention(4, 2),
            "own": Own(4, 4),
            "circular": nn.Conv1d(4, 4, 3, padding_mode="circular"),
            "computed": nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            "norm": nn.LayerNorm(4),
            "head": nn.Linear(4, 2),
        }
    )
    handle = foresight(model)
    assert handle.layers == ("head",)
    assert {"embedding", "recurrent", "attention.out_proj", "own", "circular", "computed"} <= handle.skipped.keys()
    assert "norm" not in handle.skipped and "circular" in handle.skipped["circular"]


def deep_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))


def trained(model, optimizer, steps=3, seed=1):
    torch.manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, torch.randn(8, 4), torch.randint(3, (8,))).backward()
        optimizer.step()
    return [weight.detach().clone() for weight in model.parameters()]


def test_a_copied_network_has_a_foresight_of_its_own():
    model = deep_model()
    foresight(model, ahead=3.0, horizon=5)
    trained(model, torch.optim.SGD(model.parameters(), 0.5))
    other = copy.deepcopy(model)
    one = trained(model, torch.optim.SGD(model.parameters(), 0.5), seed=2)
    same = trained(other, torch.optim.SGD(other.parameters(), 0.5), seed=2)
    assert all(map(torch.equal, one, same))


def test_a_saved_foresight_goes_on_where_it_was():
    model = deep_model()
    handle = foresight(model, ahead=3.0, horizon=5)
    trained(model, torch.optim.SGD(model.parameters(), 0.5))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "foresight": handle.state_dict()}, file)
    file.seek(0)
    saved, other = torch.load(file), deep_model()
    resumed = foresight(other)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["foresight"])
    one = trained(model, torch.optim.SGD(model.parameters(), 0.5), seed=2)
    assert all(map(torch.equal, one, trained(other, torch.optim.SGD(other.parameters(), 0.5), seed=2)))


def test_steps_are_followed_in_every_group_and_not_while_gradients_add_up():
    model = deep_model()
    handle = foresight(model, horizon=1e9)
    head = [*model[4].parameters()]
    optimizer = torch.optim.SGD([{"params": [*model[:4].parameters()], "lr": 0.1}, {"params": head, "lr": 1.0}])
    start = {name: model.get_submodule(name).weight.detach().clone() for name in handle.layers}
    for _ in range(3):
        loss_of(model, torch.randn(8, 4), torch.randint(3, (8,))).backward()
    assert not any(moves.any() for moves in handle.state_dict()["moves"].values())
    optimizer.step()
    for name, moves in handle.state_dict()["moves"].items():
        assert moves.any()
        torch.testing.assert_close(moves, model.get_submodule(name).weight.detach() - start[name])


def test_tied_weights_have_one_memory_and_frozen_ones_none():
    model = deep_model()
    model[4] = nn.Linear(6, 6)
    model[4].weight = model[2].weight
    model[0].weight.requires_grad_(False)
    handle = foresight(model, ahead=2.0, horizon=5)
    optimizer = torch.optim.SGD([w for w in model.parameters() if w.requires_grad], 0.1)
    for _ in range(2):
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    moves = handle.state_dict()["moves"]
    assert torch.equal(moves["2"], moves["4"]) and moves["2"].any() and not moves["0"].any()


def test_half_precision_by_autocast_keeps_types():
    model = deep_model()
    foresight(model, ahead=2.0)
    x = torch.randn(8, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().sum()
    loss.backward()
    assert x.grad.dtype == torch.float32 and all(w.grad.dtype == torch.float32 for w in model.parameters())


def test_a_step_that_mixed_precision_skips_is_none():
    model = deep_model()
    handle = foresight(model, ahead=2.0, horizon=5)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=2.0)
    for factor in (1.0, float("inf"), 1.0):
        before = handle.state_dict()["moves"]["2"]
        optimizer.zero_grad()
        scaler.scale(factor * loss_of(model, torch.randn(8, 4), torch.randint(3, (8,)))).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(handle.state_dict()["moves"]["2"], before) == (factor == float("inf"))


@pytest.mark.long
def test_networks_of_the_comparison_are_plain_ones_with_foresight(monkeypatch):
    """`benchmarks/torch_worth.py` trains many networks side by side, with foresight in a form of its own."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    differences = importlib.import_module("torch_worth").check(steps=4)
    assert len(differences) == 6 and max(differences.values()) < 1e-10


COMPILED = """
import torch
from torch import nn
from crossprop.torch import foresight

def run(compiles):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    foresight(model, ahead=3.0, horizon=5)
    called = torch.compile(model, backend="aot_eager", fullgraph=True) if compiles else model
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(called(torch.randn(8, 1, 4)), torch.randint(3, (8,))).backward()
        optimizer.step()
    return [*model.parameters()]

assert all(map(torch.equal, run(False), run(True)))
"""


@pytest.mark.long
def test_a_compiled_network_has_foresight_too():
    """In a process of its own, without the checks of types around every function, which PyTorch cannot compile."""
    subprocess.run([sys.executable, "-c", COMPILED], check=True)


def test_double_backward_and_replicas_are_refused_by_name():
    model = deep_model()
    foresight(model)
    loss = loss_of(model, torch.randn(8, 4, requires_grad=True), torch.randint(3, (8,)))
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(loss, [*model.parameters()], create_graph=True)
    model[2]._is_replica = True
    with pytest.raises(RuntimeError, match="DataParallel"):
        model(torch.randn(8, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": 3}, TypeError, "model must be a torch.nn.Module, got 3"),
        ({"ahead": "far"}, TypeError, "ahead must be a number, got 'far'"),
        ({"ahead": float("inf")}, ValueError, "ahead must be a finite number, got inf"),
        ({"horizon": 0.5}, ValueError, "horizon must be a finite number, at least 1, got 0.5"),
        ({"layers": ["7"]}, ValueError, "layers must be names of layers of the model, such as .*, got '7'"),
        ({"layers": []}, ValueError, r"layers must name a layer, such as \['0', '2', '4'\], got none"),
        ({"layers": ["1"]}, ValueError, "layers: '1' cannot take part"),
        ({"model": nn.ReLU()}, ValueError, "model must have a linear or convolutional layer"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        foresight(**{"model": deep_model()} | arguments)


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_tracing_is_refused_by_name_and_without_gradients_gives_the_plain_network():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3)
    foresight(model)
    with pytest.raises(AttributeError, match=r"cannot be compiled by torch.jit.script.*: remove it first"):
        torch.jit.script(model)
    for trace in (torch.jit.trace, torch.export.export):
        with pytest.raises(RuntimeError, match=r"cannot be traced by torch.jit.trace or torch.export: remove"):
            trace(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.trace(model, (x,))(x), model(x))


def test_a_second_foresight_on_a_network_is_refused():
    model = deep_model()
    handle = foresight(model)
    with pytest.raises(ValueError, match="already has foresight"):
        foresight(model)
    assert repr(handle) == "<Foresight of 3 layers: ahead=1, horizon=1000>"
    with pytest.raises(
        ValueError, match=r"state must be what state_dict\(\) of a foresight gave, with 'ahead', got \['0"
    ):
        handle.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match=r"state must be what state_dict\(\) of a foresight gave, .*, got None"):
        inspect.unwrap(Foresight.load_state_dict)(handle, None)
    with pytest.raises(ValueError, match="horizon must be a finite number, at least 1, got 0"):
        handle.horizon = 0
    with pytest.raises(TypeError, match="ahead must be a number, got 'far'"):
        handle.ahead = "far"
    handle.remove()
    assert repr(handle) == "<Foresight of 3 layers: ahead=1, horizon=1000, removed>"
    assert foresight(model).layers == ("0", "2", "4")
