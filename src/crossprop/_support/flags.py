"""Flags of commands."""

from typing import Annotated, Any, TypeVar

try:
    from tyro.conf import arg
except ImportError:  # without commands, benchmarks still run
    arg = dict[str, Any]

T = TypeVar("T")

QUIET = arg(help_behavior_hint="")
"""For a flag whose help says what happens without it: tyro would add "(default: None)"."""
Unset = Annotated[T | None, QUIET]
"""A flag that is None unless given: `seeds: Unset[int] = None`."""
