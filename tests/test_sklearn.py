"""The scikit-learn estimators pass scikit-learn's own checks and work where its users put them."""

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
SMALL = {"hidden": 8, "epochs": 2, "random_state": 0}


@pytest.mark.long
@parametrize_with_checks([OnlineClassifier(hidden=20, random_state=0), OnlineRegressor(hidden=20, random_state=0)])
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
        ({"learner": cp.Backprop(cp.Network(5, 3), 0.1)}, "learner.network.inputs must be 6, as the data has, got 5"),
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


def test_a_learner_is_a_name_or_has_its_network():
    with pytest.raises(TypeError, match="learner must be a name, such as 'foresight', or a learner, got <class"):
        OnlineClassifier(cp.Foresight).fit(X, LABELS)


def test_a_model_that_is_not_fitted_says_so():
    for model in (OnlineClassifier(), OnlineRegressor()):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            model.predict(X)


def test_a_model_that_diverges_says_so_and_stops():
    model = OnlineRegressor("backprop", **SMALL | {"step_size": 1e3, "epochs": 5})
    with pytest.warns(ConvergenceWarning, match="OnlineRegressor diverged in pass 1: its loss is no longer finite"):
        model.fit(X, X[:, 0])
    assert model.n_iter_ == 1


def test_partial_fit_knows_its_classes():
    model = OnlineClassifier(**SMALL)
    with pytest.raises(ValueError, match="classes must be given on the first call of partial_fit, got None"):
        model.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match=r"y must be of the classes array\(\['ant'\].*, got 'bee'"):
        model.partial_fit(X, LABELS, classes=["ant"])
    assert not model.__sklearn_is_fitted__()
    model.partial_fit(X, LABELS, classes=["ant", "bee", "cat"])
    with pytest.raises(ValueError, match=r"y must be of the classes .* got 'dog'"):
        model.partial_fit(X[:1], ["dog"])


@pytest.mark.long
def test_one_pass_over_digits_learns_them():
    x, y = load_digits(return_X_y=True)
    model = OnlineClassifier("backprop", hidden=(64, 64), epochs=1, step_size=0.03, random_state=0).fit(
        x[:1400], y[:1400]
    )
    assert model.score(x[1400:], y[1400:]) > 0.8
