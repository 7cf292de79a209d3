"""How cost grows with hidden units, inputs, outputs, runs and steps: GEOFF's sizes, one of them changed at a time."""

from collections.abc import Callable
from typing import NamedTuple

from crossprop.bench.floors import Ceilings
from crossprop.bench.timing import Row, time_case
from crossprop.bench.workloads import PLAIN, Case, Scale, growing

SIZES = {
    "hidden": (32, 128, 512, 2048),
    "inputs": (8, 32, 128, 512),
    "outputs": (1, 4, 16),
    "runs": (1, 4, 16),
    "steps": (500, 2000, 8000),
}
GPU_SIZES = SIZES | {"runs": (1, 16, 256, 4096), "steps": (500, 4000, 32_000)}
QUICK_SIZES = {"hidden": (8,), "inputs": (20,), "outputs": (1,), "runs": (1, 2), "steps": (100,)}
PROJECTED = "crossprop-projected"


class Point(NamedTuple):
    """One size, and how long a contender took with it."""

    quantity: str
    value: int
    row: Row


def sizes(scale: Scale) -> dict[str, tuple[int, ...]]:
    return QUICK_SIZES if scale.quick else GPU_SIZES if scale.gpu else SIZES


def cases(scale: Scale) -> list[tuple[str, int, Case]]:
    """What is timed: quantity, value, case. Over outputs, one projection beside exact crossprop."""
    return [
        (quantity, value, growing(quantity, value, learner, scale))
        for quantity, values in sizes(scale).items()
        for learner in ("crossprop", *([PROJECTED] if quantity == "outputs" else []))
        for value in values
    ]


def grow(
    cases: list[tuple[str, int, Case]],
    engines: tuple[str, ...],
    repeats: int,
    ceilings: Ceilings,
    advance: Callable[[int], None],
) -> list[Point]:
    points = []
    for quantity, value, case in cases:
        rows = time_case("growth", case, (*engines, *PLAIN), repeats, ceilings)
        points += [Point(quantity, value, row) for row in rows]
        advance(len(rows))
    return points
