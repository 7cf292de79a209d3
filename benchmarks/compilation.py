"""Seconds to compile the first call of every engine and of plain JAX, with nothing cached.

python benchmarks/compilation.py [--engines scan chunked] [--repeats 3] [--quick]
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

import jax
from rich.console import Console

from crossprop.bench.output import say
from crossprop.bench.peers import RECORD_EVERY
from crossprop.bench.timing import REFUSALS, measure_seconds, part, prepare, refusal
from crossprop.bench.workloads import WORKLOADS, Case, Scale
from crossprop.engines import ENGINES


def cases(quick: bool) -> list[Case]:
    """GEOFF with 30 runs and MNIST's sizes with one, for 500 steps."""
    scale = Scale(quick, gpu=False, steps=2 * RECORD_EVERY if quick else 10 * RECORD_EVERY)
    found = [case for name in ("geoff-30", "mnist") for case in WORKLOADS[name].cases(scale)]
    return [replace(case, name=f"{case.name}, {case.size}") for case in found]


def seconds_to_compile(case: Case, contender: str, repeats: int) -> float:
    """How much longer a first call takes than later ones, when nothing is cached."""
    call = prepare(case, contender, *part(case, contender))
    case.stream.examples(case.runs)
    with nothing_compiled():
        first, *later = (measure_seconds(call) for _ in range(1 + repeats))
    return max(first - median(later), 0.0)


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
    console = Console()
    for case in cases(options.quick):
        for name in (*options.engines, *case.peers):
            try:
                result = f"{seconds_to_compile(case, name, options.repeats):.2f} s"
            except REFUSALS as problem:
                result = f"not timed, {refusal(problem)}"
            say(console, f"{case.name}, {name}: {result}")


if __name__ == "__main__":
    main()
