"""Provenance for pages: engine, machine, versions, streams and networks in words."""

import json
import platform
from collections.abc import Mapping
from typing import Any

import jax

from crossprop._support.formats import listed
from crossprop._version import __version__
from crossprop.execution import cores, device_kind


def engine_words(engine: str) -> str:
    """The `engine` of records in words: it is a name, or a JSON object of names by learner."""
    if not engine.startswith("{"):
        return f"{engine}, for all learners"
    by_engine: dict[str, list[str]] = {}
    for learner, name in json.loads(engine).items():
        by_engine.setdefault(name, []).append(learner)
    if len(by_engine) == 1:
        return f"{next(iter(by_engine))}, for all learners"
    return "; ".join(f"{name} for {listed(learners)}" for name, learners in by_engine.items())


def machine() -> dict[str, str]:
    """The device and the versions that this process has."""
    return {
        "device": f"{device_kind()}, {cores()} cores",
        "versions": f"crossprop {__version__}, jax {jax.__version__}, python {platform.python_version()}",
    }


def described(configuration: Any, but: tuple[str, ...] = ()) -> str:
    """A stream, network or learner in words, from its configuration: its type, then its arguments except those in
    `but`."""
    if not isinstance(configuration, Mapping):
        return str(configuration)
    fields = {name: value for name, value in configuration.items() if name not in ("type", *but)}
    words = [f"{name.replace('_', ' ')} {_word(value)}" for name, value in fields.items() if _word(value)]
    kind = str(configuration.get("type", "")).rpartition(".")[2]
    return f"{kind} ({', '.join(words)})" if words and kind else kind or ", ".join(words)


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name", value.get("function", "")))
    if isinstance(value, list | tuple):
        return " and ".join(map(_word, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
