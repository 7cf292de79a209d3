"""Replacements: which units live. One file each, and the registry of replacements by name."""

from collections.abc import Mapping
from typing import Any

from crossprop import _checks as check
from crossprop.registry import Registry, arguments_of
from crossprop.replacements.base import Choice as Choice
from crossprop.replacements.base import Replacement as Replacement
from crossprop.replacements.base import Watched as Watched
from crossprop.replacements.continual import ContinualReplacement as ContinualReplacement
from crossprop.replacements.generate_and_test import GenerateAndTest as GenerateAndTest
from crossprop.replacements.random import RandomReplacement as RandomReplacement
from crossprop.replacements.redo import ReDo as ReDo

REPLACEMENTS: Registry[Replacement] = Registry(
    "crossprop.replacements",
    {
        "continual": ContinualReplacement,
        "generate-and-test": GenerateAndTest,
        "redo": ReDo,
        "random": RandomReplacement,
    },
)
"""Every replacement by name, for `replacement="continual"`, the command line and TOML files. Register one with
`REPLACEMENTS["my-replacement"] = MyReplacement`, or in a package by an entry point of the group
`crossprop.replacements`."""


def as_replacement(value: Any) -> Any:
    """A replacement as a learner keeps it: a name stands for the one of this name with its defaults, and a table of a
    `name` and hyperparameters for that with these."""
    if isinstance(value, str):
        return REPLACEMENTS.find("replacement", value)()
    if not isinstance(value, Mapping):
        return value
    build = REPLACEMENTS.find("the name of replacement", value.get("name"))
    own = {key: each for key, each in value.items() if key != "name"}
    for key in own:
        check.choice(f"a hyperparameter of replacement {value['name']!r}", key, arguments_of(build) or ())
    return build(**own)
