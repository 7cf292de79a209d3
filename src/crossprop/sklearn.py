"""Online learners as scikit-learn estimators: `OnlineClassifier` and `OnlineRegressor`.

They learn one example after the other, in the order in which the rows come, by any learner of this package; a pass over
the data is one compiled call.
"""

import warnings
from inspect import signature
from typing import Any, Self

from crossprop._support.extras import require

require("crossprop.sklearn", "sklearn", extra="sklearn")

import numpy as np  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets, unique_labels  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

from crossprop._support import checks as check  # noqa: E402
from crossprop.learners import LEARNERS, Learner  # noqa: E402
from crossprop.passes import live, predict  # noqa: E402
from crossprop.seeds import keys  # noqa: E402
from crossprop.specification import estimator_learner  # noqa: E402

ROWS = 256
"""Rows of a prediction at a time, filled up: a row's numbers do not depend on how many there are."""


_validated: Any = validate_data  # typed by the value of its defaults


class _Online(BaseEstimator):
    """What both estimators share: the network, the learner and its state, and the scaling of inputs."""

    def __init__(
        self,
        learner: str | Learner = "foresight",
        *,
        hidden: int | tuple[int, ...] = (100,),
        step_size: float | None = None,
        optimizer: Any = "sgd",
        activation: str = "tanh",
        layer_norm: bool = False,
        epochs: int = 10,
        shuffle: bool = True,
        scale: bool = True,
        random_state: Any = None,
    ) -> None:
        self.learner, self.hidden, self.step_size, self.optimizer = learner, hidden, step_size, optimizer
        self.activation, self.layer_norm, self.epochs, self.shuffle = activation, layer_norm, epochs, shuffle
        self.scale, self.random_state = scale, random_state

    def _begin(self, x: np.ndarray, outputs: int, loss: str) -> None:
        """A network and a state for these sizes."""
        check.integer("epochs", self.epochs, low=1)
        check.flag("scale", self.scale)
        check.flag("shuffle", self.shuffle)
        self._random_ = check_random_state(self.random_state)
        if isinstance(self.learner, Learner):
            self._check_fit(self.learner, inputs=x.shape[1], outputs=outputs, loss=loss)
            self.learner_ = self.learner
        elif isinstance(self.learner, str):
            build = LEARNERS.find("learner", self.learner)
            self.learner_ = estimator_learner(build, self, x.shape[1], outputs, loss)
        else:
            raise TypeError(
                f"learner must be a name, such as 'foresight', or a learner, got {check.shown(self.learner)}"
            )
        self._scaler_ = StandardScaler()
        self._state_ = self.learner_.init(keys(int(self._random_.randint(2**31)))[1])
        self.loss_curve_: list[float] = []
        self.n_iter_ = 0

    def _check_fit(self, learner: Learner, **sizes: Any) -> None:
        """A learner of the user's own fits the data, and arguments that describe a learner are left out."""
        for name, value in sizes.items():
            if (has := getattr(learner.network, name)) != value:
                raise ValueError(f"learner.network.{name} must be {value!r}, as the data has, got {has!r}")
        for name in ("hidden", "step_size", "optimizer", "activation", "layer_norm"):
            if (given := getattr(self, name)) != (default := signature(_Online).parameters[name].default):
                raise ValueError(
                    f"{name} must be left at {default!r} with a learner of yours, which has its own, got "
                    f"{check.shown(given)}"
                )

    def _learn(self, x: np.ndarray, y: np.ndarray, epochs: int, shuffle: bool) -> Self:
        """Some passes over scaled examples."""
        for _ in range(epochs):
            order = self._random_.permutation(len(x)) if shuffle else slice(None)
            self._state_, outcomes = live(self.learner_, self._state_, x[order], y[order])
            self.loss_curve_.append(float(np.mean(outcomes.loss)))
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

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        # Numbers that float32 cannot hold would diverge in silence.
        scaled = np.asarray(self._scaler_.transform(x) if self.scale else x)
        return np.clip(scaled, -1e30, 1e30).astype(np.float32)

    def _outputs(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        scaled = self._scaled(_validated(self, x, reset=False, dtype=np.float64))
        parts = []
        for first in range(0, len(scaled), ROWS):
            part = scaled[first : first + ROWS]
            whole = np.concatenate([part, np.zeros((ROWS - len(part), part.shape[1]), part.dtype)])
            parts.append(np.asarray(predict(self.learner_, self._state_, whole), np.float64)[: len(part)])
        return np.concatenate(parts)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state_")


class OnlineClassifier(ClassifierMixin, _Online):
    """A classifier that learns features online, with softmax and cross-entropy.

    **Arguments:**

    - `learner`: a name in `crossprop.learners.LEARNERS`, such as `"foresight"`, `"backprop"` or `"crossprop-approx"`;
      or a learner of yours, which brings its own network; the next five arguments are then left out.
    - `hidden`: hidden units, an int or a tuple with one number per layer. `activation`, `layer_norm`: as in
      `crossprop.Network`.
    - `step_size`, `optimizer`: as in `crossprop.Backprop`. None is a step size of 0.01, for a regressor 0.003.
    - `epochs`: passes over the data that `fit` makes; `partial_fit` makes one.
    - `shuffle`: whether `fit` takes the rows in a random order; without, they come as they are.
    - `scale`: whether inputs are standardised; `partial_fit` keeps running means and variances.
    - `random_state`: of the initial weights and the order.

    After fitting: `classes_`, `learner_`, `loss_curve_` (the mean loss of every pass, each example's from before
    learning from it), `n_iter_`, `n_features_in_`.

    ```python
    model = OnlineClassifier("foresight", hidden=(64, 64), epochs=1).fit(X, y)
    ```
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from the rows of `X`, `epochs` times."""
        x, y = _validated(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        self._begin(x, len(self.classes_), "softmax")
        self._scaler_.fit(x)
        return self._learn(self._scaled(x), np.searchsorted(self.classes_, y), self.epochs, self.shuffle)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learns from the rows of `X`, once, in their order. The first call needs all `classes`."""
        first = not hasattr(self, "_state_")
        if first and classes is None:
            raise ValueError("classes must be given on the first call of partial_fit, got None")
        x, y = _validated(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        known = unique_labels(classes) if first else self.classes_
        if classes is not None and not np.array_equal(unique_labels(classes), known):
            raise ValueError(f"classes must be those of the first call, {known!r}, got {classes!r}")
        if unknown := {*np.unique(y).tolist()} - {*known.tolist()}:
            raise ValueError(f"y must be of the classes {known!r}, got {sorted(unknown)[0]!r}")
        if first:
            self.classes_ = known
            self._begin(x, len(known), "softmax")
        self._scaler_.partial_fit(x)
        return self._learn(self._scaled(x), np.searchsorted(self.classes_, y), 1, shuffle=False)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, in the order of `classes_`."""
        return softmax(self._outputs(X), axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        best = np.argmax(self._outputs(X), axis=1)  # an error if it is not fitted, before classes_ is missing
        return self.classes_[best]


class OnlineRegressor(RegressorMixin, _Online):
    """A regressor that learns features online, with squared error; one output or several.

    **Arguments:** as `OnlineClassifier`; `scale` standardises targets as well.

    ```python
    model = OnlineRegressor("backprop", hidden=64, optimizer="adam", step_size=1e-3).fit(X, y)
    ```
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from the rows of `X`, `epochs` times."""
        x, y = self._checked(X, y, reset=True)
        self._begin(x, y.shape[1], "squared")
        self._scaler_.fit(x)
        self._target_scaler_.fit(y)
        return self._learn(self._scaled(x), self._scaled_targets(y), self.epochs, self.shuffle)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learns from the rows of `X`, once, in their order."""
        first = not hasattr(self, "_state_")
        x, y = self._checked(X, y, reset=first)
        if first:
            self._begin(x, y.shape[1], "squared")
        elif y.shape[1] != self.learner_.network.outputs:
            raise ValueError(f"y must have {self.learner_.network.outputs} columns, as before, got {y.shape[1]}")
        self._scaler_.partial_fit(x)
        self._target_scaler_.partial_fit(y)
        return self._learn(self._scaled(x), self._scaled_targets(y), 1, shuffle=False)

    def predict(self, X: Any) -> np.ndarray:
        """The predicted numbers, `(rows,)`, or `(rows, outputs)` if the targets had columns."""
        outputs = self._outputs(X)
        outputs = self._target_scaler_.inverse_transform(outputs) if self.scale else outputs
        return outputs[:, 0] if self._is_flat_ else outputs

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        x, y = _validated(self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True)
        if reset:
            self._is_flat_ = y.ndim == 1
            self._target_scaler_ = StandardScaler()
        return x, np.asarray(y, np.float64).reshape(len(y), -1)

    def _scaled_targets(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self._target_scaler_.transform(y) if self.scale else y, np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
