"""CPU measurements: `python benchmarks/cpu.py`.

Prints how the time of a step of the chunked engine divides at MNIST's sizes, its speed relative to scan in alternating
runs, the CPU use and peak memory of a stored sweep of 200 GEOFF runs, and the same of the full GEOFF reproduction.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from turns import take_turns

import crossprop as cp
from crossprop.engines import chunked, rebuilding
from crossprop.engines.protocol import Rows

APPROX = cp.CrosspropApprox(cp.Network.paper(784, 1024, 10, loss="softmax"), 5e-4)


def sweep(settings, store):
    over = {"step_size": np.geomspace(1e-5, 1e-3, settings).tolist()}
    cp.sweep(cp.Crossprop(cp.Network.paper(20, 500), 5e-4), cp.Geoff(), over, seeds=20, store=store, progress=False)


def cpu_use_of_a_sweep():
    with tempfile.TemporaryDirectory() as folder:
        sweep(1, f"{folder}/warm")
        before, began = os.times(), time.perf_counter()
        sweep(10, f"{folder}/store")
        after, seconds = os.times(), time.perf_counter() - began
    share = (after.user + after.system - before.user - before.system) / seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"sweep of 200 runs of 15,000 steps: {seconds:.1f} s, {share:.0%} CPU, peak {peak:.2f} GiB", flush=True)


def reproduction():
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        script = "from crossprop.cli import main; main()"
        command = [sys.executable, "-c", script, "reproduce", "geoff", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"crossprop reproduce geoff: {time.perf_counter() - began:.0f} s, peak {peak:.2f} GiB", flush=True)


def microseconds_per_step(block, function, *arguments):
    call = lambda: jax.block_until_ready(function(*arguments))
    (seconds,) = take_turns({"it": call}, repeats=20).values()
    return 1e6 * float(np.median(seconds)) / block


def examples(count):
    generator = np.random.default_rng(0)
    return generator.random((count, 784), np.float32), generator.integers(10, size=count)


def chunked_step(block):
    x, labels = examples(2 * block)
    x, y = jnp.asarray(x), jnp.eye(10)[labels]
    work = chunked._apart(APPROX, APPROX.init(cp.keys(0)[1]))
    weights = work.layers[0].weights
    few, given = x[:block], x[:block, :1] + jnp.arange(1024.0)
    advance = partial(chunked._advance, block, None, APPROX)
    whole = jax.jit(lambda work, x, y: advance(work, Rows(x, y, 0, block, 0)))
    weigh = jax.jit(lambda u, x: rebuilding.product(x, u.T))
    rebuild = jax.jit(lambda u, x, given: u + rebuilding.Steps(x, units_first=True).spread(given))
    drift = jax.jit(lambda u: jnp.sqrt(jnp.vdot(u - 1, u - 1)))
    parts = {
        "whole without drift": microseconds_per_step(block, whole, work, x, y),
        "X U": microseconds_per_step(block, weigh, weights, few),
        "U + X^T B": microseconds_per_step(block, rebuild, weights, few, given),
        "drift": microseconds_per_step(block, drift, weights),
    }
    print(
        f"chunked, us per step in a block of {block}:",
        {name: round(value, 1) for name, value in parts.items()},
        flush=True,
    )


def chunked_against_scan(turns=20):
    stream = cp.Arrays(*examples(10_000))
    run = partial(cp.run, APPROX, stream, 1, 50, progress=False)
    seconds = take_turns({engine: partial(run, engine=engine) for engine in ("scan", "chunked")}, turns)
    ratios = np.divide(seconds["scan"], seconds["chunked"])
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    print(
        f"chunked against scan: {middle:.2f}x, the middle half of {turns} ratios between {low:.2f}x and {high:.2f}x",
        flush=True,
    )


if __name__ == "__main__":
    chunked_step(50)
    chunked_step(100)
    chunked_against_scan()
    cpu_use_of_a_sweep()
    reproduction()
