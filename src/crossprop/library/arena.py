"""The arena: where credit, step and replacement matter, whether they add up, and where rules stand."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from crossprop import metrics, probes
from crossprop._support import checks as check
from crossprop._support.formats import listed, plural, span, upper_first
from crossprop.engines.protocol import Metric, Probe
from crossprop.experiments.experiment import Experiment, read_experiment
from crossprop.experiments.findings import LABELS, Finding, compare
from crossprop.experiments.page import NOTHING
from crossprop.experiments.questions import Answer
from crossprop.experiments.results import relative_mean
from crossprop.experiments.runner import costs_of, facts_of, publish, tuned
from crossprop.experiments.sweep_page import are_backprop
from crossprop.library.arena_page import WORDS, arena_sections, introduction, write_arena_table
from crossprop.library.standing import OVERALL, QUESTIONS, REPLACEMENT, UNTUNED, Results, gains, parts_of, prices_of
from crossprop.network import Network
from crossprop.progress import Say
from crossprop.specification import build_stream
from crossprop.streams import Stream, is_table

STEPS, REPEATS = 6000, 3
"""Steps and repeats of the runs that are timed."""
WINDOWS = 80
"""Windows of a run on a file."""
BATCH = 64
"""Examples that the probes look at."""
RULES = ("crossprop", "foresight")
"""Prefixes of the credit rules whose rank is among the answers."""
NOUN, NOWHERE = "error", "nowhere"
STANDS = "stands-"
"""Prefix of the ids of the answers about the rank of a learner."""

ByStream = list[tuple[str, Finding]]
"""Findings with the names of their streams."""


def read_arena(
    path: Path, folder: Path, streams: Sequence[str] = (), tables: Mapping[str, Any] | None = None, **options: Any
) -> Experiment:
    """The arena that a list describes, with a stage for each stream, whose sweep is kept in `folder`. Streams that are
    files are read with the arguments `tables`."""
    store = lambda name: folder / name
    rows: dict[str, dict[str, Any]] = {
        Path(name).name: {"stream": {"name": name, **(tables or {})}} for name in streams if is_table(name)
    }
    for row in rows.values():
        row["record_every"] = max(1, (build_stream(row["stream"]).steps or 1) // WINDOWS)
    stages = [Path(name).name if is_table(name) else name for name in streams]
    observed = {"called": "streams", "observe": observers_of}
    arena = read_experiment(path, store, stages=stages, further=rows, **observed, **options)
    for stage in arena.stages.values():
        check.choice(f"reference in {path}", arena.reference, stage.spec.learners)
    return arena


def observers_of(network: Network, stream: Stream, plasticity: bool) -> tuple[dict[str, Probe], Mapping[str, Metric]]:
    """Probes of the weights and, with hidden units, of the features of a few examples of the stream,
    drawn with a seed that no run has."""
    found: dict[str, Probe] = {}
    if network.hidden:
        _, x, _ = stream.deal(stream.begin(jax.random.key(2**32 - 1)), min(BATCH, stream.steps or BATCH))
        batch = np.asarray(x)
        found = {
            "dead_units": probes.saturated(network, batch),
            "effective_rank": probes.effective_rank(network, batch),
        }
    found["weight_size"] = probes.weight_size(network)
    return found, {"plasticity": metrics.plasticity} if plasticity else {}


def publish_arena(arena: Experiment, folder: Path, say: Say, *, command: str, quick: bool) -> list[Answer]:
    """Tunes, judges, and writes the table and the page, which shows `command`."""
    sweeps, costs = tuned(arena, say), {}  # without tuning nothing is timed: the tuned division has the costs
    for name, (_, spec) in arena.stages.items():
        steps, repeats = 0 if arena.untuned else min(STEPS, spec.steps or STEPS), 1 if quick else REPEATS
        costs[name] = costs_of(folder / "costs" / f"{name}.json", spec, sweeps[name], steps, repeats)
    learners = next(iter(arena.stages.values())).spec.learners
    own = [name for name, each in learners.items() if type(each).__module__.partition(".")[0] != "crossprop"]
    prices = {} if arena.untuned else prices_of(arena, sweeps, folder / UNTUNED / "sweeps")
    mine = [name for name in own if name != arena.reference]
    results = Results(arena.reference, sweeps, costs, mine, prices, arena.untuned)
    found, facts = answers(results), facts_of(arena, sweeps)
    said = conclusions(results, found)
    said += [f"{each.title}: {sentence}" for each in sweeps.values() for sentence in are_backprop(each)]
    write_arena_table(results, folder / "table.csv")
    about = {
        "title": WORDS["title"],
        "intro": introduction(results, facts["budget"]),
        "quick": quick,
        "conclusions": said,
    }
    page, sections = folder / "arena.html", arena_sections(results, found, [NOTHING] if quick else said)
    return publish(arena, sweeps, costs, found, page, sections, say=say, command=command, facts=facts, **about)


def answers(results: Results) -> list[Answer]:
    """Answers the questions of an arena. Among several learners one is chosen on the sweep's seeds; all numbers are
    from fresh seeds."""
    replacements, controls = results.only(REPLACEMENT), results.only(REPLACEMENT, controls=True)[:1]
    which = "Does it matter which unit is replaced, beside one at random?"
    found = [_winner(results), *(_stands(results, name, [name]) for name in results.own)]
    found += [_matters(results, kind) for kind in QUESTIONS if results.only(kind)]
    found += [*_best_against_best(results, "which-unit", which, replacements, controls), *_add_up(results)]
    for rule in RULES:
        with_rule = [name for name, info in results.infos.items() if info.rule.startswith(rule)]
        others = [name for name in results.infos if name not in with_rule]
        plain = [name for name in with_rule if results.infos[name][1:] == results.infos[results.reference][1:]]
        if alone := [name for name in plain if name != results.reference]:
            found.append(_stands(results, rule, alone))
        question = f"Is the best learner with {rule} better than the best without?"
        found += _best_against_best(results, f"best-with-{rule}", question, with_rule, others)
    return found


def conclusions(results: Results, found: Sequence[Answer]) -> list[str]:
    """The results of an arena, in sentences."""
    stands = {each.id: each.why for each in found if each.id.startswith(STANDS)}
    own = [stands.pop(f"{STANDS}{name}") for name in results.own]
    said = [found[0].why, *own, *_questions_apart(results), *_together(results), *stands.values()]
    return said + gains(results.prices.get(OVERALL, {})) + _diverged(results)


def _diverged(results: Results) -> list[str]:
    """The learners that diverged, and on how many of the fresh seeds of all streams."""
    counts = {name: results.diverged(name) for name in results.infos}
    words = [f"{name} on {count}" for name, count in counts.items() if count]
    runs = sum(own.size for each in results.streams.values() for own in each.values.values())
    return [f"{plural(sum(counts.values()), 'run')} of {runs:,} diverged: {listed(words)}."] if words else []


def worth(results: Results) -> dict[str, Finding]:
    """By question, the best learner that differs in it alone, chosen for each stream on the sweep's seeds, against the
    reference: the mean over streams of its error, with the reference's there as the unit."""
    kinds, reference = [kind for kind in QUESTIONS if results.only(kind)], results.reference
    chosen = {
        stream: {kind: standing.values[results.best(stream, results.only(kind))] for kind in kinds}
        | {reference: standing.values[reference]}
        for stream, standing in results.streams.items()
    }
    return {each.learner: each for each in compare(relative_mean(chosen, reference), dict.fromkeys(kinds, reference))}


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


