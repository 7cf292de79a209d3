"""Streams, networks and learners as TOML: registered names with all of their arguments."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from crossprop.configuration import class_name, configuration
from crossprop.datasets import DataSet
from crossprop.descriptions import name_of, nested
from crossprop.learners import LEARNERS, PREDICTORS, WRAPPERS, Learner
from crossprop.registry import arguments_of
from crossprop.specification import build_stream
from crossprop.streams import STREAMS, Stream

SIZES = ("type", "inputs", "outputs")
"""Arguments of a network that follow from its class and its stream."""


def named_stream(described: Mapping[str, Any]) -> tuple[dict[str, Any], Stream]:
    """The table of a stream, from what `configuration` says of it, and the stream. A ValueError if no registered stream
    is the same."""
    for name, build in STREAMS.items():
        if not _may_build(build, described):
            continue
        given = {each: described[each] for each in arguments_of(build) or () if described.get(each) is not None}
        try:
            table = {"name": name, **{each: _value(each, value) for each, value in given.items()}}
            stream = build_stream(table)
        except (ValueError, TypeError, OSError):
            continue
        if configuration(stream) == described:
            return table, stream
    raise ValueError(f"its stream {described.get('type')} is none that a registered name gives")


def _may_build(build: "partial[Stream]", described: Mapping[str, Any]) -> bool:
    """Whether a builder gives streams of this class, and over this data set."""
    function: Any = build.func
    made = function if isinstance(function, type) else inspect.signature(function).return_annotation
    data = described.get("data")
    over = data.get("name") if isinstance(data, Mapping) else None
    return (made is inspect.Signature.empty or _is_class(made, described)) and (not build.args or build.args == (over,))


def named_experiment(name: str, learner: Learner, stream: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a learner, with its network and the table of its stream. A ValueError if it has no such name."""
    *around, inner = nested(configuration(learner))
    builders = [(rule, build) for registry in (LEARNERS, PREDICTORS) for rule, build in registry.items()]
    fixes_nothing_first = sorted(builders, key=lambda pair: bool(pair[1].keywords))
    found = [(rule, build) for rule, build in fixes_nothing_first if _is_class(build.func, inner)]
    if not found:
        raise ValueError(f"its class {inner['type']} is not registered")
    rule, build = found[0]
    own = {"rule": rule, **_arguments(build, inner)}
    for each in around:
        key = next((key for key, cls in WRAPPERS.items() if _is_class(cls, each)), None)
        if key is None:
            raise ValueError(f"its class {each['type']} is not registered")
        own[key] = _arguments(WRAPPERS[key], each)
    network = {each: _value(each, value) for each, value in inner["network"].items() if each not in SIZES}
    return {"stream": stream, "network": network, "learners": {name: own}}


def _is_class(cls: Any, described: Mapping[str, Any]) -> bool:
    return isinstance(cls, type) and class_name(cls) == described["type"]


def _arguments(build: Any, described: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a builder, the network or the learner within aside."""
    accepted = arguments_of(build) or [*described]
    wanted = [each for each in accepted if each in described and each not in ("network", "learner", "type")]
    return {each: _value(each, described[each]) for each in wanted if described[each] is not None}


def _value(name: str, described: Any) -> Any:
    """An argument in TOML; of a part such as an optimizer a table with its name and its arguments."""
    if isinstance(described, list):
        return [_value(name, each) for each in described]
    if not isinstance(described, Mapping):
        return described
    if described.get("type") == class_name(DataSet):
        return described["name"]
    if "type" not in described:
        raise ValueError(f"its {name} is {described.get('function', 'an array')}, which has no registered name")
    own = {each: _value(each, value) for each, value in described.items() if each != "type" and value is not None}
    of_stream = [name for name, cls in STREAMS.classes.items() if _is_class(cls, described)]
    return {"name": of_stream[0] if of_stream else name_of(described), **own}
