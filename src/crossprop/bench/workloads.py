"""What is timed: learners, streams and sizes, by the name of a workload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop.bench.peers import PEERS, RECORD_EVERY
from crossprop.datasets import DataSet
from crossprop.learners import LEARNERS, Backprop, Crossprop, CrosspropApprox, CrosspropSum, Frozen, Learner
from crossprop.learners.optimizers import OPTIMIZERS
from crossprop.network import Network
from crossprop.paper.plans import EXACT_MNIST, GEOFF_LEARNERS, STEP_SIZE
from crossprop.streams import Arrays, Geoff, LabelShift, Life, Stream

LONGEST = 180_000
"""The steps of the longest life that is timed: MNIST's three tasks of 60,000."""
RULES = {
    "crossprop": Crossprop,
    "crossprop-approx": CrosspropApprox,
    "crossprop-sum": CrosspropSum,
    "backprop": Backprop,
    "frozen": Frozen,
}
PLAIN = ("plain jax",)
LOOPS = ("plain jax", "numpy", "pytorch")


class Kept:
    """A stream cut to `steps` whose lives are sampled once and kept: making examples is no learner's cost. The first
    `different` lives serve all seeds, as the seeds of a sweep serve all its settings."""

    def __init__(self, stream: Stream, steps: int, different: int | None = None):
        self.stream, self.steps, self.different = stream, steps, different
        self.inputs, self.outputs, self.one_hot = stream.inputs, stream.outputs, stream.one_hot
        self.schedule = stream.schedule[:steps]
        self.lives: dict[bytes, Life] = {}

    def __repr__(self) -> str:
        return f"Kept({self.stream!r}, {self.steps})"

    def sample(self, key: Any) -> Life:
        name = np.asarray(jax.random.key_data(key)).tobytes()
        if name not in self.lives and self.different is not None and len(self.lives) >= self.different:
            self.lives[name] = [*self.lives.values()][len(self.lives) % self.different]
        elif name not in self.lives:
            life = self.stream.sample(key)
            self.lives[name] = Life(life.pool, life.order[: self.steps], life.y[: self.steps], self.schedule)
        return self.lives[name]

    def cut(self, steps: int) -> "Kept":
        return self if steps >= self.steps else Kept(self, steps, self.different)


@dataclass(frozen=True, eq=False)
class Case:
    """One thing to time: learners that live through a stream, with the seeds 0, 1, 2 ..., and who else does it."""

    name: str
    learners: dict[str, Learner]
    stream: Kept
    runs: int
    peers: tuple[str, ...] = PLAIN

    @property
    def network(self) -> Network:
        return next(iter(self.learners.values())).network

    @property
    def size(self) -> str:
        return f"{self.network.inputs}-{self.network.hidden}-{self.network.outputs}"


class Scale(NamedTuple):
    """How large to make a workload."""

    quick: bool
    gpu: bool
    steps: int | None

    def runs(self, full: int) -> int:
        return min(full, 2) if self.quick else full

    def hidden(self, full: int) -> int:
        return 8 if self.quick else full

    def life(self, cpu: int, gpu: int | None = None) -> int:
        """The steps asked for, or those that suit the device."""
        return self.steps or (2 * RECORD_EVERY if self.quick else gpu if gpu and self.gpu else cpu)


@dataclass(frozen=True)
class Workload:
    """Cases to time, and the engines that are timed unless others are asked for; None is all of them."""

    about: str
    cases: Callable[[Scale], list[Case]]
    engines: tuple[str, ...] | None = None


def _geoff_case(name: str, scale: Scale, runs: int, stream: Kept, peers: tuple[str, ...] = LOOPS) -> Case:
    learner = LEARNERS[name](Network(20, scale.hidden(500)), STEP_SIZE)
    return Case(name, {name: learner}, stream, scale.runs(runs), peers)


def _geoff(runs: int, cpu: int, gpu: int) -> Callable[[Scale], list[Case]]:
    def cases(scale: Scale) -> list[Case]:
        stream = _geoff_stream(scale.life(cpu, gpu))
        backprop = _geoff_case("backprop", scale, runs, stream, tuple(PEERS))
        return [_geoff_case("crossprop", scale, runs, stream), backprop]

    return cases


def _mnist_case(name: str, scale: Scale, peers: tuple[str, ...], cpu: int, gpu: int) -> Case:
    learner = LEARNERS[name](_mnist_network(scale), STEP_SIZE)
    return Case(name, {name: learner}, _mnist_stream(scale, scale.life(cpu, gpu)), 1, peers)


def _mnist(scale: Scale) -> list[Case]:
    return [
        _mnist_case("crossprop-approx", scale, LOOPS, 10_000, 20_000),
        _mnist_case("backprop", scale, LOOPS, 10_000, 20_000),
        _mnist_case("crossprop-projected", scale, PLAIN, 4000, 20_000),
        _mnist_case("crossprop", scale, PLAIN, 2000, 5000),
    ]


