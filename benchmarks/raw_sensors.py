"""IDBD on raw sensor data: tomorrow's temperature from those of today, in tenths of a degree as the files have them.

    crossprop data fetch temperatures
    python benchmarks/raw_sensors.py

Prints the mean squared error at each initial step size, linear, with and without `cp.Normalize`; nan where it diverged.
"""

import crossprop as cp

STEP_SIZES = [10.0**-power for power in range(8, 0, -1)]


def main() -> None:
    """Runs all of them, and prints a line for each."""
    _, celsius = cp.datasets.temperatures()
    stream = cp.Arrays(10 * celsius[:-1], 10 * celsius[1:, :1], kind="regression")
    net = cp.Network(inputs=3, hidden=(), bias=True, outgoing_scale=0.0)
    idbd, sgd = cp.Backprop(net, 0.01, optimizer="idbd"), cp.Backprop(net, 0.01)
    learners = {
        "idbd": idbd,
        "idbd, inputs normalised": cp.Normalize(idbd),
        "idbd, targets too": cp.Normalize(idbd, scale_targets=True),
        "sgd": sgd,
        "sgd, both normalised": cp.Normalize(sgd, scale_targets=True),
    }
    found = cp.sweep(learners, stream, {"step_size": STEP_SIZES}, seeds=1, record_every=1000)
    for name, records in found.items():
        print(name, *(f"{each:.4g}" for each in records.loss.mean(["seed", "step"], skipna=False).values), sep=", ")
    trivial = cp.run({answer: cp.Trivial(net, answer) for answer in ("mean", "last")}, stream, seeds=1)
    print(trivial.loss.mean(["seed", "step"]).to_series())


if __name__ == "__main__":
    main()
