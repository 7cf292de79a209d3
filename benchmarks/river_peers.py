"""Progressive accuracy beside River's own models, all with their defaults: `python benchmarks/river_peers.py`.

Every model predicts each example before it learns from it, on the first 10,000 examples of data sets and generators of
River, and of Elec2 (`crossprop data fetch elec2`). The logistic regression and the nearest neighbours have River's
StandardScaler before them. The table has the accuracy over all these examples and, for the last data set, the median
microseconds of predicting and learning. `python benchmarks/river_peers.py Phishing` runs that data set alone.
"""

import sys
import time
from itertools import islice

import numpy as np
from river import datasets, forest, linear_model, multiclass, neighbors, preprocessing, tree
from river.datasets import synth

import crossprop as cp
from crossprop.river import Classifier

EXAMPLES = 10_000


def elec2():
    data = cp.datasets.elec2()
    return zip((dict(enumerate(row)) for row in data.x.tolist()), data.y.tolist(), strict=True)


STREAMS = {
    "Phishing": datasets.Phishing,
    "Bananas": datasets.Bananas,
    "ImageSegments": datasets.ImageSegments,
    "Elec2": elec2,
    "Agrawal": lambda: synth.Agrawal(seed=0),
    "Hyperplane, drift": lambda: synth.Hyperplane(seed=0, n_features=10, n_drift_features=5, mag_change=0.001),
    "RBF, drift": lambda: synth.RandomRBFDrift(
        seed_model=0, seed_sample=0, n_classes=4, n_features=10, n_centroids=20, change_speed=0.001,
        n_drift_centroids=10,
    ),
}  # fmt: skip
MODELS = {
    "crossprop": lambda: Classifier(seed=0),
    "logistic regression": lambda: (
        preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    ),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0),
    "adaptive forest": lambda: forest.ARFClassifier(seed=0),
    "nearest neighbours": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
}


def measured(model, examples):
    """The accuracy, and the median of the seconds per example."""
    right, seconds = 0, []
    for x, y in examples:
        began = time.perf_counter()
        right += model.predict_one(x) == y
        model.learn_one(x, y)
        seconds.append(time.perf_counter() - began)
    return right / len(seconds), np.median(seconds)


def main():
    quick = "--quick" in sys.argv
    chosen = [name for name in STREAMS if name in sys.argv] or [*STREAMS]
    print(f"| stream | {' | '.join(MODELS)} |\n|{'---|' * (1 + len(MODELS))}")
    times = []
    for name in chosen:
        examples = [*islice(STREAMS[name](), 60 if quick else EXAMPLES)]
        found = [measured(make(), examples) for make in MODELS.values()]
        times = [f"{1e6 * seconds:.0f}" for _, seconds in found]
        print(f"| {name} | {' | '.join(f'{accuracy:.3f}' for accuracy, _ in found)} |", flush=True)
    print(f"| µs per example | {' | '.join(times)} |")


if __name__ == "__main__":
    main()
