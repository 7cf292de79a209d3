"""Does foresight's gain in the deep study depend on outgoing weights that start at zero?

    python benchmarks/outgoing_scale.py

Tunes the step sizes of backprop and of foresight (output layer alone, at its best `ahead` and `horizon`) for each
initial scale of the outgoing weights, on the deep study's stream and network, and prints the least error. There are
four seeds and no fresh ones.
"""

import crossprop as cp

SCALES = [0.0, 2**-4, 2**-3, 2**-2]
STREAM = cp.LabelShift(cp.datasets.mnist5k(), tasks="ABC", examples=600, shuffle=True)
NETWORK = cp.Network(784, (64, 64), 10, loss="softmax", incoming_scale="kaiming", outgoing_scale=0.0)
GRIDS = {"sgd": (2.0, (-5, -3), (-8, -6)), "adam": (1.0, (-8, -6), (-12, -10))}
"""By optimizer: `ahead`, and the powers of two of `step_size` and `incoming_step_size`."""

if __name__ == "__main__":
    for optimizer, (ahead, outgoing, incoming) in GRIDS.items():
        powers = [cp.logspace(2.0**low, 2.0**high, base=2) for low, high in (outgoing, incoming)]
        over = dict(zip(("step_size", "incoming_step_size"), powers, strict=True))
        learners = {
            "backprop": cp.Backprop(NETWORK, 0.1, optimizer),
            "foresight-top": cp.Foresight(NETWORK, 0.1, ahead, 100.0, "top", optimizer),
        }
        records = cp.sweep(learners, STREAM, over | {"network.outgoing_scale": SCALES}, seeds=4, record_every=60)
        for name, each in records.items():
            least = each.error.mean(["seed", "step"]).min(list(over))
            print(
                f"{name}-{optimizer}",
                {scale: round(float(least.sel({"network.outgoing_scale": scale})), 4) for scale in SCALES},
            )
