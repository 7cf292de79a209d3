"""Is the schedule of `crossprop study why` tuned finely enough to be a fair control?

python benchmarks/schedules.py [--seeds 20] [--quick]

Its grid has values of `start` and `over` that are a factor of 4 apart. Here backprop and foresight, both with a step
for U that fades, have 81 and 243 settings around the best that the study finds where W starts at 0: closer together,
tuned on the three seeds of the study, and the best of each judged on its fresh seeds.
"""

import argparse
import itertools
from typing import Any

import crossprop as cp
from crossprop.streams import STREAMS

TUNING = 3
GRIDS: dict[str, tuple[type[cp.CreditRule], dict[str, Any]]] = {
    "backprop": (
        cp.Backprop,
        {
            "start": [16, 32, 64],
            "over": [256, 362, 512],
            "step_size": [2**-5, 2**-4.75, 2**-4.5],
            "incoming_step_size": [2**-7.75, 2**-7.25, 2**-6.75],
        },
    ),
    "foresight": (
        cp.Foresight,
        {
            "start": [8, 16, 32],
            "over": [181, 256, 362],
            "step_size": [2**-5, 2**-4.75, 2**-4.5],
            "incoming_step_size": [2**-7.25, 2**-7, 2**-6.75],
            "ahead": [1, 2, 4],
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="fresh seeds")
    parser.add_argument("--quick", action="store_true", help="tiny, to check that everything works")
    flags = parser.parse_args()
    hidden, examples = (4, 100) if flags.quick else (64, 1600)
    network = cp.Network(784, hidden, 10, loss="softmax", incoming_scale=0.05, outgoing_scale=0.0)
    stream: Any = STREAMS["mnist5k"](tasks="ABC", examples=examples, shuffle=True)
    chosen: dict[str, Any] = {}
    for name, (rule, grid) in GRIDS.items():
        settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        settings = settings[: 2 if flags.quick else None]
        learners = {}
        for at, setting in enumerate(settings):
            fading = cp.optimizers.fading(setting["start"], over=setting["over"])
            own = {axis: value for axis, value in setting.items() if axis not in ("start", "over")}
            learners[str(at)] = rule(network, optimizer=fading, **own)
        errors = cp.run(learners, stream, TUNING, 100, progress=False).error.mean(["step", "seed"])
        best = str(errors.idxmin("learner").values)
        chosen[name] = learners[best]
        print(f"{name}: the best of {len(learners)} settings is {settings[int(best)]}", flush=True)
    records = cp.run(chosen, stream, range(TUNING, TUNING + flags.seeds), 100, progress=False)
    for name in chosen:
        print(f"{name}: {float(records.error.sel(learner=name).mean()):.4f} of fresh seeds misclassified")
    print(cp.compare(records, {"foresight": "backprop"}))


if __name__ == "__main__":
    main()
