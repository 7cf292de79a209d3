"""What a sweep found, in sentences and in facts about how it was made."""

import math

import numpy as np

from crossprop._support.formats import duration, interval, listed, plural, upper_first
from crossprop.experiments.facts import described, machine
from crossprop.experiments.findings import compare
from crossprop.experiments.results import SweepResults, value_text
from crossprop.statistics import mean_interval

OTHERS = 6
"""Most learners that the best one is compared with in words."""


def conclusions(sweep: SweepResults) -> list[str]:
    """What was found, in sentences to quote: the best learner, how the others compare, and what limits the answer."""
    ranked = sorted(sweep.learners, key=lambda name: _rank(sweep, name))
    best = ranked[0]
    found = [_best(sweep, best), *_others(sweep, best, ranked[1 : OTHERS + 1])]
    edges = [f"{name} ({listed(swept.choice.edges)})" for name, swept in sweep.learners.items() if swept.choice.edges]
    if edges:
        found.append(
            f"A wider grid may do better for {listed(edges)}: the best value is at the edge of what was tried."
        )
    found += are_backprop(sweep)
    if gone := [name for name, swept in sweep.learners.items() if swept.choice.diverged]:
        found.append(f"Even the best setting of {listed(gone)} diverged with some seeds.")
    return found


def are_backprop(sweep: SweepResults) -> list[str]:
    """Says which learners are backprop at their best setting."""
    plain = [name for name, swept in sweep.learners.items() if swept.choice.point.get("eta") == 1]
    return [f"The best eta of {listed(plain)} is 1, which is backprop."] if plain else []


def _rank(sweep: SweepResults, name: str) -> tuple[int, float]:
    """Sorts by the mean on fresh seeds if all learners have them, else by that on the sweep's seeds."""
    choice = sweep.learners[name].choice
    return choice.diverged, float(sweep.evaluation.values()[name].mean()) if sweep.fresh else choice.mean


def _best(sweep: SweepResults, name: str) -> str:
    """The learner with the lowest error, on fresh seeds if it has them."""
    swept, fresh = sweep.learners[name], sweep.evaluation.values().get(name)
    where = f"at {swept.setting()}" if swept.setting() else "at its only setting"
    lead = f"Of {plural(len(sweep.learners), 'learner')}, {name} has" if len(sweep.learners) > 1 else f"{name} has"
    if fresh is None or not np.isfinite(fresh.values).all():
        seeds = f"{plural(len(swept.grid.seeds), 'seed')}, those with which its setting was chosen"
        return upper_first(
            f"{lead} the lowest {sweep.measure}: {swept.choice.mean:.4g} over all steps, {where}, on {seeds}."
        )
    shown = interval(*map(float, mean_interval(fresh.values)))
    return upper_first(
        f"{lead} the lowest {sweep.measure}: {shown} over all steps, {where}, on {fresh.size} fresh seeds."
    )


def _others(sweep: SweepResults, best: str, others: list[str]) -> list[str]:
    """How others compare with the best, on the fresh seeds that they have in common."""
    values = sweep.evaluation.values()
    compared = compare(values, {name: best for name in others if {name, best} <= values.keys()})
    known = [each for each in compared if each.pairs > 1 and np.isfinite(each.mean)]
    return [upper_first(each.sentence(sweep.measure)) + "." for each in known]


def facts(sweep: SweepResults) -> dict[str, str]:
    """The stream, the networks, the grid and the seeds of a sweep, in words."""
    grids = [swept.grid for swept in sweep.learners.values()]
    swept_over = {axis for grid in grids for axis in grid.over}
    streams = {described(grid.stream, _fields("stream.", swept_over)): None for grid in grids}
    networks = {described(grid.learner.get("network", {}), _fields("network.", swept_over)): None for grid in grids}
    found = {"stream": "; ".join(streams), "network": "; ".join(networks)}
    for grid in grids:
        axes = [f"{axis} {', '.join(map(value_text, values))}" for axis, values in grid.over.items()]
        sizes = math.prod(len(values) for values in grid.over.values())
        found[f"grid, {grid.name}"] = f"{plural(sizes, 'setting')}: {'; '.join(axes)}" if axes else "one setting"
    fresh = {len(grid.evaluation) for grid in grids}
    return found | {
        "seeds": f"{_range([len(grid.seeds) for grid in grids])} to choose settings, {_range([*fresh])} fresh ones",
        "examples per run": f"{int(sweep.best.step.values[-1]):,}, one value recorded per {grids[0].record_every:,}",
        "time of all runs": duration(sweep.seconds),
        "drawn with": machine()["versions"],
    }


def _fields(prefix: str, axes: set[str]) -> tuple[str, ...]:
    return tuple(axis.removeprefix(prefix) for axis in axes if axis.startswith(prefix))


def _range(counts: list[int]) -> str:
    return f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
