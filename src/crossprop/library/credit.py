"""`crossprop study credit`: how near the direction of every credit rule is to the exact meta-gradient."""

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossprop import oracle
from crossprop._support.formats import minus_signs
from crossprop.configuration import configuration
from crossprop.experiments.experiment import Stage
from crossprop.experiments.findings import LABELS
from crossprop.experiments.grid import build
from crossprop.experiments.questions import Answer
from crossprop.experiments.spec import SweepSpec
from crossprop.learners import CreditRule
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.running import experiment
from crossprop.statistics import mean_interval, paired_difference

if TYPE_CHECKING:
    import xarray

BACKPROP = "backprop"
FOLLOWED = ("backprop", "crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-sum", "foresight")
"""The rules that are also followed on runs of their own."""
WORDS = tomllib.loads((files("crossprop.library") / "credit.toml").read_text(encoding="utf-8"))
LARGE = 0.5
"""A part is large if it has this share of the size of backprop's gradient; a rule finds it if its cosine is above."""


class Found(NamedTuple):
    """What the oracle found on a stage: all rules along backprop's run, and some on runs of their own."""

    title: str
    along: "xarray.Dataset"
    own: "xarray.Dataset"


def learners_of(stage: Stage) -> dict[str, Any]:
    """The rules of a stage, with the stage's step sizes."""
    spec = stage.spec
    return {
        grid.name: build(point, grid.name, spec.learners[grid.name], spec.stream, {})[0]
        for grid in spec.grids
        for point in grid.points.values()
    }


def follow_stages(stages: Mapping[str, Stage], folder: Path, say: Say, *, quick: bool) -> dict[str, Found]:
    """Follows every rule on every stage, or reads what is in the folder already."""
    found = {}
    for name, stage in stages.items():
        say(f"credit: {stage.title}")
        learners = learners_of(stage)
        own = {rule: learners[rule] for rule in (("crossprop",) if quick else FOLLOWED)}
        along = _followed(folder / f"{name}-along.nc", stage.spec, learners, learners[BACKPROP])
        found[name] = Found(stage.title, along, _followed(folder / f"{name}-own.nc", stage.spec, own, None))
    return found


def _followed(
    path: Path, spec: SweepSpec, learners: Mapping[str, CreditRule], along: CreditRule | None
) -> "xarray.Dataset":
    described = experiment(learners, spec.stream, spec.seeds, spec.record_every)
    check_replaceable(path, described | {"along": json.dumps(along and configuration(along))})
    if not path.exists():
        write_records(path, oracle.follow(learners, spec.stream, len(spec.seeds), spec.record_every, along=along))
    return read_records(path)


COSINES = {
    "whole": ("cosine", "whole"),
    "memory": ("cosine", "memory"),
    "summed_whole": ("summed_cosine", "whole"),
    "summed_memory": ("summed_cosine", "memory"),
    "added_memory": ("summed_added_cosine", "memory"),
}
"""The columns of the tables: a variable of the oracle, and the part of the meta-gradient."""
PARTS_FOUND = ("memory", "summed_memory")
NEARER = ("crossprop-sum", "foresight")
"""Rules that are compared with backprop."""


