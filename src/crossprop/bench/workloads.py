"""The workloads of `crossprop bench`: learners, streams and sizes to time."""

# pyright: reportIncompatibleVariableOverride=false
# (sources and streams narrow the types of attributes that never change)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop.bench.peers import PLAIN_JAX, RECORD_EVERY, Peer
from crossprop.datasets import DataSet
from crossprop.execution import keys
from crossprop.learners import LEARNERS, Learner
from crossprop.network import Network
from crossprop.optimizers.base import OPTIMIZERS
from crossprop.streams import Geoff, LabelShift
from crossprop.streams.base import Pool, PoolStream

MAX_STEPS = 180_000
"""Steps of the longest run: MNIST's three tasks of 60,000 examples."""
SEEDS = 32
"""A larger number of runs is made of this many seeds and several step sizes, as in a sweep."""
STEP_SIZE = 5e-4
RULES = ("crossprop", "crossprop-approx", "crossprop-sum", "backprop", "frozen")
MNIST_TASKS = ("crossprop-approx", "crossprop-approx-0.5", "backprop", "momentum", "rmsprop", "adam", "frozen")
FIGURE_1A = ("crossprop", "crossprop-0.5", *MNIST_TASKS)


class CachedStream(PoolStream):
    """The first `steps` examples of a stream, made once per seed, so that making examples is not timed."""

    steps: int

    def __init__(self, stream: PoolStream, steps: int):
        self.stream, self.steps = stream, steps
        self.inputs, self.outputs, self.one_hot = stream.inputs, stream.outputs, stream.one_hot
        self.made: dict[Any, Pool | None] = {}

    def __repr__(self) -> str:
        return f"CachedStream({self.stream!r}, {self.steps})"

    def task(self, steps: np.ndarray) -> np.ndarray:
        return self.stream.task(steps)

    def pool(self, key: Any) -> Pool:
        return self._once(self.stream.pool, key)

    def pools(self, keys: Any) -> Pool | None:
        return self._once(self.stream.pools, keys)

    def _once(self, make: Callable[[Any], Any], key: Any) -> Any:
        name = key.shape, np.asarray(jax.random.key_data(key)).tobytes()
        if name not in self.made:
            self.made[name] = make(key)
        return self.made[name]

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        return self.stream.rows(index, steps)

    def examples(self, runs: int) -> tuple[np.ndarray, np.ndarray]:
        """`x (runs, steps, inputs)` and `y (runs, steps, outputs)` of the first `SEEDS` seeds, over and over."""
        samples = [self.sample(keys(run % SEEDS)[0]) for run in range(runs)]
        return np.stack([each.x for each in samples]), np.stack([each.y for each in samples])

    def shortened(self, steps: int) -> "CachedStream":
        return self if steps >= self.steps else CachedStream(self, steps)


@dataclass(frozen=True, eq=False)
class Case:
    """Learners to time on a stream with the seeds 0, 1, 2 ..., and the other implementations to time beside them."""

    name: str
    learners: dict[str, Learner]
    stream: CachedStream
    runs: int
    peers: Mapping[str, Peer]

    @property
    def network(self) -> Network:
        return next(iter(self.learners.values())).network

    @property
    def size(self) -> str:
        return f"{self.network.inputs}-{self.network.hidden}-{self.network.outputs}"


class Scale(NamedTuple):
    """How large to make a workload: for `--quick`, for the device, and with the steps that the user gave."""

    quick: bool
    gpu: bool
    steps: int | None

    def runs(self, full: int) -> int:
        return min(full, 2) if self.quick else full

    def hidden(self, full: int) -> int:
        return 8 if self.quick else full

    def run_length(self, cpu: int, gpu: int | None = None) -> int:
        """The user's number of steps, or one that suits the device."""
        return self.steps or (2 * RECORD_EVERY if self.quick else gpu if gpu and self.gpu else cpu)


@dataclass(frozen=True)
class Workload:
    """Cases to time, and the engines to time by default; None means all of them."""

    title: str
    cases: Callable[[Scale], list[Case]]
    engines: tuple[str, ...] | None = None


