"""The streams of the field: each equals a transcription in scalar NumPy of what its paper says, draws given."""

import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import crossprop as cp
from crossprop import execution
from crossprop.datasets import DataSet
from crossprop.engines import dealing
from crossprop.engines import feed as feeding
from crossprop.engines.dealing import Dealt, StreamKey
from crossprop.engines.feed import Feed, SharedFeed, expanded
from crossprop.engines.protocol import Run
from crossprop.engines.tables import tables_at_once, tables_of
from crossprop.streams import geoff
from crossprop.streams.base import Pool
from own_streams import build

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(3)


def dealt(stream, count, key=KEY):
    _, x, y = jax.jit(stream.deal, static_argnums=1)(stream.begin(key), count)
    return np.asarray(x), np.asarray(y)


def assert_same_in_parts(stream, count, parts):
    """Compiled and in any parts, across changes and between them, the examples are those dealt at once."""
    deal = jax.jit(stream.deal, static_argnums=1)
    place = stream.begin(KEY)
    _, *whole = deal(place, count)
    for part in parts:
        place, pieces = stream.begin(KEY), []
        for _ in range(count // part):
            place, *piece = deal(place, part)
            pieces.append(piece)
        for at, values in enumerate(whole):
            rows = np.concatenate([piece[at] for piece in pieces])
            np.testing.assert_array_equal(rows, values[: len(rows)])


# Tracking


def tracking_by_hand(signs, flips, x, noise, every):
    """Sutton's target, example by example: which sign changes before period 1, 2 ... is in `flips`."""
    signs, targets = [*signs], []
    for step in range(len(x)):
        if step and step % every == 0:
            signs[flips[step // every - 1]] *= -1
        targets.append(sum(sign * value for sign, value in zip(signs, x[step], strict=False)) + noise[step])
    return targets


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("inputs", "relevant", "every", "noise"),
    [(4, 4, 3, 0.5), *(pytest.param(*each, marks=pytest.mark.long) for each in ((20, 5, 20, 0.0), (3, 1, 1, 0.0)))],
)
def test_tracking_is_sutton_1992_example_by_example(inputs, relevant, every, noise):
    stream = cp.Tracking(inputs, relevant, every, noise)
    x, y = dealt(stream, 100)
    noiseless = dealt(cp.Tracking(inputs, relevant, every), 100)
    place = stream.begin(KEY)
    flips = [
        int(jax.random.randint(jax.random.fold_in(place.flips, period), (), 0, relevant))
        for period in range(1, 100 // every + 1)
    ]
    signs = [1 - 2 * int(negative) for negative in place.negative]
    expected = tracking_by_hand(signs, flips, x.tolist(), (y - noiseless[1])[:, 0].tolist(), every)
    np.testing.assert_allclose(y[:, 0], expected, atol=1e-12)
    np.testing.assert_array_equal(x, noiseless[0])


def test_trackings_noise_has_the_deviation_asked_for_and_its_inputs_are_normal():
    x, y = dealt(cp.Tracking(noise=2.0), 4000)
    _, clean = dealt(cp.Tracking(), 4000)
    assert abs(np.std(y - clean) - 2) < 0.15 and abs(np.mean(y - clean)) < 0.2
    assert abs(x.std() - 1) < 0.02 and abs(x.mean()) < 0.02
    assert np.abs(np.corrcoef(x.T)[np.triu_indices(20, 1)]).max() < 0.1


def test_every_relevant_weight_of_tracking_flips_as_often_as_the_others():
    stream = cp.Tracking(relevant=5, flip_every=1)
    signs = jax.jit(lambda place: jax.lax.scan(lambda at, _: (stream.deal(at, 1)[0], at.negative), place, length=2001))
    changed = np.diff(np.asarray(signs(stream.begin(KEY))[1]), axis=0) != 0
    assert (changed.sum(axis=1) == 1).all()
    assert abs(changed.mean(axis=0) - 0.2).max() < 5 * math.sqrt(0.16 / 2000)


# Slowly-changing regression


def slowly_changing_by_hand(x, incoming, biases, outgoing, constant, *, beta, as_run):
    """The target network of Dohare et al., unit by unit, from weights of -1 and +1."""
    targets = []
    for example in x:
        total = constant
        for j, bias in enumerate(biases):
            weights = [row[j] for row in incoming]
            if as_run:
                negative = (len(weights) - sum(weights) + bias) / 2
            else:
                negative = sum(weight < 0 for weight in [*weights, bias])
            threshold = (len(weights) + 1) * beta - negative
            weighted = sum(weight * bit for weight, bit in zip(weights, example, strict=True)) + bias
            total += outgoing[j] if weighted > threshold else 0
        targets.append(total)
    return targets


def slow_bits_by_hand(place, slow, every, change, count):
    bits, rows = [int(bit) for bit in place.bits], []
    for step in range(count):
        if step and step % every == 0:
            own = jax.random.fold_in(place.changes, step // every)
            if change == "one":
                which = int(jax.random.randint(own, (), 0, slow))
                bits[which] = 1 - bits[which]
            else:
                word = int(jax.random.bits(own, (1,), jnp.uint32)[0])
                bits = [word >> at & 1 for at in range(slow)]
        rows.append([*bits])
    return rows


@pytest.mark.parametrize(
    ("change", "as_run"),
    [
        *(("all", False), ("one", True)),
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("all", True), ("one", False))),
    ],
)
def test_slowly_changing_is_dohare_example_by_example(change, as_run):
    stream = cp.SlowlyChanging(change_every=10, change=change, as_run=as_run)
    x, y = dealt(stream, 60)
    place = stream.begin(KEY)
    keys = jax.random.split(jax.random.split(KEY, 3)[0], 4)
    draw = partial(jax.random.rademacher, dtype=int)
    incoming, biases, outgoing = (
        np.asarray(draw(key, shape)).tolist() for key, shape in zip(keys, ((20, 100), (100,), (100,)), strict=False)
    )
    constant = int(draw(keys[3], ()))
    expected = slowly_changing_by_hand(x.tolist(), incoming, biases, outgoing, constant, beta=0.7, as_run=as_run)
    np.testing.assert_array_equal(y[:, 0], expected)
    assert len(set(expected)) > 5
    assert x[:, :15].tolist() == slow_bits_by_hand(place, 15, 10, change, 60)
    changed = (np.diff(x[:, :15], axis=0) != 0).sum(axis=1)
    assert np.flatnonzero(changed).tolist() == [9, 19, 29, 39, 49]
    assert (changed[9::10] == 1).all() if change == "one" else changed[9::10].max() > 3


def test_the_random_bits_of_slowly_changing_are_fair_coins_that_differ_from_example_to_example():
    x, _ = dealt(cp.SlowlyChanging(inputs=50, slow=1, features=1), 2000)
    assert set(np.unique(x)) == {0, 1}
    assert np.abs(x[:, 1:].mean(axis=0) - 0.5).max() < 5 * math.sqrt(0.25 / 2000)
    assert np.abs(np.corrcoef(x[:, 1:].T)[np.triu_indices(49, 1)]).max() < 5 / math.sqrt(2000)


def test_no_rounding_makes_a_tie_of_slowly_changing_fire():
    stream = cp.SlowlyChanging(inputs=4, slow=1, features=50, beta=0.6, as_run=False)  # 5 * 0.6 = 3
    target = stream.target(KEY)
    assert set(np.asarray(target.matches).tolist()) == {3.0, 2.0}


# Permuted inputs and random labels

LABELS = np.array([0, 1, 2, 2, 1, 0, 1])
COIN = DataSet("coin", np.arange(21).reshape(7, 3) / 21, LABELS, classes=3)


def permutation(key, number, size):
    return np.asarray(jax.random.permutation(jax.random.fold_in(key, number), size)).tolist()


@pytest.mark.parametrize(
    ("tasks", "examples"),
    [
        ("ABAD", 7),
        (None, 10),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((4, None), ([0, 1, 0, 3], 5), (40, 1))),
    ],
)
def test_permuted_inputs_are_the_data_set_with_its_columns_in_the_tasks_order(tasks, examples):
    stream = cp.PermutedInputs(COIN, tasks, examples)
    place, per_task, count = stream.begin(KEY), examples or 7, 25 if examples == 5 else 28
    count = min(count, stream.steps or count)
    x, y = dealt(stream, count)
    passes = math.ceil(per_task / 7)
    for step in range(count):
        visit, within = divmod(step, per_task)
        task = {"ABAD": [0, 1, 0, 3], (0, 1, 0, 3): [0, 1, 0, 3]}.get(stream.tasks, range(50))[visit]
        row = permutation(place.order_key, visit * passes + within // 7, 7)[within % 7]
        columns = permutation(place.task_key, task, 3)
        assert x[step].tolist() == [np.float32(COIN.x[row, column]) for column in columns]
        assert y[step].tolist() == [float(LABELS[row] == label) for label in range(3)]
        assert stream.task(np.array([step])) == task


def test_every_task_of_permuted_inputs_is_one_pass_in_an_order_of_its_own():
    x, _ = dealt(cp.PermutedInputs(COIN, tasks=20), 140)
    passes = np.sort(x, axis=1).reshape(20, 7, 3)
    orders = {tuple(np.argsort(one[:, 0]).tolist()) for one in passes}
    assert len(orders) > 15
    assert all(np.array_equal(np.sort(one[:, 0]), np.sort(passes[0][:, 0])) for one in passes)


@pytest.mark.parametrize(("tasks", "images"), [("ABA", None), (None, 2), pytest.param(3, 4, marks=pytest.mark.long)])
def test_random_labels_are_the_same_images_with_labels_drawn_by_task(tasks, images):
    stream = cp.RandomLabels(COIN, tasks, images, passes=2)
    place, size = stream.begin(KEY), images or 7
    x, y = dealt(stream, 6 * size)
    chosen = np.asarray(jax.random.permutation(jax.random.split(KEY, 3)[0], 7))[:size]
    for step in range(6 * size):
        visit, within = divmod(step, 2 * size)
        task = [0, 1, 0][visit] if tasks == "ABA" else visit
        labels = jax.random.randint(jax.random.fold_in(place.task_key, task), (size,), 0, 3)
        image = permutation(place.order_key, visit * 2 + within // size, size)[within % size]
        np.testing.assert_array_equal(x[step], COIN.x[chosen[image]].astype(np.float32))
        assert y[step].tolist() == [float(int(labels[image]) == label) for label in range(3)]
    assert stream.steps == (None if tasks is None else 6 * size)


def test_random_labels_are_uniform_and_differ_from_task_to_task():
    data = DataSet("many", np.zeros((900, 1)), np.zeros(900, int), classes=3)
    _, y = dealt(cp.RandomLabels(data, tasks=2, images=900, passes=1), 1800)
    assert np.abs(y.mean(axis=0) - 1 / 3).max() < 5 * math.sqrt(2 / 9 / 1800)


def test_streams_of_the_papers_stand_for_them_unless_told_otherwise():
    mnist = DataSet("mnist", np.zeros((60_000, 1), np.uint8), np.zeros(60_000, np.uint8), classes=10)
    assert cp.PermutedInputs(mnist).steps == 800 * 60_000
    assert cp.RandomLabels(mnist).steps == 50 * 30_000 * 16


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *(
            (kind, "tasks", value)
            for kind in (cp.PermutedInputs, cp.RandomLabels)
            for value in (0, "ab", 2.5, [], True)
        ),
        *((cp.PermutedInputs, "examples", value) for value in (0, 2.5, "3")),
        *((cp.RandomLabels, "images", value) for value in (0, 8, True)),
        *((cp.RandomLabels, "passes", value) for value in (0, None)),
    ],
)
def test_an_argument_that_does_not_fit_a_data_set_is_named_with_its_value(kind, name, value):
    given = {"data": COIN, **({"images": 7} if kind is cp.RandomLabels else {})} | {name: value}
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be .* got {re.escape(repr(value))}$"):
        build(kind, **given)


@pytest.mark.parametrize("kind", [cp.PermutedInputs, cp.RandomLabels])
def test_streams_of_images_take_nothing_but_a_data_set(kind):
    with pytest.raises(TypeError, match=r"^data must be .* got .*ndarray"):
        build(kind, data=np.zeros((3, 2)))


# Feeding


@pytest.mark.parametrize(
    ("stream", "seeds"),
    [
        (cp.PermutedInputs(COIN, None, 5), 2),
        pytest.param(cp.PermutedInputs(COIN, None, 5), 1, marks=pytest.mark.long),
        *(pytest.param(cp.Tracking(4, 2, 3), seeds, marks=pytest.mark.long) for seeds in (1, 3)),
    ],
)
def test_several_runs_dealt_by_one_program_get_the_examples_that_each_would_get_alone(stream, seeds):
    chosen = [*range(seeds), 0]
    feed = Feed.of([Run(None, stream, seed) for seed in chosen])
    assert len(feed.parts) == 1 and feed.place.tolist() == chosen
    shared = SharedFeed(feed, segment=8, length=10, outputs=stream.outputs, stop=None)
    for start, count in ((6, 2), (8, 8), (16, 5)):
        x, y = expanded(shared.take(start, count), feed.place)
        for run, seed in enumerate(chosen):
            alone = Dealt(StreamKey(stream), [seed])
            for one, other in zip(alone.take(start, count, count), (x, y), strict=True):
                np.testing.assert_array_equal(one[0], other[run, :count])
                assert other.shape[1] == 10


GEOFF = cp.Geoff(inputs=3, features=7, tasks="BAB", examples=4, noise=0.3)
SHUFFLED = cp.LabelShift(COIN, tasks="AB", examples=6, shuffle=True)


@pytest.mark.parametrize(
    ("stream", "features", "tables", "segments"), [(GEOFF, 2**26, 2, 16), (GEOFF, 55, 5, 1), (SHUFFLED, 0, 1, 2)]
)
def test_sources_made_for_a_device_have_the_examples_that_each_would_have_alone(
    stream, features, tables, segments, monkeypatch
):
    """GEOFF makes tables of several runs at once, unless they are too large; images are one table for all. Row numbers
    are sent for some segments at a time."""
    monkeypatch.setattr(geoff, "FEATURES_AT_A_TIME", features)
    monkeypatch.setattr("crossprop.engines.feed.SEGMENTS_SENT", segments)
    made = [*tables_at_once(stream, [0, 1, 2]), *tables_at_once(stream, [3, 4])]
    assert len({id(source.pool.x) for source in made}) == tables
    chosen = [0, 1, 2, 3, 4, 1]
    feed = Feed.of([Run(None, stream, seed) for seed in chosen], lambda run: made[run.seed])
    shared = SharedFeed(feed, segment=6, length=8, outputs=stream.outputs + 1, stop=12)
    for start, count in ((0, 6), (6, 6), (2, 3)):
        x, y = expanded(shared.take(start, count), feed.place)
        for run, seed in enumerate(chosen):
            (x_alone,), (y_alone,) = tables_of(stream, seed).take(start, count, count)
            np.testing.assert_array_equal(made[seed].take(start, count, count)[0][0], x_alone)
            np.testing.assert_array_equal(x[run, :count], x_alone)
            np.testing.assert_array_equal(y[run, :count], np.pad(y_alone, ((0, 0), (0, 1))))
        assert not y[:, count:].any() and y.shape[1] == 8


def test_a_call_that_makes_examples_at_once_has_the_records_of_one_that_does_not(monkeypatch):
    """As on a GPU, where batches have many runs; here each has one, and reads its rows of the tables that all share."""
    learners = {"small": cp.Backprop(cp.Network(3, 2), 0.01), "large": cp.Backprop(cp.Network(3, 2), 0.1)}
    expected, made, begin = cp.run(learners, GEOFF, [4, 1], 6), [], feeding.SharedTables
    monkeypatch.setattr(execution, "SharedTables", lambda runs, at_once: begin(runs, at_once=True))
    monkeypatch.setattr(
        feeding, "tables_at_once", lambda stream, seeds: made.append(len(seeds)) or tables_at_once(stream, seeds)
    )
    xarray.testing.assert_equal(cp.run(learners, GEOFF, [4, 1], 6), expected)
    assert sum(made) == 2, "and each seed's are made once"


def test_a_stream_that_makes_several_pools_at_once_makes_the_form_that_it_says():
    class Bad(cp.Arrays):
        def pools(self, keys):
            return Pool(jnp.ones((len(keys), 4, 2)), jnp.full((len(keys), 4, 1), jnp.nan))

    with pytest.raises(ValueError, match=r"^the stream's y must be finite, got nan at index \(0, 0, 0\)$"):
        tables_at_once(Bad(np.ones((4, 2)), np.ones(4)), [0, 1])
    with pytest.raises(ValueError, match=r"^the stream's x must have shape \(2, 1, 3\)"):
        tables_at_once(Bad(np.ones((4, 3)), np.ones(4)), [0, 1])


def test_a_table_that_all_runs_share_is_there_once():
    stream = cp.PermutedInputs(COIN, None, 5)
    one, other, both = (Dealt(StreamKey(stream), seeds) for seeds in ([0], [1], [0, 1]))
    table = one.shared.x
    assert other.shared.x is table and both.shared.x is table
    one.take(0, 20, 20)
    both.take(0, 20, 20)
    assert one.places.x is None and both.places.x is None, "and dealing does not copy it"


def test_a_run_that_goes_on_gets_to_its_place_without_making_the_examples_before_it(monkeypatch):
    stream = cp.RandomLabels(COIN, None, 5, passes=3)
    dealt, made, deal = Dealt(StreamKey(stream), [0]), [], dealing._deal
    monkeypatch.setattr(dealing, "_deal", lambda *given: made.append(given[-1]) or deal(*given))
    dealt.take(10_000, 3, 3)
    expected, *_ = jax.jit(stream.deal, static_argnums=1)(stream.begin(cp.keys(0)[0]), 10_003)
    assert made == [None] * 3 + [3]
    for name in ("step", "order"):
        np.testing.assert_array_equal(getattr(dealt.places, name)[0], getattr(expected, name))


# Dealing in parts, ends and bad input


@pytest.mark.parametrize(
    "stream",
    [
        cp.Tracking(noise=0.1),
        pytest.param(cp.SlowlyChanging(change_every=30), marks=pytest.mark.long),
        cp.SlowlyChanging(change_every=30, change="one"),
        cp.PermutedInputs(COIN, None, 10),
        cp.RandomLabels(COIN, None, 4, 9),
    ],
    ids=["tracking", "all", "one", "permuted", "labels"],
)
def test_compiled_parts_of_any_size_are_the_examples_dealt_at_once(stream):
    assert_same_in_parts(stream, 103, (1, 30, 47))


def test_endless_streams_need_a_number_of_steps():
    with pytest.raises(ValueError, match="steps"):
        cp.run(cp.Backprop(cp.Network(20, 2), 0.01), cp.SlowlyChanging(), seeds=1, progress=False)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((cp.Tracking, name, value) for name in ("inputs", "relevant", "flip_every") for value in (0, 2.5, True, "3")),
        (cp.Tracking, "relevant", 21),
        *((cp.Tracking, "noise", value) for value in (-1.0, math.nan, "1")),
        *((cp.SlowlyChanging, name, 0) for name in ("inputs", "slow", "change_every", "features", "steps")),
        (cp.SlowlyChanging, "slow", 21),
        (cp.SlowlyChanging, "beta", 1.5),
        (cp.SlowlyChanging, "change", "two"),
        (cp.SlowlyChanging, "as_run", 1),
        (cp.Tracking, "steps", 0),
    ],
)
def test_an_argument_that_does_not_fit_is_named_with_its_value(kind, name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be .* got {re.escape(repr(value))}$"):
        build(kind, **{name: value})
