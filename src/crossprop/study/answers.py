"""What a study finds: every tuned learner against tuned backprop and tuned frozen with the same optimizer."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from crossprop.plot.numbers import Sweep, Swept, setting
from crossprop.statistics import Estimate, Paired, mean_interval
from crossprop.sweeps.evaluate import PHASES, Comparison, compare

BACKPROP, FROZEN = "backprop", "frozen"
IN_WORDS = {"all": "over all steps", "end": "at the end of tasks", "switch": "just after a switch"}
VERDICTS = {"yes": "yes", "no": "no", "open": "no difference shown"}
LEVEL = 0.05


class Row(NamedTuple):
    """A tuned learner on fresh seeds: by phase, its mean and its comparisons, with backprop and with frozen."""

    learner: str
    rule: str
    optimizer: str
    swept: Swept
    estimates: dict[str, Estimate]
    versus: dict[str, dict[str, Comparison]]
    """By reference, then by phase; a learner is not compared with itself."""
    moved: Estimate
    """How far the incoming weights are from their start at the end."""

    @property
    def crossprop(self) -> bool:
        return self.rule not in (BACKPROP, FROZEN)


class Answer(NamedTuple):
    """A question, its answer in a word, and in a sentence."""

    question: str
    verdict: str
    why: str


def rows_of(sweep: Sweep) -> list[Row]:
    """The table of a study, from the records of its best settings on fresh seeds; an optimizer's rows together."""
    evaluation = sweep.evaluation
    split = {name: (name.rpartition("-")[0], name.rpartition("-")[2]) for name in evaluation.records}
    values = {phase: evaluation.values(phase) for phase in PHASES}
    versus: dict[str, dict[str, dict[str, Comparison]]] = {name: {} for name in split}
    for reference in (BACKPROP, FROZEN):
        against = {name: f"{reference}-{optimizer}" for name, (rule, optimizer) in split.items() if rule != reference}
        for phase in PHASES:
            for each in compare(values[phase], {name: other for name, other in against.items() if other in split}):
                versus[each.learner].setdefault(reference, {})[phase] = each
    rows = []
    optimizers = [optimizer for _, optimizer in split.values()]
    for name, (rule, optimizer) in sorted(split.items(), key=lambda item: optimizers.index(item[1][1])):
        estimates = {phase: _estimate(values[phase][name].values) for phase in PHASES}
        moved = _estimate(evaluation.records[name].incoming_drift.isel(step=-1).values)
        rows.append(Row(name, rule, optimizer, sweep.learners[name], estimates, versus[name], moved))
    return rows


def _estimate(values: np.ndarray) -> Estimate:
    return mean_interval(values) if np.isfinite(values).all() else Estimate(*np.array([np.inf, np.nan, np.nan]))


def percent(comparison: Comparison) -> Paired:
    """The paired difference in percent of the reference's mean."""
    difference = comparison.difference
    whole = (comparison.estimate.mean - difference.mean) / 100
    return difference._replace(mean=difference.mean / whole, low=difference.low / whole, high=difference.high / whole)


def verdict(comparison: Comparison) -> str:
    """`yes` where the error is lower and the corrected p-value small, `no` where it is higher, else `open`."""
    if not comparison.p < LEVEL:
        return "open"
    return "yes" if comparison.difference.mean < 0 else "no"


def answers(sweep: Sweep, rows: list[Row]) -> list[Answer]:
    """The questions of the study, answered in plain words. Which rule stands for crossprop is chosen on the sweep's
    seeds; all numbers are from fresh ones."""
    optimizers = list(dict.fromkeys(row.optimizer for row in rows))
    of_optimizer = [[row for row in rows if row.optimizer == optimizer and row.crossprop] for optimizer in optimizers]
    bests = [best for mine in of_optimizer if (best := _best(mine)) and BACKPROP in best.versus]
    found = [_against(f"Does crossprop credit help with {row.optimizer}?", row, BACKPROP, "all") for row in bests]
    tuned = _best([row for row in rows if row.crossprop])
    plain = _best([row for row in rows if row.rule == BACKPROP])
    if tuned and plain:
        values = sweep.evaluation.values()
        overall = compare(values, {tuned.learner: plain.learner})[0]
        question = "Is the best crossprop better than the best backprop, each with its best optimizer?"
        found.append(_answer(question, overall, "all"))
    if tuned and FROZEN in tuned.versus:
        found.append(_against("Is it better than not learning features at all?", tuned, FROZEN, "all"))
    return [*found, _adapts(bests), _moves(bests, rows)] if bests else found


def _best(rows: list[Row]) -> Row | None:
    return min(rows, key=lambda row: (row.swept.choice.diverged, row.swept.choice.mean), default=None)


