"""The cost of making examples, without any learner: `python benchmarks/streams.py`.

Prints the examples per second that each stream deals, alone and for 100 runs by one program, in segments about as long
as the engines ask for. The data set is made up, of MNIST's sizes.
"""

import time

import jax
import numpy as np

import crossprop as cp
from crossprop.datasets import DataSet
from crossprop.engines.feeding import DealtBatch, DealtSource

RUNS = 100
SECONDS = 1.0
RNG = np.random.default_rng(0)
LIKE_MNIST = DataSet("like MNIST", RNG.random((60_000, 784), dtype=np.float32), RNG.integers(0, 10, 60_000), 10)
STREAMS = {
    "tracking": (cp.Tracking(), 8192),
    "slowly-changing": (cp.SlowlyChanging(), 8192),
    "permuted inputs, one pass per task": (cp.PermutedInputs(LIKE_MNIST, tasks=None), 1024),
    "permuted inputs, 5,000 per task": (cp.PermutedInputs(LIKE_MNIST, tasks=None, examples=5000), 1024),
    "random labels": (cp.RandomLabels(LIKE_MNIST, tasks=None), 1024),
}


def rate(take, count):
    """Examples per second, of `count` per call."""
    calls, began = 0, None
    while began is None or time.perf_counter() - began < SECONDS:
        jax.block_until_ready(take(calls))
        calls, began = (0, time.perf_counter()) if began is None else (calls + 1, began)
    return count * calls / (time.perf_counter() - began)


def main():
    print(f"examples per second, on {jax.devices()[0].device_kind}: one run, {RUNS} runs by one program")
    for name, (stream, count) in STREAMS.items():
        source = DealtSource(stream, cp.keys(0)[0])
        alone = rate(lambda _: source.take(source.step, count), count)  # noqa: B023
        batch = DealtBatch([DealtSource(stream, cp.keys(seed)[0]) for seed in range(RUNS)], 0)
        several = rate(lambda _: batch.take(batch.step, count), count * RUNS)  # noqa: B023
        print(f"{name:36} {alone:14,.0f} {several:14,.0f}", flush=True)


if __name__ == "__main__":
    main()
