"""Flags of commands that may be left out."""

from typing import Annotated, TypeVar

from tyro.conf import arg

T = TypeVar("T")

QUIET = arg(help_behavior_hint="")
"""For a flag whose help says what happens without it: tyro would add "(default: None)"."""
Unset = Annotated[T | None, QUIET]
"""A flag that is None unless given: `seeds: Unset[int] = None`."""
