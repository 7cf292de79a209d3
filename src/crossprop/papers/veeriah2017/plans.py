"""The experiments of the paper: learners, stream, seeds, and every deviation from the paper with its reason."""

from functools import partial

from crossprop import _checks as check
from crossprop.datasets import DataSet
from crossprop.learners import LEARNERS, Backprop, CrosspropApprox, Frozen, Learner
from crossprop.network import Network
from crossprop.papers.plans import Plan, Setting
from crossprop.streams import Geoff, LabelShift

PRESETS = ("paper", "scripts")
STEP_SIZE = 0.0005
GEOFF_LEARNERS = (
    "crossprop",
    "crossprop-0.5",
    "crossprop-approx",
    "crossprop-approx-0.5",
    "backprop",
    "momentum",
    "rmsprop",
    "adam",
    "frozen",
)
GEOFF_IS = (
    "Generic online feature finding: the target is the output of a random network, half of whose outgoing weights are "
    "redrawn at each switch. Features that were useful before a switch are useful after it."
)
MNIST_IS = (
    "Handwritten digits, each shown once a task. At each switch every label is shifted by one: the images stay the "
    "same, so their features stay useful."
)
EXACT_MNIST = ("crossprop", "crossprop-0.5", "crossprop-projected")


def geoff_plan(preset: str, seeds: int, quick: bool) -> Plan:
    """Figures 1a, 2a, 3a: GEOFF."""
    check.choice("preset", preset, PRESETS)
    check.integer("seeds", seeds, low=1)
    scripts = preset == "scripts"
    stream = Geoff(tasks=_tasks(preset), examples=1000 if quick else 5000, constant=scripts)
    network = Network(inputs=20, hidden=100 if quick else 500, bias=scripts)
    small = "quick version" if quick else ""
    settings = (
        Setting("runs", str(seeds), "30", "" if seeds == 30 else "as given on the command line"),
        Setting(
            "tasks", _tasks(preset), "A B C", _scripts(scripts, "what the authors' scripts run, replayed on a revisit")
        ),
        Setting("examples a task", f"{stream.examples:,}", "5,000", small),
        Setting("target network", _target(scripts), _target(False), _scripts(scripts, "as in the authors' scripts")),
        Setting("hidden units", str(network.hidden), "500 tanh", small),
        *_shared_settings(scripts),
    )
    learners = _learners(network, GEOFF_LEARNERS, scripts)
    return Plan("geoff", "GEOFF", learners, stream, seeds, 50, settings, GEOFF_IS)


def mnist_plan(preset: str, seeds: int, quick: bool, data: DataSet, exact: bool) -> Plan:
    """Figures 1b, 2b, 3b: label-shifted MNIST."""
    check.choice("preset", preset, PRESETS)
    check.integer("mnist_seeds", seeds, low=1)
    scripts, full = preset == "scripts", data.name == "mnist"
    examples = 50_000 if scripts and full else None
    stream = LabelShift(data, tasks=_tasks(preset), examples=examples)
    network = Network(784, 50 if quick else 1024, 10, "tanh", "softmax", bias=scripts)
    names = [name for name in GEOFF_LEARNERS if name not in EXACT_MNIST]
    names += EXACT_MNIST if exact else ()
    small = "quick version" if quick else ""
    embedded = (
        "" if full else "the embedded 5,000 images: " + ("quick version" if quick else "the full set is not here")
    )
    settings = (
        Setting("runs", str(seeds), "1", "" if seeds == 1 else "several runs allow intervals"),
        Setting("tasks", _tasks(preset), "A B C", _scripts(scripts, "what the authors' scripts run")),
        Setting(
            "examples a task", f"{examples or len(data.y):,}", "60,000", embedded or _scripts(scripts, "as in scripts")
        ),
        Setting("hidden units", str(network.hidden), "1,024 tanh", small),
        Setting("exact crossprop", "with ten outputs, and projected" if exact else "no", "no", "new here" * exact),
        *_shared_settings(scripts),
    )
    every = 50 if quick else 500
    return Plan("mnist", "MNIST", _learners(network, names, scripts), stream, seeds, every, settings, MNIST_IS)


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
    return (
        Setting("biases", "on" if scripts else "off", "off", _scripts(scripts, "as in the authors' scripts")),
        Setting("initial weights", "normal, scale 1", None, "as in the authors' scripts"),
        Setting("step size", f"{STEP_SIZE} for all", f"{STEP_SIZE} for all"),
        Setting(
            "eta in the memory of crossprop-approx", *(("0", "eta", "as in scripts") if scripts else ("eta", "eta"))
        ),
        Setting("control", "frozen", "none", "shows what not moving the features gives"),
    )


def _tasks(preset: str) -> str:
    return "ABCABC" if preset == "scripts" else "ABC"


def _target(constant: bool) -> str:
    return "21 inputs and 1,001 features, the last of each always 1" if constant else "20 inputs, 1,000 features"


def _scripts(scripts: bool, why: str) -> str:
    return why if scripts else ""
