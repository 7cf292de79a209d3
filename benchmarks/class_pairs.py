"""Do networks lose plasticity on pairs of classes? Held-out accuracy in the first tasks and in the last ones.

`python benchmarks/class_pairs.py [DATA]`, where DATA is `mnist5k`, which is embedded: 200 pairs in ten passes, 20
minutes on two busy cores; or `cifar10`, after `crossprop data fetch cifar10`: 100 pairs of 600 images per class, in
one pass.
"""

import sys
import time
from typing import Any, NamedTuple

import crossprop as cp


class Setup(NamedTuple):
    """What is run on a data set."""

    stream: dict[str, Any]
    step_sizes: tuple[float, ...]
    linear: float
    """The step size of the linear unit."""
    held_out: int
    """Images of a class."""


SETUPS = {
    "mnist5k": Setup({"tasks": 200, "passes": 10}, (0.001, 0.01, 0.03), 0.003, 100),
    "cifar10": Setup({"tasks": 100, "train": 600}, (0.001, 0.003, 0.01), 0.001, 50),
}
CONTINUAL = cp.ContinualReplacement(rate=1e-4, maturity=100)

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "mnist5k"
    setup = SETUPS[name]
    stream = cp.ClassPairs(getattr(cp.datasets, name)(), **setup.stream)
    network = cp.Network(stream.inputs, (50, 50), 2, "relu", "softmax", True, "kaiming", "kaiming")
    linear = cp.Backprop(cp.Network(stream.inputs, (), 2, loss="softmax", bias=True), setup.linear)
    plain = {f"backprop {size:g}": cp.Backprop(network, size) for size in setup.step_sizes}
    renewed = {f"continual {size:g}": cp.Backprop(network, size, replacement=CONTINUAL) for size in setup.step_sizes}
    start = time.perf_counter()
    for learners in (plain, renewed, {f"linear {setup.linear:g}": linear}):
        probes = {"held_out": stream.held_out(next(iter(learners.values())), most=setup.held_out)}
        records = cp.run(learners, stream, seeds=2, record_every=stream.examples, probes=probes)
        for learner, right in zip(learners, stream.accuracy(records).mean("seed").values, strict=True):
            print(f"{learner}: first {right[1:21].mean():.4f}, last {right[-20:].mean():.4f}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s, {time.process_time():.0f} s of the processors")
