"""What an arena found: where credit, step and replacement matter, whether they add up, and where rules stand."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crossprop._support.formats import listed, plural, span, upper_first
from crossprop.arena.standing import CONTROLS, QUESTIONS, REPLACEMENT, Results, parts_of, relative_mean
from crossprop.experiments.findings import LABELS, Finding, compare
from crossprop.experiments.questions import Answer

if TYPE_CHECKING:
    import xarray

RULES = ("crossprop", "foresight")
"""Prefixes of the credit rules whose rank is among the answers."""
NOUN, NOWHERE = "error", "nowhere"
STANDS = "stands-"
"""How the ids of the answers begin that say where a learner stands."""


def answers(results: Results) -> list[Answer]:
    """Answers the questions of an arena. Among several learners one is chosen on the sweep's seeds; all numbers are
    from fresh seeds."""
    found = [_winner(results), *(_stands(results, name, [name]) for name in results.own)]
    found += [_matters(results, question) for question in QUESTIONS if results.only(question)]
    found += [*_which_unit(results), *_add_up(results)]
    for name in RULES:
        found += [*_rule_stands(results, name), *_best_with(results, name)]
    return found


def conclusions(results: Results, found: Sequence[Answer]) -> list[str]:
    """What an arena found, in sentences to quote."""
    stands = {each.id: each.why for each in found if each.id.startswith(STANDS)}
    own = [stands.pop(f"{STANDS}{name}") for name in results.own]
    return [found[0].why, *own, *_questions_apart(results), *_together(results), *stands.values()]


def _winner(results: Results) -> Answer:
    best, *others = results.ranked
    name = f"{best}, the reference," if best == results.reference else best
    first = (
        f"Of {plural(len(results.infos), 'learner')} on {plural(len(results.streams), 'stream')}, {name} has the best "
        f"mean rank, {_rank(results, best)}"
    )
    if others:
        level = float(results.overall.ranks[best].mean) == float(results.overall.ranks[others[0]].mean)
        first += f", {'level with' if level else 'ahead of'} {others[0]}, {_rank(results, others[0])}"
    if best == results.reference:
        why = f"{first}: nothing here does better than the reference throughout."
    else:
        noun = NOUN if len(results.streams) == 1 else "mean error over all streams"
        why = f"{first}; {results.overall.versus[best].sentence(noun)}."
    return Answer("winner", "Which learner is the best?", best, why)


def _rank(results: Results, learner: str) -> str:
    """The mean rank of a learner with its interval."""
    mean, low, high = map(float, results.overall.ranks[learner])
    return "".join(span((mean, low, high)))


def _questions_apart(results: Results) -> list[str]:
    """What the best answer to each question alone is worth, and where."""
    words = []
    for question, comparison in sorted(worth(results).items(), key=lambda item: item[1].mean):
        kinds = {"helps": "yes", "hurts": "no"}
        found = {
            effect: [results.streams[name].title for name, each in bests(results, question) if each.verdict == wanted]
            for effect, wanted in kinds.items()
        }
        effects = [f"{effect} {_all_or(titles, results)}" for effect, titles in found.items() if titles]
        said = " and ".join(effects) or "makes no difference that shows"
        words.append(f"{QUESTIONS[question]} {said} ({_overall(comparison)})")
    said = upper_first(f"{'; '.join(words)}: each the best of its kind alone, against {results.reference}.")
    return [said] if words else []


def _together(results: Results) -> list[str]:
    pairs = _with_better_part(results)
    if not pairs:
        return []
    better = [(stream, each) for stream, each in pairs if each.verdict == "yes"]
    worse = [(stream, each) for stream, each in pairs if each.verdict == "no"]
    said = (
        f"Several at once are better than the best part alone in {len(better)} of {len(pairs)} cases, and worse in "
        f"{len(worse)} (against the part that is best on the same seeds, which favours the part)"
    )
    if not better:
        return [f"{said}: they do not add up here."]
    stream, most = min(better, key=lambda pair: pair[1].percent.mean)
    return [f"{said}; the most on {results.streams[stream].title}, where {most.sentence(NOUN)}."]


def worth(results: Results) -> dict[str, Finding]:
    """By question, the best learner that differs in it alone, chosen for each stream on the sweep's seeds, against the
    reference: the mean over streams of its error, with the reference's there as the unit."""
    kinds = {question: only for question in QUESTIONS if (only := results.only(question))}
    values = {question: _chosen(results, only) for question, only in kinds.items()}
    values[results.reference] = results.overall.values[results.reference]
    return {each.learner: each for each in compare(values, dict.fromkeys(kinds, results.reference))}


def bests(results: Results, question: str) -> list[tuple[str, Finding]]:
    """For each stream, the best learner that differs in one question alone, against the reference."""
    only = results.only(question)
    return [
        (name, standing.versus[best])
        for name, standing in results.streams.items()
        if (best := results.best(name, only)) is not None
    ]


def _chosen(results: Results, learners: Sequence[str]) -> "xarray.DataArray":
    """The mean over streams of the relative error of the best of these learners on each."""
    reference = results.reference
    both = {
        name: {"best": standing.values[str(results.best(name, learners))], reference: standing.values[reference]}
        for name, standing in results.streams.items()
    }
    return relative_mean(both, reference)["best"]


def _matters(results: Results, question: str) -> Answer:
    pairs = bests(results, question)
    found, worse = _count(results, pairs), _count(results, pairs, "no")
    if worse != NOWHERE:
        found = f"better {found}, worse {worse}"
    return Answer(f"matters-{question}", f"Where does {QUESTIONS[question]} matter?", found, _by_stream(results, pairs))


