"""The scikit-learn estimators pass scikit-learn's own checks and work where its users put them."""

import jax
import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import crossprop as cp
from crossprop.sklearn import OnlineClassifier, OnlineRegressor

pytestmark = pytest.mark.usefixtures("quick_compilation")
X, NUMBERS = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
LABELS = np.array(["ant", "bee", "cat"])[NUMBERS]
COMPILING = "/jax/core/compile/backend_compile_duration"
SMALL = {"hidden": 8, "epochs": 2, "random_state": 0}


WEIGHTS = "a weight scales a step: it is no number of repetitions, as in SGDClassifier"
EXPECTED = {f"check_sample_weight_equivalence_on_{kind}_data": WEIGHTS for kind in ("dense", "sparse")}


@pytest.mark.long
@parametrize_with_checks(
    [OnlineClassifier(hidden=20, random_state=0), OnlineRegressor(hidden=20, random_state=0)],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_strings_are_labels_and_probabilities_follow_their_order():
    model = OnlineClassifier(**SMALL | {"step_size": 0.1}).fit(X, LABELS)
    assert model.classes_.tolist() == ["ant", "bee", "cat"] and len(model.loss_curve_) == model.n_iter_ == 2
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[chances.argmax(axis=1)]).all() and model.score(X, LABELS) > 0.6


def test_one_pass_is_the_pass_of_cp_live():
    """Without scaling and shuffling, `partial_fit` is `cp.live` on the rows as they are."""
    network = cp.Network(6, 8, 3, loss="softmax")
    learner = cp.Crossprop(network, 0.01)
    model = OnlineClassifier(learner, scale=False, random_state=0)
    model.partial_fit(X[:50], NUMBERS[:50], classes=[0, 1, 2]).partial_fit(X[50:], NUMBERS[50:])
    seed = int(np.random.RandomState(0).randint(2**31))
    _, outcomes = cp.live(learner, learner.init(cp.keys(seed)[1]), X.astype(np.float32), NUMBERS)
    np.testing.assert_allclose(model.loss_curve_, [outcomes.loss[:50].mean(), outcomes.loss[50:].mean()], rtol=1e-5)


def test_grid_search_and_pipelines_tune_any_argument():
    pipeline = make_pipeline(MinMaxScaler(), OnlineClassifier(**SMALL))
    grid = {"onlineclassifier__learner": ["foresight", "frozen"], "onlineclassifier__step_size": [0.1]}
    found = GridSearchCV(pipeline, grid, cv=2).fit(X, LABELS)
    assert found.best_score_ > 0.5 and found.best_params_["onlineclassifier__learner"] in ("foresight", "frozen")


def test_a_dumped_model_predicts_and_goes_on_the_same(tmp_path):
    model = OnlineRegressor(**SMALL).fit(X, NUMBERS)
    joblib.dump(model, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.partial_fit(X, NUMBERS).predict(X), model.partial_fit(X, NUMBERS).predict(X))


def test_targets_of_several_columns_and_large_numbers_are_learned():
    x, y = make_regression(300, 5, n_targets=2, random_state=0)[:2]
    model = OnlineRegressor(hidden=(16, 8), epochs=20, step_size=0.02, random_state=0).fit(x, y * 1e6)
    assert model.predict(x).shape == (300, 2) and model.score(x, y * 1e6) > 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learner": "foresigth"}, "learner must be one of .*did you mean 'foresight'"),
        ({"learner": cp.Backprop(cp.Network(6, 3), 0.1)}, "learner.network.loss must be 'softmax', got 'squared'"),
        ({"class_weight": {"ant": -1}}, r"class_weight\['ant'\] must be .* at least 0, got -1"),
        ({"class_weight": 3}, "class_weight must be None, 'balanced' or a dict, got 3"),
        (
            {"learner": cp.Backprop(cp.Network(6, 3, 3, loss="softmax"), 0.1), "step_size": 0.2},
            "step_size must be left at None with a learner of yours, which has its own, got 0.2",
        ),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"step_size": -1}, "step_size must be .* above 0, got -1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_named_when_fitting(arguments, message):
    with pytest.raises(ValueError, match=message):
        OnlineClassifier(**arguments).fit(X, LABELS)


