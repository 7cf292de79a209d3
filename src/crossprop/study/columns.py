"""The columns of a study: the sweep that its file describes, and the same with another network or stream."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from crossprop.descriptions import learner_info
from crossprop.experiments import SweepSpec
from crossprop.experiments.toml import read_spec

MAIN, RELU, SHALLOW, ONE_TASK = "main", "relu", "shallow", "one-task"


class Column(NamedTuple):
    """What a column is called, what it changes in the study's file, and which learners it has."""

    title: str
    changes: Mapping[str, Mapping[str, Any]]
    """Values of `network` and `stream`, in the place of the file's."""
    learners: tuple[str, ...] = ("*",)
    """Patterns of names."""


DELAYED = ("hindsight-*", "backprop-replay-*")
SAME_AT_ONE_LAYER = ("foresight-top-*",)
ESSENTIAL = ("backprop-{}", "foresight-{}", "crossprop-{}", "crossprop-projected-{}", "frozen-{}")
"""The learners of the column without a switch, each with sgd and with adam."""


def columns_of(name: str, file: Path) -> dict[str, Column]:
    """The columns of a study by name, the one that the file describes first."""
    with file.open("rb") as opened:
        table = tomllib.load(opened)
    tasks, examples, hidden = table["stream"]["tasks"], table["stream"]["examples"], table["network"]["hidden"]
    few = tuple(pattern.format(optimizer) for pattern in ESSENTIAL for optimizer in ("sgd", "adam"))
    if name == "mnist":
        few = tuple(pattern for pattern in few if not pattern.startswith("crossprop-") or "projected" in pattern)
    one_task = Column("one task, no switch", {"stream": {"tasks": tasks[0], "examples": len(tasks) * examples}}, few)
    if name != "deep":
        return {MAIN: Column(f"{len(tasks)} tasks", {}), ONE_TASK: one_task}
    return {
        MAIN: Column(f"{len(hidden)} hidden layers, tanh", {}),
        RELU: Column(f"{len(hidden)} hidden layers, relu", {"network": {"activation": "relu"}}, _without(*DELAYED)),
        SHALLOW: Column(
            "1 hidden layer, tanh", {"network": {"hidden": hidden[:1]}}, _without(*DELAYED, *SAME_AT_ONE_LAYER)
        ),
        ONE_TASK: one_task._replace(title=f"{len(hidden)} hidden layers, tanh, one task, no switch"),
    }


def _without(*patterns: str) -> tuple[str, ...]:
    """All learners but these."""
    return tuple(f"!{pattern}" for pattern in patterns)


def _is_in(column: Column, name: str) -> bool:
    wanted = [pattern for pattern in column.learners if not pattern.startswith("!")] or ["*"]
    unwanted = [pattern[1:] for pattern in column.learners if pattern.startswith("!")]
    return any(fnmatchcase(name, each) for each in wanted) and not any(fnmatchcase(name, each) for each in unwanted)


def spec_of(column: Column, file: Path, store: Path, *, quick: bool, **flags: Any) -> SweepSpec:
    """The sweep of a column; a quick one has tiny sizes, sgd alone, and two step sizes."""
    changes = {key: dict(values) for key, values in column.changes.items()}
    if quick:
        changes.setdefault("stream", {})["examples"] = 60
        with file.open("rb") as opened:
            hidden = changes.get("network", {}).get("hidden") or tomllib.load(opened)["network"]["hidden"]
        changes.setdefault("network", {})["hidden"] = [8] * len(hidden) if isinstance(hidden, list) else 8
    spec = read_spec(file, store=store, **flags, **changes)
    grids = [grid for grid in spec.header.grids if _is_in(column, grid.name)]
    if quick:
        grids = [grid for grid in grids if learner_info(grid.learner).optimizer == "sgd"]
        few = lambda axis, values: values[: 1 + (axis == "step_size")]
        grids = [replace(grid, over={axis: few(axis, own) for axis, own in grid.over.items()}) for grid in grids]
    learners = {grid.name: spec.learners[grid.name] for grid in grids}
    return replace(spec, learners=learners, over={grid.name: grid.over for grid in grids})
