"""Run cards: results in one JSON file, with all that a stranger needs to run them again and to see whether they are
the same.

For every learner a card has its experiment in TOML, which names the stream, the network and the learner as a file for
`crossprop sweep` does, and for every seed the mean of its run and the SHA-256 of its records. Nothing in it is code.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from crossprop._support import checks as check
from crossprop._support.array_files import HOSTILE
from crossprop._support.files import read_json, write_json
from crossprop._support.formats import plural
from crossprop._version import __version__
from crossprop.configuration import configuration
from crossprop.costs import Cost, measure_costs, numbers_in_state
from crossprop.descriptions import built
from crossprop.engines import ENGINES
from crossprop.execution import devices
from crossprop.experiments.findings import phase_mean
from crossprop.experiments.grid import STREAM
from crossprop.experiments.grid import build as build_at
from crossprop.experiments.naming import named_experiment, named_stream
from crossprop.experiments.results import SweepResults, read_results
from crossprop.experiments.toml import parse_toml, toml_entries, toml_key
from crossprop.learners import Learner
from crossprop.progress import Say
from crossprop.record_files import read_records
from crossprop.running import provenance, run
from crossprop.specification import as_table, build, check_keys
from crossprop.streams import STREAMS, Stream
from crossprop.variables import DRIFT, VARIABLES

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
MOST_BYTES = 2**24
"""Bytes of a card."""
KEYS = ("stream", "network", "learners", "record_every", "steps")
"""The keys allowed in the TOML of a card: no modules to import."""
STEPS, REPEATS = 4000, 3
"""Steps and repeats of the runs that are timed."""
ROUNDING = 1e-4
"""Means that differ by at most this share are the same but for rounding. Between two engines, the mean of a run on
GEOFF differs by up to 6e-5 of it, with momentum, whose runs are chaotic there, and by 1e-7 with other learners."""
OF_MEANS = 1e-12
"""The same for means of the same records."""
SAME, NEAR, OTHER = "same bits", "same within rounding", "other"
MADE_WITH = ("crossprop", "jax", "device", "engine", "xla_flags")
ALIKE = "Versions, engine and kind of device are those of the card: on the same processor, bits would be the same."


class OfSeed(NamedTuple):
    """The mean loss, or share misclassified, of a run, None if it diverged, and the SHA-256 of its records and of the
    step at which it diverged."""

    mean: float | None
    sha256: str


@dataclass(frozen=True)
class Ran:
    """A learner of a card; `stage` is the file or the sweep that it is from."""

    stage: str
    learner: str
    experiment: str
    """In TOML."""
    float_type: str
    made_with: dict[str, str]
    """The versions, the device and the engine."""
    seeds: dict[int, OfSeed]
    cost: dict[str, Any]
    """Of a step; what is not known is None."""

    @property
    def name(self) -> str:
        return f"{self.stage}, {self.learner}"

    @property
    def engine(self) -> str:
        return self.made_with["engine"]


def of_seeds(records: "xarray.Dataset") -> dict[int, OfSeed]:
    """The entry of each run in a card, from records with the dims `seed` and `step`, without probes and metrics."""
    means = phase_mean(records, "all").values
    names = [name for name in map(str, records) if name in VARIABLES or name.startswith(DRIFT)]
    kept = {name: records[name].transpose("seed", "step").values for name in sorted(names)}
    found = {}
    for at, seed in enumerate(records.seed.values.tolist()):
        sha256 = hashlib.sha256(str(int(records.diverged_at.values[at])).encode())
        for name, values in kept.items():
            run = np.where(np.isnan(values[at]), np.nan, values[at]).astype(f"<f{values.dtype.itemsize}")
            sha256.update(f" {name} {run.dtype.str} {run.size} ".encode() + run.tobytes())
        mean = float(means[at])
        found[seed] = OfSeed(mean if math.isfinite(mean) else None, sha256.hexdigest())
    return found


# Making


def make_card(folder: Path, say: Say) -> Path:
    """Writes `card.json` about the records in a folder of `crossprop run --out`, `sweep`, `study` or `arena`."""
    found: list[Ran | str] = []
    for file in sorted(folder.glob("*.nc")):
        found += of_records(file.stem, read_records(file))
    stores = [folder] if (folder / "store.json").is_file() else []
    for store in stores or sorted(each.parent for depth in ("*", "*/*") for each in folder.glob(f"{depth}/store.json")):
        found += of_sweep(store.name, read_results(store))
    path = write_card(folder, found, say)
    if path is None:
        raise ValueError(
            f"folder must hold records.nc of crossprop run --out, or a sweep with fresh seeds (--evaluate), got "
            f"{str(folder)!r}, with learners that can be named"
        )
    return path


def write_card(folder: Path, found: Sequence[Ran | str], say: Say) -> Path | None:
    """Writes `card.json` if there are learners for it, and says which are not in it, and why."""
    left_out = [each for each in found if isinstance(each, str)]
    for each in left_out:
        say(f"Not in the card: {each}.")
    if len(left_out) == len(found):
        return None
    path, runs = folder / "card.json", [asdict(each) for each in found if isinstance(each, Ran)]
    write_json(path, {"schema": SCHEMA, "crossprop": __version__, "runs": runs, "left_out": left_out})
    return path


def of_records(stage: str, records: "xarray.Dataset") -> list[Ran | str]:
    """The learners of records that `run` returned, or why one cannot be in a card."""
    described, engine = json.loads(records.attrs["learners"]), str(records.attrs["engine"])
    engines = json.loads(engine) if engine.startswith("{") else dict.fromkeys(described, engine)

    def ran(name: str) -> Ran:
        if int(records.window.sum()) != int(records.step[-1]):
            raise ValueError("its runs began later than their stream")
        own = records.sel(learner=name).assign_attrs(engine=engines[name])
        return _ran(stage, name, built(described[name], {}), _named(records.attrs["stream"]), own, None)

    return [_or_reason(ran, stage, name) for name in map(str, records.learner.values)]


def of_sweep(stage: str, sweep: SweepResults, costs: Mapping[str, Cost] | None = None) -> list[Ran | str]:
    """The best settings of a sweep on fresh seeds, or why one cannot be in a card; costs are measured unless given."""

    def ran(name: str) -> Ran:
        grid, point = sweep.learners[name].grid, sweep.evaluation.chosen[name].point
        _, stream = _named(json.dumps(grid.stream))
        learner, _ = build_at(point, name, built(grid.learner, {}), stream, {})
        at = grid.stream | {axis[len(STREAM) :]: value for axis, value in point.items() if axis.startswith(STREAM)}
        return _ran(stage, name, learner, _named(json.dumps(at)), sweep.evaluation.records[name], costs)

    return [_or_reason(ran, stage, name) for name in sweep.evaluation.records]


_named = lru_cache(maxsize=2)(lambda described: named_stream(json.loads(described)))
"""`named_stream` of a description as JSON: all learners of a stage have the same."""


def _or_reason(ran: Callable[[str], Ran], stage: str, name: str) -> Ran | str:
    try:
        return ran(name)
    except ValueError as problem:
        return f"{stage}, {name}: {problem}"


def _ran(
    stage: str,
    name: str,
    learner: Learner,
    named: tuple[dict[str, Any], Stream],
    records: "xarray.Dataset",
    costs: Mapping[str, Cost] | None,
) -> Ran:
    """The entry of a learner in a card, from records with the dims `seed` and `step`."""
    attributes, steps, float_type = records.attrs, int(records.step[-1]), records["loss"].dtype.newbyteorder("=").name
    check.choice("the engine of all its runs", attributes["engine"], ENGINES)
    table = named_experiment(name, learner, named[0])
    lines = [f"record_every = {json.loads(attributes['record_every'])}", f"steps = {steps}"]
    for part in ("stream", "network"):
        lines += ["", f"[{part}]", *toml_entries(table[part])]
    lines += ["", f"[learners.{toml_key(name)}]", *toml_entries(table["learners"][name])]
    if costs is None:
        timed = {"steps": min(steps, STEPS), "repeats": REPEATS, "engine": attributes["engine"]}
        with jax.enable_x64(float_type == "float64"):
            costs = measure_costs({name: learner}, named[1], **timed)
    cost = costs.get(name) or Cost(math.nan, numbers_in_state(learner))
    ran = Ran(
        stage=stage,
        learner=name,
        experiment="\n".join([*lines, ""]),
        float_type=float_type,
        made_with={key: str(attributes[key]) for key in MADE_WITH if key in attributes},
        seeds=of_seeds(records),
        cost={key: value if math.isfinite(value or 0) else None for key, value in cost._asdict().items()},
    )
    again, _, _, _ = experiment_of(ran)
    if configuration(again) != configuration(learner):
        raise ValueError("TOML has no such numbers as its hyperparameters")
    return ran


# Checking


def read_card(path: Path) -> list[Ran]:
    """The learners of a card. A ValueError names the file if it is damaged or something else."""
    contents = read_json(path, MOST_BYTES)
    try:
        if contents["schema"] != SCHEMA:
            raise ValueError(f"its schema is {contents['schema']!r}, this version of crossprop reads {SCHEMA}")
        return [_read(each) for each in contents["runs"]]
    except HOSTILE as problem:
        raise ValueError(f"{path} is no run card: {problem!r}") from None


def _read(contents: dict[str, Any]) -> Ran:
    """A learner of a card, checked."""
    seeds: Any = {int(seed): OfSeed(*each) for seed, each in contents["seeds"].items()}
    ran = Ran(**contents | {"seeds": seeds})
    texts = [ran.stage, ran.learner, ran.experiment, *ran.made_with, *ran.made_with.values()]
    if not ran.seeds or not all(isinstance(each, str) for each in texts):
        raise TypeError("its runs must have seeds, and texts")
    if not f"{ran.name}{''.join(ran.made_with.values())}".isprintable():
        raise ValueError("its names must be printable")
    for seed, (mean, sha256) in ran.seeds.items():
        check.integer("a seed", seed, low=0, high=2**32 - 1)
        check.number("a mean", mean, optional=True)
        if not isinstance(sha256, str):
            raise TypeError("sha256 must be a text")
    check.choice("float_type", ran.float_type, ("float32", "float64"))
    check.choice("engine", ran.engine, ENGINES)
    return ran


def experiment_of(ran: Ran) -> tuple[Learner, Stream, int, int]:
    """The learner and the stream of a card, the steps of a window and those of a run."""
    table = parse_toml(ran.experiment.encode(), f"the experiment of {ran.name}")
    check_keys(f"the experiment of {ran.name}", table, KEYS)
    check.choice(f"the stream of {ran.name}", as_table("stream", table.get("stream")).get("name"), STREAMS)
    learners, stream = build(table)
    check.choice("the learner", ran.learner, learners)
    return learners[ran.learner], stream, table.get("record_every", 0), table.get("steps", 0)


def check_card(path: Path, seeds: int, say: Say) -> str:
    """Runs the first `seeds` seeds of every learner of a card again: `"same bits"`, `"same within rounding"` or
    `"other"`, the worst that was found."""
    verdicts, elsewhere = list[str](), dict[str, None]()
    for ran in read_card(path):
        wanted = sorted(ran.seeds)[:seeds]
        try:
            with jax.enable_x64(ran.float_type == "float64"):
                learner, stream, record_every, steps = experiment_of(ran)
                able = ENGINES[ran.engine].why_unsupported(learner, devices()[0].platform, ()) is None
                engine = ran.engine if able else "auto"
                records = run({ran.learner: learner}, stream, wanted, record_every, engine, progress=False, steps=steps)
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{path}: {ran.name}: {problem}") from None
        here = provenance({ran.learner: str(records.attrs["engine"])})
        for key in MADE_WITH:
            if str(here.get(key, "none")) != ran.made_with.get(key, "none"):
                elsewhere[f"{key} {ran.made_with.get(key, 'none')} there, {here.get(key, 'none')} here"] = None
        verdict, most = _compared(ran, of_seeds(records.sel(learner=ran.learner)))
        far = "" if verdict == SAME else f", means differ by up to {most:.2g} of them"
        say(f"{ran.name}: {verdict}{far}, {plural(len(wanted), 'seed')}")
        verdicts.append(verdict)
    if not verdicts:
        raise ValueError(f"{path} is a card of no learners")
    worst = max(verdicts, key=(SAME, NEAR, OTHER).index)
    if worst != SAME:
        say(f"The card was made with other things than there are here: {'; '.join(elsewhere)}." if elsewhere else ALIKE)
    return worst


def _compared(ran: Ran, here: Mapping[int, OfSeed]) -> tuple[str, float]:
    """Whether runs are those of the card, and the largest difference of a mean, as a share of it."""
    most = 0.0
    for seed, (mean, _) in here.items():
        there = ran.seeds[seed].mean
        if mean is None or there is None:
            most = max(most, 0.0 if mean is there else math.inf)
        else:
            most = max(most, abs(mean - there) / max(abs(there), sys.float_info.min))
    same = all(ran.seeds[seed].sha256 == each.sha256 for seed, each in here.items())
    if same and most <= OF_MEANS:
        return SAME, 0.0
    return (NEAR if most <= ROUNDING else OTHER), most
