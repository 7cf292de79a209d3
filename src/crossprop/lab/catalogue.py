"""The choices of the lab: every registered learner and stream with its arguments, and a control for each."""

import inspect
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import equinox as eqx

from crossprop import specification
from crossprop._version import __version__
from crossprop.hyperparameters import Facts, given_for, hyperparameters
from crossprop.learners import LEARNERS
from crossprop.network import Network
from crossprop.objectives import OBJECTIVES
from crossprop.optimizers import OPTIMIZERS
from crossprop.registry import one_line
from crossprop.replacements import NONE, REPLACEMENTS, replacement_names
from crossprop.streams import PREDICTIONS, STREAMS, SUITED, SUITED_TO, Suited

OF_THE_STREAM = ("inputs", "outputs", "loss")
"""Fields of a network that its stream decides."""
DECADES = 2
"""Powers of ten that a slider reaches beyond those around its default."""
PROBE = Network(inputs=2, hidden=2)
"""The network of learners that are built only for their controls."""
SMALL = 5e-4
"""The start of the slider of a number that is unset, or whose default depends on the stream."""


class Control(NamedTuple):
    """The control of an argument on the page.

    `kind` is "slider" (a number that the compiled program takes as it is), "whole" (a whole number), "sizes" (one or
    several), "choice", "part", "flag" or "text". A part is a choice among things with arguments of their own, the
    `parts` of the catalogue by this name. `scale` of a slider is "log", "linear", "symlog" where negative numbers are
    taken too, or "decay", which is logarithmic in the distance from 1. With `zero`, the lowest place of a log slider is
    0. An `optional` argument can be left unset.
    """

    name: str
    kind: str
    default: Any
    scale: str = "log"
    low: float = 0.0
    high: float | None = 1.0
    zero: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()
    part: str = ""


def catalogue() -> dict[str, Any]:
    """All that the page offers, in JSON's types."""
    return {
        "version": __version__,
        "learners": [_learner(name) for name in LEARNERS],
        "streams": [_stream(name) for name in STREAMS],
        "network": _controls([each for each in _parameters(Network) if each.name not in OF_THE_STREAM], PROBE),
        "parts": {
            "optimizer": {name: _part(build) for name, build in OPTIMIZERS.items()},
            "replacement": {name: _part(build) for name, build in REPLACEMENTS.items()},
            "objective": {name: _part(build) for name, build in OBJECTIVES.items()},
        },
    }


def _learner(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "about": "", "controls": [], "missing": "", "optimizer": "sgd"}
    try:
        builder = LEARNERS[name]
        learner = specification.build_learner(name, {}, PROBE, SUITED_TO[PROBE.loss], {})
    except Exception as problem:  # a user's learner may raise anything; the others are still offered
        return entry | {"missing": one_line(problem)}
    controls = _controls(_parameters(builder)[1:], learner)  # the first parameter is the network
    optimizer = builder.keywords.get("optimizer", "sgd")
    return entry | {"about": _first_line(type(learner)), "controls": controls, "optimizer": optimizer}


def _part(builder: Callable[..., Any]) -> list[dict[str, Any]]:
    """The controls of an optimizer or a replacement; none if it cannot be built without arguments."""
    try:
        return _controls(_parameters(builder), builder())
    except Exception:
        return []


def _stream(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "about": "", "controls": [], "missing": ""}
    try:
        builder = STREAMS[name]
    except Exception as problem:
        return entry | {"missing": one_line(problem)}
    if name in PREDICTIONS:
        return entry | {"missing": f"predicts over time: crossprop run {name}"}
    parameters = [each for each in _parameters(builder) if each.kind is not each.VAR_POSITIONAL]
    if lacking := [
        each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]:
        return entry | {"missing": f"needs {', '.join(lacking)}: register it with these set"}
    suited = _suited(name, builder)
    network = Network(inputs=2, hidden=suited.hidden)
    steps = {each: specification.step_size_for(each, network, suited) for each in OPTIMIZERS}
    hidden = suited.hidden[0] if len(suited.hidden) == 1 else suited.hidden
    entry |= {"network": {"hidden": hidden, **suited.network}, "step_sizes": steps}
    return entry | {"about": _first_line(builder.func), "controls": _controls(parameters, builder.func)}


