"""Does v foretell where outgoing weights go, which gradient does foresight follow, and do its units saturate? And what
is left of its gain where W has converged before?

python benchmarks/forecast.py [follow] [converged] [--seeds 10] [--quick]

Label-shifted digits as in `crossprop study why`: three tasks of 1,600 examples, 64 tanh units. After every 100 examples
it takes the correlation, over all outgoing weights, of v with their movement over the examples that follow in the same
task; the cosines between the mean directions of U over the next 100 examples; and the share of saturated units.

Then W has learned ten passes over task A, with U at its initial values, before the three tasks begin. Each rule is
tuned there, on three seeds, from 30 or 360 settings, and judged on fresh seeds.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import crossprop as cp
from crossprop.streams import STREAMS

WINDOW, AHEAD = 100, 4.0
LATER = (1, 4, 10)
"""Windows after which v is compared with the movement of W."""
STEPS = [
    {"step_size": one, "incoming_step_size": other}
    for one, other in itertools.product((2**-1, 2**-2, 2**-3), [2.0**-e for e in range(4, 14)])
]
RULES: dict[str, tuple[Callable[..., cp.Learner], Sequence[dict[str, Any]]]] = {
    "backprop": (cp.Backprop, [{}]),
    "backprop, fading": (
        cp.Backprop,
        [{"optimizer": cp.optimizers.fading(*each)} for each in itertools.product((4, 16, 64), (128, 512, 2048, 8192))],
    ),
    "foresight": (
        cp.Foresight,
        [{"ahead": ahead, "horizon": each} for ahead, each in itertools.product((1.0, 4.0, 16.0), (3, 10, 30, 100))],
    ),
}


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum(one * other) / (np.linalg.norm(one) * np.linalg.norm(other) + 1e-30))


def directions(network: cp.Network, u: Any, w: Any, v: Any, x: Any, y: Any) -> dict[str, np.ndarray]:
    """The mean directions of U over some examples, by what units are credited with."""
    units = network.units
    phi = np.tanh(x @ u[: network.inputs] + u[network.inputs])
    delta = y - np.asarray(jax.nn.softmax(phi @ w[:, :units].T + w[:, units]))
    credited = {"backprop": w[:, :units], "v": v, "foresight": w[:, :units] + AHEAD * v, "J": delta.T @ phi / len(x)}
    return {name: x.T @ ((delta @ each) * (1 - phi**2)) / len(x) for name, each in credited.items()}


def follow(network: cp.Network, stream: Any, seeds: range) -> None:
    sizes: dict[str, Any] = {"step_size": 2**-4.5, "incoming_step_size": 2**-6}
    batch = stream.sample(cp.keys(99)[0]).x[:200]
    probes = {
        "saturated": cp.probes.saturated(network, batch),
        "u": lambda initial, state: state.layers[0].weights,
        "w": lambda initial, state: state.outgoing,
    }
    v = {"v": lambda initial, state: state.layers[0].memory}
    for horizon in (100, 1000):
        learner = cp.Foresight(network, ahead=AHEAD, horizon=horizon, **sizes)
        records = cp.run(learner, stream, seeds, WINDOW, probes=probes | v).isel(learner=0)
        say_saturated(f"foresight, horizon {horizon}", records, stream)
        say_directions(network, stream, records)
    for optimizer in ("sgd", cp.optimizers.fading(16, 512)):
        records = cp.run(cp.Backprop(network, optimizer=optimizer, **sizes), stream, seeds, WINDOW, probes=probes)
        say_saturated(f"backprop, {optimizer}", records.isel(learner=0), stream)


def say_saturated(name: str, records: Any, stream: Any) -> None:
    ends = slice(stream.examples // WINDOW - 1, None, stream.examples // WINDOW)
    shares = [f"{share:.2f}" for share in records.saturated.mean("seed").values[ends]]
    print(f"{name}: error {float(records.error.mean()):.3f}, saturated at the end of each task {' '.join(shares)}")


def say_directions(network: cp.Network, stream: Any, records: Any) -> None:
    found: dict[str, list[float]] = {}
    for seed in records.seed.values:
        sample, own = stream.sample(cp.keys(int(seed))[0]), records.sel(seed=seed)
        u, w, v = (own[name].values for name in ("u", "w", "v"))
        for at in range(len(own.step) - 1):
            now = (at + 1) * WINDOW
            for later in LATER:
                if now % stream.examples and now % stream.examples + later * WINDOW <= stream.examples:
                    moved = (w[at + later] - w[at])[:, : network.units]
                    key = f"correlation of v with the movement of W over the next {later * WINDOW}"
                    found.setdefault(key, []).append(float(np.corrcoef(v[at].ravel(), moved.ravel())[0, 1]))
            part = slice(now, now + WINDOW)
            by = directions(network, u[at], w[at], v[at], sample.x[part], sample.y[part])
            for one, other in (("v", "J"), ("foresight", "J"), ("backprop", "J"), ("foresight", "backprop")):
                found.setdefault(f"cosine of {one} and {other}", []).append(cosine(by[one], by[other]))
    for key, values in found.items():
        print(f"  {key}: mean {np.mean(values):.2f}, 80% from {np.quantile(values, 0.1):.2f} to", end=" ")
        print(f"{np.quantile(values, 0.9):.2f}")


def converged(network: cp.Network, stream: Any, seeds: range) -> None:
    first: Any = STREAMS["mnist5k"](tasks="A" * 10, examples=stream.examples, shuffle=True)
    still, tuning = cp.Backprop(network, 2**-4, incoming_step_size=1e-30), range(3)
    every = [*tuning, *seeds]
    _, states = cp.run({"still": still}, first, every, first.steps, return_states=True)
    outgoing = {seed: states["still"][seed].outgoing for seed in every}

    def errors(learners: dict[str, Any], seeds: Sequence[int]) -> Any:
        begun = {
            name: {seed: each.init(cp.keys(seed)[1])._replace(outgoing=outgoing[seed]) for seed in seeds}
            for name, each in learners.items()
        }
        return cp.run(learners, stream, seeds, WINDOW, start=begun).error.mean("step")

    found = {}
    for name, (rule, options) in RULES.items():
        learners = {str(at): rule(network, **a, **b) for at, (a, b) in enumerate(itertools.product(options, STEPS))}
        best: Any = learners[str(errors(learners, tuning).mean("seed").idxmin("learner").values)]
        found[name] = errors({name: best}, seeds).values[0]
        sizes = f"2**{np.log2(best.step_size):g} and 2**{np.log2(best.incoming_step_size):g}"
        print(f"W has converged, {name}: error {found[name].mean():.4f} with step sizes {sizes},", end=" ")
        print(best.optimizer, getattr(best, "ahead", ""), getattr(best, "horizon", ""))
    for name, values in found.items():
        against = 100 * (values - found["backprop"]) / found["backprop"].mean()
        spread = 2.1 * against.std(ddof=1) / np.sqrt(len(against))
        print(f"W has converged, {name} against backprop: {against.mean():+.1f}% +- {spread:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["follow", "converged"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="tiny, to check that everything works")
    flags = parser.parse_args()
    network = cp.Network(784, 8 if flags.quick else 64, 10, loss="softmax", incoming_scale=0.05, outgoing_scale=0.0)
    stream = STREAMS["mnist5k"](tasks="ABC", examples=200 if flags.quick else 1600, shuffle=True)
    seeds = range(1000, 1000 + flags.seeds)
    for part in flags.parts:
        {"follow": follow, "converged": converged}[part](network, stream, seeds)


if __name__ == "__main__":
    main()