def _geoff(runs: int, cpu_steps: int) -> Callable[[Scale], list[Case]]:
    def cases(scale: Scale) -> list[Case]:
        stream = _geoff_stream(scale.run_length(cpu_steps, 30_000))
        return [_geoff_case(name, scale, runs, stream) for name in ("crossprop", "backprop")]

    return cases


def _mnist(scale: Scale) -> list[Case]:
    return [
        _mnist_case("crossprop-approx", scale, 10_000, 20_000),
        _mnist_case("backprop", scale, 10_000, 20_000),
        _mnist_case("crossprop-projected", scale, 4000, 20_000),
        _mnist_case("crossprop", scale, 2000, 5000),
    ]


def _rules(scale: Scale) -> list[Case]:
    network, stream = Network(20, scale.hidden(500)), _geoff_stream(scale.run_length(1000, 30_000))
    pairs = [("crossprop", "adam")] if scale.quick else product(RULES, OPTIMIZERS)
    return [
        Case(f"{rule}, {optimizer}", {rule: learner}, stream, scale.runs(1056), PLAIN_JAX)
        for rule, optimizer in pairs
        for learner in [LEARNERS[rule](network, STEP_SIZE, optimizer=optimizer)]
    ]


def _figure_1a(scale: Scale) -> list[Case]:
    network, stream = Network(20, scale.hidden(500)), _geoff_stream(scale.run_length(30_000))
    return [_in_one_call(FIGURE_1A, network, stream, scale, runs=30)]


def _mnist_tasks(scale: Scale) -> list[Case]:
    network, stream = _mnist_network(scale), _mnist_stream(scale, scale.run_length(MAX_STEPS))
    return [_in_one_call(MNIST_TASKS, network, stream, scale, runs=1)]


WORKLOADS = {
    "geoff-30": Workload("GEOFF, 30 runs", _geoff(30, 15_000)),
    "geoff-1056": Workload("GEOFF, 1056 runs", _geoff(1056, 1000)),
    "mnist": Workload("MNIST-shaped, one run", _mnist),
    "rules": Workload("every rule and optimizer, GEOFF, 1056 runs", _rules, ("kernel",)),
    "figure-1a": Workload("figure 1a, nine learners in one call", _figure_1a, ("auto",)),
    "mnist-tasks": Workload("MNIST-shaped, three tasks of 60,000, seven learners in one call", _mnist_tasks, ("auto",)),
}


def _geoff_case(name: str, scale: Scale, runs: int, stream: CachedStream) -> Case:
    learner = LEARNERS[name](Network(20, scale.hidden(500)), STEP_SIZE)
    return Case(name, {name: learner}, stream, scale.runs(runs), PLAIN_JAX)


def _mnist_case(name: str, scale: Scale, cpu: int, gpu: int) -> Case:
    learner = LEARNERS[name](_mnist_network(scale), STEP_SIZE)
    return Case(name, {name: learner}, _mnist_stream(scale, scale.run_length(cpu, gpu)), 1, PLAIN_JAX)


def _in_one_call(names: Sequence[str], network: Network, stream: CachedStream, scale: Scale, runs: int) -> Case:
    learners = {name: LEARNERS[name](network, STEP_SIZE) for name in (names[:2] if scale.quick else names)}
    return Case(f"{len(learners)} learners", learners, stream, scale.runs(runs), peers={})


def _geoff_stream(steps: int) -> CachedStream:
    return CachedStream(Geoff(tasks="ABCABC", examples=-(-steps // 6)), steps)


def _mnist_network(scale: Scale) -> Network:
    """Small initial weights keep the softmax from saturating, which would leave little to compute."""
    inputs, hidden = 64 if scale.quick else 784, scale.hidden(1024)
    return Network(inputs, hidden, 10, loss="softmax", incoming_scale=0.1, outgoing_scale=0.1)


def _mnist_stream(scale: Scale, steps: int) -> CachedStream:
    """Random images with a fifth of the pixels on, as in MNIST, and random labels: no download needed."""
    generator = np.random.default_rng(0)
    shape = (-(-steps // 3), _mnist_network(scale).inputs)
    x = generator.random(shape, np.float32) * (generator.random(shape, np.float32) < 0.2)
    return CachedStream(LabelShift(DataSet("random", x, generator.integers(10, size=len(x)), 10)), steps)
