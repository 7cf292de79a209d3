"""Online learners as River estimators.

Features may come, go and change their order, and labels may appear at any time: the network grows. Its inputs or
outputs double when they are too few, so it is seldom compiled again. Unused inputs are 0, and unused outputs have a
probability of 0. (With optimizers that move weights without a gradient, such as `clip_weights` and weight decay, unused
outputs come to take part in learning, but only labels that were seen are predicted.)
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from river import base
from river.utils import dataframe
from scipy.special import softmax

from crossprop._support import checks as check
from crossprop.estimators import Arguments, Model, built, with_public_names
from crossprop.river.values import LARGEST, check_features, check_frame, checked_frame, finite_number


@dataclass(eq=False, repr=False, kw_only=True)
class _Online(Arguments):
    """The common part of both estimators: the model, and the input of each feature."""

    _loss: ClassVar[str]
    _outputs: ClassVar[int]
    seed: int | None = None

    def __post_init__(self) -> None:
        self._slots: dict[Any, int] = {}
        self._model: Any = None
        self._diverged = False
        if self.seed is not None:
            check.integer("seed", self.seed, low=0)
        built(self, 1, self._outputs, self._loss)  # finds bad arguments

    def warm_up(self, inputs: int, outputs: int = 1, rows: int = 1) -> Self:
        """Makes room for so many features, and for labels or targets, and compiles the programs that predict and learn
        from any number of examples up to `rows`. Until there are more features or labels, no call waits for the
        compiler."""
        self._make_room(check.integer("inputs", inputs, low=1))
        self._model.make_room(0, check.integer("outputs", outputs, low=1))
        self._model.warm_up(rows)
        return self

    def _make_room(self, inputs: int) -> None:
        if self._model is None:
            seed = int(np.random.default_rng().integers(2**31)) if self.seed is None else self.seed
            self._model = Model(built(self, inputs, self._outputs, self._loss), seed)
        self._model.make_room(inputs)

    def _take_in(self, names: Iterable[Any]) -> None:
        """Gives an input to every feature that has none, whatever the order of `names`."""
        new = sorted((name for name in names if name not in self._slots), key=lambda name: (str(type(name)), str(name)))
        self._make_room(max(len(self._slots) + len(new), 1))
        for name in new:
            self._slots[name] = len(self._slots)

    def _row_to_learn(self, x: Any) -> np.ndarray:
        """The features of an example in their places; new features get new inputs."""
        if self._model is None or type(x) is not dict or not x.keys() <= self._slots.keys():
            check_features(x)
            self._take_in(x)
        return self._row(x)

    def _row(self, x: Mapping[Any, Any]) -> np.ndarray:
        """The known features of an example in their places."""
        row = np.zeros((1, len(self._model.offset)))
        values = np.array([x.get(name, 0.0) for name in self._slots])
        if values.dtype.kind not in "buif":
            check_features(x)
        row[0, : len(values)] = values
        if not np.vdot(row, row) < LARGEST**2:
            check_features(x)
        return row

    def _rows(self, frame: Any) -> np.ndarray:
        """The known features of a frame's examples in their places."""
        rows = np.zeros((len(frame), len(self._model.offset)))
        known = [name for name in frame.columns if name in self._slots]
        if known:
            rows[:, [self._slots[name] for name in known]] = dataframe.to_numpy(frame.select(known))
        return rows

    def _answers(self, frame: Any) -> np.ndarray:
        """The outputs for a frame's examples."""
        check_frame(frame)
        return self._finite(self._model.answer(self._rows(frame)))

    def _answer(self, x: Any) -> np.ndarray:
        """The outputs for an example."""
        return self._finite(self._model.answer_one(self._row(x)))

    def _finite(self, outputs: np.ndarray) -> np.ndarray:
        """The outputs, with a warning the first time that they are not finite."""
        if not self._diverged and not np.isfinite(outputs.sum()):
            self._diverged = True
            warnings.warn(
                f"this {type(self).__name__} diverged: its outputs are no longer finite. A smaller step_size may help",
                stacklevel=4,
            )
        return outputs


