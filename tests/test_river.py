"""The River estimators pass River's own checks, and grow with features and labels without forgetting."""

import os
import pickle
from functools import partial
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import crossprop as cp
from crossprop.learners import LEARNERS

if os.environ.get("CROSSPROP_REQUIRE_RIVER") != "1":
    pytest.importorskip("river")

from river import base, checks, datasets, evaluate, metrics, preprocessing

from crossprop.river import Classifier, Regressor, stream

pytestmark = pytest.mark.usefixtures("quick_compilation")
MODELS = [Classifier(hidden=8), Regressor(hidden=8)]
RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(40, 3)), columns=["a", "b", "c"])
LABELS = pd.Series(np.where(X.a > 0, "ant", np.where(X.b > 0, "bee", "cat")))
LABELS[:12] = "ant"  # the others come later


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_river_checks(model):
    """All of them: nothing is skipped."""
    assert model._unit_test_skips() == set()
    assert isinstance(model, base.MiniBatchClassifier | base.MiniBatchRegressor)
    checks.check_estimator(model)


def rows(frame):
    return frame.to_dict("records")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "learner",
    ["foresight", pytest.param(partial(cp.Crossprop, eta=0.5), marks=pytest.mark.long)],
    ids=["foresight", "crossprop"],
)
def test_a_batch_is_the_loop_over_its_rows_also_where_labels_and_features_appear(learner):
    one, many = (Classifier(learner, hidden=5, seed=3) for _ in range(2))
    for part in (X[["a", "b"]][:20], X[20:]):
        labels = LABELS[part.index]
        for x, y in zip(rows(part), labels, strict=True):
            one.learn_one(x, y)
        many.learn_many(part, labels)
    chances = many.predict_proba_many(X)
    assert sorted(chances) == ["ant", "bee", "cat"] and (chances.index == X.index).all()
    for x, together in zip(rows(X), rows(chances), strict=True):
        assert one.predict_proba_one(x) == pytest.approx(together, rel=1e-9)
    assert many.predict_many(X).tolist() == [one.predict_one(x) for x in rows(X)]
    assert chances.std().min() > 1e-3