def _which_unit(results: Results) -> list[Answer]:
    """The best replacement against the control, which replaces units at random."""
    plain = results.infos[results.reference]
    control = next(
        (name for name, info in results.infos.items() if info in [plain._replace(replacement=c) for c in CONTROLS]),
        None,
    )
    only = results.only(REPLACEMENT)
    if control is None or not only:
        return []
    pairs = [
        (name, compare(standing.values, {str(results.best(name, only)): control})[0])
        for name, standing in results.streams.items()
    ]
    question = "Does it matter which unit is replaced, beside one at random?"
    return [Answer("which-unit", question, _count(results, pairs), _by_stream(results, pairs))]


def _with_better_part(results: Results) -> list[tuple[str, Finding]]:
    """On every stream, every learner that differs in several questions against the best of its parts on the same fresh
    seeds, which favours the parts."""
    several = {name: parts for name in results.infos if (parts := parts_of(results, name))}
    found = []
    for stream, standing in results.streams.items():
        mean = lambda part, values=standing.values: float(values[part].mean())
        against = {name: min(parts, key=mean) for name, parts in several.items()}
        found += [(stream, each) for each in compare(standing.values, against)] if against else []
    return found


def _add_up(results: Results) -> list[Answer]:
    pairs = _with_better_part(results)
    if not pairs:
        return []
    better = [each for _, each in pairs if each.verdict == "yes"]
    words = []
    for name in dict.fromkeys(each.learner for _, each in pairs):
        parts = parts_of(results, name)
        effects = [f"{part} {_overall(results.overall.versus[part])}" for part in parts]
        won = [results.streams[stream].title for stream, each in pairs if each in better and each.learner == name]
        where = f"better than its best part on {listed(won)}" if won else "nowhere better than its best part"
        words.append(f"{name} {_overall(results.overall.versus[name])} ({listed(effects)}), {where}")
    verdict_words = f"in {len(better)} of {len(pairs)} cases" if better else "no"
    return [
        Answer(
            "add-up", "Do credit, step and replacement add up?", verdict_words, "\n".join(f"{each}." for each in words)
        )
    ]


def _rule_stands(results: Results, rule: str) -> list[Answer]:
    """The rank of a rule with the reference's optimizer and replacement."""
    plain = results.infos[results.reference]
    mine = [
        name
        for name, info in results.infos.items()
        if info.rule.startswith(rule) and info[1:] == plain[1:] and name != results.reference
    ]
    return [_stands(results, rule, mine)] if mine else []


def _stands(results: Results, title: str, learners: Sequence[str]) -> Answer:
    """The rank of a learner, and how it compares with the reference; of several, the best on the sweep's seeds."""
    name = results.best_throughout(learners)
    pairs = [(stream, standing.versus[name]) for stream, standing in results.streams.items()]
    ranks = {each: float(rank.mean) for each, rank in results.overall.ranks.items()}
    place = f"number {1 + sum(rank < ranks[name] for rank in ranks.values())} of {len(results.infos)}"
    effects = {"yes": "better than {} on", "no": "worse than {} on", LABELS[None]: "not shown to differ from {} on"}
    effects["diverged"] = "with a seed that diverged on"
    kind = lambda each: each.verdict if math.isfinite(each.mean) else "diverged"
    words = []
    for wanted, effect in effects.items():
        if titles := [results.streams[stream].title for stream, each in pairs if kind(each) == wanted]:
            words.append(f"{effect.format(results.reference)} {listed(titles)}")
    first = f"{name} is {place}, with a mean rank of {_rank(results, name)}"
    why = f"{upper_first(first)}: {listed(words)}. {upper_first(results.overall.versus[name].sentence(NOUN))}."
    return Answer(f"{STANDS}{title}", f"Where does {title} stand?", place, why)


def _best_with(results: Results, rule: str) -> list[Answer]:
    """The best learner with a rule against the best without, on each stream, both chosen on the sweep's seeds."""
    mine = [name for name, info in results.infos.items() if info.rule.startswith(rule)]
    others = [name for name in results.infos if name not in mine]
    if not mine or not others:
        return []
    pairs = [
        (stream, compare(standing.values, {str(results.best(stream, mine)): str(results.best(stream, others))})[0])
        for stream, standing in results.streams.items()
    ]
    question = f"Is the best learner with {rule} better than the best without?"
    return [Answer(f"best-with-{rule}", question, _count(results, pairs), _by_stream(results, pairs))]


def _count(results: Results, pairs: Sequence[tuple[str, Finding]], wanted: str = "yes") -> str:
    """On how many streams the verdict is the wanted one."""
    count = sum(each.verdict == wanted for _, each in pairs)
    if count == len(pairs):
        return "everywhere" if count > 1 else "here"
    return f"on {count} of {len(results.streams)} streams" if count else NOWHERE


def _by_stream(results: Results, pairs: Sequence[tuple[str, Finding]]) -> str:
    """A line for each stream."""
    return "\n".join(f"{results.streams[name].title}: {each.sentence(NOUN)}." for name, each in pairs)


def _all_or(titles: Sequence[str], results: Results) -> str:
    return "everywhere" if len(titles) == len(results.streams) > 1 else f"on {listed(titles)}"


def _overall(comparison: Finding) -> str:
    """A difference over all streams in percent, with its interval."""
    if not math.isfinite(comparison.percent.mean):
        return "a seed diverged"
    mean, between = span(comparison.percent)
    return f"{'+' * (comparison.percent.mean > 0)}{mean}%{between} overall"
