"""Sutton (1992), "Adapting bias by gradient descent": LMS and IDBD on a linear target whose weights change sign.

The squared error is measured over 10,000 examples, after 20,000 others.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.experiments.charts import Chart, curves
from crossprop.experiments.findings import LESS_TIMES, Bounds, Finding
from crossprop.experiments.measures import Quantity, Runs
from crossprop.experiments.papers import paper_table, points_of, read_paper
from crossprop.optimizers.step_sizes import IDBDState
from crossprop.records import window_lengths

if TYPE_CHECKING:
    import xarray

RELEVANT = 5
LMS, IDBD = "LMS", "IDBD"
LINES, FIXED = (points_of(paper_table("sutton1992")["experiments"][part]["over"]) for part in ("errors", "fixed"))
"""The settings of each line of the experiments errors and fixed."""
MEAN, LARGEST = "relevant, mean", "irrelevant, largest"

LMS_ERROR, IDBD_ERROR, WITHIN = 3.5, 1.5, 0.2
STEP_SIZE, STEP_SIZE_WITHIN, SMALL_STEP_SIZE = 0.13, 0.015, 0.007
LONG_META = 0.001
LONG = 250_000
"""Examples after which the paper has its step sizes; the run with a small meta-step size is longer."""


def step_sizes(initial: Any, state: Any) -> Any:
    """Probe: the step size that IDBD has learned for each input."""
    del initial
    is_found = lambda each: isinstance(each, IDBDState)
    found = next(filter(is_found, jax.tree.leaves(state.optimizer, is_leaf=is_found)))
    return jnp.exp(jnp.ravel(jax.tree.leaves(found.log_step_size)[0]))


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


def _learned(records: "xarray.Dataset") -> dict[str, Chart]:
    """The chart of the learned step sizes, with the published one."""
    published = {MEAN: ((min(int(records.step[-1]), LONG), STEP_SIZE),)}
    return {"step_size": curves(_by_relevance(records), ["step_size"], published)[0]}


# The claims.


ERROR = Quantity("error at the end", "error", lambda runs, name: runs.curve("loss", name)[:, -1])
"""The squared error in the last window, one value per seed."""


def _best(runs: Runs, line: str) -> tuple[str, str]:
    """The setting of a line with the lowest error at the end, and a note if it is at the edge of the grid."""
    return runs.best(ERROR, [*LINES[line]], f"setting of {line}")


def _error_is(line: str, published: float, runs: Runs) -> list[Finding]:
    best, note = _best(runs, line)
    what = f"{line}'s lowest error, at {best.removeprefix(line).strip()},"
    part = f"{line}'s lowest error is about {published:g}"
    return [runs.near(what, ERROR.values(runs, best), published, WITHIN, part=part, note=note)]


def _idbd_beats_lms(runs: Runs) -> list[Finding]:
    (lms, lms_note), (learned, idbd_note) = _best(runs, LMS), _best(runs, IDBD)
    found = runs.ratio(ERROR, learned, lms, LESS_TIMES, "IDBD's lowest error is below LMS's")
    return [replace(found, note="; ".join(filter(None, (lms_note, idbd_note))))]


def _step_sizes_found(runs: Runs) -> list[Finding]:
    runs.need(["step_sizes"], [IDBD])
    curves = _by_relevance(runs.records)["step_size"].astype(np.float64)
    then = curves.isel(step=int(np.searchsorted(runs.steps, min(LONG, runs.steps[-1]))))
    values = lambda name: then.sel(learner=name).values
    near = lambda what, name, part="": runs.near(what, values(name), STEP_SIZE, STEP_SIZE_WITHIN, part=part)
    what, end = "the largest step size of an irrelevant input", f", where below {SMALL_STEP_SIZE:g} is claimed"
    part, bounds = "irrelevant inputs have step sizes below 0.007", Bounds(high=SMALL_STEP_SIZE)
    largest = runs.mean(what, values(LARGEST), bounds, f"{what} is {{}}", end=end, part=part)
    small = curves.sel(learner=LARGEST).mean("seed").values < SMALL_STEP_SIZE
    if small.any() and not largest.inside:
        largest = replace(largest, note=f"it is so after {runs.steps[small.argmax()]:,} examples")
    return [
        near("the mean step size of relevant inputs", MEAN, "relevant inputs have step sizes near 0.13"),
        largest,
        *(near(f"step size of inputs: {name}", name) for name in ("relevant, largest", "relevant, smallest")),
    ]


def _best_fixed(runs: Runs) -> list[Finding]:
    (settings,) = FIXED.values()
    ends = np.array([ERROR.values(runs, name) for name in settings])
    best = np.array([*settings.values()])[ends.argmin(axis=0)]
    part = "the best fixed step size is about 0.13"
    return [runs.near("the best fixed step size", best, STEP_SIZE, STEP_SIZE_WITHIN, part=part)]


PAPER = read_paper(
    "sutton1992",
    find={
        "S1": partial(_error_is, LMS, LMS_ERROR),
        "S2": partial(_error_is, IDBD, IDBD_ERROR),
        "S3": _idbd_beats_lms,
        "S4": _step_sizes_found,
        "S5": _best_fixed,
    },
    numbers=globals(),
    plans={"step-sizes": {"charts": _learned}},
    probes={"step-sizes": {"step_sizes": step_sizes}},
)
