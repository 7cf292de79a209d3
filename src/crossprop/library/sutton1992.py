"""Sutton (1992), "Adapting bias by gradient descent": LMS and IDBD on a linear target whose weights change sign.

The squared error is measured over 10,000 examples, after 20,000 others.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.experiments.charts import Along
from crossprop.experiments.findings import LESS_TIMES, Finding
from crossprop.experiments.measures import CannotDecide, Quantity, Runs
from crossprop.experiments.questions import DOES_NOT, HOLDS, INTERVALS, STRICT, Answer, Headline, Leads, Question
from crossprop.learners import Backprop
from crossprop.library.paper import Paper, Version
from crossprop.library.plans import Charts, Plan, Setting
from crossprop.network import Network
from crossprop.optimizers import idbd
from crossprop.optimizers.step_sizes import IDBDState
from crossprop.records import window_lengths
from crossprop.streams import Tracking

if TYPE_CHECKING:
    import xarray

INPUTS, RELEVANT = 20, 5
LMS_STEP_SIZES = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06)
RELEVANT_STEP_SIZES = (0.05, 0.07, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.17, 0.2, 0.25)
META_STEP_SIZES = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.015, 0.02)
START = 0.05
MEAN, LARGEST = "relevant, mean", "irrelevant, largest"
LMS, IDBD, ALONE = "LMS", "IDBD", "LMS, relevant inputs alone"

LMS_ERROR, IDBD_ERROR, WITHIN = 3.5, 1.5, 0.2
STEP_SIZE, STEP_SIZE_WITHIN, SMALL_STEP_SIZE = 0.13, 0.015, 0.007
LONG_META = 0.001
LONG = 250_000
AFTER = 300_000
"""Examples of the run with a small meta-step size: as many as in the paper are `LONG`."""


def _lines(line: str, settings: Sequence[float]) -> dict[str, float]:
    """The learners of a line, each with its setting."""
    return {f"{line} {setting:g}": setting for setting in settings}


def _unit(step_size: float, meta_step_size: float | None = None, inputs: int = INPUTS) -> Backprop:
    """A linear unit with LMS, or IDBD if there is a meta-step size."""
    optimizer = "sgd" if meta_step_size is None else idbd(meta_step_size)
    return Backprop(Network(inputs, hidden=(), outgoing_scale=0.0), step_size, optimizer=optimizer)


def _settings(seeds: int, *further: Setting) -> tuple[Setting, ...]:
    return (
        Setting("runs", str(seeds), None, "the paper does not say; several runs allow intervals"),
        Setting("inputs", "20, normal; 5 relevant, with weights +1 or −1", "20, normal; 5 relevant"),
        Setting("change", "one relevant weight changes sign every 20 examples", "the same"),
        Setting("learner", "a linear unit without bias, weights 0 at the start", "the same"),
        *further,
    )


def _seeds(version: Version) -> int:
    return version.seeds or version.pick(2, 30, 100)


def _sizes(version: Version) -> tuple[int, int]:
    """Examples before the error is measured, and while it is."""
    return version.pick((200, 100), (20_000, 10_000), (20_000, 10_000))


def _errors(version: Version) -> Plan:
    seeds, (burn_in, measured) = _seeds(version), _sizes(version)
    lines = {LMS: _lines(LMS, LMS_STEP_SIZES), IDBD: _lines(IDBD, META_STEP_SIZES)}
    learners = {name: _unit(step_size) for name, step_size in lines[LMS].items()}
    learners |= {name: _unit(START, meta_step_size) for name, meta_step_size in lines[IDBD].items()}
    examples = f"{burn_in:,}, then {measured:,} measured"
    settings = _settings(
        seeds,
        Setting("examples", examples, "20,000, then 10,000 measured", version.why("")),
        Setting("IDBD's step sizes at the start", f"{START:g}", f"{START:g}"),
    )
    charts = Charts(
        along=Along("Squared error at the end", "step size (LMS), meta-step size (IDBD)", lines),
        published={LMS: ((0.03, LMS_ERROR),), IDBD: ((0.01, IDBD_ERROR),)},
    )
    about = (
        "A linear target of five of twenty inputs, one of whose weights changes sign every twenty examples. LMS has "
        "one step size for all inputs; IDBD learns one for each, by gradient descent with a meta-step size."
    )
    run = {"steps": burn_in + measured, "charts": (charts,)}
    return Plan("errors", "Error by step size", learners, Tracking(), seeds, measured, settings, about, **run)


def _fixed(version: Version) -> Plan:
    seeds, (burn_in, measured) = _seeds(version), _sizes(version)
    lines = _lines(ALONE, RELEVANT_STEP_SIZES)
    learners = {name: _unit(step_size, inputs=RELEVANT) for name, step_size in lines.items()}
    left_out = Setting("irrelevant inputs", "left out", "step size 0", "the same thing, as their weights stay 0")
    charts = Charts(along=Along("Squared error at the end", "step size of the relevant inputs", {ALONE: lines}))
    about = "Are the step sizes that IDBD finds the best ones? LMS, with step size 0 for irrelevant inputs."
    stream, title = Tracking(inputs=RELEVANT, relevant=RELEVANT), "The best fixed step sizes"
    run = {"steps": burn_in + measured, "charts": (charts,)}
    return Plan("fixed", title, learners, stream, seeds, measured, _settings(seeds, left_out), about, **run)


def step_sizes(initial: Any, state: Any) -> Any:
    """Probe: the step size that IDBD has learned for each input."""
    del initial
    is_found = lambda each: isinstance(each, IDBDState)
    found = next(filter(is_found, jax.tree.leaves(state.optimizer, is_leaf=is_found)))
    return jnp.exp(jnp.ravel(jax.tree.leaves(found.log_step_size)[0]))


def _learned(version: Version) -> Plan:
    seeds, steps = _seeds(version), version.pick(480, AFTER, AFTER)
    why = version.why("") or "the claims look at 250,000; step sizes go on falling"
    settings = _settings(
        seeds,
        Setting("examples", f"{steps:,}", f"{LONG:,}", why),
        Setting("meta-step size", f"{LONG_META:g}", f"{LONG_META:g}"),
        Setting("step sizes at the start", f"{START:g}", f"{START:g}"),
    )
    charts = Charts(variables=("step_size",), of=_by_relevance, published={MEAN: ((min(steps, LONG), STEP_SIZE),)})
    about = "What IDBD learns with a small meta-step size: large step sizes for relevant inputs, small ones for others."
    title, learners = "Learned step sizes", {IDBD: _unit(START, LONG_META)}
    run = {"steps": steps, "probes": {"step_sizes": step_sizes}, "charts": (charts,)}
    return Plan("step-sizes", title, learners, Tracking(), seeds, steps // 120, settings, about, **run)


def _by_relevance(records: "xarray.Dataset") -> "xarray.Dataset":
    """The learned step sizes of relevant and irrelevant inputs, as curves."""
    import xarray

    found = records["step_sizes"].isel(learner=0).transpose("seed", "step", ...).values
    relevant, irrelevant = found[..., :RELEVANT], found[..., RELEVANT:]
    lines = {
        MEAN: relevant.mean(-1),
        LARGEST: irrelevant.max(-1),
        "relevant, largest": relevant.max(-1),
        "relevant, smallest": relevant.min(-1),
        "irrelevant, mean": irrelevant.mean(-1),
    }
    coords = {"learner": [*lines], "seed": records["seed"].values, "step": records["step"].values}
    values = xarray.DataArray(np.stack([*lines.values()]), coords, ("learner", "seed", "step"))
    return xarray.Dataset({"step_size": values}).assign_coords(
        task=("step", records["task"].values), window=("step", window_lengths(records))
    )


# The claims.


ERROR = Quantity("error at the end", "error", lambda runs, name: runs.curve("loss", name)[:, -1])
"""The squared error in the last window, one value per seed."""


def _best(runs: Runs, line: str, settings: Sequence[float]) -> tuple[str, str]:
    """The learner of a line with the lowest error at the end, and a note if it is at the edge of the grid."""
    return runs.best(ERROR, [*_lines(line, settings)], f"setting of {line}")


def _error_is(line: str, settings: Sequence[float], published: float, runs: Runs) -> list[Finding]:
    best, note = _best(runs, line, settings)
    what = f"{line}'s lowest error, at {best.removeprefix(line).strip()},"
    part = f"{line}'s lowest error is about {published:g}"
    return [runs.near(what, ERROR.values(runs, best), published, WITHIN, part=part, note=note)]


def _idbd_beats_lms(runs: Runs) -> list[Finding]:
    (lms, lms_note), (learned, idbd_note) = _best(runs, LMS, LMS_STEP_SIZES), _best(runs, IDBD, META_STEP_SIZES)
    found = runs.ratio(ERROR, learned, lms, LESS_TIMES, "IDBD's lowest error is below LMS's")
    return [replace(found, note="; ".join(filter(None, (lms_note, idbd_note))))]


def _step_sizes_found(runs: Runs) -> list[Finding]:
    runs.need([], [IDBD])
    if "step_sizes" not in runs.records:
        raise CannotDecide("the records hold no step_sizes")
    curves = _by_relevance(runs.records)["step_size"].astype(np.float64)
    then = curves.isel(step=int(np.searchsorted(runs.steps, min(LONG, runs.steps[-1]))))
    values = lambda name: then.sel(learner=name).values
    near = lambda what, name, part="": runs.near(what, values(name), STEP_SIZE, STEP_SIZE_WITHIN, part=part)
    part = "irrelevant inputs have step sizes below 0.007"
    largest = runs.below("the largest step size of an irrelevant input", values(LARGEST), SMALL_STEP_SIZE, part=part)
    small = curves.sel(learner=LARGEST).mean("seed").values < SMALL_STEP_SIZE
    if small.any() and not largest.inside:
        largest = replace(largest, note=f"it is so after {runs.steps[small.argmax()]:,} examples")
    return [
        near("the mean step size of relevant inputs", MEAN, "relevant inputs have step sizes near 0.13"),
        largest,
        *(near(f"step size of inputs: {name}", name) for name in ("relevant, largest", "relevant, smallest")),
    ]


def _best_fixed(runs: Runs) -> list[Finding]:
    lines = _lines(ALONE, RELEVANT_STEP_SIZES)
    if len(runs.having([*lines])) < len(lines):
        raise CannotDecide("a step size of LMS with relevant inputs alone is missing or diverged")
    ends = np.array([ERROR.values(runs, name) for name in lines])
    best = np.array([*lines.values()])[ends.argmin(axis=0)]
    part = "the best fixed step size is about 0.13"
    return [runs.near("the best fixed step size", best, STEP_SIZE, STEP_SIZE_WITHIN, part=part)]


MEASURED = "Error: the mean squared error of the last 10,000 of 30,000 examples. "
CLAIMS = (
    Question(
        "S1",
        "errors",
        "LMS has an error of about 3.5 at its best step size.",
        f"{MEASURED}At the step size with the lowest mean error of {len(LMS_STEP_SIZES)}, it lies within {WITHIN:g} of"
        f" {LMS_ERROR:g}, as read off the paper's figure.{INTERVALS}",
        partial(_error_is, LMS, LMS_STEP_SIZES, LMS_ERROR),
    ),
    Question(
        "S2",
        "errors",
        "IDBD has an error of about 1.5 at its best meta-step size.",
        f"{MEASURED}At the meta-step size with the lowest mean error of {len(META_STEP_SIZES)}, it lies within"
        f" {WITHIN:g} of {IDBD_ERROR:g}, as read off the paper's figure.{INTERVALS}",
        partial(_error_is, IDBD, META_STEP_SIZES, IDBD_ERROR),
    ),
    Question(
        "S3",
        "errors",
        "IDBD's error is below that of LMS with the best step size.",
        f"{MEASURED}IDBD's at its best meta-step size is lower than LMS's at its best step size (ratio below 1)."
        f"{STRICT}",
        _idbd_beats_lms,
    ),
    Question(
        "S4",
        "step-sizes",
        "IDBD learns step sizes of about 0.13 for relevant inputs, and below 0.007 for irrelevant ones.",
        f"After 250,000 examples with meta-step size {LONG_META:g}, two parts: the mean step size of the five relevant"
        f" inputs lies within {STEP_SIZE_WITHIN:g} of {STEP_SIZE:g}; the largest of the fifteen irrelevant ones is"
        f" below {SMALL_STEP_SIZE:g}. The largest and the smallest of the relevant ones are shown, not counted."
        f"{INTERVALS}",
        _step_sizes_found,
    ),
    Question(
        "S5",
        "fixed",
        "These are the best step sizes: with 0 for irrelevant inputs, the best for relevant ones is about 0.13.",
        f"{MEASURED}The step size with the lowest error of {len(RELEVANT_STEP_SIZES)} in each run, mean over runs, lies"
        f" within {STEP_SIZE_WITHIN:g} of {STEP_SIZE:g}.{INTERVALS}",
        _best_fixed,
    ),
)
LEADS: Leads = {
    "S1": {HOLDS: "LMS does as published: {}", DOES_NOT: "LMS does not do as published: {}", None: "LMS: {}"},
    "S2": {HOLDS: "So does IDBD: {}", DOES_NOT: "IDBD does not do as published: {}", None: "IDBD: {}"},
    "S3": {
        HOLDS: "IDBD does better than LMS with any step size: {}",
        DOES_NOT: "IDBD does not do better than LMS: {}",
        None: "Whether IDBD does better than LMS is not settled: {}",
    },
    "S4": {
        HOLDS: "It finds which inputs are relevant: {}",
        DOES_NOT: "It does not learn the published step sizes: {}",
        None: "The step sizes it learns: {}",
    },
}


def _headline(answers: Sequence[Answer]) -> Headline:
    del answers
    notes = {MEAN: "published: 0.13", LARGEST: "published: below 0.007"}
    return Headline("step-sizes", "step_size", "The step sizes that IDBD learns", notes)


PAPER = Paper(
    source='Sutton (1992), "Adapting bias by gradient descent: an incremental version of delta-bar-delta"',
    title="IDBD, reproduced",
    intro=(
        "IDBD, incremental delta-bar-delta, learns a step size for every input of a linear unit, online, while LMS, "
        "the delta rule, has one for all. Sutton (1992) claims that on a changing target it does far better than LMS "
        "with any step size, because it finds out which inputs are relevant. This page reruns his experiments."
    ),
    plans={"errors": _errors, "step-sizes": _learned, "fixed": _fixed},
    claims=CLAIMS,
    leads=LEADS,
    terms={
        "LMS": "least mean squares, the delta rule: gradient descent for a linear unit.",
        "IDBD": "incremental delta-bar-delta: a step size for each input, learned by gradient descent.",
        "meta-step size": "the step size with which IDBD changes the logarithms of its step sizes; theta in the paper.",
        "relevant": "an input whose target weight is +1 or −1; those of the others are 0.",
        "error": "the squared error, mean over 10,000 examples, after 20,000 others that are not counted.",
        "seed": "one run: its examples. All learners get the same seeds, so they are compared in pairs.",
    },
    headline=_headline,
)
