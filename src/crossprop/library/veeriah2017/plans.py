"""The experiments of the paper: learners, stream, seeds, and every deviation from the paper with its reason."""

from functools import partial
from typing import Any

import jax

from crossprop.datasets import DataSet
from crossprop.experiments.papers import Drawing, Plan, Version, curves_of
from crossprop.learners import LEARNERS, Backprop, CrosspropApprox, Frozen, Learner
from crossprop.network import Network
from crossprop.streams import Geoff, LabelShift

PRESETS = ("paper", "scripts")
STEP_SIZE = 0.0005
QUICK_SEEDS = 5
GEOFF_LEARNERS = (
    *("crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-approx-0.5"),
    *("backprop", "momentum", "rmsprop", "adam", "frozen"),
)
EXACT_MNIST = ("crossprop", "crossprop-0.5", "crossprop-projected")


def geoff_plan(version: Version) -> Plan:
    """Figures 1a, 2a, 3a: GEOFF."""
    scripts, seeds = version.preset == "scripts", version.seeds or version.pick(QUICK_SEEDS, 30, 30)
    stream = Geoff(tasks=_tasks(scripts), examples=version.pick(1000, 5000, 5000), constant=scripts)
    network = Network.paper(inputs=20, hidden=version.pick(100, 500, 500), bias=scripts)
    target = "21 inputs and 1,001 features, the last of each always 1" if scripts else "20 inputs, 1,000 features"
    numbers = {"examples": stream.examples, "target": target, **_numbers(seeds, network, scripts)}
    learners = _learners(network, GEOFF_LEARNERS, scripts)
    return Plan(learners, stream, seeds, 50, numbers=numbers, drawings=_figures("a"))


def mnist_plan(version: Version) -> Plan:
    """Figures 1b, 2b, 3b: label-shifted MNIST."""
    scripts, seeds = version.preset == "scripts", version.mnist_seeds or version.pick(QUICK_SEEDS, 1, 1)
    exact = jax.default_backend() != "cpu" if version.exact_mnist is None else version.exact_mnist
    network, stream = mnist_network(version), mnist_stream(version, _tasks(scripts))
    names = [name for name in GEOFF_LEARNERS if name not in EXACT_MNIST] + [*EXACT_MNIST] * exact
    embedded = "the full set is not here" if version.size == "full" else version.why
    numbers = {
        "examples": stream.examples or len(stream.data.y),
        "images": "as in scripts" if _is_full(stream.data) else f"the embedded 5,000 images: {embedded}",
        "exact": "with ten outputs, and projected" if exact else "no",
        **_numbers(seeds, network, scripts),
    }
    learners, every = _learners(network, names, scripts), version.pick(50, 500, 500)
    return Plan(learners, stream, seeds, every, numbers=numbers, drawings=_figures("b"))


def _figures(letter: str) -> tuple[Drawing, ...]:
    """Figures 1, 2 and 3 of the paper for one experiment, a or b: errors, and how far the weights moved."""
    shown = (("loss", "error"), ("incoming_drift",), ("outgoing_drift",))
    return tuple(
        Drawing(f"Figure {number}{letter}", partial(curves_of, variables=names), f"figure-{number}{letter}")
        for number, names in enumerate(shown, start=1)
    )


def mnist_network(version: Version) -> Network:
    """The network of both experiments on MNIST."""
    return Network.paper(784, version.pick(50, 1024, 1024), 10, loss="softmax", bias=version.preset == "scripts")


def mnist_stream(version: Version, tasks: str) -> LabelShift:
    """These tasks of MNIST; the scripts use 50,000 images of the full set."""
    data = version.mnist()
    return LabelShift(data, tasks=tasks, examples=50_000 if version.preset == "scripts" and _is_full(data) else None)


def _is_full(data: DataSet) -> bool:
    return data.name == "mnist"


def _learners(network: Network, names: tuple[str, ...] | list[str], scripts: bool) -> dict[str, Learner]:
    """The learners by name. In the scripts, the memory of the approximate rule does not use eta."""
    special = {
        "crossprop-approx": partial(CrosspropApprox, memory_eta=0.0),
        "crossprop-approx-0.5": partial(CrosspropApprox, eta=0.5, memory_eta=0.0),
    }
    builders = LEARNERS | (special if scripts else {})
    return {name: builders[name](network, STEP_SIZE) for name in names}


def feature_learners(network: Network) -> dict[str, Learner]:
    """The learners of figure 4, and the control."""
    return {
        "backprop": Backprop(network, STEP_SIZE),
        "crossprop-approx": CrosspropApprox(network, STEP_SIZE),
        "frozen": Frozen(network, STEP_SIZE),
    }


def _numbers(seeds: int, network: Network, scripts: bool) -> dict[str, Any]:
    """What both tables of settings have in braces."""
    return {
        "seeds": seeds,
        "tasks": " ".join(_tasks(scripts)),
        "units": network.units,
        "biases": "on" if scripts else "off",
        "step_size": STEP_SIZE,
        "in_memory": "0" if scripts else "eta",
    }


def _tasks(scripts: bool) -> str:
    return "ABCABC" if scripts else "ABC"
