"""What a process holds while it runs many shapes, and many small runs: memory, maps, threads and open files.

python benchmarks/shapes.py [--shapes 2000] [--runs 10000] [--lines 10] [--light]

Every shape is a network of another size, whose programs are compiled anew. Without an end to what is kept, Linux ends
the process at 65,530 memory maps. With --light a shape is a linear unit with another number of inputs, written by hand
and compiled without most optimizations, which takes a fifth of the time.
"""

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import crossprop as cp


class Linear(cp.Learner):
    """The least learner: one linear unit."""

    network: cp.Network

    def init(self, key: jax.Array) -> jax.Array:
        return jnp.zeros(self.network.inputs)

    def predict(self, state: jax.Array, x: jax.Array) -> jax.Array:
        return (state @ x)[None]

    def update(self, state: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, cp.Outcome]:
        outputs = self.predict(state, x)
        error = outputs - y
        return state - 0.01 * error * x, cp.Outcome(jnp.sum(error**2), outputs)

    def weights(self, state: jax.Array) -> dict[str, jax.Array]:
        return {}


class Held(NamedTuple):
    """What this process holds now."""

    megabytes: int
    maps: int
    threads: int
    files: int

    @classmethod
    def now(cls) -> "Held":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
        own = int(os.sysconf("SC_PAGE_SIZE")) * pages // 2**20
        return cls(own, maps, threading.active_count(), len([*Path("/proc/self/fd").iterdir()]))


def watch(title: str, count: int, lines: int, act: Callable[[int], None]) -> list[Held]:
    """Calls `act` so many times, and prints what is held every now and then."""
    print(f"{title}\n{'done':>9} {'seconds':>9} {'MB':>7} {'maps':>7} {'threads':>8} {'files':>6}")
    began, found = time.perf_counter(), []
    for number in range(1, count + 1):
        act(number)
        if number == 1 or number % max(1, count // lines) == 0:
            held = Held.now()
            found.append(held)
            seconds = time.perf_counter() - began
            line = f"{number:9,} {seconds:9.0f} {held.megabytes:7,} {held.maps:7,} {held.threads:8} {held.files:6}"
            print(line, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Held]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=10)
    parser.add_argument("--light", action="store_true")
    options = parser.parse_args(arguments)
    stream = cp.Geoff(inputs=3, features=5, tasks="A", examples=50)
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}")

    def shape(number: int) -> None:
        cp.run(cp.Backprop(cp.Network(3, 1 + number), 0.01), stream, seeds=1)

    numbers = np.random.default_rng(0).normal(size=(50, 1 + options.shapes)).astype(np.float32)

    def linear(number: int) -> None:
        cp.run(Linear(cp.Network(number, ())), cp.Arrays(numbers[:, :number], numbers[:, -1]), seeds=1)

    def small_run(number: int) -> None:
        cp.run(cp.Backprop(cp.Network(3, 4), 1e-6 * number), stream, seeds=[number])

    jax.config.update("jax_disable_most_optimizations", options.light)
    shapes = f"{options.shapes:,} {'linear units' if options.light else 'networks'} of different sizes"
    return {
        "shapes": watch(shapes, options.shapes, options.lines, linear if options.light else shape),
        "runs": watch(f"{options.runs:,} runs of one size", options.runs, options.lines, small_run),
    }


if __name__ == "__main__":
    main()