@with_public_names
@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(_Online, base.MiniBatchClassifier):
    """A network that learns features online, as a River classifier with softmax and cross-entropy.

    It learns from one example after the other, by any learner of this package; `learn_many` does the same in one
    compiled call. Before the first label, `predict_one` gives None and `predict_proba_one` an empty dict.

    **Arguments:**

    - `learner`: a name in `crossprop.learners.LEARNERS`, such as `"foresight"`, `"backprop"` or `"crossprop-approx"`;
      a function that makes one, such as `functools.partial(crossprop.Foresight, ahead=2.0)`; or a learner of yours,
      which brings its own network, resized to the data: the next five arguments are then left out.
    - `hidden`: hidden units, an int or a tuple with one number per layer. `activation`, `layer_norm`: as in
      `crossprop.Network`.
    - `step_size`, `optimizer`: as in `crossprop.Backprop`. None is five step sizes at once, by `crossprop.Best`.
    - `scale`: whether inputs are normalised while learning, by `crossprop.Normalize`.
    - `seed`: of the initial weights; None takes another one every time.

    ```python
    model = Classifier("foresight", hidden=(64, 64), seed=0).warm_up(inputs=30)
    ```
    """

    _loss, _outputs = "softmax", 2

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Learns from one example; its features and its label may be new. With half the largest weight `w` so far its
        steps are half as large."""
        self._check_label(y)
        weights, row = _weights(w, 1), self._row_to_learn(x)
        self._model.learn(row, np.array([self._model.number(y)]), weights)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """The probability of every label that was seen so far."""
        return dict(zip(self._labels, softmax(self._answer(x)).tolist(), strict=True)) if self._labels else {}

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> base.typing.ClfTarget | None:
        """The most probable label, or None before the first."""
        return self._labels[self._answer(x).argmax()] if self._labels else None

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learns from the rows of a data frame one after the other, as `learn_one` does."""
        frame, labels = checked_frame(X, y)
        weights = _weights(w, len(labels))
        for label in labels:
            self._check_label(label)
        if not labels:
            return
        self._take_in(frame.columns)
        rows, known = self._rows(frame), {*self._labels}
        new = [at for at, label in enumerate(labels) if label not in known and label not in labels[:at]]
        for first, end in pairwise(dict.fromkeys([0, *new, len(labels)])):  # each part begins with a new label
            numbers = np.array([self._model.number(label) for label in labels[first:end]])
            self._model.learn(rows[first:end], numbers, None if weights is None else weights[first:end])

    def predict_proba_many(self, X: Any) -> Any:
        """A data frame with the probability of every label that was seen so far."""
        frame = dataframe.into_frame(X)
        chances = softmax(self._answers(frame), axis=1) if self._labels else np.zeros((len(frame), 0))
        return dataframe.to_native_frame(dict(zip(self._labels, chances.T, strict=True)), like=frame)

    def predict_many(self, X: Any) -> Any:
        """The most probable label of every row, or None before the first."""
        frame, names = dataframe.into_frame(X), self._labels
        best = [names[at] for at in self._answers(frame).argmax(axis=1)] if names else [None] * len(frame)
        return dataframe.to_native_series(best, name=None, like=frame)

    @property
    def _labels(self) -> list[Any]:
        return [] if self._model is None else [*self._model.labels]

    def _check_label(self, y: Any) -> None:
        try:
            hash(y)
        except TypeError:
            raise TypeError(f"y must be a label, got {check.shown(y)}") from None
        if y is None or (isinstance(y, float) and math.isnan(y)):
            raise ValueError(f"y must be a label, got {check.shown(y)}")


@with_public_names
@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(_Online, base.MiniBatchRegressor):
    """A network that learns features online, as a River regressor with squared error.

    **Arguments:** as `Classifier`; `scale` normalises targets as well. Before the first example `predict_one` gives 0.

    ```python
    model = Regressor("backprop", hidden=64, seed=0)
    ```
    """

    _loss, _outputs = "squared", 1

    def learn_one(self, x: dict[Any, Any], y: base.typing.RegTarget, w: float = 1.0) -> None:
        """Learns from one example; its features may be new. With half the largest weight `w` so far its steps are half
        as large."""
        target, weights = finite_number("y", y), _weights(w, 1)
        self._model_learn(self._row_to_learn(x), [target], weights)

    def predict_one(self, x: dict[Any, Any]) -> base.typing.RegTarget:
        """The output for an example."""
        return 0.0 if self._model is None else float(self._answer(x)[0])

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learns from the rows of a data frame one after the other, as `learn_one` does."""
        frame, targets = checked_frame(X, y)
        numbers = [finite_number(f"y[{at}]", value) for at, value in enumerate(targets)]
        weights = _weights(w, len(numbers))
        if numbers:
            self._take_in(frame.columns)
            self._model_learn(self._rows(frame), numbers, weights)

    def predict_many(self, X: Any) -> Any:
        """The output for every row of a data frame."""
        frame = dataframe.into_frame(X)
        values = np.zeros(len(frame)) if self._model is None else self._answers(frame)[:, 0]
        return dataframe.to_native_series(values, name=None, like=frame)

    def _model_learn(self, rows: np.ndarray, targets: list[float], weights: np.ndarray | None) -> None:
        self._model.learn(rows, np.array(targets)[:, None], weights)


def _weights(w: Any, count: int) -> np.ndarray | None:
    """The weights of examples; None if all are 1."""
    if isinstance(w, float) and w == 1.0:
        return None
    weights = np.asarray(w if np.ndim(w) == 0 else dataframe.into_series(w).to_list(), float)  # pyright: ignore[reportArgumentType]
    if weights.shape not in ((), (count,)) or not (weights >= 0).all() or not np.isfinite(weights).all():
        raise ValueError(f"w must be a number that is at least 0, or one for each row, got {check.shown(w)}")
    return np.broadcast_to(weights, (count,))
