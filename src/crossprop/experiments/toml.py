"""A sweep described by a TOML file, by flags of the command line, or by both: flags precede the file."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crossprop._support import checks as check
from crossprop._support.files import read_file
from crossprop.experiments.grid import logspace
from crossprop.experiments.spec import SweepSpec
from crossprop.registry import import_modules
from crossprop.specification import as_table, build, check_keys, learner_tables

VALUES = ("record_every", "engine", "store", "evaluate", "steps")
KEYS = ("import", "learners", "network", "stream", "over", "seeds", *VALUES)
POWER = re.compile(r"(\d+(?:\.\d+)?)\*\*(-?\d+)")
SIZES = re.compile(r"\d+(?:x\d+)+")
MOST_BYTES = 2**20
"""Bytes of a file: what tomllib takes for longer ones can be any time."""
MOST_DOTS = 5000
"""Dots in a file: tomllib takes memory by the square of a key's parts, 0.1 GB for this many."""
MOST_DEPTH = 20
CONSTANTS = {"true": True, "false": False, "none": None}


def read_spec(
    path: Path | None, axes: Iterable[str] = (), learner_flags: Mapping[str, Any] | None = None, **flags: Any
) -> SweepSpec:
    """The sweep that a file and flags describe.

    **Arguments:**

    - `path`: a TOML file, or None.
    - `axes`: axes as flags: `eta=0,0.5`, `step_size=2**-14..2**-6`, or one learner's, `crossprop:eta=0,0.5`.
    - `learner_flags`: arguments of all learners that have them, such as `{"step_size": 0.1}`.
    - `flags`: values for keys of the file. None leaves the file's; a table is merged with it, but a stream's `name`
      replaces the file's stream; names of learners choose among those of the file, and of the registered ones.
    """
    in_file = {} if path is None else read_toml(path)
    check_keys("a sweep", in_file, KEYS)
    for each in (in_file, flags):
        import_modules(each.get("import", []))
    for key in ("network", "stream"):
        as_table(key, in_file.get(key, {}))
    table = merged(in_file, {key: value for key, value in flags.items() if value is not None}, ("network", "stream"))
    _check_complete("this sweep" if path is None else str(path), table)
    named = learner_tables(in_file.get("learners", {}))
    table["learners"] = {name: named.get(name, own) for name, own in learner_tables(table["learners"]).items()}
    return spec_of_table(table, axes, learner_flags)


