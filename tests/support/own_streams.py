"""Streams as a user would write them: one dealt on the device, one on the host."""

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.streams import Stream


@dataclass(frozen=True)
class Noise(Stream):
    """Endless, or so long that it could not be held, and dealt on the device."""

    inputs: int = 3
    outputs: int = 1
    one_hot: bool = False
    steps: int | None = None

    def begin(self, key) -> Any:
        return key, jnp.zeros((), int)

    def deal(self, place, count) -> tuple[Any, Any, Any]:
        key, step = place
        keys = jax.vmap(partial(jax.random.fold_in, key))(step + jnp.arange(count))
        x = jax.vmap(lambda key: jax.random.normal(key, (self.inputs,)))(keys)
        return (key, step + count), x, x[:, : self.outputs]

    def task(self, steps):
        return np.asarray(steps) // 2500


@dataclass(frozen=True)
class Waves(Stream):
    """Dealt on the host, in NumPy. `broken` spoils one example."""

    inputs: int = 2
    outputs: int = 1
    one_hot: bool = False
    steps: int | None = None
    broken: int = -1

    def begin(self, key):
        return {"phase": float(jax.random.uniform(key)), "step": 0}

    def deal(self, place, count):
        at = np.array(place["step"]) + np.arange(count)
        angle = np.sin(at * 0.1 + float(place["phase"]))
        y = np.where(at == self.broken, np.nan, angle**2)[:, None]
        return place | {"step": place["step"] + count}, np.stack([angle, np.cos(at)], axis=1), y


def build(kind, **given):
    """`kind(**given)` without the tests' own type checks, which would speak before the class's."""
    built = object.__new__(kind)
    inspect.unwrap(kind.__init__)(built, **given)
    return built
