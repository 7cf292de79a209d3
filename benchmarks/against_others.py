"""The engines against loops in NumPy, PyTorch and alberta-framework, timed as `crossprop bench` times.

python benchmarks/against_others.py [geoff-30] [geoff-1056] [mnist] [--engines scan chunked] [--repeats 5] [--cpu]
    [--quick]

`--cpu` counts the process's time on all cores, which other work on the machine disturbs less. Ratios are then those of
one core to one core, though an engine would use them all. Needs torch and alberta-framework for the rows that are
theirs; without one of them the table says so.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import jax
from peers import PEERS
from rich.console import Console

from crossprop.bench.floors import measure_ceilings
from crossprop.bench.output import print_machine, print_workload, say
from crossprop.bench.timing import Row, time_workload
from crossprop.bench.workloads import WORKLOADS, Case, Scale
from crossprop.engines import ENGINES

LEARNERS = {
    "geoff-30": ("crossprop", "backprop"),
    "geoff-1056": ("crossprop", "backprop"),
    "mnist": ("crossprop-approx", "backprop"),
}
"""The learners of each workload that the peers can run in reasonable time."""


def compared_cases(workload: str, scale: Scale) -> list[Case]:
    return [with_others(case) for case in WORKLOADS[workload].cases(scale) if case.name in LEARNERS[workload]]


def with_others(case: Case) -> Case:
    """The case with the other implementations added; alberta-framework has only backprop with one output."""
    fits_alberta = case.name == "backprop" and case.network.outputs == 1
    others = {name: peer for name, peer in PEERS.items() if name != "alberta" or fits_alberta}
    return replace(case, peers={**case.peers, **others})


def versions() -> str:
    found = []
    for package in ("jax", "numpy", "torch", "alberta-framework"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(LEARNERS)}; default geoff-30")
    parser.add_argument("--engines", nargs="+", choices=["auto", *ENGINES], default=[*ENGINES])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="time on all cores together")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything works")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.workloads if name not in LEARNERS]:
        parser.error(f"workloads must be of {', '.join(LEARNERS)}, got {', '.join(unknown)}")
    console, ceilings = Console(), measure_ceilings(options.quick)
    print_machine(console, ceilings, options.quick)
    say(console, versions())
    scale = Scale(options.quick, jax.default_backend() != "cpu", steps=None)
    clock = time.process_time if options.cpu else time.perf_counter
    rows: list[Row] = []
    for name in options.workloads or ["geoff-30"]:
        timed = time_workload(name, compared_cases(name, scale), options.engines, options.repeats, ceilings, clock)
        print_workload(console, WORKLOADS[name].title, timed, options.quick)
        rows += timed
    return rows


if __name__ == "__main__":
    main()
