"""The same runs in plain JAX, NumPy, PyTorch and alberta-framework, as one would write them without this package.

`against_others.py` times them.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crossprop.costs import numbers_in_state
from crossprop.learners import Backprop, CreditRule, Crossprop, CrosspropApprox, Learner, State

RECORD_EVERY = 50
"""Steps per record in every timing."""


class Records(NamedTuple):
    """What a peer returns: arrays of shape `(runs, windows)`; the drifts are None if it does not compute them."""

    loss: Any
    incoming_drift: Any = None
    outgoing_drift: Any = None


class Peer(NamedTuple):
    """Another implementation, and the largest part of a case that is timed.

    `run(learner, initial, x, y)` gets the initial states with a leading axis over runs, `x (runs, steps, inputs)` and
    `y (runs, steps, outputs)`, and returns the records of every window of `RECORD_EVERY` steps. It raises a ValueError
    that gives the reason if it cannot run the learner.
    """

    run: Callable[[Learner, State, np.ndarray, np.ndarray], Records]
    runs: float = math.inf
    steps: float = math.inf
    updates: float = math.inf
    """Numbers in a run's state x runs x steps."""

    def part(self, runs: int, steps: int, learner: Learner) -> tuple[int, int]:
        """How many runs and steps of a case are timed."""
        runs = int(min(runs, self.runs))
        affordable = max(2 * RECORD_EVERY, self.updates / runs / numbers_in_state(learner))
        return runs, int(min(steps, self.steps, affordable)) // RECORD_EVERY * RECORD_EVERY


