"""Mahmood and Sutton (2013), "Representation search through generate and test": random features, fixed or searched."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from crossprop.experiments.findings import LESS_TIMES, Finding
from crossprop.experiments.measures import Quantity, Runs
from crossprop.experiments.papers import Plan, Version, read_paper
from crossprop.learners import Frozen
from crossprop.network import Network, float_type
from crossprop.optimizers import nlms
from crossprop.replacements import GenerateAndTest
from crossprop.streams import Stream

INPUTS, TARGET_FEATURES = 20, 20
GAMMA, RATE, MATURITY = 0.1, 1 / 200, 100
FIXED, SEARCHED = (100, 300, 1000, 3000), (100, 300)
TIMES = 10
WINDOWS, END = 50, 10


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


def fixed(features: int) -> str:
    """The learner with so many features that stay."""
    return f"{features:,} fixed"


def searched(features: int) -> str:
    """The learner with so many features that are searched."""
    return f"{features:,} searched"


def _learner(features: int, replacement: GenerateAndTest | None = None) -> Frozen:
    network = Network(INPUTS, features, activation="ltu", incoming_scale="signs", outgoing_scale=0.0, bias=True)
    return Frozen(network, GAMMA, optimizer=nlms(), replacement=replacement)


def _plan(version: Version) -> Plan:
    seeds, steps = version.seeds or version.pick(2, 5, 30), version.pick(500, 1_000_000, 1_000_000)
    search = GenerateAndTest(RATE, version.pick(5, MATURITY, MATURITY))
    numbers = (*FIXED, *version.pick((), (), (10_000, 30_000)))
    learners = {fixed(features): _learner(features) for features in numbers}
    learners |= {searched(features): _learner(features, search) for features in SEARCHED}
    return Plan(learners, Bits(), seeds, steps // WINDOWS, numbers={"most": max(numbers)}, steps=steps)


# The claims.


AT_END = Quantity("error at the end", "error", lambda runs, name: runs.curve("loss", name)[:, -END:].mean(axis=1))


def _change(runs: Runs, name: str, part: str = "") -> Finding:
    """The ratio of the error at the end to the error before the middle."""
    curve = runs.curve("loss", name)
    middle = curve.shape[1] // 2
    end, before = curve[:, -END:].mean(axis=1), curve[:, middle - END : middle].mean(axis=1)
    says = f"the error with {name} features at the end is {{}} times that before the middle"
    return runs.change("error at the end / before", name, end, before, LESS_TIMES, says, part=part)


PAPER = read_paper(
    "mahmood2013",
    plans={"search": _plan},
    find={
        "R1": lambda runs: [
            runs.ratio(AT_END, more, fewer, LESS_TIMES, f"{more} are better")
            for fewer, more in pairwise(runs.having([*map(fixed, FIXED)]))
        ],
        "R2": lambda runs: [
            runs.ratio(AT_END, searched(each), fixed(TIMES * each), LESS_TIMES, f"{searched(each)} are better")
            for each in SEARCHED
        ],
        "R3": lambda runs: [
            *(_change(runs, searched(each), f"{searched(each)} improve") for each in SEARCHED),
            *(_change(runs, fixed(each)) for each in SEARCHED),
        ],
    },
    numbers=globals(),
)
