"""The experiments of the paper: learners, stream, seeds, and every deviation from the paper with its reason."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from crossprop._support.extras import require
from crossprop._support.formats import interval
from crossprop.datasets import DataSet
from crossprop.execution import cores
from crossprop.experiments.charts import Chart, clouds
from crossprop.experiments.page import Table, Text
from crossprop.experiments.papers import Drawing, Plan, Version, curves_of
from crossprop.learners import LEARNERS, CrosspropApprox, Learner
from crossprop.learners.base import features_of
from crossprop.network import Network
from crossprop.progress import bar
from crossprop.running import SCHEMA, States
from crossprop.statistics import mean_interval
from crossprop.streams import Geoff, LabelShift

if TYPE_CHECKING:
    import xarray

STEP_SIZE = 0.0005
QUICK_SEEDS = 5
GEOFF_LEARNERS = (
    *("crossprop", "crossprop-0.5", "crossprop-approx", "crossprop-approx-0.5"),
    *("backprop", "momentum", "rmsprop", "adam", "frozen"),
)
EXACT_MNIST = ("crossprop", "crossprop-0.5", "crossprop-projected")

NEIGHBOURS = 10
MEASURES = {"neighbours": "Same label among the 10 nearest", "silhouette": "Silhouette"}
MAPS = """A t-SNE map of {:,} examples for the hidden units of each learner after one task, and for the pixels
themselves. Distances between clusters mean little in such a map: the table has the numbers, measured in feature space
before t-SNE."""


def geoff_plan(version: Version) -> Plan:
    """Figures 1a, 2a, 3a: GEOFF."""
    scripts, seeds = version.preset == "scripts", version.seeds or version.pick(QUICK_SEEDS, 30, 30)
    stream = Geoff(tasks=_tasks(scripts), examples=version.pick(1000, 5000, 5000), constant=scripts)
    network = Network.paper(inputs=20, hidden=version.pick(100, 500, 500), bias=scripts)
    target = "21 inputs and 1,001 features, the last of each always 1" if scripts else "20 inputs, 1,000 features"
    numbers = {"examples": stream.examples, "target": target, **_numbers(network, scripts)}
    learners = _learners(network, GEOFF_LEARNERS, scripts)
    return Plan(learners, stream, seeds, 50, numbers=numbers, drawings=_figures("a"))


def mnist_plan(version: Version) -> Plan:
    """Figures 1b, 2b, 3b: label-shifted MNIST."""
    scripts, seeds = version.preset == "scripts", version.mnist_seeds or version.pick(QUICK_SEEDS, 3, 3)
    exact = jax.default_backend() != "cpu" if version.exact_mnist is None else version.exact_mnist
    network, stream = mnist_network(version), mnist_stream(version, _tasks(scripts))
    names = [name for name in GEOFF_LEARNERS if name not in EXACT_MNIST] + [*EXACT_MNIST] * exact
    embedded = "the full set is not here" if version.size == "full" else version.why
    numbers = {
        "examples": stream.examples or len(stream.data.y),
        "images": "as in scripts" if _is_full(stream.data) else f"the embedded 5,000 images: {embedded}",
        "exact": "with ten outputs, and projected" if exact else "no",
        **_numbers(network, scripts),
    }
    learners, every = _learners(network, names, scripts), version.pick(50, 500, 500)
    return Plan(learners, stream, seeds, every, numbers=numbers, drawings=_figures("b"))


def _figures(letter: str) -> tuple[Drawing, ...]:
    """Figures 1, 2 and 3 of the paper for one experiment, a or b: errors, and how far the weights moved."""
    shown = (("loss", "error"), ("incoming_drift",), ("outgoing_drift",))
    return tuple(
        Drawing(f"Figure {number}{letter}", partial(curves_of, variables=names), f"figure-{number}{letter}")
        for number, names in enumerate(shown, start=1)
    )


def mnist_network(version: Version) -> Network:
    """The network of both experiments on MNIST."""
    return Network.paper(784, version.pick(50, 1024, 1024), 10, loss="softmax", bias=version.preset == "scripts")


def mnist_stream(version: Version, tasks: str) -> LabelShift:
    """These tasks of MNIST; the scripts use 50,000 images of the full set."""
    data = version.mnist()
    return LabelShift(data, tasks=tasks, examples=50_000 if version.preset == "scripts" and _is_full(data) else None)


def _is_full(data: DataSet) -> bool:
    return data.name == "mnist"


def _learners(network: Network, names: tuple[str, ...] | list[str], scripts: bool) -> dict[str, Learner]:
    """The learners by name. In the scripts, the memory of the approximate rule does not use eta."""
    special = {
        "crossprop-approx": partial(CrosspropApprox, memory_eta=0.0),
        "crossprop-approx-0.5": partial(CrosspropApprox, eta=0.5, memory_eta=0.0),
    }
    builders = dict(LEARNERS.items()) | (special if scripts else {})
    return {name: builders[name](network, STEP_SIZE) for name in names}


def _numbers(network: Network, scripts: bool) -> dict[str, Any]:
    """The values for the placeholders of both tables of settings."""
    return {
        "tasks": " ".join(_tasks(scripts)),
        "units": network.units,
        "biases": "on" if scripts else "off",
        "step_size": STEP_SIZE,
        "in_memory": "0" if scripts else "eta",
    }


def _tasks(scripts: bool) -> str:
    return "ABCABC" if scripts else "ABC"


# Figure 4: the hidden units of a learner after task A, as a t-SNE map and as numbers.


def features_plan(version: Version) -> Plan:
    """Standard MNIST, task A, with seed 0 and the network of the MNIST experiment; then the features of some images."""
    require("crossprop reproduce features", "openTSNE", "sklearn", extra="paper")
    stream, examples = mnist_stream(version, "A"), version.pick(500, 2500, 2500)
    learners = _learners(mnist_network(version), ("backprop", "crossprop-approx", "frozen"), scripts=False)
    return Plan(
        learners,
        stream,
        1,
        stream.steps,
        drawings=[
            Drawing(
                f"Figure 4{letter}, t-SNE of the hidden units after task A", partial(_maps, names), f"figure-4{letter}"
            )
            for letter, names in (("a", ["backprop", "frozen"]), ("b", ["crossprop-approx", "pixels"]))
        ],
        table=_table,
        measure=partial(_measured, learners, stream.data, examples),
        measured={"examples": examples, "neighbours": NEIGHBOURS},
    )


def _measured(learners: Mapping[str, Learner], data: DataSet, examples: int, states: States) -> "xarray.Dataset":
    """The features of learners, and the pixels, of the same random images, mapped and measured."""
    import xarray
    from sklearn.metrics import silhouette_samples
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    drawn = np.sort(np.random.default_rng(0).choice(len(data.y), min(examples, len(data.y)), replace=False))
    x, labels = data.x[drawn], data.y[drawn]
    spaces = {name: _features(name, learner, states[name][0], x) for name, learner in learners.items()} | {"pixels": x}
    maps = []
    # With how many threads BLAS multiplies changes the last bits of a product, and these change all of a map.
    with threadpool_limits(1), bar("maps", len(spaces), unit="maps") as advance, ThreadPoolExecutor(cores()) as pool:
        for found in pool.map(_tsne, spaces.values()):
            maps.append(found)
            advance(1)
    neighbours = [_neighbour_shares(space, labels) for space in spaces.values()]
    silhouettes = [silhouette_samples(space, labels) for space in spaces.values()]
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


def _maps(names: Sequence[str], features: "xarray.Dataset") -> dict[str, Chart]:
    """The maps of these representations."""
    maps = dict(zip(map(str, features.representation.values), clouds(features), strict=True))
    return {name: maps[name] for name in names}


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


def _neighbour_shares(space: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(space).kneighbors(return_distance=False)
    return (labels[near] == labels[:, None]).mean(axis=1)
