"""Figure 4 of the paper: the hidden units of a learner after task A, as a t-SNE map and as numbers."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from crossprop._support.formats import interval
from crossprop.datasets import DataSet
from crossprop.execution import cores
from crossprop.experiments.charts import Chart, clouds
from crossprop.experiments.page import Table, Text
from crossprop.experiments.papers import Plan
from crossprop.learners import Learner
from crossprop.learners.base import features_of
from crossprop.progress import bar
from crossprop.running import SCHEMA, States
from crossprop.statistics import mean_interval

if TYPE_CHECKING:
    import xarray

MEASURES = {"neighbours": "Same label among the 10 nearest", "silhouette": "Silhouette"}
MAPS = """A t-SNE map of {:,} examples for the hidden units of each learner after one task, and for the pixels
themselves. Distances between clusters mean little in such a map: the table has the numbers, measured in feature space
before t-SNE."""


def _measured(plan: Plan, states: States) -> "xarray.Dataset":
    """The features of learners, and the pixels, of the same random images, mapped and measured."""
    import xarray
    from sklearn.metrics import silhouette_samples
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    data: DataSet = plan.spec.stream.data  # pyright: ignore[reportAttributeAccessIssue]
    examples, neighbours = plan.measured["examples"], plan.measured["neighbours"]
    drawn = np.sort(np.random.default_rng(0).choice(len(data.y), min(examples, len(data.y)), replace=False))
    x, labels = data.x[drawn], data.y[drawn]
    spaces = {name: _features(name, each, states[name][0], x) for name, each in plan.spec.learners.items()}
    spaces["pixels"] = x
    maps = []
    # With how many threads BLAS multiplies changes the last bits of a product, and these change all of a map.
    with threadpool_limits(1), bar("maps", len(spaces), unit="maps") as advance, ThreadPoolExecutor(cores()) as pool:
        for found in pool.map(_tsne, spaces.values()):
            maps.append(found)
            advance(1)
    shares = [_neighbour_shares(space, labels, neighbours) for space in spaces.values()]
    silhouettes = [silhouette_samples(space, labels) for space in spaces.values()]
    return xarray.Dataset(
        {
            "tsne": (("representation", "example", "axis"), np.array(maps, np.float32)),
            "neighbours": (("representation", "example"), np.array(shares, np.float32)),
            "silhouette": (("representation", "example"), np.array(silhouettes, np.float32)),
            "label": (("example",), labels),
        },
        coords={"representation": list(spaces), "example": drawn},
        attrs={"schema": SCHEMA},
    )


def _maps(features: "xarray.Dataset", learners: Sequence[str]) -> dict[str, Chart]:
    """The maps of these representations."""
    maps = dict(zip(map(str, features.representation.values), clouds(features), strict=True))
    return {name: maps[name] for name in learners}


def _table(features: "xarray.Dataset") -> tuple[Text, Table]:
    """The separation of labels in each representation."""
    measured = features[[*MEASURES]].to_dataarray().transpose("example", "representation", "variable")
    estimates = np.stack(mean_interval(measured.values), axis=-1).tolist()
    names = map(str, features.representation.values)
    rows = [[name, *(interval(*cell) for cell in cells)] for name, cells in zip(names, estimates, strict=True)]
    caption = "How well labels are separated: mean [95% bootstrap interval of this mean alone, over examples]"
    return Text(MAPS.format(features.sizes["example"])), Table(caption, ["Representation", *MEASURES.values()], rows)


def _features(name: str, learner: Learner, state: Any, x: np.ndarray) -> np.ndarray:
    """The units of the top hidden layer."""
    layers = features_of(learner, state, x)
    if layers is None:
        raise ValueError(f"learner {name!r} has no features to map: give it a method features(state, x)")
    return np.asarray(layers[-1])


def _tsne(space: np.ndarray) -> np.ndarray:
    """The map of a space. One thread each: OpenMP's threads spin while they wait, which costs ten times the work."""
    from openTSNE import TSNE

    return np.asarray(TSNE(random_state=0, n_jobs=1, negative_gradient_method="bh").fit(space))


def _neighbour_shares(space: np.ndarray, labels: np.ndarray, neighbours: int) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=neighbours).fit(space).kneighbors(return_distance=False)
    return (labels[near] == labels[:, None]).mean(axis=1)


FIELDS = {"charts": _maps, "measure": _measured, "table": _table}
"""The fields of the plan that are code."""
