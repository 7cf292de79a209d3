"""Optimizers that see the whole network: each equals its equations with every credit rule, and keeps the promises."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import crossprop as cp
import reference
from coverage import RULES, covering, distance, live
from crossprop.engines import scan
from crossprop.engines.session import plain_numbers
from crossprop.experiments.toml import read_spec
from crossprop.network import LOSSES
from crossprop.optimizers import OPTIMIZERS as REGISTERED
from crossprop.specification import build
from judged_optimizers import NOISY, OPTIMIZERS
from same import assert_same_states
from sessions import advanced, session

pytestmark = pytest.mark.usefixtures("quick_compilation")
INPUTS, STEPS = 2, 20
NET = cp.Network.paper(2, 3)

FACTORS = {
    "optimizer": tuple(OPTIMIZERS),
    "rule": [
        (rule, layers)
        for rule, (_, options, _) in RULES.items()
        for layers in ((None,) if options is None else ("top", "all"))
    ],
    "hidden": (3, (), (4, 3)),
    "outputs": (1, 3),
    "loss": LOSSES,
    "bias": (False, True),
    "layer_norm": (False, True),
    "step_size_of_each_layer": (False, True),
}


@pytest.fixture(autouse=True)
def few_programs_at_a_time():
    yield
    live.clear_cache()


@pytest.mark.usefixtures("x64")
def test_every_optimizer_equals_its_equations_and_goes_with_every_rule():
    for row in covering(FACTORS, 1):
        compare(row)


@pytest.mark.long
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_equals_its_equations_with_every_rule_in_every_network(optimizer):
    rows = [row for row in covering(FACTORS, 2) if row["optimizer"] == optimizer]
    assert len(rows) >= len(FACTORS["rule"])
    for row in rows:
        compare(row)


def compare(row):
    """A learner beside its transcription."""
    (rule, layers), hidden = row["rule"], row["hidden"]
    build, further, (hyperparameters, *_) = RULES[rule]
    optimizer, judge, size = OPTIMIZERS[row["optimizer"]]
    net = cp.Network.paper(INPUTS, hidden, **{name: row[name] for name in ("outputs", "loss", "bias", "layer_norm")})
    options = {"step_size": size, "incoming_step_size": size / 2} | hyperparameters
    if row["step_size_of_each_layer"] and isinstance(hidden, tuple):
        options["incoming_step_size"] = (size / 2, 2 * size)[: len(hidden)]
    if further is not None:
        options |= {"layers": layers} | further
    learner, (x, y) = build(net, optimizer=optimizer, **options), reference.examples(net, STEPS, seed=1)
    start, [(final, losses)] = live(learner, {}, x, y, (jnp.float64,))
    if row["optimizer"] in NOISY:
        moving = [] if rule == "frozen" else start.incoming
        judge = partial(judge, noise=noise(start, moving, NOISY[row["optimizer"]]))
    judged = reference.live_from(start, net, rule, x, y, network_optimizer=judge, **options)
    for one, other in reference.pairs(final, losses, judged):
        assert (one is None) == (other is None), row
        assert one is None or (np.isfinite(other).all() and distance(one, other) < 1e-9), row
    nothing_to_learn = net.loss == "softmax" and net.outputs == 1
    assert nothing_to_learn or distance(start.outgoing.T, judged.outgoing) > 1e-4, row


def noise(start, moving, of_step):
    """What the learner draws at every step, one array per matrix that moves; it has the outgoing weights transposed."""
    key, found = start.key, []
    for _ in range(STEPS):
        key, own = jax.random.split(key)
        keys = jax.random.split(of_step(own), len(moving) + 1)
        shapes = [*(each.shape for each in moving), start.outgoing.shape]
        drawn = [np.asarray(jax.random.normal(each, shape)) for each, shape in zip(keys, shapes, strict=True)]
        found.append([*drawn[:-1], drawn[-1].T])
    return found


def test_idbd_tracks_far_better_than_the_best_constant_step_size():
    """With the sign of the meta-gradient turned around, the step sizes of useful inputs shrink, and it is far worse."""
    net = cp.Network.paper(20, hidden=())
    learners = {f"lms {size}": cp.Backprop(net, size) for size in (0.02, 0.03, 0.04, 0.05)}
    learners["delta-bar-delta"] = cp.Backprop(net, 0.03, optimizer="delta_bar_delta")
    learners["idbd"] = cp.Backprop(net, 0.05, optimizer=cp.optimizers.idbd(0.01))
    records = cp.run(learners, cp.Tracking(steps=15_000), seeds=1, record_every=5_000)
    *lms, delta_bar_delta, idbd = records.loss.isel(seed=0, step=-1).values
    assert idbd < 0.6 * min(lms) and delta_bar_delta > min(lms)


@pytest.mark.usefixtures("x64")
def test_delta_bar_delta_without_a_mean_equals_the_gains_of_scikit_learns_t_sne():
    """There step sizes begin at 1, grow by 0.2 and shrink by a fifth, also before the first step."""
    from sklearn.manifold._t_sne import _gradient_descent

    scales = np.array([0.3, 1.1, 1.9])
    start, steps = np.array([1.0, -2.0, 3.0]), 9
    theirs, *_ = _gradient_descent(
        lambda w, **_: (0.0, scales * w), start.copy(), 0, steps, momentum=0.0, learning_rate=1.0
    )
    transform = cp.optimizers.delta_bar_delta(increase=0.2, decrease=0.2, decay=0.0)(0.8)
    weights = jnp.asarray(start)
    state = transform.init(weights)
    for _ in range(steps):
        updates, state = transform.update(scales * weights, state, weights)
        weights = weights + updates
    np.testing.assert_allclose(weights, theirs, rtol=1e-9)
    assert np.unique(state.step_size).size == 3


def test_bounded_idbd_changes_a_step_size_by_a_factor_of_e_squared_at_most_and_keeps_it_above_e_to_the_minus_ten():
    transform = cp.optimizers.idbd(1000, bounded=True)(1e-5)
    weights = jnp.ones(3)
    state = transform.init(weights)._replace(trace=jnp.ones(3))
    _, state = transform.update(jnp.array([1.0, -1.0, 0.0]), state, weights, curvature=weights)
    np.testing.assert_allclose(state.log_step_size, [-10, np.log(1e-5) + 2, -10], rtol=1e-6)


@pytest.mark.parametrize("name", REGISTERED)
def test_a_missing_extra_argument_is_named(name):
    optimizer = REGISTERED[name]()
    transform, weights = optimizer(0.1), jnp.ones(2)
    for argument in optimizer.needs:
        with pytest.raises(TypeError, match=rf"{name} needs update\(..., {argument}=\): "):
            transform.update(weights, transform.init(weights), weights)
    if name in ("upgd", "l2_init", "shrink_perturb", "clip_weights"):
        with pytest.raises(TypeError, match=f"{name} needs the parameters: update"):
            transform.update(weights, transform.init(weights), key=jax.random.key(0), fan_in=2)


def test_parts_of_the_parameters_can_have_step_sizes_of_their_own():
    weights = {"first": {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}, "second": jnp.ones(4)}
    transform = cp.optimizers.clip_weights(1, base="sgd")({"first": 0.5, "second": 0.25})
    gradients = jax.tree.map(lambda each: 2 * each, weights)
    steps, _ = transform.update(gradients, transform.init(weights), weights, fan_in={"first": 1, "second": 4})
    np.testing.assert_allclose(steps["first"]["w"], -1.0)
    np.testing.assert_allclose(steps["second"], -0.5)


def test_hyperparameters_of_an_optimizer_are_leaves_of_the_learner():
    learner = cp.Backprop(cp.Network.paper(2, 3), 0.1, optimizer=cp.optimizers.idbd(0.5))
    assert 0.5 in jax.tree.leaves(learner)
    other = cp.Backprop(cp.Network.paper(2, 3), 0.1, optimizer="idbd")
    assert jax.tree.structure(learner) == jax.tree.structure(other) and other.optimizer == cp.optimizers.idbd()
    assert repr(learner.optimizer) == "idbd(meta_step_size=0.5)" and hash(learner.optimizer) != hash(other.optimizer)


@pytest.mark.parametrize("given", [optax.sgd, cp.optimizers.Optax(partial(optax.sgd, momentum=0.5), momentum=0.5)])
def test_engines_ask_what_an_optimizer_does(given):
    """Not what it is called: any optimizer whose steps add up runs in blocks."""
    rng = np.random.default_rng(0)
    stream = cp.Arrays(rng.normal(size=(60, 130)), rng.normal(size=60))
    learner = cp.Crossprop(cp.Network.paper(130, 5), 1e-3, eta=0.5, optimizer=given)
    chunked, scan = (cp.run(learner, stream, seeds=1, record_every=30, engine=name) for name in ("auto", "scan"))
    assert chunked.attrs["engine"] == "chunked"
    np.testing.assert_allclose(chunked.loss, scan.loss, rtol=1e-4)
    np.testing.assert_allclose(chunked.incoming_drift, scan.incoming_drift, rtol=1e-3)


def test_an_optimizer_is_registered_by_name(monkeypatch):
    monkeypatch.setitem(REGISTERED, "bold", lambda: cp.optimizers.idbd(0.3))
    assert cp.Backprop(NET, 0.1, optimizer="bold").optimizer == cp.optimizers.idbd(0.3)


def test_names_and_functions_are_kept_as_they_were_given():
    net = cp.Network.paper(2, 3)
    for given in ("sgd", "adam", optax.adam):
        learner = cp.Backprop(net, 0.1, optimizer=given)
        assert learner.optimizer == given and hash(learner.optimizer) == hash(given)
        assert repr(learner.optimizer) == repr(given)
        assert jax.tree.leaves(learner) == [1.0, 1.0, 0.1]


BASE = 'stream = {name = "geoff", examples = 20}\nnetwork = {hidden = 3}\nseeds = 1\n'


@pytest.mark.parametrize(
    ("learners", "axes"),
    [
        ('[learners.backprop]\noptimizer = "idbd"\n', '[over]\n"optimizer.meta_step_size" = [0.01, 1]\n'),
        (
            '[learners.backprop]\noptimizer = {name = "idbd", bounded = true}\n',
            "[over.optimizer]\nmeta_step_size = [0.01, 1]\n",
        ),
    ],
)
def test_a_sweep_over_a_hyperparameter_of_an_optimizer_gives_the_runs_of_its_values(tmp_path, learners, axes):
    (tmp_path / "sweep.toml").write_text(BASE + learners + axes)
    spec = read_spec(tmp_path / "sweep.toml")
    records = cp.sweep(spec.learners, spec.stream, spec.over, spec.seeds, store=tmp_path / "store")["backprop"]
    assert records.loss.dims == ("optimizer.meta_step_size", "seed", "step")
    assert records.attrs["learners"] and records.optimizer.item() == "idbd"
    bounded = "bounded" in learners
    for value in (0.01, 1):
        learner = cp.Backprop(cp.Network.paper(20, 3), 5e-4, optimizer=cp.optimizers.idbd(value, bounded=bounded))
        alone = cp.run(learner, cp.Geoff(examples=20), seeds=1)
        np.testing.assert_array_equal(alone.loss[0], records.loss.sel({"optimizer.meta_step_size": value}))
    again = cp.sweep(spec.learners, spec.stream, spec.over, spec.seeds, store=tmp_path / "store")["backprop"]
    np.testing.assert_array_equal(again.loss, records.loss)


def test_the_table_of_the_docs_is_read(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "optimizers.md").read_text()
    (table,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "sweep.toml").write_text(table)
    spec = read_spec(tmp_path / "sweep.toml")
    assert spec.learners["backprop"].optimizer == cp.optimizers.upgd(weight_decay=0)
    assert len(spec.grids[0].points) == 3
    assert all(f"`{name}`" in page or f'`"{name}"`' in page for name in REGISTERED)


def test_flags_choose_an_optimizer_and_its_hyperparameters():
    flags = {"optimizer": "idbd", "optimizer.meta_step_size": 0.2}
    built = build({"stream": "geoff", "learners": ["backprop", "crossprop"]}, flags)
    assert [each.optimizer for each in built.learners.values()] == [cp.optimizers.idbd(0.2)] * 2


def test_a_list_of_optimizers_makes_a_learner_of_each():
    tables = {"backprop": {"optimizer": ["sgd", {"name": "idbd", "meta_step_size": 0.2}]}}
    learners = build({"stream": "geoff", "learners": tables}).learners
    assert list(learners) == ["backprop-sgd", "backprop-idbd"]
    assert learners["backprop-idbd"].optimizer == cp.optimizers.idbd(0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.optimizers.idbd(-1), "meta_step_size must be a finite number, at least 0, got -1"),
        (lambda: cp.optimizers.idbd("much"), "meta_step_size must be a number, got 'much'"),
        (lambda: cp.optimizers.idbd(bounded=2), "bounded must be True or False, got 2"),
        (
            lambda: cp.Backprop(NET, 0.1, optimizer="idb"),
            "optimizer must be one of 'sgd', .*, got 'idb'; did you mean 'idbd'",
        ),
        (
            lambda: cp.Backprop(NET, 0.1, optimizer={"name": "idbd", "theta": 1}),
            "an argument of optimizer 'idbd' must be",
        ),
        (
            lambda: cp.Backprop(NET, 0.1, optimizer={"name": "sgd", "theta": 1}),
            "optimizer 'sgd' takes no arguments, got",
        ),
        (lambda: cp.Backprop(NET, 0.1, optimizer={"theta": 1}), "the name of optimizer must be one of .*, got None"),
        (
            lambda: cp.Backprop(NET, 0.1, optimizer={"name": "upgd", "sigma": "x"}),
            "optimizer 'upgd': sigma must be a number",
        ),
        (lambda: cp.optimizers.l2_init(base={"name": "redo"}), "the name of base must be one of .*, got 'redo'"),
        (
            lambda: cp.oracle.directions(cp.Backprop(NET, 0.1, optimizer="idbd"), None, [0, 0], [0]),
            "must have an optimizer of single matrices, such as 'adam', got idbd",
        ),
        (lambda: cp.optimizers.upgd(utility_decay=1), "utility_decay must be between 0 and 0.999999, got 1.0"),
        (
            lambda: cp.optimizers.upgd(utility_decay=1 - 1e-9),
            "utility_decay must be between 0 and 0.999999, got 0.999999",
        ),
        (lambda: cp.optimizers.upgd(utility_decay=np.ones(2)), "utility_decay must be between 0 and 0.999999, got 1.0"),
        (lambda: cp.optimizers.clip_weights(0), "kappa must be a finite number above 0, got 0"),
        (lambda: cp.optimizers.clip_weights(base="adamm"), "base must be one of .*, got 'adamm'; did you mean 'adam'"),
        (lambda: cp.optimizers.l2_init(base=optax.adam(0.1)), "base must be a name or a function from step size"),
        (lambda: cp.optimizers.autostep(bound="layer"), "bound must be one of 'unit', 'network', got 'layer'"),
        (
            lambda: build({"stream": "geoff", "learners": {"backprop": {"optimizer": ["idbd", {"name": "idbd"}]}}}),
            "learners.backprop.optimizer must not repeat a name, got 'idbd' twice",
        ),
        (
            lambda: build({"stream": "geoff", "learners": ["backprop"]}, {"optimizer.theta": 1}),
            "optimizer.theta needs optimizer, the name of one that has it, got 1 alone",
        ),
        (
            lambda: cp.sweep(
                cp.Backprop(cp.Network.paper(20, 3), 0.1, optimizer="idbd"),
                cp.Geoff(examples=5),
                {"optimizer": ["sgd", "idbd"], "optimizer.meta_step_size": [1, 2]},
                seeds=1,
            ),
            "optimizer 'sgd' has no meta_step_size",
        ),
        (
            lambda: cp.run(
                cp.Backprop(cp.Network.paper(20, 3), 0.1, optimizer="idbd"), cp.Geoff(examples=5), engine="chunked"
            ),
            "the chunked engine takes no optimizer that sees the whole network, got idbd",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


NOISY_LEARNER = cp.Foresight(cp.Network.paper(20, (3, 2)), 0.01, optimizer=cp.optimizers.upgd(sigma=0.2))
"""It keeps a key in its state."""
SHORT = cp.Geoff(examples=40)


def test_a_learner_with_a_key_gives_the_same_bits_alone_among_others_swept_resumed_and_saved(tmp_path):
    call = partial(cp.run, stream=SHORT, record_every=20, return_states=True)
    alone, whole = call(NOISY_LEARNER, seeds=[2])
    others = {"foresight": NOISY_LEARNER} | {
        f"with {sigma}": replace(NOISY_LEARNER, optimizer=cp.optimizers.upgd(sigma=sigma)) for sigma in (0.0, 0.5)
    }
    among, states = call(others, seeds=[0, 2, 5])
    np.testing.assert_array_equal(among.loss.sel(learner="foresight", seed=2), alone.loss[0, 0])
    assert_same_states(states["foresight"][2], whole["foresight"][2])
    assert not np.array_equal(among.loss[0], among.loss[1]) and not np.array_equal(among.loss[0, 0], among.loss[0, 2])

    swept = cp.sweep(NOISY_LEARNER, SHORT, {"optimizer.sigma": [0.0, 0.2]}, seeds=[1, 2], record_every=20)
    np.testing.assert_array_equal(swept["foresight"].loss.sel({"optimizer.sigma": 0.2, "seed": 2}), alone.loss[0, 0])

    _, half = call(NOISY_LEARNER, seeds=[2], steps=60)
    cp.save(tmp_path / "half.npz", NOISY_LEARNER, half["foresight"][2])
    learner, state = cp.load(tmp_path / "half.npz")
    assert learner == NOISY_LEARNER
    assert_same_states(state, half["foresight"][2])
    rest, last = call(NOISY_LEARNER, seeds=[2], start=half)
    np.testing.assert_array_equal(rest.loss[0, 0], alone.loss[0, 0, 3:])
    assert_same_states(last["foresight"][2], whole["foresight"][2])


def test_a_snapshot_of_a_learner_with_a_key_goes_on_as_the_run_did():
    whole, first, restored = (session(scan, replace(NOISY_LEARNER, network=cp.Network.paper(6, 3))) for _ in range(3))
    advanced(first, 1)
    restored.restore(first.snapshot(), 40)
    assert_same_states(advanced(restored, 1).states(), advanced(whole, 2).states())


def test_update_by_update_is_the_run():
    _, states = cp.run(NOISY_LEARNER, SHORT, seeds=[3], steps=10, return_states=True)
    state = NOISY_LEARNER.init(cp.keys(3)[1])
    _, *examples = SHORT.deal(SHORT.begin(cp.keys(3)[0]), 10)
    keys = []
    for x, y in zip(*examples, strict=True):
        keys.append(jax.random.key_data(state.key).tolist())
        state, _ = NOISY_LEARNER.update(state, x, y)
    assert len({*map(tuple, keys)}) == 10
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(states["foresight"][3]), strict=True):
        np.testing.assert_allclose(plain_numbers(one), plain_numbers(other), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["fading", "upgd"])
def test_the_count_of_steps_stops_at_the_largest(name):
    transform, params = REGISTERED[name]()(0.1), (jnp.ones(2), jnp.ones(2))
    most = np.iinfo(np.int32).max
    state = optax.tree_utils.tree_set(transform.init(params), count=jnp.int32(most))
    _, state = transform.update(params, state, params, key=jax.random.key(0))
    assert optax.tree_utils.tree_get(state, "count") == most
