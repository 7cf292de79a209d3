"""The scan engine's loop as one compiled function, and as a list of functions, on a CPU.

python benchmarks/one_function.py [--steps 20000] [--repeats 5] [--processes 3]

Processes of the two kinds take turns. Times are a process's own, which other work on the machine disturbs less, and the
least of all. From JAX 0.12 on XLA makes one function of a loop by itself, and the two are the same.
"""

import argparse
import json
import subprocess
import sys
from functools import partial

import numpy as np
from turns import clock, least, take_turns

import crossprop as cp
from crossprop.engines import one_function

NARROW = cp.Network.paper(20, 500)
DEEP = cp.Network.paper(20, (64, 64), activation="relu", bias=True, incoming_scale="kaiming-uniform")
LEARNERS = {
    "20-500-1, exact crossprop": cp.Crossprop(NARROW, 5e-4),
    "20-500-1, backprop": cp.Backprop(NARROW, 5e-4),
    "20-500-1, backprop with adam": cp.Backprop(NARROW, 5e-4, optimizer="adam"),
    "20-500-1, continual backprop": cp.Backprop(NARROW, 5e-4, replacement=cp.ContinualReplacement()),
    "20-500-1, generate and test": cp.Backprop(NARROW, 5e-4, replacement=cp.GenerateAndTest()),
    "20-64-64-1, backprop": cp.Backprop(DEEP, 5e-4),
    "20-64-64-1, continual backprop": cp.Backprop(DEEP, 5e-4, replacement=cp.ContinualReplacement()),
    "20-5-1, backprop": cp.Backprop(cp.Network.paper(20, 5), 5e-4),
}
KINDS = ("list of functions", "one function")


def measured(kind: str, steps: int, repeats: int) -> dict[str, float]:
    """Microseconds per step of every learner, in this process."""
    one_function.IS_NEEDED = one_function.IS_NEEDED and kind == KINDS[1]
    random = np.random.default_rng(0)
    stream = cp.Arrays(random.integers(0, 2, (steps, 20)), random.normal(size=steps))
    run = lambda learner: cp.run(learner, stream, seeds=1, record_every=1000, engine="scan", progress=False)
    contenders = {name: partial(run, learner) for name, learner in LEARNERS.items()}
    seconds = least(take_turns(contenders, repeats, clock(cpu=True)))
    return {name: 1e6 * each / steps for name, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help="measure this kind, in this process")
    flags = parser.parse_args()
    if flags.kind is not None:
        print(json.dumps(measured(flags.kind, flags.steps, flags.repeats)))
        return
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(flags.processes):
        for kind, results in found.items():
            command = [sys.executable, __file__, "--kind", kind, "--steps", str(flags.steps)]
            output = subprocess.run([*command, "--repeats", str(flags.repeats)], check=True, capture_output=True).stdout
            results.append(json.loads(output))
    for name in LEARNERS:
        before, after = (min(result[name] for result in found[kind]) for kind in KINDS)
        print(f"{name:32} {before:6.2f} us a step as a {KINDS[0]}, {after:6.2f} as {KINDS[1]}: {before / after:.2f}x")


if __name__ == "__main__":
    main()
