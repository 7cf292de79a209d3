"""Grids that grow: a best setting at the edge of its grid is no result, so the grid goes on there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crossprop.sweeps import SweepSpec, fill
from crossprop.sweeps.evaluate import LIMITS, Choice, choose

ROUNDS = 4
"""A grid is widened at most so many times; a best setting that is at the edge even then is flagged."""


def fill_widening(
    spec: SweepSpec, on_start: Callable[[int, float], None] = lambda runs, seconds: None, rounds: int = ROUNDS
) -> None:
    """Runs a sweep, widens the grids whose best setting is at an edge, runs what is new, and evaluates at the end."""
    for _ in range(rounds):
        tuning = replace(spec, evaluate=None)
        blocks = fill(tuning, on_start=on_start)
        wider = widened(spec.over, {grid.name: choose(grid, blocks) for grid in tuning.header.grids})
        if wider == spec.over:
            break
        spec = replace(spec, over=wider)
    fill(spec, on_start=on_start)


def widened(over: Mapping[str, Mapping[str, Any]], best: Mapping[str, Choice | None]) -> dict[str, dict[str, Any]]:
    """The axes of every learner, with one value more beyond each edge that its best setting is at."""
    wider = {name: dict(axes) for name, axes in over.items()}
    for name, choice in best.items():
        if choice is None:
            continue
        for axis in choice.edges:
            values = wider[name][axis]
            beyond = next_value(axis, values, choice.point[axis])
            if beyond not in values:
                wider[name][axis] = [*values, beyond]
    return wider


def next_value(axis: str, values: Sequence[Any], edge: float) -> float:
    """The next number beyond `edge`: the axis's limit if it has one there, else in the ratio of the last two."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    ordered = numbers if edge == numbers[0] else numbers[::-1]
    last, before = ordered[:2]
    limits = [limit for limit in LIMITS.get(axis, ()) if (limit < last) == (last < before) and limit != last]
    if limits:
        return limits[0]
    beyond = last * last / before if last * before > 0 else 2 * last
    return round(beyond) if all(isinstance(value, int) for value in numbers) else beyond
