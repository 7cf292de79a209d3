"""What noise costs on a CPU: the optimizers that draw it beside sgd, and its parts.

python benchmarks/noise.py [--repeats 9]

All are of 20-500-1, so 10,500 numbers are drawn per step. Contenders take turns; times are the process's own, which
other work on the machine disturbs less, and the least of all repeats after one that compiles.
"""

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from turns import clock, least, show, take_turns

import crossprop as cp

STEPS, NUMBERS = 3000, 10_500


def summed(draw: Callable[[Any], jax.Array]) -> Callable[[], Any]:
    """Draws `STEPS` times in one compiled loop."""

    def step(_: Any, carry: Any) -> Any:
        key, total = carry
        key, own = jax.random.split(key)
        return key, total + draw(own)

    program = jax.jit(lambda key: lax.fori_loop(0, STEPS, step, (key, jnp.zeros(NUMBERS)))[1])
    return lambda: jax.block_until_ready(program(jax.random.key(0)))


def run_of(optimizer: Any) -> Callable[[], Any]:
    random = np.random.default_rng(0)
    stream = cp.Arrays(random.integers(0, 2, (STEPS, 20)), random.normal(size=STEPS))
    learner = cp.Backprop(cp.Network.paper(20, 500), 1e-3, optimizer=optimizer)
    return lambda: cp.run(learner, stream, seeds=1, record_every=STEPS, engine="scan", progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    flags = parser.parse_args()
    spread = jnp.linspace(-0.999, 0.999, NUMBERS)
    contenders = {
        "backprop, sgd": run_of("sgd"),
        "backprop, upgd": run_of("upgd"),
        "backprop, shrink_perturb": run_of("shrink_perturb"),
        "jax.random.normal": summed(lambda key: jax.random.normal(key, (NUMBERS,))),
        "jax.random.bits": summed(lambda key: jax.random.bits(key, (NUMBERS,)).astype(float)),
        "erf_inv": summed(lambda key: lax.erf_inv(spread * jax.random.uniform(key))),
    }
    seconds = least(take_turns(contenders, flags.repeats, clock(cpu=True)))
    show("20-500-1", {name: each / STEPS for name, each in seconds.items()})


if __name__ == "__main__":
    main()
