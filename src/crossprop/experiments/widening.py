"""Grids that grow: beyond an edge where the best setting is, and between the best step sizes and their neighbours."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from crossprop._support.formats import listed, plural
from crossprop.configuration import configuration
from crossprop.descriptions import facts
from crossprop.execution import expected_time
from crossprop.experiments import SweepSpec, fill, opened
from crossprop.experiments.blocks import BlockResult
from crossprop.experiments.evaluate import Choice, scores
from crossprop.experiments.grid import build
from crossprop.experiments.results import TunedLearner, joined
from crossprop.hyperparameters import Facts
from crossprop.progress import Say

Over = Mapping[str, Mapping[str, Any]]
"""The axes of every learner."""
Best = Mapping[str, Choice]
"""The best setting of every learner."""
STEP_SIZES = ("step_size", "incoming_step_size")
MOST_REFINEMENTS = 12
"""Ends a refinement in which the best step size keeps moving past the end of its axis."""


def announcements(name: str, say: Say) -> Callable[[str, int, float], None]:
    """Says how many runs a sweep has to do, and which, each time that its grids have grown."""
    return lambda which, runs, seconds: say(
        f"{name}: {plural(runs, 'run')} to do{which}. {expected_time(seconds)}".strip()
    )


def tune(
    specs: Sequence[SweepSpec],
    on_start: Callable[[str, int, float], None] = lambda which, runs, seconds: None,
    *,
    rounds: int,
    resolution: float | None = None,
    reference: str = "",
) -> tuple[dict[str, TunedLearner], list[BlockResult]]:
    """Runs sweeps of the same learners and axes, widens the grids whose best setting is at an edge, at most `rounds`
    times, and evaluates the best. A best setting that is still at an edge is flagged. The learners, and all blocks.

    With a `resolution`, values between the best step sizes and their neighbours are tried, at the best values of all
    other axes, until they are at most this factor apart, and values beyond the best if it has no neighbour there. Grids
    of many axes then find step sizes as well as grids of one.

    Several sweeps choose one setting of each learner: that with the least mean error over all, where the best error of
    the `reference` is the unit of each.
    """
    with ExitStack() as stack:
        stores = [stack.enter_context(opened(spec)) for spec in specs]

        def filled(over: Over, which: str = "", *, tuned: bool = False) -> dict[str, TunedLearner]:
            grids, found = [], defaultdict(list)
            for spec, store in zip(specs, stores, strict=True):
                own = replace(spec, over=over, evaluate=spec.evaluate if tuned else None)
                blocks = fill(own, on_start=partial(on_start, which), into=store, tune=not tuned)
                grids, of_stage = own.grids, {grid.name: scores(grid, blocks) for grid in own.grids}
                unit = float(of_stage[reference].mean("seed").min()) if reference else 1.0
                for name, each in of_stage.items():
                    found[name].append(each / unit)
            return {grid.name: joined(grid, found[grid.name]) for grid in grids}

        def best(over: Over, which: str) -> Best:
            return {name: each.choice for name, each in filled(over, which).items()}

        wider = lambda over, best: widened(replace(specs[0], over=over), best)
        wide = _grown(specs[0].over, best, wider, rounds + 1, "beyond the edge where the best of {} is")
        over = {name: {axis: [*values] for axis, values in axes.items()} for name, axes in wide.items()}
        if resolution is not None:
            finer = partial(refined, resolution=resolution)
            for name, axes in _grown(wide, best, finer, MOST_REFINEMENTS, "near the best step sizes of {}").items():
                over[name] = {axis: [*dict.fromkeys([*over[name][axis], *values])] for axis, values in axes.items()}
        return filled(over, ", on fresh seeds", tuned=True), [block for store in stores for block in store.blocks]


def _grown(
    over: Over, best: Callable[[Over, str], Best], grow: Callable[[Over, Best], Over], most: int, where: str
) -> Over:
    """The axes of every learner after they have grown by what was best, at most as often as `most`; all their values
    have been run. `best` runs a sweep, said to be of which settings."""
    ran, which = over, ""
    for _ in range(most):
        ran, over = over, grow(over, best(over, which))
        if over == ran:
            break
        names = [name for name in over if over[name] != ran[name]]
        which = f", {where.format(listed(names) if len(names) < 4 else plural(len(names), 'learner'))}"
    return ran


def refined(over: Over, best: Best, resolution: float) -> dict[str, dict[str, Any]]:
    """The axes of every learner with a best step size that is farther from a neighbour than `resolution`: its step
    sizes, their neighbours and values between, at the best values of all other axes. If all neighbours are close enough
    but a best step size is the first or last of its axis, the next value beyond it is added. Other learners keep their
    axes."""
    finer = {name: dict(axes) for name, axes in over.items()}
    for name, choice in best.items():
        near = {axis: _near(over[name].get(axis, ()), choice.point.get(axis)) for axis in STEP_SIZES}
        added = {
            axis: [math.sqrt(low * high) for low, high in pairwise(values) if high / low > resolution]
            for axis, values in near.items()
        }
        if not any(added.values()):
            added = {axis: _beyond(values, choice.point.get(axis)) for axis, values in near.items()}
        if any(added.values()):
            finer[name] = {axis: [value] for axis, value in choice.point.items()} | {
                axis: sorted([*values, *added[axis]]) for axis, values in near.items() if values
            }
    return finer


def _near(values: Sequence[Any], best: Any) -> list[float]:
    """The best value and its neighbours; none if they are not all positive numbers."""
    if not all(isinstance(value, int | float) and value > 0 for value in values):
        return []
    ordered = sorted(values)
    place = ordered.index(best) if ordered else 0
    return ordered[max(0, place - 1) : place + 2]


def _beyond(near: Sequence[float], best: Any) -> list[float]:
    """The next value beyond the best, if the best is the first or last of its axis."""
    if len(near) != 2:
        return []
    (other,) = (value for value in near if value != best)
    return [best * best / other]


def widened(spec: SweepSpec, best: Best) -> dict[str, dict[str, Any]]:
    """The axes of every learner, with one value more beyond each edge that its best setting is at. An axis ends before
    a value that the learner does not take, such as a rate above 1; the best setting is then flagged as at the edge."""
    wider = {name: dict(axes) for name, axes in spec.over.items()}
    for name, choice in best.items():
        for axis in choice.edges:
            values = wider[name][axis]
            known = facts(configuration(spec.learners[name]) | choice.point, axis)
            beyond = next_value(known, values, choice.point[axis])
            if beyond not in values and _is_possible(spec, name, choice.point | {axis: beyond}):
                wider[name][axis] = [*values, beyond]
    return wider


def _is_possible(spec: SweepSpec, name: str, point: dict[str, Any]) -> bool:
    """Whether a learner of the sweep takes these values."""
    try:
        build(point, name, spec.learners[name], spec.stream, {})
    except (ValueError, TypeError):
        return False
    return True


def next_value(known: Facts, values: Sequence[Any], edge: float) -> float:
    """The next number beyond `edge`: on a linear scale the hyperparameter's limit if it has one there, else in the
    ratio of the last two."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    ordered = numbers if edge == numbers[0] else numbers[::-1]
    last, before = ordered[:2]
    ends = known.limits if known.scale == "linear" else ()
    limits = [limit for limit in ends if (limit < last) == (last < before) and limit != last]
    if limits:
        return limits[0]
    beyond = last * last / before if last * before > 0 else 2 * last
    return round(beyond) if all(isinstance(value, int) for value in numbers) else beyond
