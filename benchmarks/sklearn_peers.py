"""Our scikit-learn estimators beside scikit-learn's own: `python benchmarks/sklearn_peers.py`.

Digits, and 5,000 examples like covertype (54 inputs of which 10 tell something, 7 classes) and like California housing
(8 inputs, numbers) from scikit-learn's generators. Accuracy or R2 on a test set after one and ten passes, CPU seconds
of one pass and of ten, as medians over three seeds. Networks have one hidden layer of 64 units; MLP learns from one
example at a time, as ours do, and so does SGD. Step sizes are the best of the same grid on a part of the training set,
after one pass. Our pass is timed once its program is compiled; what compiling took is in a column of its own.
"""

import sys
import time
import warnings
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossprop.sklearn import OnlineClassifier, OnlineRegressor

STEP_SIZES = [float(4.0**power) for power in range(-8, 1)]
SEEDS = (1, 2, 3)


def like_covertype(examples):
    return make_classification(
        examples, 54, n_informative=10, n_redundant=10, n_classes=7, n_clusters_per_class=3, random_state=0
    )


def like_california(examples):
    return make_friedman1(examples, 8, noise=1.0, random_state=0)


def ours(kind, learner, step_size, epochs, seed):
    return kind(learner, hidden=64, step_size=step_size, epochs=epochs, random_state=seed)


def mlp(kind, step_size, epochs, seed):
    return kind(
        hidden_layer_sizes=64, activation="tanh", solver="sgd", batch_size=1, learning_rate_init=step_size,
        momentum=0.0, alpha=0.0, max_iter=epochs, tol=0.0, n_iter_no_change=epochs + 1, random_state=seed,
    )  # fmt: skip


def sgd(kind, step_size, epochs, seed):
    return kind(learning_rate="constant", eta0=step_size, alpha=1e-6, max_iter=epochs, tol=None, random_state=seed)


CLASSIFIERS = {
    "OnlineClassifier, foresight": partial(ours, OnlineClassifier, "foresight"),
    "OnlineClassifier, backprop": partial(ours, OnlineClassifier, "backprop"),
    "MLPClassifier(batch_size=1)": partial(mlp, MLPClassifier),
    "SGDClassifier": partial(sgd, partial(SGDClassifier, loss="log_loss")),
}
REGRESSORS = {
    "OnlineRegressor, foresight": partial(ours, OnlineRegressor, "foresight"),
    "OnlineRegressor, backprop": partial(ours, OnlineRegressor, "backprop"),
    "MLPRegressor(batch_size=1)": partial(mlp, MLPRegressor),
    "SGDRegressor": partial(sgd, SGDRegressor),
}


def fitted(model, x, y):
    began = time.process_time()
    model.fit(x, y)
    return model, time.process_time() - began


def scored(make, step_size, epochs, seed, data):
    """The score on the test set, and seconds of the fit. Scaling is outside, once, for all."""
    x, x_test, y, y_test = data
    try:
        model, seconds = fitted(make(step_size, epochs, seed), x, y)
        return model.score(x_test, y_test), seconds
    except ValueError as problem:
        if not any(word in str(problem) for word in ("finite", "infinity", "overflow", "NaN")):
            raise
        return -np.inf, np.nan  # it diverged


def split(x, y, seed):
    parts: Any = train_test_split(x, y, random_state=seed)
    x, x_test, y, y_test = parts
    scaler = make_pipeline(StandardScaler()).fit(x)
    if y.dtype.kind == "f":
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return scaler.transform(x), scaler.transform(x_test), y, y_test


def main():
    quick = "--quick" in sys.argv
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", RuntimeWarning)  # step sizes that diverge
    examples = 400 if quick else 5_000
    data = {"digits": load_digits(return_X_y=True), "like covertype": like_covertype(examples)}
    data["like California"] = like_california(examples)
    print("| data | model | step size | 1 pass | 10 passes | CPU seconds, 1 pass | 10 passes | compiling |")
    print("|---|---|---|---|---|---|---|---|")
    seconds = {}
    for name, (x, y) in data.items():
        for title, make in (REGRESSORS if y.dtype.kind == "f" else CLASSIFIERS).items():
            train, _, labels, _ = split(x, y, 0)
            tuning = split(train[:2000], labels[:2000], 0)
            grid = STEP_SIZES[3:5] if quick else STEP_SIZES
            scores = {step_size: scored(make, step_size, 1, 0, tuning)[0] for step_size in grid}
            best = max(scores, key=scores.__getitem__)
            rows = [split(x, y, seed) for seed in SEEDS]
            _, cold = scored(make, best, 1, 0, rows[0])
            one = [scored(make, best, 1, seed, row) for seed, row in zip(SEEDS, rows, strict=True)]
            ten = [scored(make, best, 10, seed, row) for seed, row in zip(SEEDS, rows, strict=True)]
            (first, later), (warm, long) = ([median(each[at] for each in part) for part in (one, ten)] for at in (0, 1))
            seconds[name, title] = warm
            compiling = f"{max(cold - warm, 0):.1f}" if title.startswith("Online") else ""
            edge = " (edge)" if best in (grid[0], grid[-1]) else ""
            cells = [name, title, f"{best:.2g}{edge}", f"{first:.3f}", f"{later:.3f}", f"{warm:.2f}", f"{long:.2f}"]
            print(f"| {' | '.join(cells)} | {compiling} |", flush=True)
    for name in data:
        own, theirs = (
            next(value for (each, title), value in seconds.items() if each == name and title.startswith(start))
            for start in ("Online", "MLP")
        )
        print(f"{name}: one pass takes 1/{theirs / own:.1f} of the time of the MLP with batch_size=1")


if __name__ == "__main__":
    main()
