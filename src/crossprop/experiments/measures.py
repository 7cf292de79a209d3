"""Measurements for questions: phases of runs, samples that pair learners, and findings about them."""

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop.experiments.findings import (
    EQUAL,
    HIGHER,
    HIGHER_BY_EQUAL,
    LESS_TIMES,
    MORE_TIMES,
    Bounds,
    Finding,
    ratio,
    stated,
)
from crossprop.records import phase_windows, visits, window_lengths
from crossprop.statistics import Estimate, paired_difference, paired_ratio

if TYPE_CHECKING:
    import xarray

SETTLED_WITHIN = 0.1
BLOCKS = 20
TINY = 1e-9  # keeps ratios finite where weights never moved

Phase = list[np.ndarray]  # indices of windows, one array for each stretch of consecutive windows


class CannotDecide(Exception):
    """The records lack what a question needs; the message says what."""


class Quantity(NamedTuple):
    """The measure of a comparison: its name, its noun in a sentence, and its values by learner."""

    name: str
    noun: str
    values: "Callable[[Runs, str], np.ndarray]"
    unit: str = ""
    scale: float = 1.0
    """The factor of findings in this unit."""
    before: "Callable[[Runs, str], np.ndarray] | None" = None
    """Earlier values, if it is the ratio of later to earlier ones."""


