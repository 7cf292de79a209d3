"""Online learners as scikit-learn estimators: `OnlineClassifier` and `OnlineRegressor`.

They learn from one row after the other, by any learner of this package; a pass over the data is one compiled call.
"""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from crossprop._support.extras import require

require("crossprop.sklearn", "sklearn", extra="sklearn")

import numpy as np  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.class_weight import compute_sample_weight  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets, unique_labels  # noqa: E402
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data  # noqa: E402  # pyright: ignore[reportPrivateUsage]

from crossprop._support import checks as check  # noqa: E402
from crossprop.estimators import FARTHEST, Arguments, Model, built, with_public_names  # noqa: E402
from crossprop.learners import Learner  # noqa: E402

_validated: Any = validate_data  # typed by the value of its defaults


@dataclass(eq=False, repr=False, kw_only=True)
class _Online(Arguments, BaseEstimator):
    """The common part of both estimators."""

    _loss: ClassVar[str]
    epochs: int = 10
    shuffle: bool = True
    random_state: Any = None

    @property
    def learner_(self) -> Learner:
        """The learner."""
        return self._model_.learner

    def _begin(self, inputs: int, outputs: int, labels: Any = ()) -> None:
        """A model of these sizes."""
        check.integer("epochs", self.epochs, low=1)
        check.flag("shuffle", self.shuffle)
        self._random_ = check_random_state(self.random_state)
        learner = built(self, inputs, outputs, self._loss)
        self._model_ = Model(learner, int(self._random_.randint(2**31)), labels)
        self.loss_curve_: list[float] = []
        self.n_iter_ = 0

    def _learn(self, x: np.ndarray, targets: np.ndarray, weights: Any, epochs: int = 1, shuffle: bool = False) -> Self:
        """Some passes over examples."""
        for _ in range(epochs):
            order = self._random_.permutation(len(x)) if shuffle else slice(None)
            losses = self._model_.learn(x[order], targets[order], None if weights is None else weights[order])
            self.loss_curve_.append(float(np.mean(losses)))
            self.n_iter_ += 1
            if not np.isfinite(self.loss_curve_[-1]):
                warnings.warn(
                    f"{type(self).__name__} diverged in pass {self.n_iter_}: its loss is no longer finite. A smaller "
                    "step_size may help",
                    ConvergenceWarning,
                    stacklevel=3,
                )
                break
        return self

    def _is_one_row(self, X: Any) -> bool:
        """Whether `X` is one finite row like those before: it needs none of scikit-learn's checks, which are slow."""
        return (
            self.__sklearn_is_fitted__()
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.shape == (1, self._model_.learner.network.inputs)
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = X if self._is_one_row(X) else _validated(self, X, reset=False, dtype=np.float64)
        return self._model_.answer(x)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model_")


@with_public_names
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(ClassifierMixin, _Online):
    """A classifier that learns features online, with softmax and cross-entropy.

    **Arguments:**

    - `learner`: a name in `crossprop.learners.LEARNERS`, such as `"foresight"`, `"backprop"` or `"crossprop-approx"`;
      a function that makes one, such as `functools.partial(crossprop.Foresight, ahead=2.0)`; or a learner of yours,
      which brings its own network, resized to the data: the next five arguments are then left out.
    - `hidden`: hidden units, an int or a tuple with one number per layer. `activation`, `layer_norm`: as in
      `crossprop.Network`.
    - `step_size`, `optimizer`: as in `crossprop.Backprop`. None is five step sizes at once, by `crossprop.Best`.
    - `epochs`: passes over the data that `fit` makes; `partial_fit` makes one.
    - `shuffle`: whether `fit` takes the rows in a random order; without, they come as they are.
    - `scale`: whether inputs are normalised while learning, by `crossprop.Normalize`.
    - `class_weight`: weights by class, or `"balanced"`, in inverse proportion to the classes of `fit`. An example with
      half the largest weight so far has steps of half the size; `sample_weight` works in the same way.
    - `random_state`: of the initial weights and the order.

    After fitting: `classes_`, `learner_`, `loss_curve_` (the mean loss of every pass, each example's from before
    learning from it), `n_iter_`, `n_features_in_`.

    ```python
    model = OnlineClassifier("foresight", hidden=(64, 64), epochs=1).fit(X, y)
    ```
    """

    _loss = "softmax"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from the rows of `X`, `epochs` times."""
        x, y = _validated(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = self._weights(x, y, sample_weight)
        self._begin_with(x.shape[1], unique_labels(y))
        return self._learn(x, self._numbers(y), weights, self.epochs, self.shuffle)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learns from the rows of `X`, once, in their order. Classes may appear later; `classes` names some before they
        come, which saves compiling for a larger network."""
        if self._is_one_row(X) and classes is None and sample_weight is None and self.class_weight is None:
            label = np.asarray(y).tolist()
            if len(label) == 1 and (number := self._model_.labels.get(label[0])) is not None:
                return self._learn(X, np.array([number]), None)
        first = not self.__sklearn_is_fitted__()
        x, y = _validated(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        if self.class_weight == "balanced":
            raise ValueError("class_weight must be weights by class for partial_fit, got 'balanced'")
        weights = self._weights(x, y, sample_weight)
        if first:
            self._begin_with(x.shape[1], unique_labels(y) if classes is None else unique_labels(classes))
        return self._learn(x, self._numbers(y), weights)

    def warm_up(self, inputs: int, classes: Any, rows: int = 1) -> Self:
        """Makes a model for so many inputs and these classes, if there is none, and compiles the programs that predict
        and learn from any number of rows up to `rows`."""
        if not self.__sklearn_is_fitted__():
            self.n_features_in_ = check.integer("inputs", inputs, low=1)
            self._begin_with(inputs, unique_labels(classes))
        self._model_.warm_up(rows)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, in the order of `classes_`."""
        return softmax(self._outputs(X)[:, self._order_], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        outputs = self._outputs(X)  # an error if it is not fitted, before classes_ is missing
        return self.classes_[np.argmax(outputs[:, self._order_], axis=1)]

    def _begin_with(self, inputs: int, classes: np.ndarray) -> None:
        self._begin(inputs, len(classes), classes.tolist())
        if isinstance(self.class_weight, dict):
            self._model_.heaviest = max([1.0, *self.class_weight.values()])
        self._know(classes)

    def _know(self, classes: np.ndarray) -> None:
        self.classes_ = classes
        self._order_ = np.array([self._model_.number(label) for label in classes.tolist()])

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """The outputs of these classes; new classes get new outputs."""
        found, places = np.unique(y, return_inverse=True)
        if not {*found.tolist()} <= {*self._model_.labels}:
            self._know(unique_labels(self.classes_, found))
        return np.array([self._model_.labels[label] for label in found.tolist()])[places]

    def _weights(self, x: np.ndarray, y: np.ndarray, sample_weight: Any) -> np.ndarray | None:
        weights, given = _weights(x, sample_weight), self.class_weight
        if given is None:
            return weights
        if given == "balanced":
            by_class = compute_sample_weight("balanced", y)
        elif isinstance(given, dict):
            for label, weight in given.items():
                check.number(f"class_weight[{label!r}]", weight, low=0)
            by_class = np.array([given.get(label, 1.0) for label in y.tolist()])
        else:
            raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {check.shown(given)}")
        return by_class if weights is None else weights * by_class


@with_public_names
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineRegressor(RegressorMixin, _Online):
    """A regressor that learns features online, with squared error; one output or several.

    **Arguments:** as `OnlineClassifier`; `scale` normalises targets as well. `loss_curve_` is in the units of the
    targets.

    ```python
    model = OnlineRegressor("backprop", hidden=64, optimizer="adam", step_size=1e-3).fit(X, y)
    ```
    """

    _loss = "squared"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from the rows of `X`, `epochs` times."""
        x, y = self._checked(X, y, reset=True)
        weights = _weights(x, sample_weight)
        self._begin(x.shape[1], y.shape[1])
        return self._learn(x, y, weights, self.epochs, self.shuffle)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from the rows of `X`, once, in their order."""
        if self._is_one_row(X) and sample_weight is None and self._is_flat_:
            target = np.asarray(y)
            if target.shape == (1,) and target.dtype.kind in "fiu" and abs(target[0]) < FARTHEST:
                return self._learn(X, target[:, None].astype(np.float64), None)
        first = not self.__sklearn_is_fitted__()
        x, y = self._checked(X, y, reset=first)
        if first:
            self._begin(x.shape[1], y.shape[1])
        elif y.shape[1] != self._model_.used:
            raise ValueError(f"y must have {self._model_.used} columns, as before, got {y.shape[1]}")
        return self._learn(x, y, _weights(x, sample_weight))

    def warm_up(self, inputs: int, outputs: int | None = None, rows: int = 1) -> Self:
        """Makes a model for so many inputs, and for columns of targets where `outputs` is set, if there is none, and
        compiles the programs that predict and learn from any number of rows up to `rows`."""
        if not self.__sklearn_is_fitted__():
            self.n_features_in_, self._is_flat_ = check.integer("inputs", inputs, low=1), outputs is None
            self._begin(inputs, check.integer("outputs", outputs or 1, low=1))
        self._model_.warm_up(rows)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted numbers, `(rows,)`, or `(rows, outputs)` if the targets had columns."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._is_flat_ else outputs

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        x, y = _validated(self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True)
        if reset:
            self._is_flat_ = y.ndim == 1
        return x, np.clip(np.asarray(y, np.float64).reshape(len(y), -1), -FARTHEST, FARTHEST)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _weights(x: np.ndarray, sample_weight: Any) -> np.ndarray | None:
    return None if sample_weight is None else _check_sample_weight(sample_weight, x, ensure_non_negative=True)
