"""How cost grows with hidden units, inputs, outputs, runs and steps: GEOFF's sizes, one of them changed at a time.

python benchmarks/growth.py [--engines scan chunked] [--repeats 3] [--out growth] [--quick]

Draws growth-hidden.png and so on: each engine and plain JAX, with exact crossprop; over outputs, projected as well.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from against_others import CachedStream, Case, time_case
from peers import RECORD_EVERY

import crossprop as cp
from crossprop.engines import ENGINES
from crossprop.learners import LEARNERS

SIZES = {
    "hidden": (32, 128, 512, 2048),
    "inputs": (8, 32, 128, 512),
    "outputs": (1, 4, 16),
    "runs": (1, 4, 16),
    "steps": (500, 2000, 8000),
}
GPU_SIZES = SIZES | {"runs": (1, 16, 256, 4096), "steps": (500, 4000, 32_000)}
QUICK_SIZES = {"hidden": (8,), "inputs": (20,), "outputs": (1,), "runs": (1, 2), "steps": (100,)}
WHOLE_CASE = ("runs", "steps")
"""Quantities whose figure shows the seconds of the whole case, not those of a run-step."""


def grown_case(quantity: str, value: int, learner: str, quick: bool) -> Case:
    """GEOFF's sizes with one changed to `value`; the step size falls with the hidden units, so that no run diverges."""
    gpu = jax.default_backend() != "cpu"
    sizes = {"inputs": 20, "hidden": 8 if quick else 500, "outputs": 1, "runs": 2 if quick else 1056 if gpu else 4}
    sizes |= {quantity: value}
    network, runs = cp.Network(sizes["inputs"], sizes["hidden"], sizes["outputs"]), sizes["runs"]
    weights = network.inputs * network.units * (1 + network.outputs)
    affordable = int((1e11 if gpu else 4e8) / runs / weights) // RECORD_EVERY * RECORD_EVERY
    default = 100 if quick else 2000 if quantity == "runs" else max(500, min(20_000, affordable))
    steps = sizes.get("steps", default)
    random = np.random.default_rng(0)
    x = random.integers(2, size=(steps, network.inputs)).astype(np.float32)
    y = random.normal(size=(steps, network.outputs)).astype(np.float32)
    learners = {learner: LEARNERS[learner](network, 0.1 / network.units)}
    return Case(learner, learners, CachedStream(cp.Arrays(x, y)), runs)


def measure(quantity: str, values: Sequence[int], engines: Sequence[str], repeats: int, quick: bool) -> dict:
    """The cost by contender and learner: a list of sizes and one of seconds."""
    lines: dict[str, tuple[list[int], list[float]]] = {}
    for learner in ("crossprop", *(["crossprop-projected"] if quantity == "outputs" else [])):
        for value in values:
            case = grown_case(quantity, value, learner, quick)
            print(f"{quantity} {value}, {learner}", flush=True)
            for name, seconds in time_case(case, (*engines, "plain jax"), repeats).items():
                sizes, costs = lines.setdefault(f"{name}, {learner}", ([], []))
                sizes.append(value)
                costs.append(seconds * case.runs * case.stream.steps if quantity in WHOLE_CASE else 1e6 * seconds)
    return lines


def draw(path: Path, quantity: str, lines: dict) -> None:
    """One quantity: a line per contender and learner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for label, (sizes, costs) in lines.items():
        axes.loglog(sizes, costs, "o-", label=label, markersize=5)
    axes.set_xlabel(quantity)
    axes.set_ylabel("seconds" if quantity in WHOLE_CASE else "microseconds per run-step")
    axes.set_title("exact crossprop, 20-500-1 but for one size", fontsize=10)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=["auto", *ENGINES], default=[*ENGINES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("growth"), metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything works")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    every = QUICK_SIZES if options.quick else GPU_SIZES if jax.default_backend() != "cpu" else SIZES
    found = {}
    for quantity, values in every.items():
        found[quantity] = measure(quantity, values, options.engines, options.repeats, options.quick)
        draw(options.out / f"growth-{quantity}.png", quantity, found[quantity])
    return found


if __name__ == "__main__":
    main()