class Runs:
    """Records with what questions measure in them.

    A sample has one value per seed, so that learners are paired over seeds. With a single seed it has one value per
    block of windows, up to `BLOCKS` of them, which are paired as well because all learners see the same examples.
    Intervals of findings are at `level`.
    """

    def __init__(self, records: "xarray.Dataset", level: float = 0.95):
        self.records, self.level = records, level

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """The variables of the runs, `(learner, seed, step)`."""
        ordered = self.records.transpose("learner", "seed", "step", ...)
        return {str(name): values.values.astype(np.float64) for name, values in ordered.items() if values.ndim == 3}

    @cached_property
    def learners(self) -> list[str]:
        return [str(name) for name in self.records["learner"].values]

    @cached_property
    def seeds(self) -> int:
        return self.records.sizes["seed"]

    @cached_property
    def steps(self) -> np.ndarray:
        return self.records["step"].values

    @cached_property
    def visits(self) -> Phase:
        return visits(self.records["task"].values)

    def phase(self, name: str) -> Phase:
        """A phase by its name in `records.PHASES`."""
        return phase_windows(self.records["task"].values, name)

    def need(self, variables: Sequence[str], learners: Sequence[str]) -> None:
        """Raises `CannotDecide` if a variable or a learner is missing, or if a learner diverged."""
        lacking = [name for name in learners if name not in self.learners]
        lacking += [name for name in variables if name not in self.records]
        if lacking:
            raise CannotDecide(f"the records hold no {', '.join(lacking)}")
        diverged = [f"{name} diverged in {n} of {self.seeds} runs" for name in learners if (n := self._diverged(name))]
        if diverged:
            raise CannotDecide(", ".join(diverged))

    def matching(self, pattern: str) -> list[str]:
        """The learners that match a pattern; a name without a star stands for itself."""
        found = fnmatch.filter(self.learners, pattern) if "*" in pattern else [pattern]
        if not found:
            raise CannotDecide(f"the records hold no learner like {pattern!r}")
        return found

    def having(self, learners: Sequence[str]) -> list[str]:
        """The learners that are in the records and did not diverge."""
        return [name for name in learners if name in self.learners and not self._diverged(name)]

    def _diverged(self, learner: str) -> int:
        return int((self.records["diverged_at"].sel(learner=learner) >= 0).sum())

    def best(self, of: Quantity, tried: Sequence[str], what: str) -> tuple[str, str]:
        """The learner with the lowest mean among those tried that did not diverge, and a note about `what` is best if
        it is the first or the last of them."""
        there = self.having(tried)
        if not there:
            raise CannotDecide(f"the records hold no {what} that did not diverge")
        best = min(there, key=lambda name: of.values(self, name).mean())
        return best, f"the best {what} is at the edge of those tried" if best in (tried[0], tried[-1]) else ""

    # Samples.

    def curve(self, variable: str, learner: str) -> np.ndarray:
        """The values of a variable, `(seed, step)`. Raises `CannotDecide` if they are missing or diverged."""
        self.need([variable], [learner])
        return self.curves[variable][self.learners.index(learner)]

    def sample(self, curve: np.ndarray, phase: Phase) -> np.ndarray:
        """The mean of a curve over a phase: one for each seed, or with a single seed one for each block of windows."""
        lengths = window_lengths(self.records)
        mean = lambda windows: np.average(curve[:, windows], axis=1, weights=lengths[windows])
        if self.seeds > 1:
            return np.mean([mean(stretch) for stretch in phase], axis=0)
        each = max(1, BLOCKS // len(phase))
        blocks = [block for stretch in phase for block in np.array_split(stretch, min(each, len(stretch)))]
        return np.array([mean(block)[0] for block in blocks])

    def over(self, phase: Phase, variable: str, learner: str) -> np.ndarray:
        """The mean of a variable over a phase."""
        return self.sample(self.curve(variable, learner), phase)

    def end(self, variable: str, learner: str) -> np.ndarray:
        """The value at the end of the run; with a single seed, its values in blocks of the last fifth of the last
        visit."""
        curve = self.curve(variable, learner)
        return curve[:, -1] if self.seeds > 1 else self.sample(curve, self.phase("end")[-1:])

    def settling_step(self, variable: str, learner: str) -> np.ndarray:
        """The first step from which the curve stays within a tenth of its value at the end."""
        ends = self.end(variable, learner)[:, None]
        outside = np.abs(self.curve(variable, learner) - ends) > SETTLED_WITHIN * ends
        after = np.where(outside.any(axis=1), outside.shape[1] - np.argmax(outside[:, ::-1], axis=1), 0)
        return self.steps[np.minimum(after, len(self.steps) - 1)].astype(np.float64)

    # Findings.

    def ratio(self, of: Quantity, a: str, b: str, bounds: Bounds, part: str = "") -> Finding:
        """The ratio of the mean of `a` to that of `b`, as `paired_ratio` has it."""
        one, other = (np.maximum(of.values(self, name), TINY) for name in (a, b))
        estimate = paired_ratio(one, other, self.level)
        count = self.count(one > other if estimate.mean >= 1 else one < other)
        said = ratio(of.noun, a, b, estimate, count, EQUAL)
        return Finding(of.name, a, b, *estimate, len(one), sign="/", bounds=bounds, part=part, said=said)

    def difference(
        self, of: Quantity, a: str, b: str, bounds: Bounds, says: str, *, part: str = "", words: str = "more|less"
    ) -> Finding:
        """The mean difference of `a` and `b`, in percentage points in the place of the `{}` of `says`."""
        one, other = (of.values(self, name) for name in (a, b))
        estimate = Estimate(*(of.scale * each for each in paired_difference(one, other, self.level)))
        count = self.count(one > other if estimate.mean >= 0 else one < other)
        said = stated(says, estimate, f"{{}} points {words}", count, times=1 if of.unit else 100)
        return Finding(of.name, a, b, *estimate, len(one), unit=of.unit, sign="-", bounds=bounds, part=part, said=said)

    def mean(
        self,
        name: str,
        values: np.ndarray,
        bounds: Bounds,
        says: str,
        *,
        form: str = "{}",
        end: str = "",
        learner: str = "",
        **about: Any,
    ) -> Finding:
        """The mean of paired values, in the place of the `{}` of `says`; `about` are other fields of the finding."""
        estimate = paired_difference(values, 0.0, self.level)
        said = stated(says, estimate, form, end, times=100 if "%" in form else 1)
        return Finding(name, learner, "", *estimate, len(values), bounds=bounds, said=said, **about)

    def change(
        self, name: str, learner: str, now: np.ndarray, before: np.ndarray, bounds: Bounds, says: str, **about: Any
    ) -> Finding:
        """The ratio of the mean of `now` to that of `before`, of one learner, in the place of the `{}` of `says`."""
        ratio = paired_ratio(now, before, self.level)
        return Finding(name, learner, "", *ratio, len(now), bounds=bounds, said=stated(says, ratio), **about)

    def near(self, what: str, values: np.ndarray, published: float, within: float, **about: Any) -> Finding:
        """Whether a mean lies within some distance of a published value."""
        bounds, end = Bounds(published - within, published + within), f", published {published:g}"
        return self.mean(what, values, bounds, f"{what} is {{}}", end=end, **about)

    def count(self, agree: np.ndarray) -> str:
        """How many of the paired values agree, as the end of a sentence."""
        if "seed" not in self.records.sizes:
            return ""
        return f", in {int(agree.sum())} of {agree.size} {'seeds' if self.seeds > 1 else 'windows of one run'}"


# Comparisons as a file has them.


IS = {"less": LESS_TIMES, "more": MORE_TIMES, "higher": HIGHER, "higher share": HIGHER_BY_EQUAL}
"""Bounds of ratios and of differences by name."""
TAKEN = {"end": Runs.end, "settling_step": Runs.settling_step}
PAIRS = {"all": lambda names: combinations(names, 2), "neighbours": pairwise}


def quantity(name: str, row: Mapping[str, Any]) -> Quantity:
    """What a file measures: of a variable the mean over the `windows` from one number to another, counted from the end
    if they are negative, or its ratio to that over the windows `before`; the mean over a `phase`; the value at the
    `end`; or the `settling_step`. Without a variable, it is of the accuracy in percent."""
    variable = row.get("variable", "error")

    def over(first: int, end: int) -> Callable[[Runs, str], np.ndarray]:
        def values(runs: Runs, learner: str) -> np.ndarray:
            curve = runs.curve(variable, learner)
            return (curve if "variable" in row else 100 * (1 - curve))[:, first : end or None].mean(axis=1)

        return values

    if "windows" in row:
        values = over(*row["windows"])
    elif "phase" in row:
        values = lambda runs, learner: runs.over(runs.phase(row["phase"]), variable, learner)
    else:
        values = lambda runs, learner: TAKEN[row["take"]](runs, variable, learner)
    before = over(*row["before"]) if "before" in row else None
    about = {key: row[key] for key in ("unit", "scale") if key in row}
    return Quantity(row.get("name", name), row.get("noun", name), values, before=before, **about)


def finder(
    claim: Mapping[str, Any], measures: Mapping[str, Quantity], groups: Mapping[str, Sequence[str]]
) -> Callable[[Runs], list[Finding]]:
    """What finds the findings of the comparisons in a claim's table; it `needs` so many tasks and steps.

    A comparison is of a `measure` of each `learner`: with each of `against` as a ratio, or as a difference if it `says`
    how to put it; alone as a mean, or as a change; or with what is `published`, `within` some distance or `share` of
    it. The finding `is` said to lie in these bounds. Without a `part` of the claim, it is shown for the learners that
    are there. `{a}` and `{b}` stand for the learners, a group for those in it. The `pairs` of a row are `all` pairs of
    `learner`, those farthest apart first, or its `neighbours`.
    """

    def find(runs: Runs) -> list[Finding]:
        needs = claim.get("needs", {"tasks": 0, "steps": 0})
        if len(runs.visits) < needs["tasks"] or runs.steps[-1] < needs["steps"]:
            raise CannotDecide(f"it takes the paper's {needs['tasks']} tasks and its network, which --full has")
        found = []
        for row in claim["compare"]:
            made = [*_compared(runs, measures[row["measure"]], row, groups)]
            found += sorted(made, key=lambda each: -abs(each.mean)) if row.get("pairs") == "all" else made
        if not found:
            raise CannotDecide("the records hold no learners to compare")
        return found

    return find


def _compared(
    runs: Runs, of: Quantity, row: Mapping[str, Any], groups: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    part, says = row.get("part", ""), row.get("says", "")
    for a, value in row.get("published", {}).items():
        within = row["within"] if "within" in row else row["share"] * value
        yield runs.near(says.format(a=a), of.values(runs, a), value, within, part=part.format(a=a, value=value))
    if "published" in row:
        return
    bounds = IS[row["is"]] if isinstance(row["is"], str) else Bounds(**row["is"])
    sides = []
    for key in ("learner", "against"):
        named = [name for each in row.get(key, [""]) for name in groups.get(each, [each])]
        there = [name for each in named for name in runs.matching(each)]
        sides.append([name for name in there if part or not name or runs.having([name])])
    for a, b in PAIRS[row["pairs"]](sides[0]) if "pairs" in row else product(*sides):
        words, its = says.format("{}", a=a, b=b), part.format(a=a, b=b)
        if b and not says:
            yield runs.ratio(of, a, b, bounds, its)
        elif b:
            yield runs.difference(of, a, b, bounds, words, part=its, words=row.get("words", "more|less"))
        elif of.before:
            yield runs.change(of.name, a, of.values(runs, a), of.before(runs, a), bounds, words, part=its)
        else:
            values, middle = of.values(runs, a), row.get("middle")
            above = middle is not None and values.mean() > middle
            end = "" if middle is None else runs.count(values > middle if above else values < middle)
            about = {"form": row["form"], "end": end, "learner": a, "unit": of.unit, "part": its}
            yield runs.mean(of.name, values, bounds, words, **about)
