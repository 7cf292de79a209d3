"""Figure 4: the hidden units of a learner after task A, as a t-SNE map and as numbers."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from crossprop.execution import cores
from crossprop.learners import Learner
from crossprop.network import Network
from crossprop.papers.veeriah2017.plans import feature_learners
from crossprop.progress import bar
from crossprop.running import SCHEMA, experiment, run
from crossprop.streams import LabelShift

if TYPE_CHECKING:
    import xarray

NEIGHBOURS = 10


@dataclass(frozen=True)
class Mapping:
    """Trains on `stream` (task A) with seed 0, then maps and measures the features of `examples` random images."""

    network: Network
    stream: LabelShift
    examples: int

    def experiment(self) -> dict[str, str]:
        """Everything that the features depend on."""
        training = experiment(feature_learners(self.network), self.stream, [0], self.stream.steps)
        return training | {"examples": json.dumps(self.examples), "neighbours": json.dumps(NEIGHBOURS)}

    def run(self) -> "xarray.Dataset":
        """Trains the learners and measures their features, and the pixels, on the same examples."""
        import xarray

        data, learners = self.stream.data, feature_learners(self.network)
        drawn = np.sort(np.random.default_rng(0).choice(len(data.y), min(self.examples, len(data.y)), replace=False))
        x, labels = data.x[drawn], data.y[drawn]
        spaces, maps, neighbours, silhouettes = {}, [], [], []
        with bar("features", 2 * len(learners) + 1, unit="parts") as advance:
            for name, learner in learners.items():
                spaces[name] = _features(learner, self.stream, x)
                advance(1)
            spaces["pixels"] = x
            with ThreadPoolExecutor(cores()) as pool:
                for found in pool.map(_tsne, spaces.values()):
                    maps.append(found)
                    advance(1)
            for space in spaces.values():
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
            attrs=self.experiment() | {"schema": SCHEMA},
        )


def _features(learner: Learner, stream: LabelShift, x: np.ndarray) -> np.ndarray:
    """The hidden units after one pass with seed 0."""
    _, states = run({"it": learner}, stream, seeds=[0], record_every=stream.steps, progress=False, return_states=True)
    network = learner.network
    return np.asarray(network.activations(states["it"][0].incoming, jnp.asarray(x))[-1].phi)


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
