"""How far foresight should look ahead where the task never changes: `ahead` grows, and the step for U shrinks with it.

python benchmarks/far_ahead.py {geoff,geoff-full,mnist} ... [--seeds 20] [--quick]

In the studies' column without a switch, tuning drives `ahead` up and `incoming_step_size` down to the edges of their
grids. Credit is `incoming_step_size * (W + ahead * v)`, so that with their product fixed only the share of W changes:
far ahead it vanishes, and units are credited by v alone, the recent steps of their outgoing weights. All other settings
are the best of the study. The error over all steps, and against tuned backprop on the same seeds, which tuning did not
see.
"""

import argparse
from typing import NamedTuple

import numpy as np

import crossprop as cp
from crossprop.streams import STREAMS

AHEAD = (1, 4, 16, 64, 256, 1024, 4096)


class Case(NamedTuple):
    """A column of a study: `product` is that of `ahead` and the step for U in the setting that tuning chose."""

    network: cp.Network
    stream: cp.Stream
    backprop: cp.Backprop
    step_size: float
    horizon: float
    product: float


def case_of(name: str, quick: bool) -> Case:
    if name == "mnist":
        network = cp.Network.paper(784, 64, 10, loss="softmax", incoming_scale=0.05, outgoing_scale=0.0)
        stream = STREAMS["mnist5k"](tasks="A", examples=100 if quick else 1800, shuffle=True)
        backprop = cp.Backprop(network, 2**-3, incoming_step_size=2**-9)
        return Case(network, stream, backprop, step_size=2**-3, horizon=100, product=32 * 2**-11)
    full = name == "geoff-full"
    network = cp.Network.paper(20, 500 if full else 100, incoming_scale=1.0 if full else 0.5, outgoing_scale=0.0)
    stream = cp.Geoff(tasks="A", examples=100 if quick else 30_000 if full else 9000)
    if full:
        backprop = cp.Backprop(network, 2**-12, incoming_step_size=0.0124)
        return Case(network, stream, backprop, step_size=2**-12, horizon=3000, product=64 * 2**-10)
    backprop = cp.Backprop(network, 2**-9.5, incoming_step_size=2**-7)
    return Case(network, stream, backprop, step_size=2**-10, horizon=3333, product=32 * 2**-11)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=["geoff", "geoff-full", "mnist"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="tiny, to check that everything works")
    flags = parser.parse_args()
    for name in flags.cases:
        case = case_of(name, flags.quick)
        learners: dict[str, cp.Learner] = {"backprop": case.backprop}
        for ahead in AHEAD:
            steps = {"step_size": case.step_size, "incoming_step_size": case.product / ahead}
            learners[f"ahead={ahead}"] = cp.Foresight(case.network, ahead=float(ahead), horizon=case.horizon, **steps)
        records = cp.run(learners, case.stream, range(1000, 1000 + flags.seeds), record_every=100)
        score = records.error if "error" in records else records.loss
        means = score.mean("step")
        print(f"\n{name}: {'share misclassified' if 'error' in records else 'squared error'}, {flags.seeds} seeds")
        for learner in learners:
            against = 100 * (means.sel(learner=learner) / means.sel(learner="backprop") - 1).values
            spread = 1.96 * against.std(ddof=1) / np.sqrt(flags.seeds)
            print(
                f"  {learner:12} {float(means.sel(learner=learner).mean()):8.4g}  {against.mean():+.2f}% ± {spread:.2f}"
            )


if __name__ == "__main__":
    main()
