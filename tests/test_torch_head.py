"""`crossprop.torch.Crossprop`: the same runs as our own learners, alone and on top of layers that get its error."""

import copy
import os

import jax
import numpy as np
import pytest

if os.environ.get("CROSSPROP_REQUIRE_TORCH") != "1":
    pytest.importorskip("torch")
import torch
from torch import nn

import crossprop as cp
import reference
from crossprop.torch import Crossprop, foresight

pytestmark = pytest.mark.usefixtures("quick_compilation")
RULES = {
    "exact": (cp.Crossprop, {"eta": 0.3}),
    "projected": (cp.Crossprop, {"eta": 0.3, "projections": 2}),
    "approx": (cp.CrosspropApprox, {"eta": 0.3}),
}
LOSSES = {
    "squared": lambda outputs, y: 0.5 * (outputs - y).square().sum(),
    "softmax": lambda outputs, y: -(y * outputs.log_softmax(dim=-1)).sum(),
}


def examples(outputs, loss, count=60):
    random = np.random.default_rng(0)
    x = random.normal(size=(count, 5))
    y = (
        np.eye(outputs)[random.integers(outputs, size=count)]
        if loss == "softmax"
        else random.normal(size=(count, outputs))
    )
    return x, y


PARTS = ("incoming", "outgoing", "memory", "signs")


def as_torch(values):
    return torch.tensor(np.asarray(values))


def take_up(head, state):
    """Begins a head where a state of ours is."""
    parts = {name: values for name, values in zip(PARTS, of_top(state), strict=True) if values is not None}
    head.load_state_dict({name: as_torch(values) for name, values in parts.items()})


def of_top(state):
    """The top layer's part of a learner's state, as a head has it."""
    return [part[-1] if isinstance(part, list) else part for part in reference.parts(state)]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("loss", "activation", "bias"), [("softmax", "tanh", True), ("squared", "relu", False)])
def test_alone_it_is_our_own_learner(rule, loss, activation, bias):
    make, arguments = RULES[rule]
    learner = make(cp.Network(5, 7, 3, activation, loss, bias=bias), 0.02, incoming_step_size=0.05, **arguments)
    state = learner.init(jax.random.key(0))
    head = Crossprop(
        5,
        7,
        3,
        0.02,
        rule=rule,
        incoming_step_size=0.05,
        activation=activation,
        bias=bias,
        **{"projections": 1} | arguments,
    ).double()
    take_up(head, state)
    x, y = examples(3, loss)
    state, outcomes = cp.live(learner, state, x, y)
    for one_x, one_y, expected in zip(as_torch(x), as_torch(y), outcomes.outputs, strict=True):
        outputs = head(one_x)
        np.testing.assert_allclose(outputs.detach(), expected, rtol=1e-9, atol=1e-12)
        LOSSES[loss](outputs, one_y).backward()
    for own, ours in zip((head.incoming, head.outgoing, head.memory), of_top(state), strict=False):
        np.testing.assert_allclose(own.detach(), ours, rtol=1e-9, atol=1e-12)
    assert head.memory.abs().max() > 1e-3


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rule", RULES)
def test_on_top_of_a_layer_it_is_our_own_deep_learner(rule):
    """The layer below gets backprop's error, and its optimizer leaves the head alone."""
    make, arguments = RULES[rule]
    learner = make(cp.Network(5, (6, 7), 3, loss="softmax", bias=True), 0.05, **arguments)
    state = learner.init(jax.random.key(0))
    head = Crossprop(6, 7, 3, 0.05, rule=rule, **{"projections": 1} | arguments).double()
    take_up(head, state)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), head).double()
    below = as_torch(state.incoming[0])
    model[0].weight.data, model[0].bias.data = below[:-1].T.clone(), below[-1].clone()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, weight_decay=0.0)
    x, y = examples(3, "softmax")
    state, _ = cp.live(learner, state, x, y)
    for one_x, one_y in zip(as_torch(x), as_torch(y), strict=True):
        optimizer.zero_grad()
        LOSSES["softmax"](model(one_x[None]), one_y[None]).backward()
        optimizer.step()
    np.testing.assert_allclose(model[0].weight.detach().T, state.incoming[0][:-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(head.incoming.detach(), state.incoming[1], rtol=1e-9, atol=1e-12)
    assert all(weight.grad is None for weight in head.parameters())


def test_the_error_that_it_passes_down_is_by_hand_and_from_before_its_step():
    torch.manual_seed(0)
    head = Crossprop(4, 6, 3, 0.5).double()
    x, error = torch.randn(4, dtype=torch.double, requires_grad=True), torch.randn(3, dtype=torch.double)
    incoming, outgoing = head.incoming.detach().clone(), head.outgoing.detach().clone()
    head(x).backward(error)
    phi = torch.tanh(x.detach() @ incoming[:4] + incoming[4])
    by_hand = incoming[:4] @ ((outgoing[:6] @ error) * (1 - phi**2))
    torch.testing.assert_close(x.grad, by_hand, rtol=1e-12, atol=1e-14)
    assert not torch.equal(head.outgoing, outgoing)


def test_it_learns_in_training_only_and_then_one_example_at_a_time():
    head = Crossprop(4, 6, 3, 0.1).eval()
    before = copy.deepcopy(head.state_dict())
    x = torch.randn(5, 4, requires_grad=True)
    head(x).sum().backward()
    assert x.grad.abs().sum() > 0 and all(torch.equal(before[name], now) for name, now in head.state_dict().items())
    head.train()
    with torch.no_grad():
        assert head(x).shape == (5, 3)
    with pytest.raises(ValueError, match=r"one example at a time: x must have shape \(4,\) or \(1, 4\), got \(5, 4\)"):
        head(x)
    with pytest.raises(ValueError, match=r"x must have shape \(..., 4\), got \(3,\)"):
        head(torch.randn(3))


def test_a_second_backward_pass_and_double_backward_are_refused():
    head = Crossprop(4, 6, 3, 0.1)
    loss = head(torch.randn(4)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="learns once from a forward pass"):
        loss.backward()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(head(torch.randn(4, requires_grad=True)).sum(), [*head.parameters()], create_graph=True)


def test_half_precision_by_autocast_keeps_types():
    head = Crossprop(4, 6, 3, 0.1, rule="projected")
    x = torch.randn(4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = head(x).float().square().sum()
    loss.backward()
    assert x.grad.dtype == head.incoming.dtype == head.memory.dtype == torch.float32 and head.memory.abs().sum() > 0


def test_foresight_leaves_it_alone_and_says_so():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Crossprop(4, 6, 3, 0.1))
    assert foresight(model).skipped == {"2": "Crossprop is not a layer that foresight knows"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"step_size": -1.0}, "step_size must be a finite number above 0, got -1.0"),
        ({"rule": "exakt"}, "rule must be one of .* got 'exakt'; did you mean 'exact'"),
        ({"eta": 2}, "eta must be between 0 and 1, got 2"),
        ({"activation": "gelu"}, "activation must be one of .*, got 'gelu'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Crossprop(**{"inputs": 4, "hidden": 6, "outputs": 3, "step_size": 0.1} | arguments)
