"""Parts of blocks as GPU programs: the chunked engine with them agrees with scan, and a run's numbers depend on no
other run. The programs run in Pallas's interpreter, and lower for CUDA."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
from crossprop.engines import chunked, scan, segments
from crossprop.engines.gpu import parts, products, support
from crossprop.engines.gpu.layout import in_pieces, padded_stack
from crossprop.engines.gpu.parts import stack_of_units
from crossprop.engines.gpu.shares import axes_of_units
from crossprop.engines.protocol import Batch, Rows, Run, RunOptions
from crossprop.learners.update import learn_above
from for_cuda import Gathered, joined, lower_for_cuda, split
from sessions import assert_agree, assert_close_states, assert_same_bits, finish, live, random_examples

RULES = {
    "approx": partial(cp.CrosspropApprox, eta=0.3, layers="all"),
    "projected": partial(cp.Crossprop, eta=0.3, projections=2, optimizer="momentum"),
    "crossprop": partial(cp.Crossprop, eta=0.3),
    "sum": partial(cp.CrosspropSum, layers="all"),
    "backprop": partial(cp.Backprop, optimizer="momentum"),
    "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0),
    "correlation": partial(cp.Correlation, weight=2.0, horizon=20.0),
    "frozen": partial(cp.Frozen, optimizer="adam"),
}
QUICK, LOWERED = ("approx",), ("crossprop", "foresight")

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def programs(monkeypatch):
    """Runs of the chunked engine as on a GPU, in the interpreter, four side by side."""
    monkeypatch.setattr(support, "FOR_WIDE_NETWORKS", True)
    monkeypatch.setattr(chunked, "PART_OF_PROGRAM", 8)
    monkeypatch.setattr(chunked, "batch_width", lambda learner, platform, most: 4)
    monkeypatch.setattr(parts, "MOST_ROWS", 4)

    def run(runs, record_every=24, segment=None):
        steps = runs[0].stream.steps
        tiling = parts.tiling_for(runs[0].learner, interpret=True)
        session = chunked.start(Batch(runs, RunOptions(record_every, steps), segment=segment), "gpu", tiling)
        return finish(session, steps)

    return run


@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_agree_with_scan(rule, programs):
    deep = rule not in ("projected", "crossprop", "frozen")
    network = cp.Network.paper(20, (9, 5) if deep else 9, 3, loss="softmax", bias=deep)
    learner = RULES[rule](network, 5e-3)
    assert parts.programs_for(learner, "gpu") is not None
    stream = random_examples(network, 58)
    runs = [Run(learner, stream, seed) for seed in (3, 4)]
    session = programs(runs)
    assert session.loop.programs is not None and session.loop.stride == 32
    for run, result, state in zip(runs, session.results(), session.states(), strict=True):
        expected = live(scan, [run], "cpu", 24)
        assert_agree(result, expected.results()[0], loss=1e-5, drift=1e-4)
        assert_close_states(state, expected.states()[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("record_every", "segment"), [(24, 40), (100, 16)])
def test_windows_may_go_on_in_the_next_segment(record_every, segment, programs):
    network = cp.Network.paper(20, 9, 2)
    run = Run(cp.Backprop(network, 5e-3), random_examples(network, 58), 3)
    (result,) = programs([run], record_every, segment).results()
    assert_agree(result, live(scan, [run], "cpu", record_every).results()[0], loss=1e-5, drift=1e-4)


def test_a_segment_has_as_many_turns_as_it_can_need():
    random = np.random.default_rng(0)
    for _ in range(300):
        stride, segment, every = random.integers(1, [20, 100, 60]).tolist()
        start = int(random.integers(200)) if random.random() < 0.5 else every * int(random.integers(5))
        ends = sorted({at for at in range(start, start + segment) if at % every == 0} | {start, start + segment})
        windows = segments.most_windows(segment, every, start)
        turns = segments.most_turns(stride, segment, every, windows)
        assert windows >= len(ends) - 1
        assert turns >= sum(-(-(end - begin) // stride) for begin, end in itertools.pairwise(ends))


def test_a_run_is_the_same_in_any_company(programs):
    network = cp.Network.paper(20, 9, 2)
    learner, wild = cp.Backprop(network, 0.01), cp.Backprop(network, 1e6)
    stream = random_examples(network, 58)
    seven, others = Run(learner, stream, 7), [Run(learner, stream, seed) for seed in range(3)]
    (alone,) = programs([seven]).results()
    assert_same_bits(programs([*others, seven]).results()[-1], alone)
    beside = programs([Run(wild, stream, 1), seven, Run(wild, stream, 2)]).results()
    assert_same_bits(beside[1], alone)
    assert beside[0].diverged_at > 0 and beside[2].diverged_at > 0 and alone.diverged_at == -1


@pytest.mark.parametrize("sizes", [(33, 300), (7, 8)])
def test_products_are_those_of_numpy_and_idle_runs_are_skipped(sizes):
    units, inputs = sizes
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=(2, *shape)).astype(np.float32)
    x, matrix, stack = draw(16, inputs), draw(units, inputs), draw(3, units, inputs)
    given, scales, weights = draw(16, units), draw(4, units), draw(16)
    count = np.array([5, 0], np.int32)
    rows_of = lambda x, matrix, count: products.rows_of(x, [x, matrix], count, interpret=True)
    gram, rows = jax.vmap(rows_of)(x, matrix, count)
    np.testing.assert_allclose(gram[0], x[0] @ x[0].T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[0], x[0] @ matrix[0].T, rtol=1e-4, atol=1e-5)

    def change(x, matrix, stack, given, scales, weights, count):  # noqa: PLR0917
        parts = products.Change([matrix, stack], [scales[0], scales[1:]], given, weights)
        return products.changed(parts, x, count, interpret=True)

    after = jax.vmap(change)(x, matrix, stack, given, scales, weights, count)
    total = matrix[0] * scales[0, 0][:, None] + np.einsum("kui,ku->ui", stack[0], scales[0, 1:])
    np.testing.assert_allclose(after[0], total + (given[0] * weights[0][:, None]).T @ x[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(after[1], matrix[1])
    apart = jax.vmap(partial(products.distances, width=inputs - 1, interpret=True))(after, matrix, alive=count > 0)
    np.testing.assert_allclose(
        np.linalg.norm(apart[0]), np.linalg.norm((after - matrix)[0, :, : inputs - 1]), rtol=1e-5
    )


ADD_UP = {
    "approx": partial(cp.CrosspropApprox, eta=0.3, layers="all", optimizer="momentum"),
    "backprop": cp.Backprop,
    "foresight": partial(cp.Foresight, ahead=2.0, horizon=20.0, optimizer="momentum"),
}


@pytest.mark.parametrize("rule", ADD_UP)
def test_several_programs_are_one_run(rule):
    """Four programs of four units each, the last of them with two that are padding. Here they are the places of a
    `jax.vmap`: the interpreter cannot run programs that wait for each other."""
    learner, programs = ADD_UP[rule](cp.Network.paper(20, (9, 14), 3, loss="softmax", bias=True), 5e-2), 4
    state = learner.init(jax.random.key(3))
    above = parts._apart(learner, in_pieces(learner, state, [slice(0, 1)]))[1]
    axes = axes_of_units(above, 16)
    slices = jax.tree.map(partial(split, programs=programs), axes, above)
    random = np.random.default_rng(0)
    zs, ys = random.normal(size=(10, 16)).astype(np.float32), np.eye(4, dtype=np.float32)[random.integers(3, size=10)]
    zs[:, 9:] = 0
    one = jax.jit(
        lambda number, own, z, y: learn_above(stack_of_units(learner, number * 4, *[Gathered()] * 2), own, z, y)
    )
    each = jax.vmap(one, in_axes=(0, 0, None, None), axis_name="programs")
    whole = jax.jit(partial(learn_above, padded_stack(learner)))
    for z, y in zip(zs, ys, strict=True):
        above, credit, outcome = whole(above, z, y)
        slices, credits, outcomes = each(np.arange(programs), slices, z, y)
        expected = jax.tree.map(lambda leaf: np.stack([leaf] * programs), (credit, outcome))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), (credits, outcomes), expected)
    after = jax.tree.map(joined, axes, slices)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), after, above)


# For a GPU that is not here.


@pytest.mark.parametrize("hidden", [32, pytest.param((32, 16), marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "rule", [rule if rule in LOWERED else pytest.param(rule, marks=pytest.mark.long) for rule in RULES]
)
def test_programs_lower_for_cuda(rule, hidden, verified):
    assert_lower(rule, hidden, verified)


@pytest.mark.parametrize("rule", ["foresight", pytest.param("approx", marks=pytest.mark.long)])
def test_several_programs_lower_for_cuda(rule, verified, monkeypatch):
    monkeypatch.setattr(parts, "_programs", lambda learner, numbers: 4)
    assert_lower(rule, (32, 48), verified, layer_norm=False)


def assert_lower(rule, hidden, verified, layer_norm=True):
    network = cp.Network.paper(50, hidden, 3, loss="softmax", bias=True, layer_norm=layer_norm and rule == "foresight")
    learner = RULES[rule](network, 1e-3)
    loop = chunked.BlockLoop(32, apart=False, programs=parts.tiling_for(learner))

    def block(learner, key, x, y, alive):
        work = loop.enter(learner, learner.init(key))
        after = chunked._advance(32, loop.programs, learner, work, Rows(x, y, 0, alive * 30, 0))[0]
        return loop.changes(learner, work, after, alive)

    lower_for_cuda(block, learner)
    expected = {"rows", "part", "distances"}
    if rule != "frozen":
        expected.add("changes")
    if learner.by_layer()[0].shapes().matrices:
        expected.add("trace_back")
    assert set(verified) == expected


# The choice.


def test_parts_are_programs_by_device_sizes_and_rule(programs):
    network = cp.Network.paper(784, 1024, 10, loss="softmax")
    backprop = cp.Backprop(network, 1e-3)
    assert parts.programs_for(backprop, "gpu") == parts.Tiling(rows=4, warps=8)
    assert parts.programs_for(backprop, "cpu") is None
    assert parts.programs_for(cp.Frozen(network, 1e-3, optimizer=optax.lion), "gpu") is None
    assert parts.programs_for(cp.Backprop(cp.Network.paper(784, (1024, 1024), 10), 1e-3), "gpu") is None
    with jax.enable_x64(True):
        assert parts.programs_for(backprop, "gpu") is None
    every = programs(
        [Run(cp.Backprop(cp.Network.paper(20, 9), 0.01), random_examples(cp.Network.paper(20, 9), 20), 0)], 8
    )
    assert every.loop.programs is None, "products need 16 examples"


def test_deep_runs_are_several_programs_by_device_sizes_and_rule(monkeypatch):
    tiling = parts.tiling_for
    network = cp.Network.paper(784, (256, 256), 10, loss="softmax")
    backprop = cp.Backprop(network, 1e-3)
    assert tiling(backprop).programs == 1, "no GPU is here"
    monkeypatch.setattr(support, "multiprocessors", lambda: 132)
    assert tiling(backprop) == parts.Tiling(rows=8, warps=8, programs=2)
    assert tiling(cp.Foresight(network, 1e-3)) == parts.Tiling(rows=8, warps=8, programs=4)
    assert tiling(cp.Backprop(cp.Network.paper(784, (1024, 1024), 10), 1e-3)).programs == 32
    assert tiling(cp.Backprop(cp.Network.paper(784, (64, 64), 10), 1e-3)).programs == 1
    assert tiling(cp.Backprop(cp.Network.paper(784, 1024, 10), 1e-3)).programs == 1
    for other in (
        cp.CrosspropSum(network, 1e-3, layers="all"),
        cp.Crossprop(network, 1e-3, projections=1),
        cp.Backprop(cp.Network.paper(784, (2048, 2048), 10), 1e-3),
        cp.Backprop(cp.Network.paper(784, (256, 256), 10, layer_norm=True), 1e-3),
        cp.Backprop(cp.Network.paper(784, (256, 256, 8), 10), 1e-3),
    ):
        assert getattr(tiling(other), "programs", 1) == 1
    monkeypatch.setattr(support, "multiprocessors", lambda: 20)
    assert tiling(cp.Backprop(cp.Network.paper(784, (1024, 1024), 10), 1e-3)).programs == 16
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "there")
    assert tiling(backprop).programs == 1


def test_programs_share_a_run_only_where_the_credit_itself_is_said_to_add_up(monkeypatch):
    class Same(cp.Backprop):
        pass

    class Signs(cp.Backprop):
        def credit(self, units, delta):
            credit = cp.Backprop.credit(self, units, delta)
            return credit._replace(from_input=jnp.sign(credit.from_input))

    class Declared(Signs):
        adds_up = True

        def credit(self, units, delta):
            return Signs.credit(self, units, delta)

    class Not(Declared):
        adds_up = False

    monkeypatch.setattr(support, "may_wait", lambda: True)
    monkeypatch.setattr(support, "multiprocessors", lambda: 100)
    network = cp.Network.paper(20, (300, 1000))
    programs = lambda rule: parts._programs(rule(network, 1e-3), 300_000)
    assert [programs(rule) for rule in (cp.Backprop, Same, Signs, Declared, Not)] == [8, 8, 1, 8, 1]
