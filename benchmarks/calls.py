"""The cost of learning from Python, one example at a time and in one pass: `python benchmarks/calls.py`.

Prints the microseconds of one call of `update`, of `cp.live` per example over 10,000 examples, and of a step of the
scan engine, all for crossprop on a 20-500-1 network, as medians of alternating repeats. Where River is installed, also
the call of its estimators' `learn_one` and `predict_one` beside that of the learner's own `update` and `predict` on
arrays that are ready, one after the other on every example of River's Phishing.
"""

import time
from functools import partial
from importlib.util import find_spec
from statistics import median

import jax
import numpy as np

import crossprop as cp
from crossprop.engines import scan
from crossprop.engines.protocol import Batch, Run, RunOptions

EXAMPLES, CALLS, REPEATS = 10_000, 2_000, 7
LEARNER = cp.Crossprop(cp.Network.paper(inputs=20, hidden=500), 5e-4)
STREAM = cp.Geoff(tasks="A", examples=EXAMPLES)


def update_seconds(x, y):
    """Seconds per call of `update`."""
    state = jax.block_until_ready(LEARNER.init(cp.keys(0)[1]))
    began = time.perf_counter()
    for at in range(CALLS):
        state, _ = LEARNER.update(state, x[at], y[at])
    jax.block_until_ready(state)
    return (time.perf_counter() - began) / CALLS


def live_seconds(x, y):
    """Seconds per example of `cp.live`."""
    state = jax.block_until_ready(LEARNER.init(cp.keys(0)[1]))
    began = time.perf_counter()
    jax.block_until_ready(cp.live(LEARNER, state, x, y))
    return (time.perf_counter() - began) / EXAMPLES


def scan_seconds():
    """Seconds per step of a session of the scan engine."""
    batch = Batch([Run(LEARNER, STREAM, 0)], RunOptions(50, EXAMPLES), segment=EXAMPLES)
    session = scan.start(batch, jax.default_backend())
    began = time.perf_counter()
    session.advance(EXAMPLES)
    return (time.perf_counter() - began) / EXAMPLES


def river_calls():
    """Microseconds of the learner's own calls and of `crossprop.river`'s."""
    from river import datasets, preprocessing

    from crossprop.river import Classifier

    pipeline = preprocessing.StandardScaler() | Classifier(hidden=(64, 64), seed=0)
    for x, y in datasets.Phishing():
        pipeline.learn_one(x, y)
        pipeline.predict_one(x)
    scaler, model = pipeline[0], pipeline[-1]
    times = {"update": [], "learn_one": [], "predict": [], "predict_one": []}
    for _ in range(REPEATS):
        for x, y in datasets.Phishing():
            features = scaler.transform_one(x)
            row, target = model._row(features), model._targets[model._labels[y]]
            calls = {
                "update": partial(model._made.update, model._state, row, target),
                "learn_one": partial(model.learn_one, features, y),
                "predict": partial(model._made.predict, model._state, row),
                "predict_one": partial(model.predict_one, features),
            }
            for name, call in calls.items():
                began = time.perf_counter()
                jax.block_until_ready([call(), model._state])
                times[name].append(time.perf_counter() - began)
    return {name: 1e6 * median(each) for name, each in times.items()}


def main():
    x, y, _ = STREAM.sample(cp.keys(0)[0])
    measures = {
        "update, per call": lambda: update_seconds(np.asarray(x), np.asarray(y)),
        "live, per example": lambda: live_seconds(x, y),
        "scan engine, per step": scan_seconds,
    }
    rounds = [{name: measure() for name, measure in measures.items()} for _ in range(1 + REPEATS)][1:]
    for name in measures:
        print(f"{name}: {1e6 * median(each[name] for each in rounds):.1f} us", flush=True)
    for name in ("update, per call", "live, per example"):
        ratios = [each[name] / each["scan engine, per step"] for each in rounds]
        print(f"{name.split(',')[0]} against the scan engine: {median(ratios):.2f}x", flush=True)
    if find_spec("river"):
        found = river_calls()
        for own, adapted in (("update", "learn_one"), ("predict", "predict_one")):
            ratio = found[adapted] / found[own]
            print(f"River's {adapted}: {found[adapted]:.0f} us, {own} itself {found[own]:.0f} us: {ratio:.2f}x")


if __name__ == "__main__":
    main()
