"""Progressive accuracy on River's data sets, beside River's own models: `python benchmarks/river_peers.py`.

Every model is a pipeline with River's StandardScaler and predicts each example before it learns from it. The step size
of ours and of the logistic regression is the best of a grid, chosen by the accuracy on the first half of the data set;
the table has the accuracy on the second half, as the mean over five seeds of the initial weights where there are any,
and microseconds per example for predicting and learning.
Elec2 comes by `crossprop data fetch elec2`; `python benchmarks/river_peers.py Phishing` runs that data set alone.
"""

import sys
import time
from functools import partial

import numpy as np
from river import datasets, linear_model, multiclass, optim, preprocessing, tree

import crossprop as cp
from crossprop.river import Classifier

NAMES = ("Phishing", "ImageSegments", "Elec2")
SEEDS = 5
STEP_SIZES = [float(2.0**power) for power in range(-10, 3)]


def logistic(step_size, seed):
    one = linear_model.LogisticRegression(optimizer=optim.SGD(step_size), intercept_lr=step_size)
    return multiclass.OneVsRestClassifier(one)


def ours(step_size, seed, learner="foresight"):
    return Classifier(learner, hidden=(64,), step_size=step_size, seed=seed)


def hoeffding(step_size, seed):
    return tree.HoeffdingTreeClassifier()


MODELS = {
    "crossprop.river, foresight": partial(ours, learner="foresight"),
    "crossprop.river, backprop": partial(ours, learner="backprop"),
    "crossprop.river, crossprop-0.5": partial(ours, learner="crossprop-0.5"),
    "crossprop.river, frozen": partial(ours, learner="frozen"),
    "logistic regression, one against the rest": logistic,
    "Hoeffding tree": hoeffding,
}


def data_sets(quick):
    elec2 = cp.datasets.elec2()
    rows = [dict(enumerate(row)) for row in elec2.x.tolist()]
    found = {"Phishing": [*datasets.Phishing()], "ImageSegments": [*datasets.ImageSegments()]}
    found["Elec2"] = [*zip(rows, elec2.y.tolist(), strict=True)]
    return {name: rows[:60] if quick else rows for name, rows in found.items()}


def predicted(model, examples):
    """Whether each prediction was right, and the median of the seconds per example."""
    pipeline = preprocessing.StandardScaler() | model
    right, seconds = np.zeros(len(examples), bool), np.zeros(len(examples))
    for at, (x, y) in enumerate(examples):
        began = time.perf_counter()
        right[at] = pipeline.predict_one(x) == y
        pipeline.learn_one(x, y)
        seconds[at] = time.perf_counter() - began
    return right, np.median(seconds)


def measured(make, examples, seeds, step_sizes):
    half = len(examples) // 2
    grid = step_sizes if make is not hoeffding else [None]
    tuned = {step: predicted(make(step, 1000), examples[:half])[0].mean() for step in grid}
    best = max(tuned, key=tuned.__getitem__)
    at_edge = len(grid) > 1 and best in (grid[0], grid[-1])
    runs = [predicted(make(best, seed), examples) for seed in range(1 if make in (hoeffding, logistic) else seeds)]
    scores = [right[half:].mean() for right, _ in runs]
    return np.mean(scores), np.std(scores), best, at_edge, min(seconds for _, seconds in runs)


def main():
    quick = "--quick" in sys.argv
    print("| data set | model | accuracy, second half | step size | us per example |\n|---|---|---|---|---|")
    for name, examples in data_sets(quick).items():
        if any(each in sys.argv for each in NAMES) and name not in sys.argv:
            continue
        for title, make in MODELS.items():
            mean, spread, best, at_edge, seconds = measured(
                make, examples, *((1, STEP_SIZES[6:8]) if quick else (SEEDS, STEP_SIZES))
            )
            chosen = "" if best is None else f"{best:g}{' (edge of the grid)' if at_edge else ''}"
            around = f" +- {spread:.3f}" if spread else ""
            print(f"| {name} | {title} | {mean:.3f}{around} | {chosen} | {1e6 * seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
