"""Figure 4: what the hidden units of a learner look like after task A, as a map and as numbers."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from crossprop.engines import scan
from crossprop.learners import Learner
from crossprop.network import Network
from crossprop.paper.plans import feature_learners
from crossprop.run import SCHEMA, experiment, keys
from crossprop.streams import LabelShift

if TYPE_CHECKING:
    import xarray

NEIGHBOURS = 10


def features_experiment(network: Network, stream: LabelShift, examples: int) -> dict[str, str]:
    """All that the features depend on."""
    asked = experiment(feature_learners(network), stream, [0], len(stream.schedule))
    return asked | {"examples": json.dumps(examples), "neighbours": json.dumps(NEIGHBOURS)}


def learned_features(
    network: Network, stream: LabelShift, examples: int, hear: Callable[[str], None]
) -> "xarray.Dataset":
    """Trains on task A with seed 0; of `examples` training images drawn uniformly, maps and measures the features."""
    import xarray

    data = stream.data
    drawn = np.sort(np.random.default_rng(0).choice(len(data.y), min(examples, len(data.y)), replace=False))
    labels = data.y[drawn]
    spaces = {}
    for name, learner in feature_learners(network).items():
        hear(f"training {name}")
        spaces[name] = _features(learner, stream, data.x[drawn])
    spaces["pixels"] = data.x[drawn]
    maps, neighbours, silhouettes = [], [], []
    for name, space in spaces.items():
        hear(f"mapping {name}")
        maps.append(_tsne(space))
        neighbours.append(_neighbour_shares(space, labels))
        silhouettes.append(_silhouettes(space, labels))
    return xarray.Dataset(
        {
            "tsne": (("representation", "example", "axis"), np.array(maps, np.float32)),
            "neighbours": (("representation", "example"), np.array(neighbours, np.float32)),
            "silhouette": (("representation", "example"), np.array(silhouettes, np.float32)),
            "label": (("example",), labels),
        },
        coords={"representation": list(spaces), "example": drawn},
        attrs=features_experiment(network, stream, examples) | {"schema": SCHEMA},
    )


def _features(learner: Learner, stream: LabelShift, x: np.ndarray) -> np.ndarray:
    stream_key, initial_key = keys(0)
    life = stream.sample(stream_key)
    state = scan.live(learner, life, initial_key, record_every=len(life.y)).state
    network = learner.network
    return np.asarray(network.activate(network.preactivations(state.incoming, jnp.asarray(x))).phi)


def _tsne(space: np.ndarray) -> np.ndarray:
    from openTSNE import TSNE

    return np.asarray(TSNE(random_state=0, n_jobs=-1, negative_gradient_method="bh").fit(space))


def _neighbour_shares(space: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(space).kneighbors(return_distance=False)
    return (labels[near] == labels[:, None]).mean(axis=1)


def _silhouettes(space: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from sklearn.metrics import silhouette_samples

    return np.asarray(silhouette_samples(space, labels))
