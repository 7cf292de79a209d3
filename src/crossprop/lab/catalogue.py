"""What can be chosen in the lab: every registered learner and stream with its arguments, and a control for each."""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from crossprop import specification
from crossprop._version import __version__
from crossprop.learners import LEARNERS
from crossprop.network import ACTIVATIONS, Network
from crossprop.optimizers import NAMES, NETWORK_OPTIMIZERS
from crossprop.optimizers.base import Optimizer
from crossprop.registry import one_line
from crossprop.replacements import NONE, REPLACEMENTS, replacement_names
from crossprop.streams import STREAMS

CHOICES = {"activation": ACTIVATIONS, "layers": ("top", "all")}
"""Arguments whose type is text, but that take certain names only."""
OF_THE_STREAM = ("inputs", "outputs", "loss")
"""Fields of a network that its stream decides."""
DECADES = 2
"""Powers of ten that a slider reaches beyond those around its default."""
SMALL, NEARLY_ONE = 0.05, 0.9
"""A default between 0 and 1 that is below or above these is moved by factors of itself or of its distance from 1."""
PROBE = Network(inputs=2, hidden=2)
"""The network of learners that are built only to be asked which numbers they take."""


class Control(NamedTuple):
    """How an argument is set on the page.

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
    network = [
        _control(each.name, each.type, _default(each), _takes_network, _leaves(PROBE))
        for each in fields(Network)
        if each.name not in OF_THE_STREAM
    ]
    return {
        "version": __version__,
        "learners": [_learner(name) for name in LEARNERS],
        "streams": [_stream(name) for name in STREAMS],
        "network": [each._asdict() for each in network if each is not None],
        "parts": {
            "optimizer": {name: _part(build) for name, build in NETWORK_OPTIMIZERS.items()},
            "replacement": {name: _part(build) for name, build in REPLACEMENTS.items()},
        },
    }


def _default(field: Any) -> Any:
    return specification.HIDDEN if field.default is MISSING else field.default


def _takes_network(name: str, value: Any) -> bool:
    fields: dict[str, Any] = {"inputs": 2, "hidden": 2, name: value}
    return _works(lambda: Network(**fields))


def _learner(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "about": "", "controls": [], "missing": ""}
    try:
        builder = LEARNERS[name]
        learner = specification.build_learner(name, {}, PROBE, {})
    except Exception as problem:  # one's own learner may fail in any way; the others are still offered
        return entry | {"missing": one_line(problem)}
    entry["about"] = _first_line(type(learner))

    def takes(argument: str, value: Any) -> bool:
        return _works(lambda: specification.build_learner(name, {argument: value}, PROBE, {}))

    return entry | {"controls": _controls(_parameters(builder)[1:], learner, takes)}  # the first is the network


def _part(builder: Callable[..., Any]) -> list[dict[str, Any]]:
    """The controls of an optimizer or a replacement; none if it cannot be built without arguments."""
    try:
        made = builder()
    except Exception:
        return []
    return _controls(_parameters(builder), made, lambda name, value: _works(lambda: builder(**{name: value})))


def _parameters(builder: Callable[..., Any]) -> list[inspect.Parameter]:
    return [*inspect.signature(builder).parameters.values()]


def _controls(
    parameters: list[inspect.Parameter], made: Any, takes: Callable[[str, Any], bool]
) -> list[dict[str, Any]]:
    """The controls for these arguments of what `made` is one of."""
    hints = _hints(type(made))  # a converter hides the types of its field from the signature
    controls = [
        _control(parameter.name, hints.get(parameter.name), _given(parameter), takes, _leaves(made))
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    return [each._asdict() for each in controls if each is not None]


def _leaves(module: Any) -> set[str]:
    """The arguments that are numbers to a compiled program, not part of its structure."""
    return {each.name for each in fields(module) if not each.metadata.get("static")}


def _given(parameter: inspect.Parameter) -> Any:
    return parameter.default if parameter.default is not parameter.empty else specification.STEP_SIZE


def _stream(name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "about": "", "controls": [], "missing": ""}
    try:
        builder = STREAMS[name]
    except Exception as problem:
        return entry | {"missing": one_line(problem)}
    parameters = [each for each in _parameters(builder) if each.kind is not each.VAR_POSITIONAL]
    if lacking := [
        each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]:
        return entry | {"missing": f"needs {', '.join(lacking)}: register it with these set"}
    entry["about"] = _first_line(builder.func)
    # The constructor of a dataclass is quick; other functions may read files.
    is_class = isinstance(builder.func, type)
    takes = lambda argument, value: is_class and _works(lambda: builder(**{argument: value}))
    hints = _hints(builder.func)
    controls = [_control(each.name, hints.get(each.name, each.annotation), each.default, takes) for each in parameters]
    return entry | {"controls": [each._asdict() for each in controls if each is not None]}


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing)
    except Exception:  # annotations may name what is not there at run time
        return {}


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("`", "")


def _works(build: Callable[[], Any]) -> bool:
    try:
        build()
    except Exception:
        return False
    return True


def _control(
    name: str,
    annotation: Any,
    default: Any,
    takes: Callable[[str, Any], bool],
    leaves: Iterable[str] | None = None,
) -> Control | None:
    """The control for an argument, or None if its type has none."""
    if name == "hidden":
        return Control(name, "sizes", default)
    if name == "replacement":
        return Control(name, "part", NONE, choices=replacement_names(), part=name) if default is None else None
    if name == "optimizer" or annotation == Optimizer:
        return Control(name, "part", default, choices=NAMES, part="optimizer") if default in NAMES else None
    if name in CHOICES:
        return Control(name, "choice", default, choices=CHOICES[name]) if default in CHOICES[name] else None
    literal = next((each for each in (annotation, *get_args(annotation)) if get_origin(each) is Literal), None)
    if literal is not None:
        return Control(name, "choice", default, choices=tuple(map(str, get_args(literal))))
    if isinstance(default, bool):
        return Control(name, "flag", default)
    if isinstance(default, str):
        return Control(name, "text", default)
    if leaves is not None and name in leaves and (default is None or isinstance(default, int | float)):
        return _slider(name, default, takes)
    if isinstance(default, float):
        return _slider(name, default, takes, specification.STEP_SIZE if leaves is not None else 1.0)
    if isinstance(default, int) or (default is None and int in get_args(annotation)):
        return Control(name, "whole", default, low=0 if takes(name, 0) else 1, high=None, optional=default is None)
    return None


def _slider(
    name: str, default: float | None, takes: Callable[[str, Any], bool], usual: float = specification.STEP_SIZE
) -> Control | None:
    """A slider over the numbers that are taken; around `usual` if the default is unset or 0."""
    if default is None and not takes(name, 0.5) and not takes(name, 2.0):
        return None
    optional = default is None
    if not takes(name, 1.5) and takes(name, 0.5):
        low, high = 0.0 if takes(name, 0.0) else 0.001, 1.0 if takes(name, 1.0) else 0.999
        if default is not None and default >= NEARLY_ONE:
            high = 1 - _around(round(1 - default, 9))[0]
            return Control(name, "slider", default, "decay", low, high)
        if not default or default > SMALL:
            return Control(name, "slider", default, "linear", low, high, optional=optional)
        return Control(name, "slider", default, "log", _around(default)[0], high, zero=low == 0)
    low, high = _around(abs(default or usual))
    if takes(name, -0.5):
        return Control(name, "slider", default, "symlog", -high / 10, high / 10, optional=optional)
    return Control(name, "slider", default, "log", low, high, zero=takes(name, 0.0), optional=optional)


def _around(number: float) -> tuple[float, float]:
    """The powers of ten that a slider around a number reaches."""
    power = math.log10(number)
    return 10.0 ** (math.floor(power) - DECADES), 10.0 ** (math.ceil(power) + DECADES)