def test_a_learner_is_a_name_a_function_or_has_its_network_which_follows_the_data():
    with pytest.raises(
        TypeError, match=r"learner must be a name, such as 'foresight', a learner or a function .* got 7"
    ):
        OnlineClassifier(7).fit(X, LABELS)
    made = OnlineClassifier(cp.Foresight, **SMALL | {"step_size": 0.1}).fit(X, LABELS)
    given = cp.Foresight(cp.Network(1, 8, 1, loss="softmax", bias=True), 0.1)
    own = OnlineClassifier(given, epochs=2, random_state=0).fit(X, LABELS)
    assert made.score(X, LABELS) > 0.6 and own.score(X, LABELS) > 0.6
    assert own.learner_.network.inputs == 6 and own.learner_.network.outputs == 3


def test_arguments_of_others_are_named():
    with pytest.raises(
        TypeError, match=r"^OnlineClassifier has no argument hidden_layer_sizes; here it is hidden; its"
    ):
        OnlineClassifier(hidden_layer_sizes=(16,))
    with pytest.raises(
        TypeError, match=r"^OnlineRegressor has no argument class_weight; its arguments: learner, hidden"
    ):
        OnlineRegressor(class_weight="balanced")


def test_a_model_that_is_not_fitted_says_so():
    for model in (OnlineClassifier(), OnlineRegressor()):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            model.predict(X)


def test_a_model_that_diverges_says_so_and_stops():
    model = OnlineRegressor("backprop", **SMALL | {"step_size": 1e3, "epochs": 5})
    with pytest.warns(ConvergenceWarning, match="OnlineRegressor diverged in pass 1: its loss is no longer finite"):
        model.fit(X, X[:, 0])
    assert model.n_iter_ == 1


def test_classes_that_appear_later_are_learned():
    model, order = OnlineClassifier(**SMALL), np.argsort(LABELS != "cat", kind="stable")
    model.partial_fit(X[order[:20]], LABELS[order[:20]])
    assert model.classes_.tolist() == ["cat"] and (model.predict(X) == "cat").all()
    for _ in range(5):
        model.partial_fit(X, LABELS)
    assert model.classes_.tolist() == ["ant", "bee", "cat"] and model.score(X, LABELS) > 0.6
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[chances.argmax(axis=1)]).all()


@pytest.mark.parametrize("scale", [True, False])
def test_rows_one_by_one_are_the_rows_together(scale):
    """Also where one of them has a class that is new, and where one row takes the quick way past the checks."""
    one, many = (OnlineClassifier(**SMALL, scale=scale).warm_up(6, ["ant", "bee", "cat"]) for _ in range(2))
    for row, label in zip(X, LABELS, strict=True):
        one.partial_fit(row[None], [label])
    many.partial_fit(X, LABELS)
    np.testing.assert_allclose(one.predict_proba(X), many.predict_proba(X), atol=1e-4)
    assert one.n_iter_ == len(X) and many.loss_curve_[0] == pytest.approx(np.mean(one.loss_curve_), rel=1e-4)
    targets = X[:, 0] * 3 + 100 * scale  # unscaled, an offset makes steps so large that rounding grows
    number, numbers = (OnlineRegressor(**SMALL, scale=scale).warm_up(6, rows=8) for _ in range(2))
    for row, target in zip(X, targets, strict=True):
        number.partial_fit(row[None], [target])
    np.testing.assert_allclose(number.predict(X), numbers.partial_fit(X, targets).predict(X), rtol=1e-3, atol=1e-3)


