"""Streams of single papers, registered when this module is imported."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from crossprop.datasets import DATA_SETS, DataSet
from crossprop.network import Network, float_type
from crossprop.streams import STREAMS, PermutedInputs, Stream

INPUTS, TARGET_FEATURES = 20, 20


@dataclass(frozen=True)
class Bits(Stream):
    """Random bits, labelled by a few linear threshold units of them with normal outgoing weights, and normal noise."""

    inputs: int = INPUTS
    features: int = TARGET_FEATURES

    outputs = 1
    one_hot = False
    steps = None

    def begin(self, key: Key[Array, ""]) -> Any:
        incoming_key, outgoing_key, examples_key = jax.random.split(key, 3)
        target = Network(self.inputs, self.features, activation="ltu", incoming_scale="signs", bias=True)
        (incoming,), _ = target.init(incoming_key)
        return incoming, jax.random.normal(outgoing_key, (self.features, 1)), examples_key, jnp.zeros((), int)

    def deal(self, place: Any, count: int) -> tuple[Any, Array, Array]:
        incoming, outgoing, key, step = place

        def example(number: Array) -> tuple[Array, Array]:
            bits_key, noise_key = jax.random.split(jax.random.fold_in(key, number))
            return jax.random.bernoulli(bits_key, 0.5, (self.inputs,)), jax.random.normal(noise_key, (1,))

        x, noise = jax.vmap(example)(step + jnp.arange(count))
        x = x.astype(float_type())
        fired = (x @ incoming[:-1] + incoming[-1:] > 0).astype(float_type())
        return (incoming, outgoing, key, step + count), x, fired @ outgoing + noise


@cache
def _smaller(data: DataSet) -> DataSet:
    """Images of 28x28 pixels with a quarter of them, each the mean of four."""
    x = data.x.reshape(len(data.x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(data.x), 196)
    return DataSet(f"{data.name}-14x14", x, data.y, data.classes)


@cache
def _centred(data: DataSet) -> DataSet:
    """The images with pixels from -1 to 1."""
    return DataSet(f"{data.name}, centred", 2 * data.x - 1, data.y, data.classes)


def permuted_images(
    data: str = "mnist5k", tasks: int = 100, examples: int | None = None, smaller: bool = False, centred: bool = False
) -> PermutedInputs:
    """Images whose pixels are in another order in every task; without `examples`, a task is one pass."""
    images = DATA_SETS[data]()
    images = _smaller(images) if smaller else images
    images = _centred(images) if centred else images
    return PermutedInputs(images, tasks=tasks, examples=examples or len(images.y))


STREAMS["random-bits"] = Bits
STREAMS["permuted-images"] = permuted_images
