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
LEARNER_FLAGS = ("step_size", "incoming_step_size", "optimizer", "replacement", "eta", "ahead", "horizon")
"""Arguments of learners that `crossprop run` and `crossprop sweep` have a flag for; `--set` takes the others."""
