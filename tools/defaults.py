"""Which step size suits backprop on each stream, and how every learner does with the defaults.

    python tools/defaults.py [STREAM ...]    # writes docs/tables/defaults.csv, and prints the table of docs/defaults.md

Each learner runs with its default step size on every stream, and with others, a factor of 4 apart: the best of all is
the tuned one. Errors are means over the whole run and two seeds: the share misclassified, or the squared error.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets
from sklearn.datasets import load_diabetes, make_friedman1

import crossprop as cp
from crossprop.learners import LEARNERS
from crossprop.specification import build_learner, build_network, build_stream, suited_to

SEEDS = 2
FACTORS = [4.0**power for power in range(-3, 3)]
CSV = Path(__file__).parent.parent / "docs" / "tables" / "defaults.csv"
RAW = ("segments", "diabetes")
"""Tables in the units of their columns: learners there are in a `cp.Normalize`."""


def table(dataset: Any) -> cp.Stream:
    """A data set of River, in its order."""
    rows = [([float(x[name]) for name in sorted(x)], str(y)) for x, y in dataset]
    return cp.Arrays([x for x, _ in rows], [y for _, y in rows])


def shuffled(stream: cp.Arrays) -> cp.Stream:
    order = np.random.default_rng(0).permutation(len(stream.x))
    return cp.Arrays(stream.x[order], stream.y[order], classes=stream.classes)


STREAMS: dict[str, Any] = {
    "geoff, as in 2017": {"name": "geoff"},
    "geoff": cp.Geoff,
    "tracking": {"name": "tracking", "steps": 10_000},
    "slowly-changing": {"name": "slowly-changing", "steps": 20_000, "change_every": 1000},
    "digits": {"name": "digits"},
    "digits, one task": {"name": "digits", "tasks": "A"},
    "mnist5k": {"name": "mnist5k", "examples": 2500},
    "permuted digits": {"name": "permuted-inputs", "data": "digits", "tasks": 4},
    "permuted mnist5k": {"name": "permuted-inputs", "tasks": 3, "examples": 2500},
    "random labels": {"name": "random-labels", "data": "digits", "tasks": 10, "images": 60, "passes": 10},
    "elec2": {"name": "elec2", "examples": 20_000},
    "covertype": {"name": "covertype", "examples": 10_000},
    "covertype, shuffled": lambda: shuffled(build_stream({"name": "covertype", "examples": 10_000})),
    "phishing": lambda: table(datasets.Phishing()),
    "bananas": lambda: table(datasets.Bananas()),
    "friedman": lambda: cp.Arrays(*make_friedman1(10_000, noise=1.0, random_state=0)),
    "segments": lambda: shuffled(table(datasets.ImageSegments())),
    "diabetes": lambda: cp.Arrays(*load_diabetes(return_X_y=True, scaled=False)),
}


def errors(learners: dict[str, Any], stream: cp.Stream) -> dict[str, float]:
    """The mean error of each learner; infinite if a run diverges."""
    records = cp.run(learners, stream, seeds=SEEDS, record_every=stream.steps, progress=False)
    means = records["error" if stream.one_hot else "loss"].mean(["seed", "step"], skipna=False)
    return {name: float(np.nan_to_num(means.sel(learner=name), nan=np.inf)) for name in learners}


def rows(title: str, described: Any) -> list[dict[str, Any]]:
    """A row per learner: its error with defaults and tuned, and both step sizes."""
    stream = described() if isinstance(described, Callable) else build_stream(described)
    suited = suited_to(described if isinstance(described, dict) else "", stream)
    network = build_network({}, stream, suited)
    raw = title in RAW
    wrapped = lambda learner: cp.Normalize(learner, scale_targets=not stream.one_hot) if raw else learner
    trivial = errors({answer: cp.Trivial(network, answer) for answer in ("mean", "last")}, stream)
    found = []
    for name in (name for name, build in LEARNERS.items() if "objective" not in build.keywords):
        usual = build_learner(name, {}, network, suited, {}).step_size  # pyright: ignore[reportAttributeAccessIssue]
        sizes = [usual * factor for factor in FACTORS]
        made = {f"{size:g}": wrapped(build_learner(name, {}, network, suited, {"step_size": size})) for size in sizes}
        reached = errors(made, stream)
        best = min(reached, key=lambda size: reached[size])
        found.append(
            {"stream": title, "learner": name, **trivial, "default": reached[f"{usual:g}"]}
            | {"tuned": reached[best], "step_size": usual, "tuned_step_size": float(best)}
        )
        print(*found[-1].values(), sep=", ", flush=True)
    return found


def summary(every: list[dict[str, Any]]) -> str:
    """The table of the page: a row per stream."""
    lines = ["| stream | most frequent or mean | last | backprop | of all learners, the worst | default / tuned |"]
    lines += ["|---|---|---|---|---|---|"]
    for title in dict.fromkeys(row["stream"] for row in every):
        own = [row for row in every if row["stream"] == title]
        (backprop,) = (row for row in own if row["learner"] == "backprop")
        worst = max(own, key=lambda row: row["default"])
        ratio, name = max((row["default"] / row["tuned"], row["learner"]) for row in own)
        numbers = " | ".join(f"{backprop[key]:.3g}" for key in ("mean", "last", "default"))
        lines.append(f"| {title} | {numbers} | {worst['default']:.3g} ({worst['learner']}) | {ratio:.2g} ({name}) |")
    return "\n".join(lines)


def main() -> None:
    every = [row for title in sys.argv[1:] or STREAMS for row in rows(title, STREAMS[title])]
    if not sys.argv[1:]:
        with CSV.open("w", newline="") as file:
            writer = csv.DictWriter(file, every[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {key: f"{each:.5g}" if isinstance(each, float) else each for key, each in row.items()} for row in every
            )
    print(summary(every))


if __name__ == "__main__":
    main()
