"""A setting of the lab: the table that the page sends and a link holds, checked and built."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from crossprop import specification
from crossprop._support import checks as check
from crossprop.arguments import check_fit, checked_learners
from crossprop.learners import Learner
from crossprop.learners.states import state_bytes
from crossprop.network import Network
from crossprop.specification import as_table, check_keys
from crossprop.streams import Iterator, Stream

KEYS = ("stream", "network", "learners", "seeds", "steps", "record_every")
WINDOWS = 150
"""About how many points a curve has."""
STEPS = 20_000
"""Default number of steps for a stream that is endless or has more than `LONG` steps."""
LONG = 600_000
MOST_LEARNERS = 8
MOST_LAYERS = 20
"""Compiling more takes long, and cannot be stopped."""
MOST_SEEDS = 32
MOST_STEPS = 2_000_000
MOST_WINDOWS = 2_000
MOST_BYTES = 2**31
"""Most bytes of the states of all runs together, and of the examples of one."""


class Setting(NamedTuple):
    """A run of the lab: learners, stream, steps and seeds."""

    table: dict[str, Any]
    learners: dict[str, Learner]
    stream: Stream
    seeds: list[int]
    steps: int
    record_every: int

    @property
    def network(self) -> Network:
        """The network of all learners."""
        return next(iter(self.learners.values())).network

    @property
    def stream_name(self) -> str:
        """The stream's name and arguments, as text."""
        return json.dumps(self.table["stream"], sort_keys=True)


def read_setting(values: Any) -> Setting:
    """The setting that a table describes; a ValueError or TypeError says what is wrong with it."""
    table = as_table("a setting", values)
    check_keys("a setting", table, KEYS)
    named = as_table("learners", table.get("learners"))
    if not 1 <= len(named) <= MOST_LEARNERS:
        raise ValueError(f"learners must be 1 to {MOST_LEARNERS}, got {len(named)}")
    seeds = check.integer("seeds", table.get("seeds", 4), low=1, high=MOST_SEEDS)
    built = specification.build({key: table[key] for key in ("stream", "network", "learners") if key in table})
    learners, stream = checked_learners(built.learners), built.stream
    if isinstance(stream, Iterator):
        raise ValueError("stream must give its examples more than once, and an Iterator does not: use crossprop.run")
    check_fit(learners, stream)
    layers = max(len(each.network.hidden) for each in learners.values())
    if layers > MOST_LAYERS:
        raise ValueError(f"hidden must have at most {MOST_LAYERS} layers in the lab, got {layers}: use crossprop.run")
    steps = _steps(stream, table.get("steps"))
    record_every = table.get("record_every") or _round_up(steps / WINDOWS)
    check.integer("record_every", record_every, low=max(1, math.ceil(steps / MOST_WINDOWS)), high=steps)
    _check_size(learners, stream, seeds, steps)
    return Setting(dict(table), learners, stream, list(range(seeds)), steps, record_every)


def _steps(stream: Stream, steps: Any) -> int:
    if steps is not None:
        return check.integer("steps", steps, low=1, high=min(stream.steps or MOST_STEPS, MOST_STEPS))
    return STEPS if stream.steps is None or stream.steps > LONG else stream.steps


def _round_up(least: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 ..."""
    power = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _check_size(learners: Mapping[str, Learner], stream: Stream, seeds: int, steps: int) -> None:
    # A run has its initial and its present state, and a third one while it is copied.
    states = 3 * seeds * sum(map(state_bytes, learners.values()))
    for what, found in (("the states of all runs", states), ("the examples of a run", 4 * steps * stream.inputs)):
        if found > MOST_BYTES:
            raise ValueError(
                f"{what} must fit in {MOST_BYTES / 2**30:.0f} GiB for the lab, got {found / 2**30:.1f} GiB: take fewer "
                "hidden units, seeds, learners or examples, or use crossprop.run"
            )
