"""How far the numbers of the paper's GEOFF experiment are apart between engines, devices and machines.

python benchmarks/elsewhere.py run FILE.npz [--engine chunked] [--seeds 30]
python benchmarks/elsewhere.py compare FILE.npz OTHER.npz
"""

import argparse
from pathlib import Path

import jax
import numpy as np
import xarray

import crossprop as cp
from crossprop.experiments.questions import answers_on
from crossprop.experiments.spec import SweepSpec
from crossprop.learners import Learner
from crossprop.library.veeriah2017 import PAPER

VARIABLES = ("loss", "incoming_drift", "outgoing_drift")


def run(path: Path, engine: str, seeds: int) -> None:
    spec = PAPER.plans["geoff"]("full", seeds=seeds).spec
    runs = {name: {name: learner} for name, learner in spec.learners.items()}
    each = [_run_if_it_can(spec, learner, engine) for learner in runs.values()]
    records = xarray.concat(each, "learner", combine_attrs="drop")
    used = dict(zip(spec.learners, (one.attrs["engine"] for one in each), strict=True))
    kept = (*VARIABLES, "learner", "seed", "step", "task", "diverged_at")
    np.savez_compressed(path, allow_pickle=False, **{name: records[name].values for name in kept})
    device = jax.devices()[0].device_kind
    print(f"{path}: {device}, jax {jax.__version__}, engines {used}")


def _run_if_it_can(spec: SweepSpec, learner: dict[str, Learner], engine: str) -> xarray.Dataset:
    """Runs with this engine, or with scan if the engine cannot run the learner."""
    try:
        return cp.run(learner, spec.stream, spec.seeds, spec.record_every, engine, progress=False)
    except ValueError:
        return cp.run(learner, spec.stream, spec.seeds, spec.record_every, "scan", progress=False)


def opened(path: Path) -> xarray.Dataset:
    held = np.load(path)
    dims = ("learner", "seed", "step")
    data = {name: (dims, held[name]) for name in VARIABLES} | {"diverged_at": (dims[:2], held["diverged_at"])}
    return xarray.Dataset(data, {name: held[name] for name in dims} | {"task": ("step", held["task"])})


def apart(x: xarray.DataArray, y: xarray.DataArray) -> float:
    return float((abs(x - y) / np.maximum(abs(x), 1e-9)).max())


def compare(one: Path, other: Path) -> None:
    a, b = opened(one), opened(other)
    equal = all(np.array_equal(a[name], b[name], equal_nan=True) for name in VARIABLES)
    print(
        "all records are bit-equal"
        if equal
        else "largest relative difference of the loss, and of the drifts at the end:"
    )
    print(f"{'':22}{'window of a run':>20}{'window, all seeds':>20}{'all windows':>14}{'|U - U0|':>12}{'|W - W0|':>12}")
    for name in a.learner.values:
        mine, its = (each.sel(learner=name) for each in (a, b))
        over_seeds = [each.mean("seed") for each in (mine, its)]
        ends = [each.isel(step=-1) for each in over_seeds]
        row = [
            apart(mine.loss, its.loss),
            apart(over_seeds[0].loss, over_seeds[1].loss),
            apart(over_seeds[0].loss.mean(), over_seeds[1].loss.mean()),
            *(apart(ends[0][drift], ends[1][drift]) for drift in VARIABLES[1:]),
        ]
        widths = (20, 20, 14, 12, 12)
        print(f"{name:22}" + "".join(f"{value:{width}.1e}" for value, width in zip(row, widths, strict=True)))
    verdicts = [answers_on(PAPER.claims, {"geoff": records}) for records in (a, b)]
    moved, changed = 0.0, []
    for mine, its in zip(*verdicts, strict=True):
        changed += [mine.id] * (mine.verdict != its.verdict)
        for x, y in zip(mine.numbers, its.numbers, strict=True):
            moved = max(moved, abs(x.mean - y.mean) / (x.high - x.low)) if x.high > x.low else moved
    print(f"verdicts that differ: {', '.join(changed) or 'none'}")
    print(f"a number of a claim moves by at most {100 * moved:.2g}% of the width of its interval")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--seeds", type=int, default=30)
    given = parser.parse_args()
    if given.command == "run":
        run(given.files[0], given.engine, given.seeds)
    else:
        compare(*given.files)


if __name__ == "__main__":
    main()
