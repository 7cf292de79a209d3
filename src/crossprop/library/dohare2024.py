"""Dohare et al. (2024), "Loss of plasticity in deep continual learning": regression, and permuted MNIST."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from crossprop.experiments.charts import Published
from crossprop.experiments.findings import HIGHER, MORE_TIMES, Bounds, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.papers import Drawing, Plan, Version, curves_of, read_paper
from crossprop.experiments.questions import Answer, Headline
from crossprop.learners import Backprop
from crossprop.library import permuted
from crossprop.network import Network
from crossprop.replacements import ContinualReplacement
from crossprop.streams import PermutedInputs, SlowlyChanging

ACTIVATIONS = {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid", "leaky_relu": "leaky ReLU"}
STEP_SIZES = (0.01, 0.003, 0.001)
SCALE = "kaiming-uniform"
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
TASKS, WIDTH = 800, 2000
MNIST_STEP_SIZES = {"small": (0.03, 0.01, 0.003), "full": STEP_SIZES}


# The experiments.


def name_of(activation: str, step_size: float) -> str:
    """A learner by backprop."""
    return f"{ACTIVATIONS.get(activation, activation)} {step_size:g}"


def continual_name(activation: str, rate: float) -> str:
    """A learner by continual backprop, with its rate."""
    return f"continual {ACTIVATIONS[activation]} {rate:.0e}".replace("e-0", "e-")


def _regression(activation: str, step_size: float, replacement: ContinualReplacement | None = None) -> Backprop:
    """The authors descend the squared error, we half of it: hence twice the step size."""
    network = Network(20, 5, activation=activation, bias=True, incoming_scale=SCALE, outgoing_scale=SCALE)
    return Backprop(network, 2 * step_size, replacement=replacement)


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
    return Plan(learners, SlowlyChanging(), seeds, bin, steps=steps, drawings=drawings)


def _drawing(activation: str, learners: Sequence[str], published: Published) -> Drawing:
    about = {"variables": ("loss",), "linear": True, "of": permuted.without_tasks, "published": published}
    return Drawing(ACTIVATIONS[activation], partial(curves_of, learners=learners, **about))


def _published(activation: str, steps: int, bin: int) -> Published:
    """Published values to mark: where the curves end, and where some of them begin."""
    of_chart = [name for name in ENDS if name.startswith((ACTIVATIONS[activation], "linear"))]
    starts = {name: [(bin, value)] for name, value in FIRST.items()}
    return {name: [*starts.get(name, []), (steps, ENDS[name])] for name in of_chart}


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
    return Plan(learners, SlowlyChanging(), seeds, bin, steps=steps, drawings=drawings)


def mnist_plan(version: Version) -> Plan:
    """Online permuted MNIST: backprop with three step sizes, and continual backprop."""
    full = version.size == "full"
    data = version.mnist() if full else permuted.smaller(version.mnist())
    tasks = version.tasks or version.pick(4, 60, TASKS)
    examples = version.pick(50, len(data.y), len(data.y))
    width, seeds = version.pick(8, 50, WIDTH), version.seeds or version.pick(2, 5, 10)
    network = Network(data.x.shape[1], (width,) * 3, 10, "relu", "softmax", True, SCALE, SCALE)
    step_sizes = MNIST_STEP_SIZES["full" if full else "small"]
    learners = {name_of("backprop", each): Backprop(network, each) for each in step_sizes}
    replacement = ContinualReplacement(rate=1e-4, as_run=True)
    learners[name_of("continual", step_sizes[1])] = Backprop(network, step_sizes[1], replacement=replacement)
    numbers = {"width": width, "step_sizes": ", ".join(f"{each:g}" for each in step_sizes), "middle": step_sizes[1]}
    return permuted.plan(version, learners, PermutedInputs(data, tasks=tasks, examples=examples), seeds, numbers)


# Claims.


WITHIN = 0.1
"""Largest relative difference to a published value that counts as equal."""
BINS, EARLY_BINS = 5, 10
CHANGE = "error at the end / at first"
KEPT = 1.1
"""Plasticity is kept if the error at the end is at most this many times that at first."""
PUBLISHED_ACCURACY = {"backprop 0.01": 90.1, "backprop 0.003": 93.7, "backprop 0.001": 94.0}
POINTS = 0.5
PLAIN = {activation: name_of(activation, STEP_SIZES[0]) for activation in ("relu", "tanh")}
RELU = [name_of("relu", step_size) for step_size in STEP_SIZES]


def _error(when: str, of: Callable[[np.ndarray], np.ndarray]) -> Quantity:
    """The errors of a learner, from its curves `(seed, bin)`."""
    return Quantity(f"error {when}", f"error {when}", lambda runs, name: of(runs.curve("loss", name)))


def _lowest(curve: np.ndarray) -> np.ndarray:
    """The error of each run in the bin of the first ten in which the mean error is lowest."""
    return curve[:, curve[:, :EARLY_BINS].mean(axis=0).argmin()]


IN_FIRST_BIN = _error("in the first bin", lambda curve: curve[:, 0])
AT_FIRST = _error("at first", lambda curve: curve[:, :BINS].mean(axis=1))
AT_ITS_LOWEST = _error("at its lowest", _lowest)
AT_END = _error("at the end", lambda curve: curve[:, -BINS:].mean(axis=1))
OVER_ALL = _error("over all examples", lambda curve: curve)


# Slowly-changing regression.


def _as_published(published: dict[str, float], of: Quantity, runs: Runs) -> list[Finding]:
    when = of.name.removeprefix("error ")
    return [
        runs.near(
            f"{name}'s {of.name}",
            of.values(runs, name),
            value,
            WITHIN * value,
            part=f"{name} {when} is within {WITHIN:.0%}",
        )
        for name, value in published.items()
    ]


def _larger_steps_lose_more(runs: Runs) -> list[Finding]:
    found = []
    for larger, smaller in pairwise(RELU):
        found += [
            runs.ratio(
                IN_FIRST_BIN, smaller, larger, MORE_TIMES, f"{larger} is better than {smaller} in the first bin"
            ),
            runs.ratio(AT_END, larger, smaller, MORE_TIMES, f"{larger} is worse than {smaller} at the end"),
        ]
    return found


def _change(runs: Runs, name: str, bounds: Bounds, part: str = "", note: str = "") -> Finding:
    """The ratio of the error at the end to the error at first."""
    end, first = (of.values(runs, name) for of in (AT_END, AT_FIRST))
    says = f"{name}'s error at the end is {{}} times that at first"
    return runs.change(CHANGE, name, end, first, bounds, says, part=part, note=note)


def _continual_keeps_plasticity(runs: Runs) -> list[Finding]:
    by_rate = [continual_name("relu", rate) for rate in RATES]
    tanh = continual_name("tanh", RATES[1])
    best, note = runs.best(OVER_ALL, by_rate, "rate for ReLU")
    kept, found = Bounds(high=KEPT), []
    for plain, name in zip(PLAIN.values(), (best, tanh), strict=True):
        found += [
            _change(runs, name, kept, f"{name} does not lose plasticity", note),
            runs.ratio(AT_END, plain, name, MORE_TIMES, f"{plain}, by backprop, ends worse"),
        ]
    found += [_change(runs, name, MORE_TIMES) for name in PLAIN.values()]
    return found + [_change(runs, name, kept) for name in by_rate if name != best]


# Permuted MNIST.


def _step_size(name: str) -> float:
    return float(name.rpartition(" ")[2])


def _by_backprop(runs: Runs, least: int) -> list[str]:
    """The learners by backprop, the largest step size first."""
    names = sorted((each for each in runs.learners if each.startswith("backprop ")), key=_step_size, reverse=True)
    if len(names) < least:
        raise CannotDecide("the records hold no backprop with several step sizes")
    return names


def _loses_more(runs: Runs, a: str, b: str, part: str) -> Finding:
    return runs.difference(permuted.LOST, a, b, HIGHER, f"{a} loses {{}} than {b}", part=part)


def _continual_loses_less(runs: Runs) -> list[Finding]:
    _by_backprop(runs, 1)
    name = next((each for each in runs.learners if each.startswith("continual ")), None)
    if name is None:
        raise CannotDecide("the records hold no continual backprop")
    plain = name_of("backprop", _step_size(name))
    return [
        _loses_more(runs, plain, name, "backprop loses more"),
        permuted.worse(runs, plain, name, "backprop is worse at the end"),
    ]


def _accuracy_as_published(runs: Runs) -> list[Finding]:
    if len(runs.visits) < TASKS or not {*PUBLISHED_ACCURACY} <= {*runs.learners}:
        raise CannotDecide(f"it takes the paper's {TASKS} tasks and its network, which --full has")
    return [
        runs.near(
            f"{name}'s accuracy in percent at the end",
            100 - permuted.at_end(runs, name),
            value,
            POINTS,
            part=f"{name} ends with {value:g}%",
        )
        for name, value in PUBLISHED_ACCURACY.items()
    ]


def _headline(answers: Sequence[Answer]) -> Headline | None:
    """The chart at the top: backprop, and continual backprop with its best rate, with ReLU."""
    changes = [each for answer in answers if answer.id == "D6" for each in answer.findings if each.quantity == CHANGE]
    times = {each.learner: each.mean for each in changes}
    best = next((name for name in times if name.startswith("continual ReLU")), None)
    if best is None:
        return None
    names = {PLAIN["relu"]: "Backprop", best: "Replaces useless units"}
    notes = {name: f"{word}; at the end {times[name]:.2g} times its error at first" for name, word in names.items()}
    return Headline("continual", "loss", "Backprop and continual backprop", notes)


PAPER = read_paper(
    "dohare2024",
    plans={"regression": regression_plan, "continual": continual_plan, "mnist": mnist_plan},
    find={
        "D1": partial(_as_published, ENDS, AT_END),
        "D2": partial(_as_published, LOWEST, AT_ITS_LOWEST),
        "D3": _larger_steps_lose_more,
        "D4": lambda runs: [_change(runs, name, MORE_TIMES, f"{name}'s error is higher at the end") for name in LOWEST],
        "D5": lambda runs: [runs.ratio(AT_END, name, LINEAR, MORE_TIMES, f"{name} is worse") for name in RELU[:2]],
        "D6": _continual_keeps_plasticity,
        "D7": lambda runs: [
            permuted.loses(runs, name, HIGHER, f"{name} misclassifies more at the end")
            for name in _by_backprop(runs, 1)
        ],
        "D8": lambda runs: [
            _loses_more(runs, a, b, f"{a} loses more than {b}") for a, b in pairwise(_by_backprop(runs, 2))
        ],
        "D9": _continual_loses_less,
        "D10": _accuracy_as_published,
    },
    headline=_headline,
    numbers=globals() | {"TASK_ERRORS": permuted.TASK_ERRORS},
    takes=("tasks",),
)