def _against(question: str, row: Row, reference: str, phase: str) -> Answer:
    answer = _answer(question, row.versus[reference][phase], phase)
    return answer._replace(why=f"{answer.why} Its setting: {setting(row.swept, ' (edge of the grid)')}.")


def _answer(question: str, comparison: Comparison, phase: str) -> Answer:
    relative, difference = percent(comparison), comparison.difference
    if not np.isfinite(difference.mean):
        why = f"A fresh seed of {comparison.learner} or {comparison.reference} diverged: means cannot be compared."
        return Answer(question, VERDICTS["open"], why)
    words = "less" if difference.mean < 0 else "more"
    why = (
        f"{comparison.learner} has {abs(relative.mean):.1f}% {words} error {IN_WORDS[phase]} than "
        f"{comparison.reference} (between {relative.low:+.1f}% and {relative.high:+.1f}%); it wins {difference.won} of "
        f"{difference.pairs} seeds, {p_text(comparison.p)}."
    )
    return Answer(question, VERDICTS[verdict(comparison)], why)


def _adapts(bests: list[Row]) -> Answer:
    comparisons = [row.versus[BACKPROP]["switch"] for row in bests]
    words = []
    for each in comparisons:
        mean, low, high, won, pairs = percent(each)
        words.append(f"{each.learner} {mean:+.1f}% [{low:+.1f}, {high:+.1f}], {won} of {pairs} won, {p_text(each.p)}")
    why = f"Error {IN_WORDS['switch']}, against backprop with the same optimizer: {'; '.join(words)}."
    verdicts = [VERDICTS[verdict(each)] for each in comparisons]
    return Answer("Does it adapt faster when the task changes?", _all(verdicts), why)


def _moves(bests: list[Row], rows: list[Row]) -> Answer:
    moved = {row.learner: float(row.moved.mean) for row in rows}
    pairs = [(row.learner, f"{BACKPROP}-{row.optimizer}") for row in bests]
    words = [f"{mine} {moved[mine]:.3g}, {other} {moved[other]:.3g}" for mine, other in pairs]
    why = f"How far the incoming weights are from their start at the end: {'; '.join(words)}."
    return Answer("Do its features move less?", _all(["yes" if moved[a] < moved[b] else "no" for a, b in pairs]), why)


def _all(verdicts: list[str]) -> str:
    """One word for several optimizers; where none says yes and not all are undecided, it is no."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "it depends" if "yes" in verdicts else "no"


def p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


COLUMNS: dict[str, Callable[[Row], Any]] = {
    "learner": lambda row: row.learner,
    "rule": lambda row: row.rule,
    "optimizer": lambda row: row.optimizer,
    "setting": lambda row: setting(row.swept),
    "at the edge": lambda row: " ".join(row.swept.choice.edges),
    "incoming_drift": lambda row: float(row.moved.mean),
} | {
    f"{phase} {part}": lambda row, phase=phase, part=part: float(getattr(row.estimates[phase], part))
    for phase in PHASES
    for part in Estimate._fields
} | {
    f"{phase} minus {reference} {part}": lambda row, phase=phase, reference=reference, part=part: _part(
        row.versus.get(reference, {}).get(phase), part
    )
    for reference in (BACKPROP, FROZEN)
    for phase in PHASES
    for part in (*Paired._fields, "p")
}  # fmt: skip
"""The columns of `table.csv`."""


def _part(comparison: Comparison | None, part: str) -> float | str:
    if comparison is None:
        return ""
    return comparison.p if part == "p" else getattr(comparison.difference, part)


def markdown(rows: list[Row], measure: str) -> str:
    """The short table: a row for every learner."""
    lines = [
        f"| learner | {measure}, all steps | end of tasks | after a switch | vs. backprop, all steps | after a switch "
        "| vs. frozen | U moved | setting |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        means = [f"{float(row.estimates[phase].mean):.4g}" for phase in PHASES]
        means[0] += f" [{float(row.estimates['all'].low):.4g}, {float(row.estimates['all'].high):.4g}]"
        pairs = [(BACKPROP, "all"), (BACKPROP, "switch"), (FROZEN, "all")]
        versus = [_short(row.versus.get(reference, {}).get(phase)) for reference, phase in pairs]
        cells = [row.learner, *means, *versus, f"{float(row.moved.mean):.3g}", setting(row.swept, "!")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _short(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if not np.isfinite(comparison.difference.mean):
        return "diverged"
    mean, low, high, won, pairs = percent(comparison)
    star = "*" * (comparison.p < LEVEL)
    return f"{mean:+.1f}%{star} [{low:+.1f}, {high:+.1f}], {won}/{pairs}"
