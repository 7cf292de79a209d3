"""The tables of an arena: `table.csv` with every number, and `table.md` to read."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from crossprop._files import atomic_write
from crossprop.arena.standing import QUESTIONS, Results, Standing
from crossprop.formats import fixed, minus_signs
from crossprop.pages.comparisons import LEVEL
from crossprop.plot.numbers import Sweep, setting
from crossprop.sweeps.evaluate import Comparison

HEAD = (
    *("stream", "learner", *QUESTIONS, "rank", "rank low", "rank high", "mean"),
    *("percent", "percent low", "percent high", "won", "pairs", "p", "microseconds", "numbers", "settings", "setting"),
)


def write_tables(results: Results, sweeps: Mapping[str, Sweep], folder: Path) -> None:
    """Writes `table.csv` and `table.md` to a folder."""
    with atomic_write(folder / "table.csv") as path, path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for name, standing in (("overall", results.overall), *results.streams.items()):
            for learner in results.ranked:
                swept = sweeps[name].learners[learner] if name in sweeps else None
                cost = results.costs[name][learner] if name in sweeps else ("", "")
                choice = (swept.tried, setting(swept, "!")) if swept else ("", "")
                numbers = [*map(float, standing.ranks[learner]), float(standing.values[learner].mean())]
                versus = standing.versus.get(learner)
                difference = ("",) * 6 if versus is None else (*versus.percent, versus.p)
                writer.writerow([name, learner, *results.infos[learner], *numbers, *difference, *cost, *choice])
    with atomic_write(folder / "table.md") as path:
        path.write_text(_markdown(results))


def _markdown(results: Results) -> str:
    """The short table, one row per learner: its mean rank, its mean difference, and both on every stream."""
    titles = [standing.title for standing in results.streams.values()]
    lines = [
        f"| learner | mean rank | overall | {' | '.join(titles)} | µs per step |",
        "|---" * (len(titles) + 4) + "|",
    ]
    for learner in results.ranked:
        cells = [_short(standing, learner) for standing in results.streams.values()]
        overall = short_difference(results.overall.versus.get(learner), between=True)
        row = [learner, mean_rank(results, learner), overall, *cells, f"{mean_cost(results, learner):.3g}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _short(standing: Standing, learner: str) -> str:
    rank = f"{float(standing.ranks[learner].mean):g}."
    return f"{rank} {short_difference(standing.versus.get(learner))}".strip()


def short_difference(comparison: Comparison | None, *, between: bool = False) -> str:
    """The difference in percent, with a star if it is significant."""
    if comparison is None:
        return "reference"
    mean, low, high = comparison.percent[:3]
    if not math.isfinite(mean):
        return "diverged"
    interval = f" [{low:+.0f}, {high:+.0f}]" * between
    return minus_signs(f"{mean:+.0f}%{'*' * (comparison.p < LEVEL)}{interval}")


def mean_rank(results: Results, learner: str) -> str:
    """The mean rank over streams with its interval."""
    rank, low, high = (fixed(float(each), 1) for each in results.overall.ranks[learner])
    return f"{rank} [{low}, {high}]"


def mean_cost(results: Results, learner: str) -> float:
    """Microseconds per step, the geometric mean over streams."""
    times = [costs[learner].microseconds for costs in results.costs.values()]
    return math.exp(sum(map(math.log, times)) / len(times))
