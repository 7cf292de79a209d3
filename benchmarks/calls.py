"""The cost of learning from Python, one example at a time and in one pass: `python benchmarks/calls.py`.

Prints the microseconds of one call of `update`, of the same formulas under `jax.jit` alone, of `cp.live` per example
over 10,000 examples, and of a step of the scan engine, all for crossprop on a 20-500-1 network, as medians of
alternating repeats. `benchmarks/service.py` has those of the estimators for scikit-learn and River.
"""

import time
from statistics import median

import jax
import numpy as np

import crossprop as cp
from crossprop.engines import scan
from crossprop.engines.protocol import Batch, Run, RunOptions

EXAMPLES, CALLS, REPEATS = 10_000, 2_000, 7
LEARNER = cp.Crossprop(cp.Network.paper(inputs=20, hidden=500), 5e-4)
STREAM = cp.Geoff(tasks="A", examples=EXAMPLES)


BARE = jax.jit(LEARNER.update)


def update_seconds(update, x, y):
    """Seconds per call of `update`."""
    state = jax.block_until_ready(LEARNER.init(cp.keys(0)[1]))
    began = time.perf_counter()
    for at in range(CALLS):
        state, _ = update(state, x[at], y[at])
    jax.block_until_ready(state)
    return (time.perf_counter() - began) / CALLS


def live_seconds(x, y):
    """Seconds per example of `cp.live`."""
    state = jax.block_until_ready(LEARNER.init(cp.keys(0)[1]))
    began = time.perf_counter()
    jax.block_until_ready(cp.live(LEARNER, state, x, y))
    return (time.perf_counter() - began) / EXAMPLES


def scan_seconds():
    """Seconds per step of a session of the scan engine."""
    batch = Batch([Run(LEARNER, STREAM, 0)], RunOptions(50, EXAMPLES), segment=EXAMPLES)
    session = scan.start(batch, jax.default_backend())
    began = time.perf_counter()
    session.advance(EXAMPLES)
    return (time.perf_counter() - began) / EXAMPLES


def main():
    x, y, _ = STREAM.sample(cp.keys(0)[0])
    measures = {
        "update, per call": lambda: update_seconds(LEARNER.update, np.asarray(x), np.asarray(y)),
        "bare jax.jit, per call": lambda: update_seconds(BARE, np.asarray(x), np.asarray(y)),
        "live, per example": lambda: live_seconds(x, y),
        "scan engine, per step": scan_seconds,
    }
    rounds = [{name: measure() for name, measure in measures.items()} for _ in range(1 + REPEATS)][1:]
    for name in measures:
        print(f"{name}: {1e6 * median(each[name] for each in rounds):.1f} us", flush=True)
    for name, floor in (("update, per call", "bare jax.jit, per call"), ("live, per example", "scan engine, per step")):
        ratio = median(each[name] / each[floor] for each in rounds)
        print(f"{name.split(',')[0]} against {floor.split(',')[0]}: {ratio:.2f}x", flush=True)


if __name__ == "__main__":
    main()
