"""Seconds to compile the first call of every engine and of plain JAX, with nothing cached.

python benchmarks/compilation.py [--engines scan chunked] [--repeats 3] [--quick]
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import against_others
import jax
from against_others import REFUSALS, Case, prepare

import crossprop as cp
from crossprop.engines import ENGINES

STEPS = 500


def cases(quick: bool) -> list[Case]:
    """GEOFF with 30 runs and MNIST's sizes with one, for few steps."""
    geoff = against_others.apart(("crossprop", "backprop"), against_others.geoff(STEPS, quick), 2 if quick else 30)
    names = ("crossprop-approx", "backprop", "crossprop-projected", "crossprop")
    return geoff + against_others.apart(names, against_others.mnist(STEPS, quick), 1)


def seconds_to_compile(case: Case, contender: str, repeats: int) -> float:
    """How much longer a first call takes than later ones, when nothing is cached."""
    call, _ = prepare(case, contender)
    for run in range(case.runs):
        case.stream.sample(cp.keys(run)[0])
    seconds: list[float] = []
    with nothing_compiled():
        for _ in range(1 + repeats):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    return max(seconds[0] - median(seconds[1:]), 0.0)


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Clears compiled programs, and turns the persistent cache off within the block."""
    from jax.experimental.compilation_cache import compilation_cache

    before = jax.config.values["jax_enable_compilation_cache"]

    def enable(on: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", on)
        compilation_cache.reset_cache()

    enable(False)
    jax.clear_caches()
    try:
        yield
    finally:
        enable(before)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES], default=[*ENGINES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything works")
    options = parser.parse_args(arguments)
    for case in cases(options.quick):
        for name in (*options.engines, "plain jax"):
            try:
                result = f"{seconds_to_compile(case, name, options.repeats):.2f} s"
            except REFUSALS as problem:
                result = f"not timed, {str(problem).partition(chr(10))[0]}"
            print(f"{case.name}, {case.stream.inputs} inputs, {name}: {result}", flush=True)


if __name__ == "__main__":
    main()
