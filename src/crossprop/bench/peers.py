"""The peers: the same runs as someone would write them without this package, each in a function of its own.

A peer gets a learner, its initial states (a leading axis over runs) and the examples `x (runs, steps, inputs)` and
`y (runs, steps, outputs)`, and gives the records of every window of `RECORD_EVERY` steps.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.learners import Backprop, Crossprop, CrosspropApprox, Learner, State

RECORD_EVERY = 50


class Records(NamedTuple):
    """Numbers by run and window; a peer that keeps no drift has None there."""

    loss: Any
    incoming_drift: Any = None
    outgoing_drift: Any = None


Peer = Callable[[Learner, State, np.ndarray, np.ndarray], Records]


def plain_jax(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """`jax.vmap` over the runs of a `lax.scan` over the examples: any learner."""
    return jax.device_get(_vmapped(learner, initial, x, y))


@jax.jit
def _vmapped(learner: Learner, initial: State, x: jax.Array, y: jax.Array) -> Records:
    def live(initial: State, x: jax.Array, y: jax.Array) -> Records:
        def example(state, xy):
            state, outcome = learner.update(state, *xy)
            return state, outcome.loss

        def window(state, xy):
            state, loss = lax.scan(example, state, xy)
            moved = (state.incoming - initial.incoming, state.outgoing - initial.outgoing)
            return state, Records(jnp.mean(loss), *map(jnp.linalg.norm, moved))

        windows = tuple(each.reshape(-1, RECORD_EVERY, each.shape[-1]) for each in (x, y))
        return lax.scan(window, initial, windows)[1]

    return jax.vmap(live)(initial, x, y)


def numpy_loop(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """A loop over runs and examples in NumPy, weights changed in place: three rules with sgd.

    On one thread, as PyTorch below: a step is too small to share.
    """
    from threadpoolctl import threadpool_limits

    _check_plain(learner)
    error = _numpy_squared if learner.network.loss == "squared" else _numpy_softmax
    runs = zip(*_copies(initial), x, y, strict=True)
    with threadpool_limits(1):
        return _stack(NUMPY[type(learner)](*run, float(learner.step_size), error) for run in runs)


def _numpy_crossprop(u, w, x, y, step_size, error) -> Records:
    memory = np.zeros((w.shape[1], *u.shape), u.dtype)
    keep = _Keep(u, w)
    for inputs, target in zip(x, y, strict=True):
        phi = np.tanh(inputs @ u)
        loss, delta = error(phi @ w, target)
        slope = 1 - phi**2
        for h, d in zip(memory, delta, strict=True):
            u += h * (step_size * d * phi)
        memory *= 1 - step_size * phi**2
        for h, d in zip(memory, delta, strict=True):
            h += np.outer(inputs, step_size * d * slope)
        w += step_size * np.outer(phi, delta)
        keep(loss)
    return keep.records()


def _numpy_approx(u, w, x, y, step_size, error) -> Records:
    memory = np.zeros_like(w)
    keep = _Keep(u, w)
    for inputs, target in zip(x, y, strict=True):
        phi = np.tanh(inputs @ u)
        loss, delta = error(phi @ w, target)
        u += np.outer(inputs, step_size * (memory @ delta) * phi * (1 - phi**2))
        memory *= 1 - step_size * phi[:, None] ** 2
        memory += step_size * delta
        w += step_size * np.outer(phi, delta)
        keep(loss)
    return keep.records()


def _numpy_backprop(u, w, x, y, step_size, error) -> Records:
    keep = _Keep(u, w)
    for inputs, target in zip(x, y, strict=True):
        phi = np.tanh(inputs @ u)
        loss, delta = error(phi @ w, target)
        u += np.outer(inputs, step_size * (w @ delta) * (1 - phi**2))
        w += step_size * np.outer(phi, delta)
        keep(loss)
    return keep.records()


NUMPY: dict[type, Callable[..., Records]] = {
    Crossprop: _numpy_crossprop,
    CrosspropApprox: _numpy_approx,
    Backprop: _numpy_backprop,
}


def _numpy_squared(outputs, target):
    delta = target - outputs
    return delta @ delta, delta


def _numpy_softmax(outputs, target):
    exponents = outputs - outputs.max()
    powers = np.exp(exponents)
    return np.log(powers.sum()) - exponents @ target, target - powers / powers.sum()


class _Keep:
    """Keeps the mean loss of every window, and how far the weights have moved at its end."""

    def __init__(self, *weights):
        self.weights, self.initial = weights, [np.copy(each) for each in weights]
        self.steps, self.loss, self.windows = 0, 0.0, []

    def __call__(self, loss) -> None:
        self.steps += 1
        self.loss += loss
        if self.steps % RECORD_EVERY == 0:
            moved = (np.linalg.norm(now - before) for now, before in zip(self.weights, self.initial, strict=True))
            self.windows.append((self.loss / RECORD_EVERY, *moved))
            self.loss = 0.0

    def records(self) -> Records:
        return Records(*np.array(self.windows).T)


def pytorch_eager(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """PyTorch, one operation after another: autograd and `torch.optim.SGD` for backprop, tensors for crossprop."""
    torch = import_module("torch")
    _check_plain(learner)
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    softmax, step_size = learner.network.loss == "softmax", float(learner.step_size)
    runs = zip(*(torch.tensor(each, device=device) for each in (*_copies(initial), x, y)), strict=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _stack(TORCH[type(learner)](torch, *run, step_size, softmax) for run in runs)
    finally:
        torch.set_num_threads(threads)


def _torch_crossprop(torch, u, w, x, y, step_size, softmax) -> Records:
    memory = torch.zeros((w.shape[1], *u.shape), device=u.device)
    keep = _TorchKeep(torch, u, w)
    with torch.no_grad():
        for inputs, target in zip(x, y, strict=True):
            phi = torch.tanh(inputs @ u)
            loss, delta = _torch_error(torch, phi @ w, target, softmax)
            slope = 1 - phi**2
            u += step_size * torch.sum(memory * (delta[:, None] * phi)[:, None, :], 0)
            memory *= 1 - step_size * phi**2
            memory += step_size * inputs[:, None] * (delta[:, None] * slope)[:, None, :]
            w += step_size * torch.outer(phi, delta)
            keep(loss)
    return keep.records()


def _torch_approx(torch, u, w, x, y, step_size, softmax) -> Records:
    memory = torch.zeros_like(w)
    keep = _TorchKeep(torch, u, w)
    with torch.no_grad():
        for inputs, target in zip(x, y, strict=True):
            phi = torch.tanh(inputs @ u)
            loss, delta = _torch_error(torch, phi @ w, target, softmax)
            u += torch.outer(inputs, step_size * (memory @ delta) * phi * (1 - phi**2))
            memory *= 1 - step_size * phi[:, None] ** 2
            memory += step_size * delta
            w += step_size * torch.outer(phi, delta)
            keep(loss)
    return keep.records()


def _torch_backprop(torch, u, w, x, y, step_size, softmax) -> Records:
    keep = _TorchKeep(torch, u, w)
    weights = [each.requires_grad_() for each in (u, w)]
    optimizer = torch.optim.SGD(weights, lr=step_size)
    for inputs, target in zip(x, y, strict=True):
        optimizer.zero_grad()
        outputs = torch.tanh(inputs @ u) @ w
        if softmax:
            loss = descended = torch.nn.functional.cross_entropy(outputs, target)
        else:
            loss = torch.sum((target - outputs) ** 2)
            descended = loss / 2
        descended.backward()
        optimizer.step()
        keep(loss.detach())
    return keep.records()


TORCH: dict[type, Callable[..., Records]] = {
    Crossprop: _torch_crossprop,
    CrosspropApprox: _torch_approx,
    Backprop: _torch_backprop,
}


def _torch_error(torch, outputs, target, softmax):
    if softmax:
        return torch.nn.functional.cross_entropy(outputs, target), target - torch.softmax(outputs, 0)
    delta = target - outputs
    return delta @ delta, delta


class _TorchKeep:
    """As `_Keep`; the numbers stay where the weights are until the run is over."""

    def __init__(self, torch, *weights):
        self.torch, self.weights, self.initial = torch, weights, [each.clone() for each in weights]
        self.steps, self.loss, self.windows = 0, 0.0, []

    def __call__(self, loss) -> None:
        self.steps += 1
        self.loss += loss
        if self.steps % RECORD_EVERY == 0:
            with self.torch.no_grad():
                pairs = zip(self.weights, self.initial, strict=True)
                moved = [self.torch.linalg.norm(now - before) for now, before in pairs]
            self.windows.append(self.torch.stack([self.loss / RECORD_EVERY, *moved]))
            self.loss = 0.0

    def records(self) -> Records:
        return Records(*self.torch.stack(self.windows).cpu().numpy().T)


def alberta_batched(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """alberta-framework's batched loop for a perceptron with its LMS, compiled whole, which it leaves to its user.

    Its network has ReLU, biases and initial weights of its own; it keeps the loss and no drift.
    """
    if not isinstance(learner, Backprop) or learner.optimizer != "sgd" or learner.network.outputs != 1:
        raise ValueError("alberta-framework learns by backprop with sgd and one output")
    keys = jax.random.split(jax.random.key(0), len(x))
    loss = jax.device_get(_alberta(learner.network.hidden, float(learner.step_size))(keys, x, y))
    return Records(loss.reshape(len(x), -1, RECORD_EVERY).mean(axis=-1))


@cache
def _alberta(hidden: int, step_size: float):
    alberta = import_module("alberta_framework")
    plain = {"use_layer_norm": False, "leaky_relu_slope": 0.0, "sparsity": 0.0}
    network = alberta.MLPLearner((hidden,), alberta.LMS(step_size), **plain)

    @jax.jit
    def live(keys, x, y):
        stream = _AlbertaStream(alberta.TimeStep, x, y)
        return alberta.run_mlp_learning_loop_batched(network, stream, x.shape[1], keys).metrics[..., 0]

    return live


class _AlbertaStream(NamedTuple):
    """The examples in the form that alberta-framework reads: each of its runs is dealt one of the lives."""

    time_step: Callable[..., Any]
    x: jax.Array
    y: jax.Array

    @property
    def feature_dim(self) -> int:
        return self.x.shape[-1]

    def init(self, key):
        return jax.random.randint(key, (), 0, len(self.x))

    def step(self, state, idx):
        return self.time_step(observation=self.x[state, idx], target=self.y[state, idx]), state


PEERS: dict[str, Peer] = {
    "plain jax": plain_jax,
    "numpy": numpy_loop,
    "pytorch": pytorch_eager,
    "alberta": alberta_batched,
}


def missing(peer: str) -> str | None:
    """Why a peer cannot be timed here, or None."""
    package = {"pytorch": "torch", "alberta": "alberta_framework"}.get(peer)
    return f"{package} is not installed" if package and find_spec(package) is None else None


def _check_plain(learner: Learner) -> None:
    network = learner.network
    plain = type(learner) in NUMPY and learner.optimizer == "sgd"
    plain = plain and network.activation == "tanh" and not network.bias
    plain = plain and not getattr(learner, "eta", 0) and getattr(learner, "projections", None) is None
    if not plain:
        raise ValueError("written for crossprop, crossprop-approx and backprop with sgd, tanh, eta 0 and no bias")


def _copies(initial: State) -> tuple[np.ndarray, np.ndarray]:
    return np.array(initial.incoming, order="C"), np.array(initial.outgoing, order="C")


def _stack(runs: Iterator[Records]) -> Records:
    return Records(*map(np.stack, zip(*runs, strict=True)))
