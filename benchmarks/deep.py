"""Deep networks timed: engines against plain JAX and PyTorch, and foresight against backprop.

python benchmarks/deep.py [wide] [narrow] [foresight] [--runs 1] [--steps 3000] [--repeats 5] [--cpu]

`wide` is 784-256-256-10 with softmax, `narrow` 20-64-64-1; contenders take turns, and each time is the least of all
repeats after one that compiles. `--cpu` counts the process's time on all cores, which other work on the machine
disturbs less. PyTorch takes part if it is installed and there is one run.
"""

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from turns import Clock, clock, least, show, take_turns

import crossprop as cp
from crossprop.engines import ENGINES, choose

NETWORKS = {
    "wide": cp.Network.paper(784, (256, 256), 10, loss="softmax", incoming_scale="lecun", outgoing_scale="lecun"),
    "narrow": cp.Network.paper(20, (64, 64), 1, incoming_scale="lecun", outgoing_scale="lecun"),
}
SHALLOW = {
    "wide": cp.Network.paper(784, 256, 10, loss="softmax", incoming_scale=0.03, outgoing_scale=0.06),
    "narrow": cp.Network.paper(20, 500),
}
STEP_SIZE = 1e-3


def examples(network: cp.Network, steps: int) -> cp.Arrays:
    random = np.random.default_rng(0)
    x = random.random((steps, network.inputs), np.float32)
    if network.loss == "softmax":
        return cp.Arrays(x, random.integers(network.outputs, size=steps), classes=network.outputs)
    return cp.Arrays(x, random.normal(size=steps).astype(np.float32))


def by_engine(engine: str, learner: cp.Learner, stream: cp.Arrays, runs: int) -> Callable[[], Any]:
    return lambda: cp.run(learner, stream, seeds=runs, record_every=stream.steps, engine=engine)


def plain_jax(learner: cp.Learner, stream: cp.Arrays, runs: int) -> Callable[[], Any]:
    """`jax.grad` in a `lax.scan`, under `vmap` for several runs: as one would write it without this package."""
    network, sample = learner.network, stream.sample(cp.keys(0)[0])
    x, y = jnp.asarray(sample.x), jnp.asarray(sample.y, jnp.float32)

    def outputs_of(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for matrix in weights[:-1]:
            x = jnp.tanh(x @ matrix)
        return x @ weights[-1]

    def loss_of(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        outputs = outputs_of(weights, x)
        if network.loss == "softmax":
            return optax.softmax_cross_entropy(outputs, y)
        return 0.5 * jnp.sum((y - outputs) ** 2)

    def run(key: jax.Array) -> jax.Array:
        incoming, outgoing = network.init(key)
        weights = [*incoming, outgoing]

        def step(weights: list[jax.Array], example: tuple[jax.Array, jax.Array]) -> Any:
            loss, gradient = jax.value_and_grad(loss_of)(weights, *example)
            return jax.tree.map(lambda w, g: w - STEP_SIZE * g, weights, gradient), loss

        return jnp.sum(lax.scan(step, weights, (x, y))[1])

    keys = jnp.stack([jax.random.key(seed) for seed in range(runs)])
    program = jax.jit(jax.vmap(run) if runs > 1 else lambda keys: run(keys[0]))
    return lambda: jax.block_until_ready(program(keys))


def torch_eager(learner: cp.Learner, stream: cp.Arrays, threads: int) -> Callable[[], Any]:
    import torch
    from torch import nn

    network, sample = learner.network, stream.sample(cp.keys(0)[0])
    x, y = torch.tensor(np.asarray(sample.x)), torch.tensor(np.asarray(sample.y, np.float32))
    widths = (network.inputs, *network.hidden, network.outputs)
    layers: list[nn.Module] = []
    for fan_in, size in pairwise(widths):
        layers += [nn.Linear(fan_in, size, bias=False), nn.Tanh()]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), STEP_SIZE)
    lossy = nn.functional.cross_entropy if network.loss == "softmax" else nn.functional.mse_loss

    def run() -> None:
        torch.set_num_threads(threads)
        for one_x, one_y in zip(x, y, strict=True):
            optimizer.zero_grad()
            lossy(model(one_x), one_y).backward()
            optimizer.step()

    return run


def timed(title: str, contenders: dict[str, Callable[[], Any]], steps: int, repeats: int, clock: Clock) -> None:
    seconds = least(take_turns(contenders, repeats, clock))
    show(f"{title}, a step of all runs", {name: each / steps for name, each in seconds.items()})


def compare(name: str, runs: int, steps: int, repeats: int, clock: Clock) -> None:
    network = NETWORKS[name]
    learner, stream = cp.Backprop(network, STEP_SIZE), examples(network, steps)
    platform = jax.default_backend()
    engines = ["scan", *({choose(learner, platform)} - {"scan"})]
    contenders = {f"crossprop, {engine}": by_engine(engine, learner, stream, runs) for engine in engines[::-1]}
    contenders["plain JAX"] = plain_jax(learner, stream, runs)
    if runs == 1 and find_spec("torch") is not None and platform == "cpu":
        contenders["PyTorch, 1 thread"] = torch_eager(learner, stream, 1)
        contenders["PyTorch, 2 threads"] = torch_eager(learner, stream, 2)
    timed(f"{name}, backprop, {runs} run(s)", contenders, steps, repeats, clock)


def foresight(runs: int, steps: int, repeats: int, clock: Clock) -> None:
    """Foresight's time over backprop's, on every engine that takes them."""
    platform = jax.default_backend()
    for name, network in [*((f"{key} deep", net) for key, net in NETWORKS.items()), *SHALLOW.items()]:
        stream = examples(network, steps)
        for engine, module in ENGINES.items():
            both = {"backprop": cp.Backprop(network, STEP_SIZE), "foresight": cp.Foresight(network, STEP_SIZE)}
            if all(module.why_unsupported(learner, platform) is None for learner in both.values()):
                contenders = {key: by_engine(engine, learner, stream, runs) for key, learner in both.items()}
                timed(f"{name}, {engine}, {runs} run(s)", contenders, steps, repeats, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[*NETWORKS, "foresight"], default="wide")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    ticks = clock(options.cpu)
    for what in options.what if isinstance(options.what, list) else [options.what]:
        if what == "foresight":
            foresight(options.runs, options.steps, options.repeats, ticks)
        else:
            compare(what, options.runs, options.steps, options.repeats, ticks)


if __name__ == "__main__":
    main()
