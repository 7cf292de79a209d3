"""Sessions of engines, and what is asserted of their results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop.engines import ENGINES, scan
from crossprop.engines.feed import Feed, SharedFeed
from crossprop.engines.gpu import kernel, layout
from crossprop.engines.protocol import Batch, Run, RunOptions


def random_examples(network, steps, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(steps, network.inputs)) / np.sqrt(network.inputs)
    classes = network.loss == "softmax"
    y = random.integers(network.outputs, size=steps) if classes else random.normal(size=(steps, network.outputs))
    return cp.Arrays(x, y.astype(np.int32 if classes else np.float32), classes=network.outputs if classes else None)


def runs_of(learner, steps, seeds=(0,)):
    return [Run(learner, random_examples(learner.network, steps, seed), seed) for seed in seeds]


def session_of(engine, runs, platform="cpu", record_every=70, **options):
    """A session of an engine; the kernel's runs in Pallas's interpreter."""
    batch = Batch(runs, RunOptions(record_every), **options)
    return engine.start(batch, platform, interpret=True) if engine is kernel else engine.start(batch, platform)


def finish(session, steps):
    while session.step < steps:
        session.advance(min(session.segment, steps - session.step))
    return session


def live(engine, runs, platform="cpu", record_every=70):
    """The session of these runs after their last example."""
    return finish(session_of(engine, runs, platform, record_every), runs[0].stream.steps)


def results(*arguments):
    return live(*arguments).results()


def assert_agree(one, other, loss, drift):
    assert one.diverged_at == other.diverged_at == -1
    for name, values in other.records.items():
        distance = np.linalg.norm(one.records[name] - values)
        limit = {"loss": loss, "error": 0.02}.get(name, drift)
        assert distance <= limit * np.linalg.norm(values), name


def assert_same_bits(one, other):
    assert one.diverged_at == other.diverged_at
    for name, values in other.records.items():
        np.testing.assert_array_equal(one.records[name], values, err_msg=name)


def assert_close_states(one, other, **tolerance):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for leaf, expected in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(leaf, expected, **tolerance)


def assert_kernel_agrees_with_scan(runs):
    session = live(kernel, runs, "gpu")
    for run, result, state in zip(runs, session.results(), session.states(), strict=True):
        expected = live(scan, [run])
        assert_agree(result, expected.results()[0], loss=1e-4, drift=2e-3)
        assert_close_states(state, expected.states()[0], rtol=5e-3, atol=1e-4)


def traced_kernel(learner, steps=4):
    """The kernel of one segment, traced for a GPU."""
    runs, outputs = runs_of(learner, steps), layout.power(learner.network.outputs)
    feed = Feed.of(runs)
    initial, own = layout.gather(runs, feed.place)
    examples = SharedFeed(feed, steps, steps, outputs, None).take(0, steps)
    shared = layout.Shared(
        examples.pool.astype(jnp.float32), examples.rows, examples.y, *kernel.initial_weights(initial)
    )
    sums = {name: jnp.zeros(1) for name in ("loss", "error")[: 1 + (learner.network.loss == "softmax")]}
    progress = jax.eval_shape(layout.begin, initial, own)
    bounds = np.array([0, steps, 2], np.int32)
    return kernel._segment.trace(learner, False, 3, shared, own, progress, sums, bounds)


@pytest.fixture(params=["scan", "scan side by side", "chunked", "chunked side by side", "kernel"])
def results_in_batches(request):
    engine = ENGINES[request.param.split()[0]]
    platform = "cpu" if request.param in ("scan", "chunked") else "gpu"

    def in_batches(runs):
        width = engine.width(runs[0].learner, platform)
        batches = [runs[i : i + width] for i in range(0, len(runs), width)]
        return [result for batch in batches for result in results(engine, batch, platform, 30)]

    return in_batches


def session(engine, learner, start=None, first=0, stop=120, seeds=(1, 2, 3)):
    stream = cp.Geoff(inputs=6, features=30, tasks="ABC", examples=40)
    states = [None] * len(seeds) if start is None else start
    runs = [Run(learner, stream, seed, state) for seed, state in zip(seeds, states, strict=True)]
    batch = Batch(runs, RunOptions(20, stop, first), segment=40)
    return engine.start(batch, "gpu", interpret=True) if engine is kernel else engine.start(batch, "gpu")


def advanced(session, times):
    for _ in range(times):
        session.advance(40)
    return session