def cosines_of(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """Every rule in every setting, for all layers together and for each: cosines of its direction with parts of the
    meta-gradient by column of `COSINES`, means over a run with intervals over seeds."""
    rows = []
    for each in found.values():
        for run, records in (("backprop's", each.along), ("its own", each.own)):
            for layer in records.layer.values[: 1 if records.sizes["layer"] == 2 else None]:
                for rule in map(str, records.learner.values):
                    row = {"setting": each.title, "run": run, "rule": rule, "layer": str(layer)}
                    for column in COSINES:
                        estimate = mean_interval(_by_seed(records, rule, layer, column))
                        parts = zip(estimate._fields, estimate, strict=True)
                        row |= {f"{column} {part}": float(value) for part, value in parts}
                    rows.append(row)
    return rows


def _by_seed(records: "xarray.Dataset", rule: str, layer: str, column: str) -> np.ndarray:
    variable, part = COSINES[column]
    return records[variable].sel(learner=rule, layer=layer, part=part).mean("step").values


def terms_of(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """The parts of the meta-gradient along backprop's run in every setting: their sizes, backprop's gradient being 1,
    and cosines. Own and cross are of the top layer, beside that layer's gradient and memory part."""
    rows = []
    for each in found.values():
        records, top = each.along.mean(("seed", "step")), _top(each)
        of = lambda variable, rule, layer, part, records=records: float(
            records[variable].sel(learner=rule, layer=layer, part=part)
        )
        memory, own, cross, direct = (of("norm", BACKPROP, top, part) for part in ("memory", "own", "cross", "direct"))
        row = {
            "setting": each.title,
            "memory": of("norm", BACKPROP, "all", "memory") / of("norm", BACKPROP, "all", "direct"),
            "own": own / direct,
            "cross": cross / direct,
            "direct_memory": of("memory_cosine", BACKPROP, "all", "direct"),
            "own_memory": of("memory_cosine", BACKPROP, top, "own"),
            "cross_memory": of("memory_cosine", BACKPROP, top, "cross"),
            "own_cross": (memory**2 - own**2 - cross**2) / (2 * own * cross),
            "crossprop_own": of("cosine", "crossprop", top, "own"),
            "sum_own": of("added_cosine", "crossprop-sum", top, "own"),
        }
        rows.append(row)
    return rows


def _top(found: Found) -> str:
    return str(found.along.layer.values[-1])


def _signed(value: float, digits: int = 2) -> str:
    return minus_signs(f"{value:+.{digits}f}")


def answers(found: Mapping[str, Found]) -> list[Answer]:
    """The results in words: for each question the answer over all settings, with its numbers."""
    terms = {each["setting"]: each for each in terms_of(found)}
    of_crossprop = {
        each.title: [float(_by_seed(each.along, "crossprop", _top(each), name).mean()) for name in PARTS_FOUND]
        for each in found.values()
    }
    parts = lambda each: f"{each['own']:.2f}, {each['cross']:.2f}, {_signed(each['own_cross'])}"
    told = {
        "large": {name: (each["memory"] > LARGE, f"{each['memory']:.2f}") for name, each in terms.items()},
        "direction": {
            name: (each["direct_memory"] > 0, _signed(each["direct_memory"])) for name, each in terms.items()
        },
        "crossprop": {
            name: (one > LARGE, f"{_signed(one)} and {_signed(sums)}") for name, (one, sums) in of_crossprop.items()
        },
        "dropped": {name: (each["cross"] > LARGE, parts(each)) for name, each in terms.items()},
    } | {f"nearer-{rule}": dict(_nearer(each, rule) for each in found.values()) for rule in NEARER}
    return [_answer(id, each) for id, each in told.items()]


def _answer(id: str, told: Mapping[str, tuple[bool | None, str]]) -> Answer:
    """The answer to a question, from its truth and its numbers by setting."""
    truths = {truth for truth, _ in told.values()}
    verdict = "it depends" if len(truths) > 1 else LABELS[truths.pop()]
    numbers = "; ".join(f"{setting} {words}" for setting, (_, words) in told.items())
    return Answer(id, WORDS["questions"][id]["asks"], verdict, WORDS["questions"][id]["why"].format(numbers))


def _nearer(found: Found, rule: str) -> tuple[str, tuple[bool | None, str]]:
    """Whether a rule is nearer to the meta-gradient than backprop, along backprop's run."""
    mine, backprop = (_by_seed(found.along, name, "all", "whole") for name in (rule, BACKPROP))
    _, low, high = paired_difference(mine, backprop)
    numbers = (
        f"{mine.mean():.3f} and {backprop.mean():.3f} (difference between {_signed(low, 3)} and {_signed(high, 3)})"
    )
    return found.title, (True if low > 0 else False if high < 0 else None, numbers)
