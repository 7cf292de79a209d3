"""The experiments of Dohare et al. (2024): learners, streams, and every deviation from the paper with its reason."""

from collections.abc import Sequence
from functools import partial

from crossprop.experiments.charts import Published
from crossprop.experiments.papers import Drawing, Plan, Version, curves_of
from crossprop.learners import Backprop
from crossprop.library import permuted
from crossprop.network import Network
from crossprop.replacements import ContinualReplacement
from crossprop.streams import PermutedInputs, SlowlyChanging

ACTIVATIONS = {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid", "leaky_relu": "leaky ReLU"}
STEP_SIZES = (0.01, 0.003, 0.001)
LINEAR = "linear 0.01"
RATES = (1e-5, 1e-4, 1e-3)
ENDS = {"ReLU 0.01": 1.25, "ReLU 0.003": 1.08, "ReLU 0.001": 0.87, "tanh 0.01": 0.9, LINEAR: 0.88}
"""Published errors at the end, as read off the figures."""
LOWEST = {"ReLU 0.01": 0.62, "ReLU 0.003": 0.655, "ReLU 0.001": 0.72, "tanh 0.01": 0.395}
"""Published errors in the bin where they are lowest, as read off the figures. tanh's curve leaves the axes, which end
at 0.4: its value is where the lines on both sides meet."""
FIRST = {"ReLU 0.01": 0.62, "tanh 0.01": 0.43}
"""Published errors in the first bin, to mark in the charts."""
BIN, STEPS = 20_000, 1_000_000
TASKS, TASK, WIDTH = 800, 60_000, 2000
MNIST_STEP_SIZES = {"small": (0.03, 0.01, 0.003), "full": STEP_SIZES}


def name_of(activation: str, step_size: float) -> str:
    """A learner by backprop."""
    return f"{ACTIVATIONS.get(activation, activation)} {step_size:g}"


def continual_name(activation: str, rate: float) -> str:
    """A learner by continual backprop, with its rate."""
    return f"continual {ACTIVATIONS[activation]} {rate:.0e}".replace("e-0", "e-")


def _hidden(activation: str) -> Network:
    scale = "kaiming-uniform"
    return Network(20, 5, activation=activation, bias=True, incoming_scale=scale, outgoing_scale=scale)


def _regression(activation: str, step_size: float, replacement: ContinualReplacement | None = None) -> Backprop:
    """The authors descend the squared error, we half of it: hence twice the step size."""
    return Backprop(_hidden(activation), 2 * step_size, replacement=replacement)


def _sizes(version: Version) -> tuple[int, int, int]:
    """Runs, examples and bin."""
    bin, steps = version.pick((20, 1000), (BIN, STEPS), (BIN, STEPS))
    return version.seeds or version.pick(2, 20, 100), steps, bin


def regression_plan(version: Version) -> Plan:
    """Backprop with three step sizes, for several activations, and a linear unit."""
    seeds, steps, bin = _sizes(version)
    linear = Network.paper(20, hidden=(), bias=True, outgoing_scale="lecun-uniform")
    learners, drawings = {LINEAR: Backprop(linear, 2 * STEP_SIZES[0])}, ()
    for activation in [*ACTIVATIONS][: version.pick(2, 2, 4)]:
        several = {name_of(activation, each): _regression(activation, each) for each in STEP_SIZES}
        learners |= several
        drawings += (_drawing(activation, [*several, LINEAR], _published(activation, steps, bin)),)
    numbers = {"seeds": seeds, "steps": steps}
    return Plan(learners, SlowlyChanging(), seeds, bin, numbers=numbers, steps=steps, drawings=drawings)


def _drawing(activation: str, learners: Sequence[str], published: Published) -> Drawing:
    about = {"variables": ("loss",), "linear": True, "of": permuted.without_tasks, "published": published}
    return Drawing(ACTIVATIONS[activation], partial(curves_of, learners=learners, **about))


def _published(activation: str, steps: int, bin: int) -> Published:
    """Published values to mark: where the curves end, and where some of them begin."""
    found: dict[str, tuple[tuple[float, float], ...]] = {
        name: ((steps, value),) for name, value in ENDS.items() if name.startswith((ACTIVATIONS[activation], "linear"))
    }
    for name, value in FIRST.items():
        if name in found:
            found[name] = ((bin, value), *found[name])
    return found


def continual_plan(version: Version) -> Plan:
    """Continual backprop beside backprop, both with the largest step size."""
    seeds, steps, bin = _sizes(version)
    learners = {name_of(each, STEP_SIZES[0]): _regression(each, STEP_SIZES[0]) for each in ("relu", "tanh")}
    drawings = ()
    for activation, rates in (("relu", RATES), ("tanh", RATES[1:2])):
        shown = [name_of(activation, STEP_SIZES[0])]
        for rate in rates:
            replacement = ContinualReplacement(rate=rate, maturity=10, as_run=True)
            shown.append(continual_name(activation, rate))
            learners[shown[-1]] = _regression(activation, STEP_SIZES[0], replacement)
        drawings += (_drawing(activation, shown, {}),)
    numbers = {"seeds": seeds, "steps": steps}
    return Plan(learners, SlowlyChanging(), seeds, bin, numbers=numbers, steps=steps, drawings=drawings)


def mnist_plan(version: Version) -> Plan:
    """Online permuted MNIST: backprop with three step sizes, and continual backprop."""
    full = version.size == "full"
    data = version.mnist() if full else permuted.smaller(version.mnist())
    tasks = version.tasks or version.pick(4, 60, TASKS)
    examples = version.pick(50, len(data.y), len(data.y))
    width, seeds = version.pick(8, 50, WIDTH), version.seeds or version.pick(2, 5, 10)
    scale = "kaiming-uniform"
    network = Network(data.x.shape[1], (width,) * 3, 10, "relu", "softmax", True, scale, scale)
    step_sizes = MNIST_STEP_SIZES["full" if full else "small"]
    learners = {name_of("backprop", each): Backprop(network, each) for each in step_sizes}
    replacement = ContinualReplacement(rate=1e-4, as_run=True)
    learners[name_of("continual", step_sizes[1])] = Backprop(network, step_sizes[1], replacement=replacement)
    numbers = {
        **{"seeds": seeds, "tasks": tasks, "examples": examples, "pixels": data.x.shape[1], "width": width},
        "images": "the full set is not here" if full else version.why,
        "step_sizes": ", ".join(f"{each:g}" for each in step_sizes),
        "middle": step_sizes[1],
    }
    stream = PermutedInputs(data, tasks=tasks, examples=examples)
    return permuted.plan(learners, stream, seeds, numbers)
