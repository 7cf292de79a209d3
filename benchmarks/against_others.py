"""The engines against plain JAX and against loops in NumPy, PyTorch and alberta-framework: millions of run-steps per
second of whole calls, examples made before.

python benchmarks/against_others.py [geoff-30] [geoff-1056] [mnist] [figure-1a] [mnist-tasks] [rules]
    [--engines scan chunked] [--repeats 5] [--cpu] [--quick]

`figure-1a` and `mnist-tasks` are several learners in one call, and `rules` every rule with every named optimizer.
`--cpu` counts the process's time on all cores, which other work on the machine disturbs less. Ratios are then those of
one core to one core, though an engine would use them all. Slow contenders are timed on fewer runs and steps. Needs
torch and alberta-framework for the rows that are theirs; without one of them the row says so.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from peers import PEERS, RECORD_EVERY
from turns import clock, least, take_turns

import crossprop as cp
from crossprop.engines import ENGINES
from crossprop.learners import LEARNERS
from crossprop.streams.base import PoolStream

STEP_SIZE = 5e-4
SEEDS = 32
"""A larger number of runs is made of this many seeds and several step sizes, as in a sweep."""
RULES = ("crossprop", "crossprop-approx", "crossprop-sum", "backprop", "frozen")
MNIST_TASKS = ("crossprop-approx", "crossprop-approx-0.5", "backprop", "momentum", "rmsprop", "adam", "frozen")
REFUSALS = (ValueError, jax.errors.JaxRuntimeError)
"""Raised by a contender that cannot run a case, or lacks the memory for it."""


class CachedStream(PoolStream):
    """A stream whose examples are made once per seed, so that making them is not timed."""

    def __init__(self, stream: PoolStream):
        self.stream, self.steps, self.made = stream, stream.steps, {}
        self.inputs, self.outputs, self.one_hot = stream.inputs, stream.outputs, stream.one_hot

    def __repr__(self) -> str:
        return f"CachedStream({self.stream!r})"

    def task(self, steps: Any) -> Any:
        return self.stream.task(steps)

    def pool(self, key: Any) -> Any:
        return self._once(self.stream.pool, key)

    def pools(self, keys: Any) -> Any:
        return self._once(self.stream.pools, keys)

    def _once(self, make: Callable[[Any], Any], key: Any) -> Any:
        name = key.shape, np.asarray(jax.random.key_data(key)).tobytes()
        if name not in self.made:
            self.made[name] = make(key)
        return self.made[name]

    def rows(self, index: Any, steps: Any) -> Any:
        return self.stream.rows(index, steps)


class Case(NamedTuple):
    """Learners that run in one call, on a stream with the seeds 0, 1, 2 and so on."""

    name: str
    learners: dict[str, Any]
    stream: CachedStream
    runs: int


def geoff(steps: int, quick: bool) -> tuple[cp.Network, CachedStream]:
    steps = 2 * RECORD_EVERY if quick else steps
    return cp.Network.paper(20, 8 if quick else 500), CachedStream(cp.Geoff(tasks="ABCABC", examples=-(-steps // 6)))


def mnist(steps: int, quick: bool) -> tuple[cp.Network, CachedStream]:
    """Random images with a fifth of the pixels on, as in MNIST. Small weights keep the softmax from saturating."""
    steps, inputs, hidden = (2 * RECORD_EVERY, 64, 8) if quick else (steps, 784, 1024)
    network = cp.Network.paper(inputs, hidden, 10, loss="softmax", incoming_scale=0.1, outgoing_scale=0.1)
    random = np.random.default_rng(0)
    x = random.random((-(-steps // 3), inputs), np.float32)
    x *= random.random(x.shape, np.float32) < 0.2
    data = cp.datasets.DataSet("random", x, random.integers(10, size=len(x)), 10)
    return network, CachedStream(cp.LabelShift(data))


def apart(names: Sequence[str], data: tuple[cp.Network, CachedStream], runs: int) -> list[Case]:
    network, stream = data
    return [Case(name, {name: LEARNERS[name](network, STEP_SIZE)}, stream, runs) for name in names]


def together(names: Sequence[str], data: tuple[cp.Network, CachedStream], runs: int) -> list[Case]:
    network, stream = data
    return [Case(f"{len(names)} learners", {name: LEARNERS[name](network, STEP_SIZE) for name in names}, stream, runs)]


def rules(data: tuple[cp.Network, CachedStream], runs: int) -> list[Case]:
    network, stream = data
    return [
        Case(f"{rule}, {optimizer}", {rule: LEARNERS[rule](network, STEP_SIZE, optimizer=optimizer)}, stream, runs)
        for rule, optimizer in product(RULES, ("sgd", "momentum", "rmsprop", "adam"))
    ]


def cases(workload: str, quick: bool) -> list[Case]:
    gpu = jax.default_backend() != "cpu"
    many = 2 if quick else 1056
    match workload:
        case "geoff-30":
            return apart(("crossprop", "backprop"), geoff(30_000 if gpu else 15_000, quick), 2 if quick else 30)
        case "geoff-1056":
            return apart(("crossprop", "backprop"), geoff(30_000 if gpu else 1000, quick), many)
        case "mnist":
            exact = ("crossprop-projected", "crossprop")
            some = apart(("crossprop-approx", "backprop"), mnist(20_000 if gpu else 10_000, quick), 1)
            return some + apart(exact, mnist(20_000 if gpu else 2000, quick), 1)
        case "figure-1a":
            names = ("crossprop", "crossprop-0.5", *MNIST_TASKS)
            return together(names, geoff(30_000, quick), 2 if quick else 30)
        case "mnist-tasks":
            return together(MNIST_TASKS, mnist(180_000, quick), 1)
        case _:
            return rules(geoff(30_000 if gpu else 1000, quick), many)


WORKLOADS = ("geoff-30", "geoff-1056", "mnist", "figure-1a", "mnist-tasks", "rules")


def prepare(case: Case, contender: str) -> tuple[Callable[[], Any], int]:
    """The call to time, and how many run-steps it takes."""
    if contender not in PEERS:
        learners, seeds = _as_sweep(case.learners, case.runs)
        run_steps = case.runs * case.stream.steps * len(case.learners)
        return partial(cp.run, learners, case.stream, seeds, RECORD_EVERY, contender, progress=False), run_steps
    (learner,) = case.learners.values()
    runs, steps = PEERS[contender].part(case.runs, case.stream.steps, learner)
    samples = [case.stream.sample(cp.keys(run % SEEDS)[0]) for run in range(runs)]
    x, y = (np.stack([each[:steps] for each in some]) for some in list(zip(*samples, strict=True))[:2])
    initial = jax.vmap(learner.init)(jnp.stack([cp.keys(seed)[1] for seed in range(runs)]))
    return partial(PEERS[contender].run, learner, initial, x, y), runs * steps


def _as_sweep(learners: dict[str, Any], runs: int) -> tuple[dict[str, Any], int]:
    """Learners and seeds that make `runs` runs: with many, several step sizes of each learner share the seeds."""
    if runs % SEEDS:
        return learners, runs
    return {
        f"{name}, {number}": LEARNERS[name](each.network, STEP_SIZE * (1 - number / runs), optimizer=each.optimizer)
        for name, each in learners.items()
        for number in range(runs // SEEDS)
    }, SEEDS


def time_case(case: Case, contenders: Sequence[str], repeats: int, cpu: bool = False) -> dict[str, float]:
    """Seconds per run-step; says which contenders cannot run the case."""
    calls: dict[str, Callable[[], Any]] = {}
    run_steps: dict[str, int] = {}
    for name in contenders:
        try:
            call, run_steps[name] = prepare(case, name)
            call()
            calls[name] = call
        except REFUSALS as problem:
            print(f"  {name}: not timed, {str(problem).partition(chr(10))[0]}")
    seconds = take_turns(calls, repeats, clock(cpu), enough=10.0)
    return {name: each / run_steps[name] for name, each in least(seconds).items()}


def main(arguments: Sequence[str] | None = None) -> dict[tuple[str, str], dict[str, float]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS])
    parser.add_argument("--engines", nargs="+", choices=["auto", *ENGINES], default=[*ENGINES])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="time on all cores together")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything works")
    options = parser.parse_args(arguments)
    found = {}
    for workload in options.workloads or ["geoff-30"]:
        for case in cases(workload, options.quick):
            peers = PEERS if len(case.learners) == 1 else ()
            print(f"\n{workload}, {case.name}, {case.runs} run(s) of {case.stream.steps:,} steps")
            times = time_case(case, (*options.engines, *peers), options.repeats, options.cpu)
            found[workload, case.name] = times
            for name, each in times.items():
                ratios = ", ".join(f"{times[other] / each:.3g}x {other}" for other in times if other != name)
                print(f"  {name:10} {1e-6 / each:9.3f} million run-steps/s, {ratios}", flush=True)
    return found


if __name__ == "__main__":
    main()
