"""Replacements of hidden units. One file each, and the registry of replacements by name."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from crossprop._support import checks as check
from crossprop.registry import Registry
from crossprop.replacements.base import Choice as Choice
from crossprop.replacements.base import Replacement as Replacement
from crossprop.replacements.base import Watched as Watched
from crossprop.replacements.continual import ContinualReplacement as ContinualReplacement
from crossprop.replacements.generate_and_test import GenerateAndTest as GenerateAndTest
from crossprop.replacements.periodic import PeriodicReplacement as PeriodicReplacement
from crossprop.replacements.random import RandomReplacement as RandomReplacement
from crossprop.replacements.redo import ReDo as ReDo

REPLACEMENTS: Registry[Replacement] = Registry(
    "crossprop.replacements",
    {
        "continual": ContinualReplacement,
        "generate-and-test": GenerateAndTest,
        "periodic": PeriodicReplacement,
        "redo": ReDo,
        "random": RandomReplacement,
    },
)
"""Every replacement by name, for `replacement="continual"`, the command line and TOML files. Register one with
`REPLACEMENTS["my-replacement"] = MyReplacement`, or in a package by an entry point of the group
`crossprop.replacements`."""


NONE = "none"
"""The name for no replacement, in flags and TOML files."""


def replacement_names() -> tuple[str, ...]:
    """The names that a learner's `replacement` can have."""
    return (NONE, *REPLACEMENTS)


def replacement_field() -> Any:
    """The field of a learner for its replacement of units: a replacement, its name, or None."""
    return eqx.field(default=None, converter=as_replacement, kw_only=True)


def as_replacement(value: Any) -> Any:
    """A replacement from its name, or from a table of a `name` and hyperparameters; None from `none`."""
    if not isinstance(value, str | Mapping):
        return value
    table = {"name": value} if isinstance(value, str) else value
    check.choice("replacement", table.get("name"), replacement_names())
    if table["name"] != NONE:
        return REPLACEMENTS.made("replacement", table)
    if further := [key for key in table if key != "name"]:
        raise ValueError(f"replacement 'none' takes no arguments, got {further[0]!r}")
    return None
