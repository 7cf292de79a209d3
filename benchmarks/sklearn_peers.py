"""Our scikit-learn estimators beside scikit-learn's own, all with their defaults: `python benchmarks/sklearn_peers.py`.

Accuracy or R2 on a fifth of the data, and CPU seconds of `fit`, as medians over three seeds: digits, the first 5,000
examples of Covertype and of Elec2 (`crossprop data fetch covertype elec2`), and 5,000 of Friedman's first function.
Rows are in random order. Networks and SGD have standardised inputs, and regressors standardised targets. Ours are
fitted once before they are timed, so that they are compiled.
"""

import sys
import time
import warnings
from statistics import median

import numpy as np
from sklearn.datasets import load_digits, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

import crossprop as cp
from crossprop.sklearn import OnlineClassifier, OnlineRegressor

SEEDS = (1, 2, 3)
MODELS = {
    "crossprop": (OnlineClassifier, OnlineRegressor),
    "MLP": (MLPClassifier, MLPRegressor),
    "SGD": (SGDClassifier, SGDRegressor),
    "gradient boosting": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
}


def data_sets(examples):
    found = {"digits": load_digits(return_X_y=True)}
    for name, data in {"Covertype": cp.datasets.covertype(), "Elec2": cp.datasets.elec2()}.items():
        found[name] = data.x[:examples], data.y[:examples]
    return found | {"Friedman": make_friedman1(examples, noise=1.0, random_state=0)}


def scored(cls, x, y, seed):
    """The score on the test set, and CPU seconds of the fit."""
    x, x_test, y, y_test = map(np.asarray, train_test_split(x, y, test_size=0.2, random_state=seed))
    scaler = StandardScaler().fit(x)
    x, x_test = scaler.transform(x), scaler.transform(x_test)
    if y.dtype.kind == "f":
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    model = cls(random_state=seed)
    began = time.process_time()
    model.fit(x, y)
    return model.score(x_test, y_test), time.process_time() - began


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"| data | {' | '.join(MODELS)} |\n|{'---|' * (1 + len(MODELS))}")
    for name, (x, y) in data_sets(400 if "--quick" in sys.argv else 5_000).items():
        cells = []
        for title, (classifier, regressor) in MODELS.items():
            cls = regressor if y.dtype.kind == "f" else classifier
            if title == "crossprop":
                scored(cls, x, y, 0)
            found = [scored(cls, np.asarray(x), np.asarray(y), seed) for seed in SEEDS]
            score, seconds = (median(each[at] for each in found) for at in (0, 1))
            cells.append(f"{score:.3f}, {seconds:.1f} s")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
