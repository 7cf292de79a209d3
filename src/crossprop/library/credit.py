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
from crossprop.datasets import digits, mnist5k
from crossprop.experiments.findings import LABELS
from crossprop.experiments.questions import Answer
from crossprop.learners import Backprop, CreditRule, Crossprop, CrosspropApprox, CrosspropSum, Foresight
from crossprop.network import Network
from crossprop.progress import Say
from crossprop.record_files import check_replaceable, read_records, write_records
from crossprop.running import experiment
from crossprop.statistics import mean_interval, paired_difference
from crossprop.streams import Geoff, LabelShift, Stream

if TYPE_CHECKING:
    import xarray

BACKPROP = "backprop"
FORESIGHTS = {
    "foresight": {},
    "foresight, horizon 100": {"horizon": 100.0},
    "foresight, horizon 10000": {"horizon": 10_000.0},
    "foresight, ahead 0.5": {"ahead": 0.5},
    "foresight, ahead 4": {"ahead": 4.0},
    "foresight, ahead -0.5": {"ahead": -0.5},
}
"""Foresight with several horizons and distances ahead; the first has both at their defaults, 1000 and 1."""
FOLLOWED = ("backprop", "crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-sum", "foresight")
"""The rules that are also followed on runs of their own."""
WORDS = tomllib.loads((files("crossprop.library") / "studies" / "credit.toml").read_text(encoding="utf-8"))
LARGE = 0.5
"""A part is large if it has this share of the size of backprop's gradient; a rule finds it if its cosine is above."""


class Setting(NamedTuple):
    """A network, a stream, and step sizes that suit backprop there."""

    title: str
    network: Network
    stream: Stream
    step_size: float
    incoming_step_size: float
    record_every: int

    @property
    def learners(self) -> dict[str, CreditRule]:
        """Every rule with the same step sizes."""
        net = self.network
        sizes: dict[str, Any] = {"step_size": self.step_size, "incoming_step_size": self.incoming_step_size}
        learners: dict[str, CreditRule] = {
            "backprop": Backprop(net, **sizes),
            "crossprop": Crossprop(net, **sizes),
            "crossprop-0.5": Crossprop(net, eta=0.5, **sizes),
            "crossprop-approx": CrosspropApprox(net, **sizes),
            "crossprop-approx-0.5": CrosspropApprox(net, eta=0.5, **sizes),
            "crossprop-sum": CrosspropSum(net, **sizes),
        }
        if net.outputs > 1:
            learners["crossprop-projected"] = Crossprop(net, projections=1, **sizes)
        if len(net.hidden) > 1:
            learners["crossprop, all layers"] = Crossprop(net, layers="all", **sizes)
            learners["crossprop-sum, all layers"] = CrosspropSum(net, layers="all", **sizes)
            learners["foresight, top layer"] = Foresight(net, layers="top", **sizes)
        return learners | {name: Foresight(net, **sizes, **options) for name, options in FORESIGHTS.items()}


def settings(version: str) -> dict[str, Setting]:
    """The settings of the `quick`, `default` or `full` version: GEOFF and digits, shallow and deep.

    Crossprop's recursion is derived for the squared error, so digits are there with it, too.
    Step sizes are those with which backprop has the lowest error at the default sizes, among powers of 2.
    """
    quick, full = version == "quick", version == "full"
    examples, every = (40, 20) if quick else (5000, 500) if full else (1000, 100)
    size, few, images = (4, 4, digits()) if quick else (64, 32, mnist5k()) if full else (32, 16, digits())
    geoff = Geoff(tasks="ABC", examples=examples)
    shifted = LabelShift(images, tasks="ABC", examples=min(examples, 1500), shuffle=True)
    weights: dict[str, Any] = {"bias": False, "incoming_scale": "lecun", "outgoing_scale": 0.0}
    classes: dict[str, Any] = weights | {"outputs": 10, "loss": "softmax"}
    pixels = images.x.shape[1]
    found = {
        "geoff": Setting("GEOFF", Network(20, size, **weights), geoff, 2**-8, 2**-8, every),
        "geoff-deep": Setting("GEOFF, deep", Network(20, (size, size), **weights), geoff, 2**-8, 2**-10, every),
        "digits": Setting("Digits", Network(pixels, few, **classes), shifted, 2**-3, 2**-5, every),
        "digits-squared": Setting(
            "Digits, squared error", Network(pixels, few, 10, **weights), shifted, 2**-4, 2**-3, every
        ),
        "digits-deep": Setting("Digits, deep", Network(pixels, (few, few), **classes), shifted, 2**-3, 2**-5, every),
    }
    return {name: found[name] for name in ("geoff", "digits-deep")} if quick else found


class Found(NamedTuple):
    """What the oracle found in a setting: all rules along backprop's run, and some on runs of their own."""

    setting: Setting
    along: "xarray.Dataset"
    own: "xarray.Dataset"


def run_settings(version: str, seeds: int, folder: Path, say: Say) -> dict[str, Found]:
    """Runs every setting, or reads what is in the folder already."""
    found = {}
    for name, setting in settings(version).items():
        say(f"credit: {setting.title}")
        learners = setting.learners
        if version == "quick":
            learners = {rule: learners[rule] for rule in ("backprop", "crossprop", "crossprop-sum", "foresight")}
        followed = ("crossprop",) if version == "quick" else FOLLOWED
        own = {rule: learners[rule] for rule in followed}
        along = _followed(folder / f"{name}-along.nc", setting, learners, seeds, learners[BACKPROP])
        found[name] = Found(setting, along, _followed(folder / f"{name}-own.nc", setting, own, seeds, None))
    return found


def _followed(
    path: Path, setting: Setting, learners: Mapping[str, CreditRule], seeds: int, along: CreditRule | None
) -> "xarray.Dataset":
    described = experiment(learners, setting.stream, list(range(seeds)), setting.record_every)
    check_replaceable(path, described | {"along": json.dumps(along and configuration(along))})
    if not path.exists():
        write_records(path, oracle.follow(learners, setting.stream, seeds, setting.record_every, along=along))
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
                    row = {"setting": each.setting.title, "run": run, "rule": rule, "layer": str(layer)}
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
            "setting": each.setting.title,
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
    """What the oracle says, in words: for each question whether it is so in every setting, and numbers."""
    terms = {each["setting"]: each for each in terms_of(found)}
    of_crossprop = {
        each.setting.title: [float(_by_seed(each.along, "crossprop", _top(each), name).mean()) for name in PARTS_FOUND]
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
    return found.setting.title, (True if low > 0 else False if high < 0 else None, numbers)