def _stands(results: Results, title: str, learners: Sequence[str]) -> Answer:
    """The rank of a learner, and how it compares with the reference; of several, the best on the sweep's seeds."""
    name = results.best_throughout(learners)
    ranks = {each: float(rank.mean) for each, rank in results.overall.ranks.items()}
    place = f"number {1 + sum(rank < ranks[name] for rank in ranks.values())} of {len(results.infos)}"
    effects = {"yes": "better than {} on", "no": "worse than {} on", LABELS[None]: "not shown to differ from {} on"}
    effects["diverged"] = "with a seed that diverged on"
    titles: dict[str, list[str]] = {effect: [] for effect in effects}
    for standing in results.streams.values():
        finding = standing.versus[name]
        titles[finding.verdict if math.isfinite(finding.mean) else "diverged"].append(standing.title)
    words = [f"{effects[each].format(results.reference)} {listed(on)}" for each, on in titles.items() if on]
    first = f"{name} is {place}, with a mean rank of {_rank(results, name)}"
    why = f"{upper_first(first)}: {listed(words)}. {upper_first(results.overall.versus[name].sentence(NOUN))}."
    if plain := [sweep.title for sweep in results.sweeps.values() if sweep.learners[name].backprop_at]:
        why += f" Its best setting on {listed(plain)} is backprop."
    return Answer(f"{STANDS}{title}", f"Where does {title} stand?", place, why)


def _alone(results: Results, kind: str) -> ByStream:
    """For each stream, the best learner that differs in one question alone, against the reference."""
    return [
        (stream, standing.versus[results.best(stream, results.only(kind))])
        for stream, standing in results.streams.items()
    ]


