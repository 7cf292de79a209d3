"""Objectives of features that learn from the inputs alone. One file each, and the registry by name."""

from collections.abc import Mapping
from typing import Any

from crossprop.objectives.autoencoder import Autoencoder as Autoencoder
from crossprop.objectives.base import Objective as Objective
from crossprop.objectives.ica import ICA as ICA
from crossprop.objectives.kmeans import KMeans as KMeans
from crossprop.objectives.sparse_coding import SparseCoding as SparseCoding
from crossprop.registry import Registry

OBJECTIVES: Registry[Objective] = Registry(
    "crossprop.objectives",
    {"kmeans": KMeans, "sparse-coding": SparseCoding, "ica": ICA, "autoencoder": Autoencoder},
)
"""Every objective by name, for `objective="ica"`, the command line and TOML files. Register one with
`OBJECTIVES["my-objective"] = MyObjective`, or in a package by an entry point of the group `crossprop.objectives`."""


def as_objective(value: Any) -> Any:
    """An objective from its name, or from a table of a `name` and hyperparameters."""
    return OBJECTIVES.made("objective", value) if isinstance(value, str | Mapping) else value
