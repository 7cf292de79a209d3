"""What replacements cost: backprop with each beside backprop without, all on the scan engine.

python benchmarks/replacements.py [small] [narrow] [wide] [deep] [--runs 1] [--steps 20000] [--repeats 7] [--cpu]

`small` is 20-5-1 with relu, as in slowly-changing regression, `narrow` 20-500-1, `wide` 784-256-10 with softmax, for a
tenth of the steps, and `deep` 20-64-64-1. Contenders take turns, and each time is the least of all repeats after one
that compiles. `--cpu` counts the process's time on all cores, which other work on the machine disturbs less.
"""

import argparse
import time

import numpy as np

import crossprop as cp
from crossprop.replacements import REPLACEMENTS

NETWORKS = {
    "small": cp.Network(20, 5, activation="relu", bias=True, incoming_scale="kaiming-uniform"),
    "narrow": cp.Network(20, 500),
    "wide": cp.Network(784, 256, 10, "relu", "softmax", bias=True, incoming_scale="kaiming-uniform"),
    "deep": cp.Network(20, (64, 64), activation="relu", bias=True, incoming_scale="kaiming-uniform"),
}


def examples(network: cp.Network, steps: int) -> cp.Arrays:
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (steps, network.inputs)).astype(np.float32)
    if network.loss == "softmax":
        return cp.Arrays(x, random.integers(network.outputs, size=steps), classes=network.outputs)
    return cp.Arrays(x, random.normal(size=steps).astype(np.float32))


def measured(name: str, runs: int, steps: int, repeats: int, cpu: bool) -> dict[str, float]:
    """Seconds per step of every contender."""
    network, clock = NETWORKS[name], time.process_time if cpu else time.perf_counter
    stream = examples(network, steps // 10 if name == "wide" else steps)
    learners = {"none": cp.Backprop(network, 1e-3)}
    learners |= {each: cp.Backprop(network, 1e-3, replacement=each) for each in REPLACEMENTS}
    contribution = cp.ContinualReplacement(utility="contribution")
    learners["continual, contribution"] = cp.Backprop(network, 1e-3, replacement=contribution)
    times = {each: float("inf") for each in learners}
    for repeat in range(repeats + 1):
        for each, learner in learners.items():
            began = clock()
            cp.run(learner, stream, seeds=runs, record_every=1000, engine="scan", progress=False)
            if repeat:
                times[each] = min(times[each], (clock() - began) / stream.steps)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[[], *NETWORKS])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true")
    flags = parser.parse_args()
    for name in flags.networks or NETWORKS:
        times = measured(name, flags.runs, flags.steps, flags.repeats, flags.cpu)
        print(name, flush=True)
        for each, seconds in times.items():
            print(f"  {each:24} {1e6 * seconds:9.2f} us a step {seconds / times['none']:6.2f} x", flush=True)


if __name__ == "__main__":
    main()
