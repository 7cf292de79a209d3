"""What replacements cost: backprop with each beside backprop without, all on the scan engine.

python benchmarks/replacements.py [small] [narrow] [wide] [deep] [--runs 1] [--steps 20000] [--repeats 7] [--cpu]

`small` is 20-5-1 with relu, as in slowly-changing regression, `narrow` 20-500-1, `wide` 784-256-10 with softmax, for a
tenth of the steps, and `deep` 20-64-64-1. Contenders take turns, and each time is the least of all repeats after one
that compiles. `--cpu` counts the process's time on all cores, which other work on the machine disturbs less.
"""

import argparse
from functools import partial

from deep import examples
from turns import clock, least, show, take_turns

import crossprop as cp
from crossprop.replacements import REPLACEMENTS

NETWORKS = {
    "small": cp.Network.paper(20, 5, activation="relu", bias=True, incoming_scale="kaiming-uniform"),
    "narrow": cp.Network.paper(20, 500),
    "wide": cp.Network.paper(
        784, 256, 10, activation="relu", loss="softmax", bias=True, incoming_scale="kaiming-uniform"
    ),
    "deep": cp.Network.paper(20, (64, 64), activation="relu", bias=True, incoming_scale="kaiming-uniform"),
}


def measured(name: str, runs: int, steps: int, repeats: int, cpu: bool) -> dict[str, float]:
    """Seconds per step of every contender."""
    network = NETWORKS[name]
    stream = examples(network, steps // 10 if name == "wide" else steps)
    learners = {"none": cp.Backprop(network, 1e-3)}
    learners |= {each: cp.Backprop(network, 1e-3, replacement=each) for each in REPLACEMENTS}
    contribution = cp.ContinualReplacement(utility="contribution")
    learners["continual, contribution"] = cp.Backprop(network, 1e-3, replacement=contribution)
    run = lambda learner: cp.run(learner, stream, seeds=runs, record_every=1000, engine="scan", progress=False)
    contenders = {each: partial(run, learner) for each, learner in learners.items()}
    seconds = least(take_turns(contenders, repeats, clock(cpu)))
    return {each: taken / stream.steps for each, taken in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[[], *NETWORKS])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true")
    flags = parser.parse_args()
    for name in flags.networks or NETWORKS:
        show(name, measured(name, flags.runs, flags.steps, flags.repeats, flags.cpu))


if __name__ == "__main__":
    main()