def _matters(results: Results, kind: str) -> Answer:
    found = _alone(results, kind)
    verdict, worse = _count(results, found), _count(results, found, "no")
    if worse != NOWHERE:
        verdict = f"better {verdict}, worse {worse}"
    return Answer(f"matters-{kind}", f"Where does {QUESTIONS[kind]} matter?", verdict, _by_stream(results, found))


def _questions_apart(results: Results) -> list[str]:
    """The gain of the best answer to each question alone, by stream."""
    words = []
    for kind, finding in sorted(worth(results).items(), key=lambda item: item[1].mean):
        effects = []
        for effect, verdict in (("helps", "yes"), ("hurts", "no")):
            if titles := [
                results.streams[name].title for name, each in _alone(results, kind) if each.verdict == verdict
            ]:
                everywhere = len(titles) == len(results.streams) > 1
                effects.append(f"{effect} {'everywhere' if everywhere else f'on {listed(titles)}'}")
        said = " and ".join(effects) or "makes no difference that shows"
        words.append(f"{QUESTIONS[kind]} {said} ({_overall(finding)})")
    said = upper_first(f"{'; '.join(words)}: each the best of its kind alone, against {results.reference}.")
    return [said] if words else []


def _combinations(results: Results) -> ByStream:
    """On every stream, every learner that differs in several questions against the best of its parts on the same fresh
    seeds, which favours the parts."""
    several = {name: parts for name in results.infos if (parts := parts_of(results, name))}
    found = []
    for stream, standing in results.streams.items():
        mean = lambda part, values=standing.values: float(values[part].mean())
        against = {name: min(parts, key=mean) for name, parts in several.items()}
        found += [(stream, each) for each in compare(standing.values, against)]
    return found


def _together(results: Results) -> list[str]:
    found = _combinations(results)
    if not found:
        return []
    better = [(stream, each) for stream, each in found if each.verdict == "yes"]
    said = (
        f"Combinations beat their best single component in {len(better)} of {len(found)} cases and lose in "
        f"{sum(each.verdict == 'no' for _, each in found)}. (The component is picked on the test seeds, so this is "
        "conservative.)"
    )
    if not better:
        return [f"{said} They do not add up here."]
    stream, most = min(better, key=lambda pair: pair[1].percent.mean)
    return [f"{said} They gain most on {results.streams[stream].title}, where {most.sentence(NOUN)}."]


def _add_up(results: Results) -> list[Answer]:
    found = _combinations(results)
    if not found:
        return []
    better = [(stream, each.learner) for stream, each in found if each.verdict == "yes"]
    words = []
    for name in dict.fromkeys(each.learner for _, each in found):
        effects = [f"{part} {_overall(results.overall.versus[part])}" for part in parts_of(results, name)]
        won = [results.streams[stream].title for stream, learner in better if learner == name]
        where = f"better than its best part on {listed(won)}" if won else "nowhere better than its best part"
        words.append(f"{name} {_overall(results.overall.versus[name])} ({listed(effects)}), {where}.")
    verdict = f"in {len(better)} of {len(found)} cases" if better else "no"
    return [Answer("add-up", "Do credit, step and replacement add up?", verdict, "\n".join(words))]


def _best_against_best(
    results: Results, id: str, question: str, learners: Sequence[str], others: Sequence[str]
) -> list[Answer]:
    """On each stream, the best of these learners against the best of the others, both chosen on the sweep's seeds."""
    if not learners or not others:
        return []
    best = {stream: (results.best(stream, learners), results.best(stream, others)) for stream in results.streams}
    found = [(stream, compare(results.streams[stream].values, {a: b})[0]) for stream, (a, b) in best.items()]
    return [Answer(id, question, _count(results, found), _by_stream(results, found))]


def _count(results: Results, found: ByStream, verdict: str = "yes") -> str:
    """On how many streams the verdict is this one."""
    count = sum(each.verdict == verdict for _, each in found)
    if count == len(found):
        return "everywhere" if count > 1 else "here"
    return f"on {count} of {len(results.streams)} streams" if count else NOWHERE


def _by_stream(results: Results, found: ByStream) -> str:
    """A line for each stream."""
    words = []
    for stream, each in found:
        swept = results.sweeps[stream].learners[each.learner]
        plain = f" At its best {swept.backprop_at} {each.learner} is backprop." if swept.backprop_at else ""
        words.append(f"{results.streams[stream].title}: {each.sentence(NOUN)}.{plain}")
    return "\n".join(words)


def _overall(finding: Finding) -> str:
    """A difference over all streams in percent, with its interval."""
    if not math.isfinite(finding.mean):
        return "a seed diverged"
    mean, between = span(finding.percent)
    return f"{'+' * (finding.mean > 0)}{mean}%{between} overall"
