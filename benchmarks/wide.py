"""Wide networks on a GPU: with programs of our own for blocks and examples, without them, and in plain JAX.

python benchmarks/wide.py [times] [profile] [identity] [tasks] [--cases ...] [--record-every 50] [--quick]

`times` times calls of `cp.run`: contenders take turns, and each time is the least after one call that compiles; it also
says how far the records are from those without programs. `profile` lists the GPU's own times, and when they were.
`identity` compares a run alone, among others and beside diverging runs, bit by bit. `tasks` is `against_others.py
mnist-tasks` for a third of its steps. `--quick` is tiny, to check that everything works.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gpu
import jax
import jax.numpy as jnp
import numpy as np
from deep import plain_jax
from jax import lax
from turns import least, take_turns

import crossprop as cp
from crossprop.engines.gpu import support
from crossprop.learners import LEARNERS

QUICK = "--quick" in sys.argv
INPUTS, HIDDEN, LESS_WIDE, DEEP, OUTPUTS = (20, 16, 8, (16, 8), 3) if QUICK else (784, 1024, 256, (256, 256), 10)
SCALES: dict[str, Any] = {"loss": "softmax", "incoming_scale": "lecun", "outgoing_scale": "lecun"}
WIDE, LESS, TWO = (cp.Network.paper(INPUTS, hidden, OUTPUTS, **SCALES) for hidden in (HIDDEN, LESS_WIDE, DEEP))
STEP_SIZE = 1e-3
STEPS, FEWER_STEPS, REPEATS = (200, 100, 1) if QUICK else (20_000, 4000, 3)
TASKS = ("crossprop-approx", "crossprop-approx-0.5", "backprop", "momentum", "rmsprop", "adam", "frozen")


class Case(NamedTuple):
    learner: cp.CreditRule
    runs: tuple[int, ...]


CASES = {
    "backprop": Case(cp.Backprop(WIDE, STEP_SIZE), (1, 128)),
    "deep": Case(cp.Backprop(TWO, STEP_SIZE), (1, 64)),
    "deep-foresight": Case(cp.Foresight(TWO, STEP_SIZE), (64,)),
    "deep-adam": Case(cp.Backprop(TWO, STEP_SIZE, optimizer="adam"), (64,)),
    "momentum": Case(cp.Backprop(WIDE, STEP_SIZE, optimizer="momentum"), (1, 16)),
    "adam": Case(cp.Backprop(WIDE, STEP_SIZE, optimizer="adam"), (1, 16)),
    "rmsprop": Case(cp.Backprop(WIDE, STEP_SIZE, optimizer="rmsprop"), (1, 16)),
    "adam-256": Case(cp.Backprop(LESS, STEP_SIZE, optimizer="adam"), (64,)),
    "crossprop-adam-256": Case(cp.Crossprop(LESS, STEP_SIZE, optimizer="adam"), (16,)),
    "approx": Case(cp.CrosspropApprox(WIDE, STEP_SIZE), (1, 16)),
    "foresight": Case(cp.Foresight(WIDE, STEP_SIZE), (1, 16)),
    "projected": Case(cp.Crossprop(WIDE, STEP_SIZE, projections=1), (1, 16)),
    "crossprop": Case(cp.Crossprop(WIDE, STEP_SIZE), (1, 16)),
    "sum": Case(cp.CrosspropSum(WIDE, STEP_SIZE), (1, 16)),
}


def use_programs(on: bool) -> None:
    support.FOR_WIDE_NETWORKS = on


CONTENDERS = {"programs": True, "without": False}


def with_programs(on: bool, call: Callable[[], Any]) -> Any:
    use_programs(on)
    return call()


def stream_of(steps: int) -> cp.Arrays:
    random = np.random.default_rng(0)
    x = random.random((steps, INPUTS), np.float32) * (random.random((steps, INPUTS), np.float32) < 0.2)
    return cp.Arrays(x, random.integers(OUTPUTS, size=steps), classes=OUTPUTS)


def called(every: int, learner: Any, stream: cp.Arrays, seeds: Any) -> Any:
    return cp.run(learner, stream, seeds, record_every=every, progress=False)


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def plain(learner: cp.CreditRule, stream: cp.Arrays, runs: int) -> Callable[[], Any]:
    """As one would write it: `jax.grad` for backprop, the learner's own update for others."""
    if isinstance(learner, cp.Backprop) and learner.optimizer == "sgd":
        return plain_jax(learner, stream, runs)
    sample = stream.sample(cp.keys(0)[0])
    x, y = jnp.asarray(sample.x), jnp.asarray(sample.y, jnp.float32)

    def run(key: jax.Array) -> jax.Array:
        return jnp.sum(lax.scan(lambda state, xy: learner.update(state, *xy), learner.init(key), (x, y))[1].loss)

    program, keys = jax.jit(jax.vmap(run)), jax.random.split(jax.random.key(0), runs)
    return lambda: jax.block_until_ready(program(keys))


