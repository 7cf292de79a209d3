"""The table of an arena with every number, and short ones for its page."""

import math
from collections.abc import Mapping
from pathlib import Path

from crossprop._support.formats import fixed
from crossprop.arena.standing import QUESTIONS, Results
from crossprop.experiments.page import write_table
from crossprop.experiments.results import SweepResults

HEAD = (
    *("stream", "title", "learner", *QUESTIONS, "rank", "rank low", "rank high", "mean"),
    *("percent", "percent low", "percent high", "won", "pairs", "p", "microseconds", "numbers", "settings", "setting"),
)


def write_arena_table(results: Results, sweeps: Mapping[str, SweepResults], path: Path) -> None:
    """Writes a row for every learner on every stream, and overall."""
    rows = []
    for name, standing in (("overall", results.overall), *results.streams.items()):
        for learner in results.ranked:
            swept = sweeps[name].learners[learner] if name in sweeps else None
            cost = results.costs[name][learner] if name in sweeps else ("", "")
            choice = (swept.tried, swept.setting("!")) if swept else ("", "")
            numbers = [*map(float, standing.ranks[learner]), float(standing.values[learner].mean())]
            versus = standing.versus.get(learner)
            difference = ("",) * 6 if versus is None else (*versus.percent, versus.won, versus.pairs, versus.p)
            rows.append([name, standing.title, learner, *results.infos[learner], *numbers, *difference, *cost, *choice])
    write_table(path, HEAD, rows)


def mean_rank(results: Results, learner: str) -> str:
    """The mean rank over streams with its interval."""
    rank, low, high = (fixed(float(each), 1) for each in results.overall.ranks[learner])
    return f"{rank} [{low}, {high}]"


def mean_cost(results: Results, learner: str) -> float:
    """Microseconds per step, the geometric mean over streams."""
    times = [costs[learner].microseconds for costs in results.costs.values()]
    return math.exp(sum(map(math.log, times)) / len(times))