def _suited(name: str, builder: Callable[..., Any]) -> Suited:
    """As for `crossprop run`; a stream without settings of its own has to be built, since its loss is not known
    before."""
    if name in SUITED:
        return SUITED[name]
    try:
        return SUITED_TO[specification.loss_of(builder())]
    except Exception:  # a user's stream may raise anything, and learn once its arguments are set
        return SUITED_TO["squared"]


def _parameters(builder: Callable[..., Any]) -> list[inspect.Parameter]:
    return [*inspect.signature(builder).parameters.values()]


def _controls(parameters: list[inspect.Parameter], thing: Any) -> list[dict[str, Any]]:
    """The controls for these parameters of a function or class, or of what made an object."""
    known, numbers = {}, set()
    if is_dataclass(thing):
        known = hyperparameters(thing)
        if isinstance(thing, eqx.Module):  # fields that are not static are numbers to a compiled program
            numbers = {each.name for each in fields(thing) if not each.metadata.get("static")}
    hints = _hints(thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing))
    controls = []
    for each in parameters:
        default = None if each.default is each.empty else each.default
        facts = known.get(each.name) or Facts(default, whole=each.name not in numbers and type(default) is int)
        if each.name == "step_size" and default is None:
            default = SMALL
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            controls.append(_control(each.name, hints.get(each.name, each.annotation), default, facts))
    return [control._asdict() for control in controls if control is not None]


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing)
    except Exception:  # annotations may name types that are not imported at run time
        return {}


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("`", "")


def _control(name: str, annotation: Any, default: Any, facts: Facts) -> Control | None:
    """The control for an argument, or None if its type has none."""
    if name == "hidden":
        return Control(name, "sizes", default)
    if name == "replacement":
        return Control(name, "part", NONE, choices=replacement_names(), part=name) if default is None else None
    part = "optimizer" if name == "base" else name
    if part in ("optimizer", "objective"):
        names, default = tuple(OPTIMIZERS if part == "optimizer" else OBJECTIVES), given_for(default)
        return Control(name, "part", default, choices=names, part=part) if default in names else None
    literal = next((each for each in (annotation, *get_args(annotation)) if get_origin(each) is Literal), None)
    if choices := facts.choices or tuple(map(str, get_args(literal))):
        return Control(name, "choice", default, choices=choices) if default in choices else None
    if isinstance(default, bool):
        return Control(name, "flag", default)
    if isinstance(default, str):
        return Control(name, "text", default)
    if facts.whole or (default is None and int in get_args(annotation)):
        return Control(name, "whole", default, low=facts.low or 1, high=None, optional=default is None)
    is_bounded = facts.above is not None or bool(facts.limits)
    is_number = isinstance(default, int | float) or (default is None and is_bounded)
    return _slider(name, default, facts) if is_number else None


def _slider(name: str, default: float | None, facts: Facts) -> Control:
    """A slider over the range of a number; around a usual value if the default is unset or 0."""
    slider = partial(Control, name, "slider", default, optional=default is None)
    scale = facts.scale or ("symlog" if facts.low is None and facts.above is None else "log")
    low, high = facts.low or 0.0, 1.0 if facts.high is None else facts.high
    if scale == "linear":
        return slider(scale, low, high)
    if scale == "decay":
        return slider(scale, low, 1 - _around(round(1 - (default or 0.0), 9) or 1e-3)[0])
    around = _around(abs(default or (SMALL if default is None else 1.0)))
    if scale == "symlog":
        return slider(scale, -around[1] / 10, around[1] / 10)
    return slider(scale, around[0], facts.high or around[1], zero=facts.low == 0)


def _around(number: float) -> tuple[float, float]:
    """The powers of ten that a slider around a number reaches."""
    power = math.log10(number)
    return 10.0 ** (math.floor(power) - DECADES), 10.0 ** (math.ceil(power) + DECADES)
