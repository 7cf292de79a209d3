"""What a service waits for, and what it stores: `python benchmarks/service.py`.

The estimators with their defaults, one row of 30 numbers at a time: `warm_up`, the first example after it, median and
99th percentile of predicting and learning, the pickle after 5,000 examples, and the memory of the process.
"""

import pickle
import resource
import sys
import time
from functools import partial

import numpy as np

from crossprop.river import Classifier
from crossprop.sklearn import OnlineClassifier

INPUTS = 30


def took(call):
    began = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - began)


def calls(model, rows):
    """Predicting and learning, of each row."""
    for row in rows:
        label = int(row[0] > 0)
        if isinstance(model, Classifier):
            x = dict(enumerate(row.tolist()))
            yield lambda x=x: model.predict_one(x), lambda x=x, label=label: model.learn_one(x, label)
        else:
            x, y = row[None], [label]
            yield lambda x=x: model.predict(x), lambda x=x, y=y: model.partial_fit(x, y)


def main():
    rows = np.random.default_rng(0).normal(size=(200 if "--quick" in sys.argv else 5000, INPUTS))
    head = ["", "warm_up, s", "first, ms", "predict, µs", "99%", "learn, µs", "99%", "pickle, kB"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name, model, outputs in (("River", Classifier(), 2), ("scikit-learn", OnlineClassifier(), [0, 1])):
        warming = took(partial(model.warm_up, INPUTS, outputs))
        times = np.array([[took(predict), took(learn)] for predict, learn in calls(model, rows)])
        medians, last = np.median(times[1:], axis=0), np.percentile(times[1:], 99, axis=0)
        cells = [f"{warming / 1e6:.1f}", f"{times[0].sum() / 1e3:.1f}", f"{medians[0]:.0f}", f"{last[0]:.0f}"]
        cells += [f"{medians[1]:.0f}", f"{last[1]:.0f}", f"{len(pickle.dumps(model)) / 1e3:.0f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