@pytest.mark.long
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_network_that_grew_is_one_that_was_large_enough_from_the_start(optimizer):
    """What is not used yet changes nothing: not in the weights, the memories, nor in the optimizer's state."""
    made = {"hidden": 5, "optimizer": optimizer, "step_size": 0.01, "scale": False, "seed": 0}
    grown, large = (Classifier("crossprop-approx", **made) for _ in range(2))
    grown.learn_one({"a": 0.0}, "ant")
    large.learn_one({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, "ant")
    grown._take_in(["b", "c", "d"])
    large._model.state = grown._model.state
    for x in rows(X[["a", "b"]]):
        grown.learn_one(x, "ant" if x["a"] > 0 else "bee")
        large.learn_one(x, "ant" if x["a"] > 0 else "bee")
    before = grown.predict_proba_one({"a": 0.3, "b": -2.0})
    assert before == pytest.approx(large.predict_proba_one({"a": 0.3, "b": -2.0}), rel=1e-12)
    for model in (grown, large):  # more inputs, then more outputs than there are
        model._take_in("efgh")
        assert model._model.learner.network.inputs == 8
        assert model.predict_proba_one({"a": 0.3, "b": -2.0}) == pytest.approx(before, rel=1e-12)
        model._model.number("cat")
        assert model._model.learner.network.outputs == 4
        both = model.predict_proba_one({"a": 0.3, "b": -2.0})
        assert both["ant"] / both["bee"] == pytest.approx(before["ant"] / before["bee"], rel=1e-9)


def test_labels_to_come_have_no_part_in_learning():
    """With three labels of four outputs, the fourth keeps its weights and has no probability."""
    model = Classifier("backprop", hidden=5, optimizer="momentum", step_size=0.1, seed=0)
    model.learn_many(X, LABELS)
    before = np.array(model._model.state.inner.outgoing)
    model.learn_many(X, LABELS)
    after = np.array(model._model.state.inner.outgoing)
    assert (before[3] == after[3]).all() and (before[:3] != after[:3]).all()
    assert sum(model.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1)


def test_an_optimizer_that_moves_what_is_not_used_predicts_known_labels():
    """Weights that are clipped open the outputs that no label has yet."""
    model = Classifier("backprop", hidden=5, optimizer=cp.optimizers.clip_weights(1.0), step_size=1e-6, seed=0)
    model.learn_one(rows(X)[0], "ant")
    assert {*model.predict_many(X), *map(model.predict_one, rows(X))} == {"ant"}
    assert model.predict_proba_one({"a": 1.0}) == {"ant": 1.0}


def test_the_order_of_features_has_no_effect_and_unknown_ones_are_left_out_of_predictions():
    one, other = (Regressor(hidden=8, seed=0) for _ in range(2))
    assert one.predict_one({"a": 1.0}) == 0.0
    for x in rows(X):
        one.learn_one(x, x["a"])
        other.learn_one({name: x[name] for name in "cab"}, x["a"])
    assert one.predict_one({"a": 1.0, "z": 5.0}) == other.predict_one({"a": 1.0}) != 0.0
    assert one.predict_many(X).tolist() == pytest.approx([one.predict_one(x) for x in rows(X)], rel=1e-5, abs=1e-6)


def test_a_pickled_model_goes_on_the_same():
    model = Regressor(hidden=8, seed=0)
    model.learn_many(X, X.a)
    other = pickle.loads(pickle.dumps(model))
    for one in (model, other):
        one.learn_one({"a": 1.0, "d": 2.0}, 3.0)
    assert model.predict_one({"a": 1.0, "d": 1.0}) == other.predict_one({"a": 1.0, "d": 1.0})


@pytest.mark.long
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_phishing_in_a_pipeline_of_river(name):
    model = preprocessing.StandardScaler() | Classifier(name, hidden=20, step_size=0.02, seed=0)
    accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert accuracy.get() > 0.75


@pytest.mark.parametrize("learn", [Classifier, Regressor])
def test_weights_are_factors_of_steps(learn):
    """Relative to the largest so far, of one example as of many."""
    y = LABELS if learn is Classifier else X.b
    weights = np.where(X.a > 0, 2.0, 0.5)
    one, many, plain = (learn(hidden=5, seed=3).warm_up(3, rows=40) for _ in range(3))
    for x, target, weight in zip(rows(X), y, [2.0, *weights[1:]], strict=True):
        one.learn_one(x, target, w=weight)
    many.learn_many(X, y, w=pd.Series([2.0, *weights[1:]]))
    plain.learn_many(X, y)
    answer = lambda model: np.array(model.predict_proba_many(X) if learn is Classifier else model.predict_many(X))
    np.testing.assert_allclose(answer(one), answer(many), rtol=1e-4, atol=1e-5)
    assert np.abs(answer(plain) - answer(many)).max() > 1e-3
    with pytest.raises(ValueError, match="w must be a number that is at least 0, or one for each row, got -1"):
        one.learn_one(rows(X)[0], y[0], w=-1)


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ({"a": "red"}, "ant", TypeError, r"x\['a'\] must be a number, got 'red': encode it first"),
        ({"a": float("nan")}, "ant", ValueError, r"x\['a'\] must be a number, got nan: fill it in .*StatImputer"),
        ({"a": None}, "ant", ValueError, r"x\['a'\] must be a number, got None: fill it in .*StatImputer"),
        ({"a": 1e39}, "ant", ValueError, r"x\['a'\] must be a finite number, at most 1e\+38, got 1e\+39"),
        ([1.0], "ant", TypeError, r"x must be a dict of features, got \[1.0\]"),
        ({"a": 1.0}, None, ValueError, "y must be a label, got None"),
        ({"a": 1.0}, [1], TypeError, r"y must be a label, got \[1\]"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_bad_examples_are_named_and_change_nothing(x, y, error, message, known):
    model = Classifier(hidden=5, seed=0)
    if known:
        model.learn_one({"a": 1.0}, "ant")
    before = model._model and model._model.state
    with pytest.raises(error, match=message):
        model.learn_one(x, y)
    assert (model._model and model._model.state) is before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"learner": "foresigth"}, ValueError, "learner must be one of .*did you mean 'foresight'"),
        ({"learner": lambda network, **_: network}, TypeError, "learner must make a crossprop learner, got Network"),
        ({"hidden": 0}, ValueError, "hidden must be at least 1, got 0"),
        ({"hidden_layer_sizes": 5}, TypeError, "Classifier has no argument hidden_layer_sizes; here it is hidden"),
        ({"step_size": -1}, ValueError, "step_size must be .* above 0, got -1"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Classifier(**arguments)


def test_bad_frames_are_named():
    model = Regressor(hidden=5, seed=0)
    with pytest.raises(ValueError, match="X and y must have as many rows as each other, got 40 and 39"):
        model.learn_many(X, X.a[:39])
    with pytest.raises(TypeError, match=r"X\['kind'\] must be numbers, got"):
        model.learn_many(X.assign(kind=LABELS), X.a)
    with pytest.raises(ValueError, match=r"X\['b'\]\[7\] must be a number, got nan: fill it in"):
        model.learn_many(X.assign(b=X.b.where(X.index != 7)), X.a)
    with pytest.raises(ValueError, match=r"y\[3\] must be a finite number, .*got inf"):
        model.learn_many(X, X.a.where(X.index != 3, np.inf))
    assert model._model is None


@pytest.mark.parametrize("estimator", [Classifier, Regressor])
def test_a_model_that_diverges_says_so_once(estimator):
    model = estimator("backprop", hidden=4, step_size=1e30, activation="linear", scale=False, seed=0)
    for at in range(1, 5):
        model.learn_one({"a": 1.0, "b": -float(at)}, at % 2)
    with pytest.warns(UserWarning, match="diverged: its outputs are no longer finite"):
        model.predict_one({"a": 1.0})
    model.predict_one({"a": 1.0})  # a second warning would be an error here


def test_a_data_set_of_river_is_a_stream():
    data = datasets.ImageSegments()
    found = stream(data, transformer=preprocessing.StandardScaler(), steps=60)
    assert (found.inputs, found.outputs, found.classes, found.steps) == (18, 7, 7, 60)
    network = cp.Network(18, 6, 7, loss="softmax")
    records = cp.run(cp.Backprop(network, 0.1), found, seeds=1, record_every=20)
    again = cp.run(cp.Backprop(network, 0.1), found, seeds=1, record_every=20)
    np.testing.assert_array_equal(records.loss, again.loss)
    scaler, learner = preprocessing.StandardScaler(), cp.Backprop(network, 0.1)
    state, numbers, losses = learner.init(cp.keys(0)[1]), {}, []
    for x, y in islice(data, 60):
        scaler.learn_one(x)
        scaled = scaler.transform_one(x)
        number = numbers.setdefault(y, len(numbers))
        state, outcome = learner.update(state, np.array([scaled[name] for name in sorted(scaled)]), np.eye(7)[number])
        losses.append(float(outcome.loss))
    np.testing.assert_allclose(records.loss.values.ravel(), np.reshape(losses, (3, 20)).mean(axis=1), rtol=1e-4)


@pytest.mark.parametrize(
    ("examples", "arguments", "error", "message"),
    [
        (7, {}, TypeError, "dataset must be a data set of River or an iterable"),
        ([], {}, ValueError, "dataset must have an example, got none"),
        ("rows.csv", {}, TypeError, r"dataset must give pairs \(dict of features, target\), got 'r'"),
        ([1, 2], {}, TypeError, r"dataset must give pairs \(dict of features, target\), got 1"),
        ([({"a": "red"}, 1.0)], {}, TypeError, r"x\['a'\] must be a number, got 'red'"),
        ([({"a": 1.0}, 1.0)], {"transformer": 7}, TypeError, "transformer must be a transformer of River, got 7"),
        ([({"a": 1.0}, "ant")], {}, ValueError, "classes must be the number of labels .*, got None and 'ant'"),
        (datasets.SolarFlare(), {}, ValueError, "dataset must have one target per example, got one with 3"),
    ],
)
def test_what_is_no_stream_is_refused(examples, arguments, error, message):
    with pytest.raises(error, match=message):
        stream(examples, **arguments)


def test_booleans_of_any_iterable_are_two_classes():
    assert stream(datasets.Phishing().take(3)).classes == 2


def test_examples_that_do_not_fit_are_named_when_they_come():
    good = ({"a": 1.0, "b": 2.0}, "ant")
    for bad, message in {
        "feature": (({"a": 1.0, "c": 2.0}, "ant"), r"x must have the features of the first example, .* got also 'c'"),
        "label": (({"a": 1.0}, "cat"), r"classes must be at least the number of labels, got 2"),
    }.values():
        examples = stream(iter([good, ({"b": 1.0}, "bee"), bad]), classes=2)
        with pytest.raises(ValueError, match=message):
            cp.run(cp.Frozen(cp.Network(2, 2, 2, loss="softmax"), 0.1), examples, seeds=1, record_every=1)
