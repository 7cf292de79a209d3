"""The experiments of the paper: learners, stream, seeds, and every deviation from the paper with its reason."""

from functools import partial

import jax

from crossprop.datasets import DataSet
from crossprop.experiments.papers import Drawing, Plan, Setting, Version, curves_of
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
TARGETS = {
    False: "20 inputs, 1,000 features",
    True: "21 inputs and 1,001 features, the last of each always 1",
}
"""The target network of GEOFF in the paper, and in its authors' scripts."""
EXACT_MNIST = ("crossprop", "crossprop-0.5", "crossprop-projected")


def geoff_plan(version: Version) -> Plan:
    """Figures 1a, 2a, 3a: GEOFF."""
    scripts, seeds = version.preset == "scripts", version.seeds or version.pick(QUICK_SEEDS, 30, 30)
    stream = Geoff(tasks=_tasks(scripts), examples=version.pick(1000, 5000, 5000), constant=scripts)
    network = Network.paper(inputs=20, hidden=version.pick(100, 500, 500), bias=scripts)
    small, target = version.why(""), TARGETS[scripts]
    settings = (
        Setting("runs", str(seeds), "30", version.why_not(30, seeds)),
        Setting("tasks", _tasks(scripts), "A B C", "what the authors' scripts run, replayed on a revisit" * scripts),
        Setting("examples a task", f"{stream.examples:,}", "5,000", small),
        Setting("target network", target, TARGETS[False], "as in the authors' scripts" * scripts),
        Setting("hidden units", str(network.units), "500 tanh", small),
        *_shared_settings(scripts),
    )
    learners = _learners(network, GEOFF_LEARNERS, scripts)
    return Plan(learners, stream, seeds, 50, settings, drawings=_figures("a"))


def mnist_plan(version: Version) -> Plan:
    """Figures 1b, 2b, 3b: label-shifted MNIST."""
    scripts, seeds = version.preset == "scripts", version.mnist_seeds or version.pick(QUICK_SEEDS, 1, 1)
    exact = jax.default_backend() != "cpu" if version.exact_mnist is None else version.exact_mnist
    network, stream = mnist_network(version), mnist_stream(version, _tasks(scripts))
    names = [name for name in GEOFF_LEARNERS if name not in EXACT_MNIST] + [*EXACT_MNIST] * exact
    small, examples = version.why(""), f"{stream.examples or len(stream.data.y):,}"
    embedded = "" if _is_full(stream.data) else f"the embedded 5,000 images: {small or 'the full set is not here'}"
    settings = (
        Setting("runs", str(seeds), "1", "several runs allow intervals" * (seeds != 1)),
        Setting("tasks", _tasks(scripts), "A B C", "what the authors' scripts run" * scripts),
        Setting("examples a task", examples, "60,000", embedded or "as in scripts" * scripts),
        Setting("hidden units", str(network.units), "1,024 tanh", small),
        Setting("exact crossprop", "with ten outputs, and projected" if exact else "no", "no", "new here" * exact),
        *_shared_settings(scripts),
    )
    learners, every = _learners(network, names, scripts), version.pick(50, 500, 500)
    return Plan(learners, stream, seeds, every, settings, drawings=_figures("b"))


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


def _shared_settings(scripts: bool) -> tuple[Setting, ...]:
    in_memory = ("0", "eta", "as in scripts") if scripts else ("eta", "eta")
    return (
        Setting("biases", "on" if scripts else "off", "off", "as in the authors' scripts" * scripts),
        Setting("initial weights", "normal, scale 1", None, "as in the authors' scripts"),
        Setting("step size", f"{STEP_SIZE} for all", f"{STEP_SIZE} for all"),
        Setting("eta in the memory of crossprop-approx", *in_memory),
        Setting("control", "frozen", "none", "shows what not moving the features gives"),
    )


def _tasks(scripts: bool) -> str:
    return "ABCABC" if scripts else "ABC"
