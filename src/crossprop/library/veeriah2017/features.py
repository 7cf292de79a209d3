"""Figure 4: the hidden units of a learner after task A, as a t-SNE map and as numbers."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from crossprop._support.extras import require
from crossprop.datasets import DataSet
from crossprop.execution import cores
from crossprop.experiments.charts import clouds
from crossprop.learners import Learner
from crossprop.library.paper import Version
from crossprop.library.plans import Drawn, Plan
from crossprop.library.veeriah2017.plans import feature_learners, mnist_network, mnist_stream
from crossprop.progress import bar
from crossprop.running import SCHEMA, States

if TYPE_CHECKING:
    import xarray

NEIGHBOURS = 10


def features_plan(version: Version) -> Plan:
    """Standard MNIST, task A, with seed 0 and the network of the MNIST experiment; then the features of some images."""
    require("crossprop reproduce features", "openTSNE", "sklearn", extra="paper")
    stream, examples = mnist_stream(version, "A"), version.pick(500, 2500, 2500)
    learners = feature_learners(mnist_network(version))
    return Plan(
        "features",
        "Features",
        learners,
        stream,
        1,
        stream.steps,
        (),
        "",
        draw_own=_figures,
        measure=partial(_measured, learners, stream.data, examples),
        measured={"examples": examples, "neighbours": NEIGHBOURS},
    )


def _measured(learners: Mapping[str, Learner], data: DataSet, examples: int, states: States) -> "xarray.Dataset":
    """The features of learners, and the pixels, of the same random images, mapped and measured."""
    import xarray
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    drawn = np.sort(np.random.default_rng(0).choice(len(data.y), min(examples, len(data.y)), replace=False))
    x, labels = data.x[drawn], data.y[drawn]
    spaces = {name: _features(learner, states[name][0], x) for name, learner in learners.items()} | {"pixels": x}
    maps = []
    # With how many threads BLAS multiplies changes the last bits of a product, and these change all of a map.
    with threadpool_limits(1), bar("maps", len(spaces), unit="maps") as advance, ThreadPoolExecutor(cores()) as pool:
        for found in pool.map(_tsne, spaces.values()):
            maps.append(found)
            advance(1)
    neighbours = [_neighbour_shares(space, labels) for space in spaces.values()]
    silhouettes = [_silhouettes(space, labels) for space in spaces.values()]
    return xarray.Dataset(
        {
            "tsne": (("representation", "example", "axis"), np.array(maps, np.float32)),
            "neighbours": (("representation", "example"), np.array(neighbours, np.float32)),
            "silhouette": (("representation", "example"), np.array(silhouettes, np.float32)),
            "label": (("example",), labels),
        },
        coords={"representation": list(spaces), "example": drawn},
        attrs={"schema": SCHEMA},
    )


def _figures(features: "xarray.Dataset") -> list[Drawn]:
    """Figure 4: the features of backprop (a) and crossprop-approx (b), each next to the control or the pixels."""
    maps = dict(zip(map(str, features.representation.values), clouds(features), strict=True))
    title = "t-SNE of the hidden units after task A"
    return [
        Drawn(f"figure-4{letter}", f"Figure 4{letter}, {title}", {name: maps[name] for name in names})
        for letter, names in (("a", ["backprop", "frozen"]), ("b", ["crossprop-approx", "pixels"]))
    ]


def _features(learner: Learner, state: Any, x: np.ndarray) -> np.ndarray:
    """The hidden units."""
    return np.asarray(learner.network.activations(state.incoming, jnp.asarray(x))[-1].phi)


def _tsne(space: np.ndarray) -> np.ndarray:
    """The map of a space. One thread each: OpenMP's threads spin while they wait, which costs ten times the work."""
    from openTSNE import TSNE

    return np.asarray(TSNE(random_state=0, n_jobs=1, negative_gradient_method="bh").fit(space))


def _neighbour_shares(space: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(space).kneighbors(return_distance=False)
    return (labels[near] == labels[:, None]).mean(axis=1)


def _silhouettes(space: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from sklearn.metrics import silhouette_samples

    return np.asarray(silhouette_samples(space, labels))