def plain_jax(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """`jax.vmap` over runs of `lax.scan` over examples, for any learner."""
    return jax.device_get(_vmap_of_scan(learner, initial, x, y))


@jax.jit
def _vmap_of_scan(learner: Learner, initial: State, x: jax.Array, y: jax.Array) -> Records:
    def one_run(initial: State, x: jax.Array, y: jax.Array) -> Records:
        def example(state: State, xy: Any) -> Any:
            state, outcome = learner.update(state, *xy)
            return state, outcome.loss

        def window(state: State, xy: Any) -> Any:
            state, loss = lax.scan(example, state, xy)
            moved = (jnp.linalg.norm(now - learner.weights(initial)[at]) for at, now in learner.weights(state).items())
            return state, Records(jnp.mean(loss), *moved)

        windows = tuple(each.reshape(-1, RECORD_EVERY, each.shape[-1]) for each in (x, y))
        return lax.scan(window, initial, windows)[1]

    return jax.vmap(one_run)(initial, x, y)


def numpy_in_place(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """A NumPy loop over runs and examples that works in place: three rules with sgd.

    No array is allocated within the loop. One thread, because a step is too small to share; PyTorch the same.
    """
    from threadpoolctl import threadpool_limits

    rule = _supported(learner)
    measure = _squared_error if learner.network.loss == "squared" else _cross_entropy
    runs = zip(*_weights(initial), x, y, strict=True)
    with threadpool_limits(1):
        return _stack(NUMPY[type(rule)](*run, np.float32(rule.step_size), measure) for run in runs)


ONE = np.float32(1)
"""A Python number would be converted in a buffer at every use."""


class _Forward:
    """The forward pass of one run, into buffers: `phi`, `phi_squared`, `slope`, `delta`."""

    def __init__(self, u, w, measure):
        self.u, self.w, self.measure = u, w, measure
        self.phi, self.phi_squared, self.slope = (np.empty(u.shape[1], u.dtype) for _ in range(3))
        self.outputs, self.delta = (np.empty(w.shape[1], w.dtype) for _ in range(2))

    def __call__(self, inputs, target):
        """Fills the buffers and returns the loss."""
        np.tanh(np.dot(inputs, self.u, out=self.phi), out=self.phi)
        np.multiply(self.phi, self.phi, out=self.phi_squared)
        np.subtract(ONE, self.phi_squared, out=self.slope)
        np.dot(self.phi, self.w, out=self.outputs)
        return self.measure(self.outputs, target, self.delta)


def _squared_error(outputs, target, delta):
    np.subtract(target, outputs, out=delta)
    return delta @ delta


def _cross_entropy(outputs, target, delta):
    np.subtract(outputs, outputs.max(), out=outputs)
    np.exp(outputs, out=delta)
    total = delta.sum()
    np.divide(delta, total, out=delta)
    np.subtract(target, delta, out=delta)
    return np.log(total) - outputs @ target


def _block_of_rows(weights):
    """A buffer for as many rows of the weights as stay in a core's cache."""
    return np.empty((min(len(weights), max(1, 2**16 // weights.shape[1])), weights.shape[1]), weights.dtype)


def _add_outer(weights, column, row, buffer):
    """`weights += outer(column, row)` in blocks of rows; `np.dot` is the faster product for a single small block."""
    rows = len(buffer)
    product = np.dot if rows == len(weights) else np.multiply
    for start in range(0, len(weights), rows):
        part = weights[start : start + rows]
        step = product(column[start : start + rows, None], row[None, :], out=buffer[: len(part)])
        np.add(part, step, out=part)


def _numpy_crossprop(u, w, x, y, step_size, measure) -> Records:
    forward, recorder = _Forward(u, w, measure), _Recorder(u, w)
    memory = [np.zeros_like(u) for _ in range(w.shape[1])]
    whole_u, row, keep = np.empty_like(u), np.empty_like(u[0]), np.empty_like(u[0])
    buffer_u, buffer_w = _block_of_rows(u), _block_of_rows(w)
    phi, slope, delta = forward.phi, forward.slope, forward.delta
    for inputs, target in zip(x, y, strict=True):
        loss = forward(inputs, target)
        np.multiply(forward.phi_squared, -step_size, out=keep)
        np.add(keep, ONE, out=keep)
        np.multiply(delta, step_size, out=delta)
        for h, step in zip(memory, delta, strict=True):
            np.multiply(phi, step, out=row)
            np.multiply(h, row, out=whole_u)
            np.add(u, whole_u, out=u)
            np.multiply(h, keep, out=h)
            np.multiply(slope, step, out=row)
            _add_outer(h, inputs, row, buffer_u)
        _add_outer(w, phi, delta, buffer_w)
        recorder.add(loss)
    return recorder.records()


def _numpy_approx(u, w, x, y, step_size, measure) -> Records:
    forward, recorder = _Forward(u, w, measure), _Recorder(u, w)
    memory = np.zeros_like(w)
    buffer_u, buffer_w, row = _block_of_rows(u), _block_of_rows(w), np.empty_like(u[0])
    phi, delta, keep = forward.phi, forward.delta, forward.phi_squared
    for inputs, target in zip(x, y, strict=True):
        loss = forward(inputs, target)
        np.multiply(delta, step_size, out=delta)
        np.dot(memory, delta, out=row)
        np.multiply(row, phi, out=row)
        np.multiply(row, forward.slope, out=row)
        _add_outer(u, inputs, row, buffer_u)
        np.multiply(keep, -step_size, out=keep)
        np.add(keep, ONE, out=keep)
        np.multiply(memory, keep[:, None], out=memory)
        np.add(memory, delta, out=memory)
        _add_outer(w, phi, delta, buffer_w)
        recorder.add(loss)
    return recorder.records()


def _numpy_backprop(u, w, x, y, step_size, measure) -> Records:
    forward, recorder = _Forward(u, w, measure), _Recorder(u, w)
    buffer_u, buffer_w, row = _block_of_rows(u), _block_of_rows(w), np.empty_like(u[0])
    delta = forward.delta
    for inputs, target in zip(x, y, strict=True):
        loss = forward(inputs, target)
        np.multiply(delta, step_size, out=delta)
        np.dot(w, delta, out=row)
        np.multiply(row, forward.slope, out=row)
        _add_outer(u, inputs, row, buffer_u)
        _add_outer(w, forward.phi, delta, buffer_w)
        recorder.add(loss)
    return recorder.records()


NUMPY: dict[type, Callable[..., Records]] = {
    Crossprop: _numpy_crossprop,
    CrosspropApprox: _numpy_approx,
    Backprop: _numpy_backprop,
}


class _Recorder:
    """Records the mean loss of every window, and the drift of the weights at its end."""

    def __init__(self, *weights):
        self.weights, self.initial = weights, [np.copy(each) for each in weights]
        self.buffers = [np.empty_like(each) for each in weights]
        self.steps, self.loss, self.windows = 0, 0.0, []

    def add(self, loss) -> None:
        self.steps += 1
        self.loss += loss
        if self.steps % RECORD_EVERY == 0:
            self.windows.append((self.loss / RECORD_EVERY, *self._drifts()))
            self.loss = 0.0

    def _drifts(self):
        for now, before, moved in zip(self.weights, self.initial, self.buffers, strict=True):
            np.subtract(now, before, out=moved)
            yield np.sqrt(np.vdot(moved, moved))

    def records(self) -> Records:
        return Records(*np.array(self.windows).T)


def pytorch_eager(learner: Learner, initial: State, x: np.ndarray, y: np.ndarray) -> Records:
    """Eager PyTorch: autograd and `torch.optim.SGD` for backprop, tensor operations for crossprop."""
    torch = _import("torch")
    rule = _supported(learner)
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    softmax, step_size = learner.network.loss == "softmax", float(rule.step_size)
    runs = zip(*(torch.tensor(each, device=device) for each in (*_weights(initial), x, y)), strict=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _stack(TORCH[type(learner)](torch, *run, step_size, softmax) for run in runs)
    finally:
        torch.set_num_threads(threads)


def _torch_crossprop(torch, u, w, x, y, step_size, softmax) -> Records:
    memory = torch.zeros((w.shape[1], *u.shape), device=u.device)
    recorder = _TorchRecorder(torch, u, w)
    with torch.no_grad():
        for inputs, target in zip(x, y, strict=True):
            phi = torch.tanh(inputs @ u)
            loss, delta = _torch_error(torch, phi @ w, target, softmax)
            slope = 1 - phi**2
            u += step_size * torch.sum(memory * (delta[:, None] * phi)[:, None, :], 0)
            memory *= 1 - step_size * phi**2
            memory += step_size * inputs[:, None] * (delta[:, None] * slope)[:, None, :]
            w += step_size * torch.outer(phi, delta)
            recorder.add(loss)
    return recorder.records()


def _torch_approx(torch, u, w, x, y, step_size, softmax) -> Records:
    memory = torch.zeros_like(w)
    recorder = _TorchRecorder(torch, u, w)
    with torch.no_grad():
        for inputs, target in zip(x, y, strict=True):
            phi = torch.tanh(inputs @ u)
            loss, delta = _torch_error(torch, phi @ w, target, softmax)
            u += torch.outer(inputs, step_size * (memory @ delta) * phi * (1 - phi**2))
            memory *= 1 - step_size * phi[:, None] ** 2
            memory += step_size * delta
            w += step_size * torch.outer(phi, delta)
            recorder.add(loss)
    return recorder.records()


def _torch_backprop(torch, u, w, x, y, step_size, softmax) -> Records:
    recorder = _TorchRecorder(torch, u, w)
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
        recorder.add(loss.detach())
    return recorder.records()


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


class _TorchRecorder:
    """As `_Recorder`; the records stay on the device of the weights until the run is over."""

    def __init__(self, torch, *weights):
        self.torch, self.weights, self.initial = torch, weights, [each.clone() for each in weights]
        self.steps, self.loss, self.windows = 0, 0.0, []

    def add(self, loss) -> None:
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
    """alberta-framework's batched loop for a multilayer perceptron with its LMS optimizer, jitted as a whole.

    Its network has ReLU, biases and initial weights of its own; it records the loss and no drift.
    """
    if not isinstance(learner, Backprop) or learner.optimizer != "sgd" or learner.network.outputs != 1:
        raise ValueError("timed for backprop with sgd and one output only")
    keys = jax.random.split(jax.random.key(0), len(x))
    loss = jax.device_get(_alberta(learner.network.units, float(learner.step_size))(keys, x, y))
    return Records(loss.reshape(len(x), -1, RECORD_EVERY).mean(axis=-1))


@cache
def _alberta(hidden: int, step_size: float):
    alberta = _import("alberta_framework")
    plain = {"use_layer_norm": False, "leaky_relu_slope": 0.0, "sparsity": 0.0}
    network = alberta.MLPLearner((hidden,), alberta.LMS(step_size), **plain)

    @jax.jit
    def run(keys, x, y):
        stream = _AlbertaStream(alberta.TimeStep, x, y)
        return alberta.run_mlp_learning_loop_batched(network, stream, x.shape[1], keys).metrics[..., 0]

    return run


class _AlbertaStream(NamedTuple):
    """The examples as a stream of alberta-framework; each of its runs reads those of one run, drawn at random."""

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


ON_GPU = jax.default_backend() == "gpu"
PEERS = {
    "plain jax": Peer(plain_jax, steps=2000 if ON_GPU else 5000, updates=1e11 if ON_GPU else 2e9),
    "numpy": Peer(numpy_in_place, 1, 2000, 5e8),
    "pytorch": Peer(pytorch_eager, 1, 500, 5e8),
    "alberta": Peer(alberta_batched, steps=2000, updates=1e11 if ON_GPU else 2e9),
}


def _import(package: str) -> ModuleType:
    if find_spec(package) is None:
        raise ValueError(f"{package} is not installed")
    return import_module(package)


def _supported(learner: Learner) -> CreditRule:
    network = learner.network
    plain = network.activation == "tanh" and not network.bias and not getattr(learner, "eta", 0)
    plain = plain and getattr(learner, "projections", None) is None
    if not isinstance(learner, CreditRule) or type(learner) not in NUMPY or learner.optimizer != "sgd" or not plain:
        raise ValueError("written for crossprop, crossprop-approx and backprop with sgd, tanh, eta 0 and no bias")
    return learner


def _weights(initial: State) -> tuple[np.ndarray, np.ndarray]:
    """Copies of U and W with a leading axis over runs, to change in place."""
    return np.array(initial.incoming[0], order="C"), np.array(np.swapaxes(initial.outgoing, 1, 2), order="C")


def _stack(runs: Iterator[Records]) -> Records:
    return Records(*map(np.stack, zip(*runs, strict=True)))
