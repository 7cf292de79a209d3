"""Is the schedule of `crossprop study why` tuned finely enough to be a fair control?

python benchmarks/schedules.py [--seeds 20] [--quick]

Its grid has values of `start` and `over` that are a factor of 4 apart. Here backprop, foresight and crossprop, all with
a step for U that fades, are tuned with values closer together, from the best that the study finds where W starts at 0:
three values on each axis, which move until the best of all settings has a worse neighbour on either side, on the three
seeds of the study. The best of each is judged on its fresh seeds.
"""

import argparse
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import crossprop as cp
from crossprop.streams import STREAMS

TUNING = 3
SPACING = {"start": 2, "over": 2**0.5, "step_size": 2**0.25, "incoming_step_size": 2**0.25, "ahead": 2}
"""The factor between the values of an axis."""
BEGINNINGS: dict[str, tuple[Callable[..., cp.Learner], dict[str, float]]] = {
    "backprop": (cp.Backprop, {"start": 32, "over": 362, "step_size": 2**-4.75, "incoming_step_size": 2**-7.25}),
    "foresight": (
        cp.Foresight,
        {"start": 16, "over": 256, "step_size": 2**-4.75, "incoming_step_size": 2**-7, "ahead": 2},
    ),
    "crossprop": (
        partial(cp.Crossprop, eta=0.5, projections=4),
        {"start": 16, "over": 724, "step_size": 2**-4.5, "incoming_step_size": 2**-7},
    ),
}


def made(rule: Callable[..., cp.Learner], network: cp.Network, setting: dict[str, float]) -> cp.Learner:
    own = {axis: value for axis, value in setting.items() if axis not in ("start", "over")}
    return rule(network, optimizer=cp.optimizers.fading(setting["start"], over=setting["over"]), **own)


def tuned(
    rule: Callable[..., cp.Learner], beginning: dict[str, float], network: cp.Network, stream: Any, at_once: int | None
) -> tuple[dict[str, float], int]:
    """The best setting, and of how many."""
    center = (0,) * len(beginning)
    errors: dict[tuple[int, ...], float] = {}
    value = lambda at: {
        axis: given * SPACING[axis] ** n for (axis, given), n in zip(beginning.items(), at, strict=True)
    }
    while True:
        around = itertools.product(*[(n - 1, n, n + 1) for n in center])
        new = [at for at in around if at not in errors][:at_once]
        learners = {str(number): made(rule, network, value(at)) for number, at in enumerate(new)}
        records = cp.run(learners, stream, TUNING, 100, progress=False)
        found = np.nan_to_num(records.error.mean(["step", "seed"]).values.ravel(), nan=np.inf)
        errors |= dict(zip(new, found.tolist(), strict=True))
        best = min(errors, key=errors.__getitem__)
        if best == center or at_once is not None:
            return value(best), len(errors)
        center = best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="fresh seeds")
    parser.add_argument("--quick", action="store_true", help="tiny, to check that everything works")
    flags = parser.parse_args()
    hidden, examples = (4, 100) if flags.quick else (64, 1600)
    network = cp.Network(784, hidden, 10, loss="softmax", incoming_scale=0.05, outgoing_scale=0.0)
    stream: Any = STREAMS["mnist5k"](tasks="ABC", examples=examples, shuffle=True)
    chosen: dict[str, Any] = {}
    for name, (rule, beginning) in BEGINNINGS.items():
        best, count = tuned(rule, beginning, network, stream, 2 if flags.quick else None)
        chosen[name] = made(rule, network, best)
        print(f"{name}: the best of {count} settings is {best}", flush=True)
    records = cp.run(chosen, stream, range(TUNING, TUNING + flags.seeds), 100, progress=False)
    for name in chosen:
        print(f"{name}: {float(records.error.sel(learner=name).mean()):.4f} of fresh seeds misclassified")
    print(cp.compare(records, {"foresight": "backprop", "crossprop": "backprop"}))


if __name__ == "__main__":
    main()