def times(cases: dict[str, Case], every: int) -> None:
    print(f"\nus for a step of all runs, a record every {every} steps")
    for name, (learner, all_runs) in cases.items():
        for runs in all_runs:
            stream, short = stream_of(STEPS if runs == 1 else FEWER_STEPS), stream_of(FEWER_STEPS // 4)
            call = partial(called, every, learner, stream, runs)
            contenders = {contender: partial(with_programs, on, call) for contender, on in CONTENDERS.items()}
            print(f"  {name}, {runs} run(s): {distance(*(each() for each in contenders.values()))}")
            took = least(take_turns(contenders | {"plain JAX": plain(learner, short, runs)}, REPEATS))
            steps = dict.fromkeys(CONTENDERS, stream.steps) | {"plain JAX": short.steps}
            plain_took = took["plain JAX"] / short.steps
            for contender, each in took.items():
                step = each / steps[contender]
                print(f"    {contender:10} {1e6 * step:9.2f} us  {plain_took / step:6.2f}x", flush=True)


def distance(records: Any, expected: Any) -> str:
    """How far records are from those expected, as a share of their norm."""
    shares = {
        name: np.linalg.norm(records[name].values - expected[name].values)
        / max(np.linalg.norm(expected[name].values), 1e-30)
        for name in ("loss", "error", "incoming_drift", "outgoing_drift")
    }
    return ", ".join(f"{name} {share:.0e}" for name, share in shares.items())


def profile(cases: dict[str, Case], every: int) -> None:
    """The GPU's own time in each kernel, and how long it waited for the next."""
    use_programs(True)
    stream = stream_of(FEWER_STEPS)
    for name, (learner, all_runs) in cases.items():
        for runs in all_runs:
            call = partial(called, every, learner, stream, runs)
            call()
            took = seconds(call)
            events = sorted(kernels_of(call))
            spent: dict[str, list[float]] = defaultdict(list)
            waits: dict[str, list[float]] = defaultdict(list)
            for (start, duration, kernel), (following, _, _) in zip(events, [*events[1:], (np.nan,) * 3], strict=True):
                spent[kernel].append(duration)
                waits[kernel].append(following - start - duration)
            busy, whole = (value / 1e3 / stream.steps for value in (sum(map(sum, spent.values())), took * 1e9))
            span = (events[-1][0] - events[0][0]) / 1e3 / stream.steps if events else 0
            print(
                f"\n{name}, {runs} run(s): {whole:.2f} us a step; the GPU's first to last {span:.2f}, busy {busy:.2f}"
            )
            for kernel, each in sorted(spent.items(), key=lambda item: -sum(item[1]))[:24]:
                share = sum(each) / 1e3 / stream.steps
                print(
                    f"  {share:8.3f} us a step, {len(each):6} times, {np.median(each) / 1e3:8.2f} us each, "
                    f"then {np.nanmedian(waits[kernel]) / 1e3:7.2f} us idle  {kernel[:60]}"
                )


def kernels_of(call: Callable[[], Any]) -> list[tuple[float, float, str]]:
    """Start and duration of everything that the GPU did, in nanoseconds, and its name."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        planes = jax.profiler.ProfileData.from_file(str(file)).planes
    lines = [line for plane in planes if "GPU" in plane.name for line in plane.lines if "Stream" in line.name]
    return [(event.start_ns, event.duration_ns, event.name) for line in lines for event in line.events]


def identity(cases: dict[str, Case], every: int) -> None:
    use_programs(True)
    for name, (learner, _) in cases.items():
        print(f"  {name:10}", end=" ")
        gpu.identity("auto", learner, replace(learner, step_size=1e25), stream_of(310), 9 if QUICK else 140)


def tasks(cases: dict[str, Case], every: int) -> None:
    """Seven learners in one call, a third of the steps of the workload, after one call that compiles."""
    steps = 100 if QUICK else 60_000
    stream = stream_of(steps)
    learners = {name: LEARNERS[name](WIDE, STEP_SIZE) for name in TASKS}
    for contender, on in CONTENDERS.items():
        use_programs(on)
        first, second = (seconds(partial(called, every, learners, stream, 1)) for _ in range(2))
        print(f"  {contender:10} {second:.2f} s for {len(learners)} x {steps} steps ({first:.2f} with compiling)")


def main() -> None:
    sections = {"times": times, "profile": profile, "identity": identity, "tasks": tasks}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=", ".join(sections))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--record-every", type=int, default=50)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(jax.devices(), "JAX", jax.__version__, flush=True)
    for name in options.sections or sections:
        sections[name]({case: CASES[case] for case in options.cases}, options.record_every)


if __name__ == "__main__":
    main()
