"""What a study finds: every tuned learner against tuned backprop and tuned frozen with the same optimizer."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crossprop.plot.numbers import Sweep, Swept, setting
from crossprop.records import PHASES, LearnerInfo
from crossprop.statistics import Estimate, mean_interval
from crossprop.sweeps.evaluate import Comparison, compare

if TYPE_CHECKING:
    import xarray

BACKPROP, FROZEN = "backprop", "frozen"
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
    drift: Estimate
    """The distance of the incoming weights from their initial values at the end of the run."""

    @property
    def is_crossprop(self) -> bool:
        """Whether the rule is neither backprop nor the control."""
        return self.rule not in (BACKPROP, FROZEN)


class Answer(NamedTuple):
    """A question, its answer in a word, and the reason in a sentence."""

    question: str
    verdict: str
    why: str


def rows_of(sweep: Sweep) -> list[Row]:
    """The table of a study, from the best settings on fresh seeds; rows with the same optimizer are together."""
    evaluation = sweep.evaluation
    infos = {name: sweep.learners[name].info for name in evaluation.records}
    values = {phase: evaluation.values(phase) for phase in PHASES}
    versus = _comparisons(values, infos)
    optimizers = [info.optimizer for info in infos.values()]
    rows = []
    for name, info in sorted(infos.items(), key=lambda item: optimizers.index(item[1].optimizer)):
        estimates = {phase: _estimate(values[phase][name].values) for phase in PHASES}
        drift = _estimate(evaluation.records[name].incoming_drift.isel(step=-1).values)
        rows.append(Row(name, info.rule, info.optimizer, sweep.learners[name], estimates, versus[name], drift))
    return rows


def _comparisons(
    values: "dict[str, dict[str, xarray.DataArray]]", infos: dict[str, LearnerInfo]
) -> dict[str, dict[str, dict[str, Comparison]]]:
    """By learner, reference and phase: the learner against the reference rule with the same optimizer."""
    versus: dict[str, dict[str, dict[str, Comparison]]] = {name: {} for name in infos}
    for reference in (BACKPROP, FROZEN):
        others = {info.optimizer: name for name, info in reversed(infos.items()) if info.rule == reference}
        against = {
            name: others[info.optimizer]
            for name, info in infos.items()
            if info.rule != reference and info.optimizer in others
        }
        for phase in PHASES:
            for each in compare(values[phase], against):
                versus[each.learner].setdefault(reference, {})[phase] = each
    return versus


def _estimate(values: np.ndarray) -> Estimate:
    return mean_interval(values) if np.isfinite(values).all() else Estimate(*np.array([np.inf, np.nan, np.nan]))


def verdict(comparison: Comparison) -> str:
    """`open` unless the corrected p-value is below `LEVEL`; then `yes` if the error is lower, `no` if it is higher."""
    if not comparison.p < LEVEL:
        return "open"
    return "yes" if comparison.difference.mean < 0 else "no"


def answers(sweep: Sweep, rows: list[Row]) -> list[Answer]:
    """Answers the questions of the study. The crossprop rule is chosen on the sweep's seeds; all numbers are from fresh
    seeds."""
    optimizers = list(dict.fromkeys(row.optimizer for row in rows))
    of_optimizer = [
        [row for row in rows if row.optimizer == optimizer and row.is_crossprop] for optimizer in optimizers
    ]
    bests = [best for mine in of_optimizer if (best := _best(mine)) and BACKPROP in best.versus]
    found = [_against(f"Does crossprop credit help with {row.optimizer}?", row, BACKPROP, "all") for row in bests]
    tuned = _best([row for row in rows if row.is_crossprop])
    plain = _best([row for row in rows if row.rule == BACKPROP])
    if tuned and plain:
        overall = tuned.versus.get(BACKPROP, {}).get("all")
        if overall is None or overall.reference != plain.learner:
            overall = compare(sweep.evaluation.values(), {tuned.learner: plain.learner})[0]
        question = "Is the best crossprop better than the best backprop, each with its best optimizer?"
        found.append(_answer(question, overall, "all"))
    if tuned and FROZEN in tuned.versus:
        found.append(_against("Is it better than not learning features at all?", tuned, FROZEN, "all"))
    return [*found, _adapts(bests), _moves(bests, rows)] if bests else found


def _best(rows: list[Row]) -> Row | None:
    """The row that is best on the sweep's seeds."""
    return min(rows, key=lambda row: (row.swept.choice.diverged, row.swept.choice.mean), default=None)


def _against(question: str, row: Row, reference: str, phase: str) -> Answer:
    answer = _answer(question, row.versus[reference][phase], phase)
    return answer._replace(why=f"{answer.why} Its setting: {setting(row.swept, ' (edge of the grid)')}.")


def _answer(question: str, comparison: Comparison, phase: str) -> Answer:
    relative, difference = comparison.percent, comparison.difference
    if not np.isfinite(difference.mean):
        why = f"A fresh seed of {comparison.learner} or {comparison.reference} diverged: means cannot be compared."
        return Answer(question, VERDICTS["open"], why)
    words = "less" if difference.mean < 0 else "more"
    why = (
        f"{comparison.learner} has {abs(relative.mean):.1f}% {words} error {PHASES[phase]} than "
        f"{comparison.reference} (between {relative.low:+.1f}% and {relative.high:+.1f}%); it wins {difference.won} of "
        f"{difference.pairs} seeds, {p_text(comparison.p)}."
    )
    return Answer(question, VERDICTS[verdict(comparison)], why)


def _adapts(bests: list[Row]) -> Answer:
    comparisons = [row.versus[BACKPROP]["switch"] for row in bests]
    words = []
    for each in comparisons:
        mean, low, high, won, pairs = each.percent
        words.append(f"{each.learner} {mean:+.1f}% [{low:+.1f}, {high:+.1f}], {won} of {pairs} won, {p_text(each.p)}")
    why = f"Error {PHASES['switch']}, against backprop with the same optimizer: {'; '.join(words)}."
    verdicts = [VERDICTS[verdict(each)] for each in comparisons]
    return Answer("Does it adapt faster when the task changes?", _all(verdicts), why)


def _moves(bests: list[Row], rows: list[Row]) -> Answer:
    drift = {row.learner: float(row.drift.mean) for row in rows}
    pairs = [(row.learner, row.versus[BACKPROP]["all"].reference) for row in bests]
    words = [f"{mine} {drift[mine]:.3g}, {other} {drift[other]:.3g}" for mine, other in pairs]
    why = f"Distance of the incoming weights from their initial values at the end: {'; '.join(words)}."
    return Answer("Do its features move less?", _all(["yes" if drift[a] < drift[b] else "no" for a, b in pairs]), why)


def _all(verdicts: list[str]) -> str:
    """The answer over several optimizers: their common one; if they disagree, `no` unless one of them is yes."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "it depends" if "yes" in verdicts else "no"


def p_text(p: float) -> str:
    """A p-value as text."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