def spec_of_table(
    table: Mapping[str, Any], axes: Iterable[str] = (), learner_flags: Mapping[str, Any] | None = None, **options: Any
) -> SweepSpec:
    """The sweep that a table with the keys of a file describes; `options` are further ones of `SweepSpec`."""
    learners, stream = build(table, learner_flags)
    over = _over(as_table("over", table.get("over", {})))
    for flag in axes:
        name, values = _axis(flag)
        learner, colon, axis = name.rpartition(":")
        (over.setdefault(learner, {}) if colon else over)[axis] = values
    values = {key: table[key] for key in VALUES if key in table}
    return SweepSpec.of(learners, stream, over, table.get("seeds", 30), **values | options)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table, with its stream as a table, too."""
    table = parse_toml(read_file(path, MOST_BYTES), path)
    if isinstance(table.get("stream"), str):
        table["stream"] = {"name": table["stream"]}
    return table


def parse_toml(content: bytes, path: Path | str) -> dict[str, Any]:
    """TOML as a table; an error names the `path` that it came from."""
    if content.count(b".") > MOST_DOTS:
        raise ValueError(f"{path} must be a TOML file with at most {MOST_DOTS:,} dots, got {content.count(b'.'):,}")
    try:
        table = tomllib.loads(content.decode("utf-8-sig"))  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} must be a TOML file in UTF-8: {problem}") from None
    except (ValueError, RecursionError) as problem:  # also numbers with too many digits, and too many brackets
        raise ValueError(f"{path} must be a TOML file: {problem}") from None
    level, depth = [table], 0
    while level := [each for within in level for each in _values(within) if isinstance(each, dict | list)]:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(f"{path} must have at most {MOST_DEPTH} tables and lists within each other")
    return table


def _values(within: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return within.values() if isinstance(within, dict) else within


def merged(table: Mapping[str, Any], changes: Mapping[str, Any], tables: Iterable[str]) -> dict[str, Any]:
    """The table with these changes. The `tables` in it are merged, and those in them too, unless the new one has a
    name, such as that of another stream."""
    both = {
        key: merged(table[key], value, [*value])
        for key, value in changes.items()
        if key in tables and isinstance(value, dict) and "name" not in value and isinstance(table.get(key), dict)
    }
    return {**table, **changes, **both}


def _check_complete(where: str, table: dict[str, Any]) -> None:
    examples = {
        "stream": 'stream = "geoff" or --stream geoff',
        "learners": 'learners = ["crossprop"] or --learners crossprop',
    }
    if lacking := [key for key in examples if table.get(key) in (None, {}, [], ())]:
        how = ", ".join(examples[key] for key in lacking)
        raise ValueError(f"{where} has no {' and no '.join(lacking)}: give {how}")


def _axis(flag: str) -> tuple[str, list[Any]]:
    name, _, values = flag.partition("=")
    if not name or not values:
        raise ValueError(f"over must be AXIS=VALUES, such as eta=0,0.5 or step_size=2**-14..2**-6, got {flag!r}")
    return name, _range(name, values) if ".." in values else [parse_value(value) for value in values.split(",")]


def _over(table: dict[str, Any]) -> dict[str, Any]:
    over: dict[str, Any] = {}
    for name, values in table.items():
        if isinstance(values, str):
            over[name] = _range(name, values)
        elif isinstance(values, list):
            over[name] = [parse_value(value) if isinstance(value, str) else value for value in values]
        elif isinstance(values, dict) and "logspace" in values:
            over[name] = _logspace(name, values)
        elif isinstance(values, dict) and name in ("network", "stream", "optimizer", "replacement"):
            over |= {f"{name}.{field}": its for field, its in _over(values).items()}
        else:
            over[name] = _over(values) if isinstance(values, dict) else values
    return over


def _range(name: str, text: str) -> list[float]:
    """`2**-14..2**-6`: powers of 2; `1e-4..1e-1`: powers of 10."""
    start, dots, stop = text.partition("..")
    if not dots:
        raise ValueError(f"over.{name} must be a list of values, or a range such as '2**-14..2**-6', got {text!r}")
    power = POWER.fullmatch(start)
    return _logspace(name, {"logspace": [start, stop], "base": float(power[1]) if power else 10})


def _logspace(name: str, values: dict[str, Any]) -> list[float]:
    check_keys(f"over.{name}", values, ("logspace", "base"))
    ends = values["logspace"]
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(f"over.{name}.logspace must be a list of two ends, got {ends!r}")
    start, stop = (parse_value(end) if isinstance(end, str) else end for end in ends)
    try:
        return logspace(start, stop, values.get("base", 10))
    except (ValueError, TypeError) as problem:
        raise type(problem)(f"over.{name}: {problem}") from None


def parse_value(text: str) -> Any:
    """A number, a power such as `2**-3`, sizes such as `256x256`, true, false, none, or the text itself."""
    if SIZES.fullmatch(text):
        return tuple(map(int, text.split("x")))
    if power := POWER.fullmatch(text):
        try:
            return float(power[1]) ** int(power[2])
        except (OverflowError, ZeroDivisionError, ValueError):
            raise ValueError(f"a power in over must be a finite number, got {check.shown(text)}") from None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return CONSTANTS.get(text.lower(), text)


def toml_entries(values: Mapping[str, Any]) -> list[str]:
    """The lines of a table in TOML, without those that are None."""
    return [f"{toml_key(name)} = {to_toml(value)}" for name, value in values.items() if value is not None]


def toml_key(name: str) -> str:
    """A key in TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def to_toml(value: Any) -> str:
    """A value in TOML, which writes numbers, lists and text as JSON does, apart from characters beyond 16 bits, which
    it takes as they are."""
    if isinstance(value, dict):
        return f"{{ {', '.join(toml_entries(value))} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
