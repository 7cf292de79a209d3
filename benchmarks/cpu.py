"""What `crossprop bench` does not show of a CPU: `python benchmarks/cpu.py`.

Prints how busy a stored sweep of 200 GEOFF lives keeps the cores, its peak memory, that of the full GEOFF reproduction,
and where a step of the chunked engine goes at MNIST's sizes.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

import crossprop as cp
from crossprop.engines import chunked
from crossprop.engines.base import Sums
from crossprop.learners.base import Work


def sweep(settings, store):
    over = {"step_size": np.geomspace(1e-5, 1e-3, settings).tolist()}
    cp.sweep(cp.Crossprop(cp.Network(20, 500), 5e-4), cp.Geoff(), over, seeds=20, store=store, progress=False)


def busy():
    with tempfile.TemporaryDirectory() as folder:
        sweep(1, f"{folder}/warm")
        before, began = os.times(), time.perf_counter()
        sweep(10, f"{folder}/store")
        after, seconds = os.times(), time.perf_counter() - began
    share = (after.user + after.system - before.user - before.system) / seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"sweep of 200 lives of 15,000 steps: {seconds:.1f} s, {share:.0%} CPU, peak {peak:.2f} GiB", flush=True)


def reproduction():
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        script = "from crossprop.cli import main; main()"
        command = [sys.executable, "-c", script, "reproduce", "geoff", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"crossprop reproduce geoff: {time.perf_counter() - began:.0f} s, peak {peak:.2f} GiB", flush=True)


def microseconds_a_step(block, function, *arguments):
    jax.block_until_ready(function(*arguments))
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        seconds.append(time.perf_counter() - began)
    return 1e6 * float(np.median(seconds)) / block


def chunked_step(block):
    learner = cp.CrosspropApprox(cp.Network(784, 1024, 10, loss="softmax"), 5e-4)
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.random((2 * block, 784), np.float32))
    y = jnp.eye(10)[generator.integers(10, size=2 * block)]
    work, zero = Work.of(learner.init(cp.keys(0)[1])), jnp.zeros(())
    whole = jax.jit(lambda work, sums: chunked._advance(block, learner, work, sums, x, y, 0, block, 0))
    weigh = jax.jit(lambda u: chunked._product(x[:block], u))
    rebuild = jax.jit(lambda u, given: u + chunked._product(x[:block].T, given))
    drift = jax.jit(lambda u: jnp.sqrt(jnp.vdot(u - 1, u - 1)))
    parts = {
        "whole": microseconds_a_step(block, whole, work, Sums(zero, zero, jnp.array(-1))),
        "X U": microseconds_a_step(block, weigh, work.incoming),
        "U + X^T B": microseconds_a_step(block, rebuild, work.incoming, x[:block, :1] + jnp.zeros((block, 1024))),
        "drift": microseconds_a_step(block, drift, work.incoming),
    }
    print(
        f"chunked, us a step in a block of {block}:",
        {name: round(value, 1) for name, value in parts.items()},
        flush=True,
    )


if __name__ == "__main__":
    chunked_step(50)
    chunked_step(100)
    busy()
    reproduction()