def _rules(scale: Scale) -> list[Case]:
    network, stream = Network(20, scale.hidden(500)), _geoff_stream(scale.life(1000, 30_000))
    pairs = [("crossprop", "adam")] if scale.quick else product(RULES, OPTIMIZERS)
    learners = {(rule, name): RULES[rule](network, STEP_SIZE, optimizer=name) for rule, name in pairs}
    return [
        Case(f"{rule}, {name}", {rule: learner}, stream, scale.runs(1056)) for (rule, name), learner in learners.items()
    ]


def _figure_1a(scale: Scale) -> list[Case]:
    network, stream = Network(20, scale.hidden(500)), _geoff_stream(scale.life(30_000))
    return [_together(GEOFF_LEARNERS, network, stream, scale, runs=30)]


def _mnist_tasks(scale: Scale) -> list[Case]:
    network, stream = _mnist_network(scale), _mnist_stream(scale, scale.life(LONGEST))
    return [_together([name for name in GEOFF_LEARNERS if name not in EXACT_MNIST], network, stream, scale, runs=1)]


def _together(names: Sequence[str], network: Network, stream: Kept, scale: Scale, runs: int) -> Case:
    """Several learners in one call, as in a figure of the paper."""
    learners = {name: LEARNERS[name](network, STEP_SIZE) for name in (names[:2] if scale.quick else names)}
    return Case(f"{len(learners)} learners", learners, stream, scale.runs(runs), peers=())


def _compile(scale: Scale) -> list[Case]:
    steps = 10 * RECORD_EVERY
    return [
        _geoff_case("crossprop", scale, 30, _geoff_stream(scale.life(steps)), PLAIN),
        _mnist_case("crossprop-approx", scale, PLAIN, steps, steps),
        _mnist_case("crossprop", scale, PLAIN, steps, steps),
    ]


def growing(quantity: str, value: int, learner: str, scale: Scale) -> Case:
    """GEOFF's sizes, one of them changed to `value`; the step size shrinks with the units, so that nothing diverges."""
    sizes = {"inputs": 20, "hidden": scale.hidden(500), "outputs": 1} | {quantity: value}
    network = Network(sizes["inputs"], sizes["hidden"], sizes["outputs"])
    runs = value if quantity == "runs" else scale.runs(1056 if scale.gpu else 4)
    weights = network.inputs * network.hidden * (1 + network.outputs)
    affordable = int((1e11 if scale.gpu else 4e8) / runs / weights) // RECORD_EVERY * RECORD_EVERY
    own = {"steps": value, "runs": scale.life(2000)}
    steps = own.get(quantity, scale.life(max(500, min(20_000, affordable))))
    generator = np.random.default_rng(0)
    x = generator.integers(2, size=(steps, network.inputs)).astype(np.float32)
    y = generator.normal(size=(steps, network.outputs)).astype(np.float32)
    learners = {learner: LEARNERS[learner](network, 0.1 / network.hidden)}
    return Case(learner, learners, Kept(Arrays(x, y), steps), runs)


WORKLOADS = {
    "geoff-30": Workload("GEOFF, 30 runs", _geoff(30, 15_000, 30_000)),
    "geoff-1056": Workload("GEOFF, 1056 runs", _geoff(1056, 1000, 30_000)),
    "mnist": Workload("MNIST-shaped, one run", _mnist),
    "rules": Workload("every rule and optimizer, GEOFF, 1056 runs", _rules, ("kernel",)),
    "figure-1a": Workload("figure 1a, whole", _figure_1a, ("auto",)),
    "mnist-tasks": Workload("MNIST-shaped, three tasks of 60,000", _mnist_tasks, ("auto",)),
    "compile": Workload("compilation", _compile),
    "growth": Workload("how cost grows", lambda scale: []),
}


def _geoff_stream(steps: int) -> Kept:
    return Kept(Geoff(tasks="ABCABC", examples=-(-steps // 6)), steps, different=32)


def _mnist_network(scale: Scale) -> Network:
    """Weights start small, so that classes are not certain from the start and every product has work to do."""
    inputs, hidden = 64 if scale.quick else 784, scale.hidden(1024)
    return Network(inputs, hidden, 10, loss="softmax", incoming_scale=0.1, outgoing_scale=0.1)


def _mnist_stream(scale: Scale, steps: int) -> Kept:
    """Made images, a fifth of their pixels on, as in MNIST, with made labels: no data set need be here."""
    generator = np.random.default_rng(0)
    shape = (-(-steps // 3), _mnist_network(scale).inputs)
    x = generator.random(shape, np.float32) * (generator.random(shape, np.float32) < 0.2)
    return Kept(LabelShift(DataSet("made", x, generator.integers(10, size=len(x)), 10)), steps)
