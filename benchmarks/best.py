"""Errors with a usual step size, with the best of a grid, and with `cp.Best`: `python benchmarks/best.py`.

Foresight with 64 hidden units and normalised inputs and targets, on the first 20,000 examples of data sets and
generators of River and of Elec2 (`crossprop data fetch elec2`). The usual step size is 0.01, for numbers 0.003. Every
example is predicted before it is learned from. The share misclassified, or the mean squared error as a share of the
targets' variance, over all examples and three seeds; then microseconds per example of a run.
`python benchmarks/best.py Elec2` runs that stream alone.
"""

import sys
import time
from itertools import islice

import numpy as np
import river_peers
from river import datasets
from river.datasets import synth

import crossprop as cp

EXAMPLES, SEEDS = 20_000, 3
STEP_SIZES = [float(4.0**power) for power in range(-6, 1)]
USUAL = {True: 0.01, False: 0.003}
CLASSES = {name: rows for name, rows in river_peers.STREAMS.items() if name != "Elec2"}
NUMBERS = {
    "Friedman, drift": lambda: synth.FriedmanDrift(drift_type="gra", position=(7_000, 13_000), seed=0),
    "Planes": lambda: synth.Planes2D(seed=0),
    "TrumpApproval": datasets.TrumpApproval,
}


def stream(name, examples):
    if name == "Elec2":
        data = cp.datasets.elec2()
        return cp.Arrays(data.x[:examples], data.y[:examples], classes=2)
    rows = [*islice((CLASSES | NUMBERS)[name](), examples)]
    x = np.array([[float(value) for value in row.values()] for row, _ in rows])
    if name in NUMBERS:
        y = np.array([y for _, y in rows], float)
        return cp.Arrays(x, y / y.std())
    labels = np.unique([str(y) for _, y in rows], return_inverse=True)[1]
    return cp.Arrays(x, labels, classes=labels.max() + 1)


def seconds(learner, source):
    """Of a run without its compilation, per example."""
    times = []
    for _ in range(4):
        began = time.perf_counter()
        cp.run(learner, source, 1, source.steps, progress=False)
        times.append(time.perf_counter() - began)
    return min(times) / source.steps


def main():
    quick = "--quick" in sys.argv
    print("| stream | usual step size | best of seven | cp.Best | us, one | us, cp.Best |\n|---|---|---|---|---|---|")
    for name in ["Elec2", *CLASSES, *NUMBERS]:
        if any(each in sys.argv for each in ("Elec2", *CLASSES, *NUMBERS)) and name not in sys.argv:
            continue
        source = stream(name, 200 if quick else EXAMPLES)
        classes = source.one_hot
        net = cp.Network(
            source.inputs, 64, source.outputs, loss="softmax" if classes else "squared", bias=True,
            incoming_scale="lecun", outgoing_scale="lecun",
        )  # fmt: skip
        made = {"usual": cp.Foresight(net, USUAL[classes]), "best": cp.Best(cp.Foresight(net, 1.0))}
        made |= {f"{step:g}": cp.Foresight(net, step) for step in (STEP_SIZES[3:5] if quick else STEP_SIZES)}
        learners = {each: cp.Normalize(learner, scale_targets=not classes) for each, learner in made.items()}
        records = cp.run(learners, source, 1 if quick else SEEDS, source.steps, progress=False)
        found = (records.error if classes else records.loss).mean(["seed", "step"]).to_series()
        grid = found.drop(["usual", "best"])
        cells = [name, f"{found['usual']:.3f}", f"{grid.min():.3f} ({grid.idxmin()})", f"{found['best']:.3f}"]
        times = [f"{1e6 * seconds(learners[each], source):.1f}" for each in ("usual", "best")]
        print(f"| {' | '.join(cells + times)} |", flush=True)


if __name__ == "__main__":
    main()
