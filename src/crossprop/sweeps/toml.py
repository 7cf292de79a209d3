"""A sweep in a TOML file, or in the flags of the command line: both are the same table."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from crossprop import _checks as check
from crossprop import datasets
from crossprop.learners import LEARNERS, Learner
from crossprop.network import Network
from crossprop.streams import Geoff, LabelShift, Stream
from crossprop.sweeps.grid import logspace

KEYS = ("learners", "network", "stream", "over", "seeds", "record_every", "engine", "store", "evaluate")
STREAMS = ("geoff", "digits", "mnist5k", "mnist")
HIDDEN, STEP_SIZE = 500, 5e-4
POWER = re.compile(r"(\d+(?:\.\d+)?)\*\*(-?\d+)")
CONSTANTS = {"true": True, "false": False, "none": None}


def arguments(path: Path | None, axes: Iterable[str] = (), **flags: Any) -> dict[str, Any]:
    """What `sweep` is called with, as a file says, and flags in its place where they are not None.

    An axis in a flag is `eta=0,0.5`, `step_size=2**-14..2**-6`, or a learner's own, `crossprop:eta=0,0.5`.
    """
    table = {} if path is None else _read(path)
    _check_keys("a sweep", table, KEYS)
    in_file = _learners(table.get("learners", {}))
    table |= {name: value for name, value in flags.items() if value is not None}
    chosen = {name: in_file.get(name, values) for name, values in _learners(table.get("learners", {})).items()}
    stream = _stream(table.get("stream", {}))
    network = _network(table.get("network", {}), stream)
    over = _over(_table("over", table.get("over", {})))
    for flag in axes:
        name, values = _axis(flag)
        learner, colon, axis = name.rpartition(":")
        (over.setdefault(learner, {}) if colon else over)[axis] = values
    return {
        "learners": {name: _learner(name, values, network) for name, values in chosen.items()},
        "stream": stream,
        "over": over,
        "seeds": table.get("seeds", 30),
        "record_every": table.get("record_every", 50),
        "engine": table.get("engine", "auto"),
        "store": table.get("store"),
        "evaluate": table.get("evaluate"),
    }


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            return tomllib.load(file)
        except tomllib.TOMLDecodeError as problem:
            raise ValueError(f"{path} must be a TOML file: {problem}") from None


def _learners(named: Any) -> dict[str, Any]:
    """Learners with what they are made with; a list of names is of those that need nothing else. One with a list of
    optimizers is a learner for each of them."""
    if isinstance(named, list | tuple):
        return {name: {} for name in named}
    learners: dict[str, Any] = {}
    for name, values in _table("learners", named).items():
        optimizers = values.get("optimizer") if isinstance(values, dict) else None
        if isinstance(optimizers, list):
            if not optimizers:
                raise ValueError(f"learners.{name}.optimizer must not be empty, got []")
            learners |= {f"{name}-{each}": {"rule": name} | values | {"optimizer": each} for each in optimizers}
        else:
            learners[name] = values
    return learners


def _axis(flag: str) -> tuple[str, list[Any]]:
    name, _, values = flag.partition("=")
    if not name or not values:
        raise ValueError(f"over must be AXIS=VALUES, such as eta=0,0.5 or step_size=2**-14..2**-6, got {flag!r}")
    return name, _range(name, values) if ".." in values else [_value(value) for value in values.split(",")]


def _table(name: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TypeError(f"{name} must be a table, got {values!r}")
    return values


def _check_keys(name: str, values: dict[str, Any], keys: Iterable[str]) -> None:
    for key in values:
        check.choice(f"a key of {name}", key, keys)


def _stream(values: Any) -> Stream:
    values = {"name": values} if isinstance(values, str) else _table("stream", values)
    own = {key: value for key, value in values.items() if key != "name"}
    check.choice("the name of stream", values.get("name"), STREAMS)
    kind = Geoff if values["name"] == "geoff" else LabelShift
    _check_keys("stream", own, [field.name for field in fields(kind) if field.name != "data"])
    if kind is LabelShift:
        own = {"data": getattr(datasets, values["name"])(), "shuffle": True} | own
    return kind(**own)


def _network(values: Any, stream: Stream) -> Network:
    _check_keys("network", _table("network", values), [field.name for field in fields(Network)])
    loss = "softmax" if stream.one_hot else "squared"
    fitting = {"inputs": stream.inputs, "hidden": HIDDEN, "outputs": stream.outputs, "loss": loss}
    return Network(**fitting | values)


def _learner(name: str, values: Any, network: Network) -> Learner:
    where = f"learners.{name}"
    own = {key: value for key, value in _table(where, values).items() if key != "rule"}
    rule = values.get("rule", name)
    check.choice(f"the rule of {where}", rule, LEARNERS)
    build: Any = LEARNERS[rule]
    known = [field.name for field in fields(build.func) if field.name != "network"]
    _check_keys(where, own, ["rule", *known])
    return build(network, **{"step_size": STEP_SIZE} | own)


def _over(table: dict[str, Any]) -> dict[str, Any]:
    over: dict[str, Any] = {}
    for name, values in table.items():
        if isinstance(values, str):
            over[name] = _range(name, values)
        elif isinstance(values, list):
            over[name] = [_value(value) if isinstance(value, str) else value for value in values]
        elif isinstance(values, dict) and "logspace" in values:
            over[name] = _logspace(name, values)
        elif isinstance(values, dict) and name in ("network", "stream"):
            over |= {f"{name}.{field}": its for field, its in _over(values).items()}
        else:
            over[name] = _over(values) if isinstance(values, dict) else values
    return over


def _range(name: str, text: str) -> list[float]:
    """`2**-14..2**-6`: powers of 2; `1e-4..1e-1`: powers of 10."""
    start, dots, stop = text.partition("..")
    if not dots:
        raise ValueError(f"over.{name} must be a list of values, or a range as '2**-14..2**-6', got {text!r}")
    power = POWER.fullmatch(start)
    return _logspace(name, {"logspace": [start, stop], "base": float(power[1]) if power else 10})


def _logspace(name: str, values: dict[str, Any]) -> list[float]:
    _check_keys(f"over.{name}", values, ("logspace", "base"))
    ends = values["logspace"]
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(f"over.{name}.logspace must be a list of two ends, got {ends!r}")
    start, stop = (_value(end) if isinstance(end, str) else end for end in ends)
    try:
        return logspace(start, stop, values.get("base", 10))
    except (ValueError, TypeError) as problem:
        raise type(problem)(f"over.{name}: {problem}") from None


def _value(text: str) -> Any:
    """A number, a power as `2**-3`, true, false, none, or the text itself."""
    if power := POWER.fullmatch(text):
        return float(power[1]) ** int(power[2])
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return CONSTANTS.get(text.lower(), text)
