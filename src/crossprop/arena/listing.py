"""The list of an arena: a TOML file of learners and streams, and the sweep that each stream makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop import metrics, probes
from crossprop._support import checks as check
from crossprop.engines.protocol import Metric, Probe
from crossprop.experiments import SweepSpec
from crossprop.experiments.toml import read_toml, spec_of_table
from crossprop.learners import State
from crossprop.network import Network
from crossprop.registry import import_modules
from crossprop.specification import as_table, build_network, build_stream, check_keys, learner_tables
from crossprop.streams import Stream

OF_ALL = (
    *("import", "reference", "settings", "seeds", "evaluate", "plasticity"),
    *("learners", "network", "over", "streams"),
)
OF_STREAM = ("title", "stream", "steps", "record_every", "network", "over")
BATCH = 64
"""Examples that the probes look at."""


class Contest(NamedTuple):
    """A stream of the arena, and the sweep that tunes every learner on it."""

    title: str
    spec: SweepSpec


class Listing(NamedTuple):
    """A list, checked: the learner that others are compared with, and a sweep for each stream."""

    reference: str
    contests: dict[str, Contest]


def read_listing(path: Path, streams: Sequence[str], folder: Path, **flags: Any) -> Listing:
    """The arena that a file describes.

    **Arguments:**

    - `streams`: names of some of the file's streams; none are all.
    - `folder`: where each stream's sweep is kept, in a folder of its name.
    - `flags`: `seeds`, `evaluate` and `engine` in the place of the file's, unless they are None.
    """
    table = read_toml(path)
    check_keys(str(path), table, OF_ALL)
    import_modules(table.get("import", []))
    for key in ("learners", "streams"):
        if not table.get(key):
            raise ValueError(f"{path} has no {key}: give a table [{key}.NAME] for each")
    learners = learner_tables(table["learners"])
    reference = table.get("reference", "backprop")
    check.choice(f"reference in {path}", reference, learners)
    rows = as_table("streams", table["streams"])
    for name in streams:
        check.choice("a stream of the arena", name, rows)
    for name in rows:
        if Path(name).name != name:
            raise ValueError(f"streams in {path} must have names that a folder can have, got {name!r}")
    common = {key: value for key, value in table.items() if key in ("seeds", "evaluate", "network", "over")}
    common |= {"learners": learners} | {key: value for key, value in flags.items() if value is not None}
    if common.get("evaluate") is None:
        raise ValueError(f"{path} has no evaluate: give the number of fresh seeds to judge on, such as evaluate = 20")
    check.integer(f"evaluate in {path}", common["evaluate"], low=2)
    contests = {}
    observed = {"plasticity": metrics.plasticity} if check.flag("plasticity", table.get("plasticity", True)) else {}
    for name in streams or rows:
        try:
            contests[name] = _contest(name, as_table(f"streams.{name}", rows[name]), common, folder, observed)
            _check_settings(contests[name].spec, table.get("settings"))
        except (ValueError, TypeError) as problem:
            raise type(problem)(f"{path}, streams.{name}: {problem}") from None
    return Listing(reference, contests)


def _contest(
    name: str, row: Mapping[str, Any], common: Mapping[str, Any], folder: Path, observed: Mapping[str, Metric]
) -> Contest:
    check_keys(f"streams.{name}", row, OF_STREAM)
    own = {key: value for key, value in row.items() if key not in ("title", "network", "over")}
    table = {"stream": name, **common, **own}
    table["network"] = as_table("network", common.get("network", {})) | as_table("network", row.get("network", {}))
    table["over"] = _merged(as_table("over", common.get("over", {})), as_table("over", row.get("over", {})))
    stream = build_stream(table["stream"])
    watched = probes_of(build_network(table["network"], stream), stream)
    spec = spec_of_table(table, store=folder / name, probes=watched, metrics=observed)
    over = {grid.name: grid.over for grid in spec.header.grids}
    return Contest(str(row.get("title", name)), replace(spec, over=over))


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Axes by name or pattern of learners; a stream's own axes replace common ones of the same name."""
    both = {name: {**common[name], **axes} for name, axes in own.items() if isinstance(common.get(name), dict)}
    return {**common, **own, **both}


def _check_settings(spec: SweepSpec, settings: Any) -> None:
    """Raises a ValueError unless every learner has the same budget."""
    if settings is None:
        return
    check.integer("settings", settings, low=1)
    for grid in spec.header.grids:
        if len(grid.points) != settings:
            axes = ", ".join(f"{len(values)} of {axis}" for axis, values in grid.over.items()) or "no axis"
            raise ValueError(
                f"settings is {settings}, but learners.{grid.name} has {len(grid.points)}: {axes}. Change over, or "
                "remove settings, which keeps the budgets of all learners the same"
            )


def probes_of(network: Network, stream: Stream) -> dict[str, Probe]:
    """What is recorded about the weights and, with hidden units, about the features of a few examples of the stream,
    drawn with a seed that no run has. Learners whose state is not that of a credit rule have NaN."""
    found: dict[str, Probe] = {}
    if network.hidden:
        _, x, _ = stream.deal(stream.begin(jax.random.key(2**32 - 1)), min(BATCH, stream.steps or BATCH))
        batch = np.asarray(x)
        found = {
            "dead_units": probes.saturated(network, batch),
            "effective_rank": probes.effective_rank(network, batch),
        }
    found["weight_size"] = probes.weight_size(network)
    return {name: _of_credit_rules(probe) for name, probe in found.items()}


def _of_credit_rules(probe: Probe) -> Probe:
    return lambda initial, state: probe(initial, state) if isinstance(state, State) else jnp.nan