def test_weights_are_factors_of_steps():
    """Relative to the largest so far; an example with a weight of 0 changes nothing."""
    given = {"learner": "backprop", "step_size": 0.1, "scale": False, **SMALL}
    weights = np.where(LABELS == "ant", 1.0, 0.5)
    model = OnlineClassifier(**given).partial_fit(X, LABELS, sample_weight=2 * weights)
    by_class = OnlineClassifier(class_weight={"ant": 4, "bee": 2, "cat": 2}, **given).partial_fit(X, LABELS)
    np.testing.assert_array_equal(model.predict_proba(X), by_class.predict_proba(X))
    seed, network = int(np.random.RandomState(0).randint(2**31)), model.learner_.network
    state = cp.Backprop(network, 0.1).init(cp.keys(seed)[1])
    for row, number, weight in zip(X.astype(np.float32), NUMBERS, weights, strict=True):
        state, _ = cp.Backprop(network, 0.1 * weight).update(state, row, np.eye(3)[number])
    np.testing.assert_allclose(model._model_.state.outgoing, state.outgoing, rtol=1e-4, atol=1e-6)
    ants, none = (OnlineClassifier(**given).warm_up(6, ["ant", "bee", "cat"]) for _ in range(2))
    ants.partial_fit(X[LABELS == "ant"], LABELS[LABELS == "ant"])
    none.partial_fit(X, LABELS, sample_weight=(LABELS == "ant").astype(float))
    np.testing.assert_allclose(none.predict_proba(X), ants.predict_proba(X), rtol=1e-6)


def test_equal_weights_are_no_weights():
    given = {"learner": "backprop", "step_size": 0.1, **SMALL}
    plain = OnlineClassifier(**given).partial_fit(X, LABELS).predict_proba(X)
    halves = OnlineClassifier(**given).partial_fit(X, LABELS, sample_weight=np.full(len(X), 0.5))
    np.testing.assert_array_equal(halves.predict_proba(X), plain)
    np.testing.assert_array_equal(
        OnlineClassifier(class_weight={}, **given).partial_fit(X, LABELS).predict_proba(X), plain
    )


@pytest.mark.long
def test_a_rare_class_is_found_with_balanced_weights():
    x = np.random.default_rng(0).normal(size=(4000, 4))
    y = (x[:, 0] + 0.5 * x[:, 1] > 2.2).astype(int)
    plain, balanced = (
        OnlineClassifier(hidden=16, class_weight=each, epochs=3, random_state=0).fit(x, y)
        for each in (None, "balanced")
    )
    recall = lambda model: (model.predict(x)[y == 1] == 1).mean()
    assert 0 < y.mean() < 0.03 and recall(balanced) > max(recall(plain), 0.9)


def test_warm_up_compiles_and_learns_nothing():
    model = OnlineRegressor(**SMALL | {"hidden": 9}).warm_up(6, rows=100)
    before, compiled = model.predict(X), []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: name == COMPILING and compiled.append(1)
    )
    np.testing.assert_array_equal(model.warm_up(6).predict(X), before)
    for count in (1, 5, 40, 100):
        model.partial_fit(X[:count], X[:count, 0]).predict(X[:1])
    assert not compiled and not np.array_equal(model.predict(X), before)
    weighted = OnlineClassifier(**SMALL | {"hidden": 9}, class_weight={"ant": 5.0}).warm_up(6, ["ant", "bee"])
    compiled.clear()
    weighted.partial_fit(X[:1], ["bee"]).partial_fit(X[:1], ["ant"])
    assert not compiled
    weighted.partial_fit(X[:5], ["ant"] * 5)
    assert compiled


@pytest.mark.long
def test_one_pass_over_digits_learns_them():
    x, y = load_digits(return_X_y=True)
    model = OnlineClassifier("backprop", hidden=(64, 64), epochs=1, step_size=0.03, random_state=0).fit(
        x[:1400], y[:1400]
    )
    assert model.score(x[1400:], y[1400:]) > 0.8
