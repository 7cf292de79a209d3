"""Learners and their parts from a `configuration`: class, name, hyperparameters, the learner itself."""

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

from crossprop.configuration import class_name
from crossprop.hyperparameters import Facts, hyperparameters
from crossprop.learners import LEARNERS, PREDICTORS, WRAPPERS, Learner, Scheduled
from crossprop.network import Network
from crossprop.objectives import OBJECTIVES, Objective
from crossprop.optimizers import OPTIMIZERS, Optimizer
from crossprop.records import NONE, LearnerInfo
from crossprop.replacements import REPLACEMENTS, Replacement

PARTS = (Learner, Network, Objective, Optimizer, Replacement)
"""Classes that are built from a description, with their subclasses, besides networks of other classes."""
REGISTRIES = (LEARNERS, PREDICTORS, OPTIMIZERS, REPLACEMENTS, OBJECTIVES)
NETWORK = ("inputs", "outputs", "loss")
"""The attributes of every network."""


def find_class(name: Any) -> Any:
    """The class of a learner or of its part, by its name in a `configuration`; None unless its module is imported or it
    is registered."""
    module, colon, path = str(name).rpartition(":")
    if colon:
        # Not getattr, which may run code of a module: `__getattr__`, or a property.
        attribute = lambda owner, part: getattr(owner, "__dict__", {}).get(part)
        found: Any = reduce(attribute, path.split("."), sys.modules.get(module))
        if isinstance(found, type) and dataclasses.is_dataclass(found) and class_name(found) == name:
            names = {*dir(found), *found.__dataclass_fields__}
            if issubclass(found, PARTS) or names.issuperset(NETWORK):  # a network is anything with these
                return found
    builders = [build for registry in REGISTRIES for build in registry.values()]
    classes = (*(build.func for build in builders), *WRAPPERS.values(), Scheduled, Network)
    return next((cls for cls in classes if isinstance(cls, type) and class_name(cls) == name), None)


def built(description: Any, given: Mapping[str, Any], name: str = "learner") -> Any:
    """The learner of a description, or the value of its field `name`. Functions, which a description only names, are
    `given` by field."""
    match description:
        case list():
            return tuple(built(each, given, name) for each in description)
        case {"type": described, **values} if (cls := find_class(described)) is not None:
            return _instance(cls, {field: built(value, given, field) for field, value in values.items()})
        case dict() if name in given:
            return given[name]
        case {"type": described} if described != "functools:partial":
            module = str(described).rpartition(":")[0]
            raise ValueError(
                f"its class {described} is not known here: import {module} first, or register the class; classes other "
                f"than those of learners and their parts are given as {name}="
            )
        case dict():
            what = description.get("function") or description.get("type") or "an array"
            raise ValueError(f"{name} was {what}, which is not kept in files: give it as {name}=")
        case _:
            return description


def _instance(cls: Any, values: dict[str, Any]) -> Any:
    own = [field for field in dataclasses.fields(cls) if field.name in values]  # an older version had fewer fields
    arguments = {field.name: values[field.name] for field in own if field.init}
    if {*arguments} <= {*inspect.signature(cls).parameters}:
        return cls(**arguments)
    made = object.__new__(cls)  # its __init__ takes other arguments than its fields
    for field in own:
        convert = field.metadata.get("converter", lambda value: value)
        object.__setattr__(made, field.name, convert(values[field.name]))
    return made


def nested(learner: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The description of a learner, of the one inside it, and so on."""
    while isinstance(learner, Mapping):
        yield learner
        learner = learner.get("learner")  # pyright: ignore[reportAssignmentType]


def learner_info(learner: Mapping[str, Any]) -> LearnerInfo:
    """The names of the parts of the innermost learner: credit rule or objective, optimizer and replacement."""
    learner = [*nested(learner)][-1]
    rule = name_of(learner.get("objective") or learner) + "-projected" * (learner.get("projections") is not None)
    return LearnerInfo(rule, name_of(learner.get("optimizer")), name_of(learner.get("replacement")))


def name_of(part: Any) -> str:
    """The registered name of a class, or else that of the class or function itself."""
    if isinstance(part, Mapping):
        part = part.get("type") or part["function"]
    registered = [pair for registry in REGISTRIES for pair in registry.classes.items()]
    names = {class_name(cls): name for name, cls in reversed(registered)}
    return NONE if part is None else names.get(part) or re.split("[:.]", str(part))[-1]


def facts(learner: Mapping[str, Any], axis: str) -> Facts:
    """The facts about a hyperparameter, such as `eta` or `optimizer.sigma`, of a learner; none if its class is
    not known."""
    part, _, name = axis.rpartition(".")
    for one in nested(learner):
        described: Any = one.get(part) if part else one
        cls = find_class(described.get("type") if isinstance(described, Mapping) else described)
        if cls and (known := hyperparameters(cls).get(name)):
            return known
    return Facts(None)


def backprop_at(learner: Mapping[str, Any]) -> str | None:
    """The hyperparameter whose value makes a learner backprop, or None."""
    learner = [*nested(learner)][-1]
    at = {name: facts(learner, name).backprop_at for name in learner}
    return next((name for name, value in at.items() if value is not None and learner[name] == value), None)
