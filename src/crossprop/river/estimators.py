"""Online learners as River estimators.

Features may come, go and change their order, and labels may appear at any time: the network grows. It is given inputs
for twice as many features, or outputs for twice as many labels, when it has too few, so that it is seldom compiled
anew. An input that no feature has yet is 0, and an output that no label has yet has a probability of 0.
(Optimizers that move weights without a gradient, such as `clip_weights` at once and weight decay in time, let such
outputs take part in learning; only labels that were seen are ever predicted.)
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from river import base
from river.utils import dataframe
from scipy.special import softmax

from crossprop._support import checks as check
from crossprop.learners import LEARNERS, Learner
from crossprop.network import float_type
from crossprop.passes import live, predict
from crossprop.river.values import LARGEST, check_features, check_frame, checked_frame, finite_number
from crossprop.seeds import keys
from crossprop.specification import estimator_learner

NEVER = -1e9
"""The bias of an output that no label has yet: softmax makes it 0, exactly, and so it does not learn."""

LearnerBuilder = str | Callable[..., Learner]


class _Online:
    """What both estimators share: the learner, its state, and which input is which feature."""

    _loss: str
    _made: Any
    _state: Any

    def __init__(
        self,
        learner: LearnerBuilder = "foresight",
        *,
        hidden: int | tuple[int, ...] = (100,),
        step_size: float | None = None,
        optimizer: Any = "sgd",
        activation: str = "tanh",
        layer_norm: bool = False,
        seed: int | None = None,
    ) -> None:
        self.learner, self.hidden, self.step_size, self.optimizer = learner, hidden, step_size, optimizer
        self.activation, self.layer_norm, self.seed = activation, layer_norm, seed
        self._slots: dict[Any, int] = {}
        self._labels: dict[Any, int] = {}
        self._targets = np.eye(2, dtype=float_type())
        self._made, self._state, self._diverged = None, None, False
        self._seed = None if seed is None else check.integer("seed", seed, low=0)
        self._build(1, 1)  # finds bad arguments

    def _build(self, inputs: int, outputs: int) -> Learner:
        build = self.learner if callable(self.learner) else LEARNERS.find("learner", self.learner)
        return estimator_learner(build, self, inputs, outputs, self._loss)

    def _grow(self, inputs: int, outputs: int, used: int) -> None:
        """A network of these sizes, with all that it knew; `used` of its outputs take part."""
        learner = self._build(inputs, outputs)
        if self._seed is None:
            self._seed = int(np.random.default_rng().integers(2**31))
        state: Any = learner.init(keys(self._seed)[1])
        if self._made is not None:
            before = self._made.network
            constant = before.inputs + 1 if before.inputs != inputs else None
            state = jax.tree.map(lambda old, new: _placed(old, new, constant), self._state, state)
        if used < outputs:
            if getattr(state, "outgoing", None) is None:
                raise TypeError(f"learner must have its outgoing weights in state.outgoing, got {check.shown(learner)}")
            state = _with_biases(state, slice(used, None), NEVER)
        self._made, self._state = learner, state

    def _take_in(self, names: Iterable[Any], outputs: int, used: int) -> None:
        """Gives an input to every feature that has none, whatever the order of `names`."""
        new = sorted((name for name in names if name not in self._slots), key=lambda name: (str(type(name)), str(name)))
        room = 0 if self._made is None else self._made.network.inputs
        needed = len(self._slots) + len(new)
        if needed > room or not room:
            self._grow(max(needed, 2 * room, 1), outputs, used)
        for name in new:
            self._slots[name] = len(self._slots)

    def _row_to_learn(self, x: Any, outputs: int, used: int) -> np.ndarray:
        """The features of an example in their places, also those that are new."""
        if self._state is None or type(x) is not dict or not x.keys() <= self._slots.keys():
            check_features(x)
            self._take_in(x, outputs, used)
        return self._row(x)

    def _row(self, x: Mapping[Any, Any]) -> np.ndarray:
        """The known features of an example in their places."""
        row = np.zeros(self._made.network.inputs)
        values = np.array([x.get(name, 0.0) for name in self._slots])
        if values.dtype.kind not in "buif":
            check_features(x)
        row[: len(values)] = values
        if not row @ row < LARGEST**2:
            check_features(x)
        return row.astype(float_type())

    def _rows(self, frame: Any) -> np.ndarray:
        """The known features of a frame's examples in their places."""
        rows = np.zeros((len(frame), self._made.network.inputs))
        known = [name for name in frame.columns if name in self._slots]
        if known:
            rows[:, [self._slots[name] for name in known]] = dataframe.to_numpy(frame.select(known))
        return rows.astype(float_type())

    def _answers(self, frame: Any) -> np.ndarray:
        """The outputs for a frame's examples; their number is filled up, so that few programs are compiled."""
        check_frame(frame)
        rows = self._rows(frame)
        whole = np.zeros((1 << max(len(rows) - 1, 0).bit_length(), rows.shape[1]), rows.dtype)
        whole[: len(rows)] = rows
        return self._finite(np.asarray(predict(self._made, self._state, whole), np.float64)[: len(rows)])

    def _answer(self, x: Any) -> np.ndarray:
        """The outputs for an example."""
        return self._finite(np.asarray(self._made.predict(self._state, self._row(x)), np.float64))

    def _finite(self, outputs: np.ndarray) -> np.ndarray:
        """The outputs, with a warning the first time that they are not finite."""
        if not self._diverged and not np.isfinite(outputs.sum()):
            self._diverged = True
            warnings.warn(
                f"this {type(self).__name__} diverged: its outputs are no longer finite. A smaller step_size may help, "
                "as may preprocessing.StandardScaler() before it",
                stacklevel=3,
            )
        return outputs


class Classifier(_Online, base.MiniBatchClassifier):
    """A network that learns features online, as a River classifier with softmax and cross-entropy.

    It learns from one example after the other, by any learner of this package; `learn_many` does the same in one
    compiled call. Scale the inputs before it, such as by `river.preprocessing.StandardScaler`. Before the first label,
    `predict_one` gives None and `predict_proba_one` an empty dict.

    **Arguments:**

    - `learner`: a name in `crossprop.learners.LEARNERS`, such as `"foresight"`, `"backprop"` or `"crossprop-approx"`,
      or a function that makes one, such as `functools.partial(crossprop.Foresight, ahead=2.0)`.
    - `hidden`: hidden units, an int or a tuple with one number per layer. `activation`, `layer_norm`: as in
      `crossprop.Network`.
    - `step_size`, `optimizer`: as in `crossprop.Backprop`. None is a step size of 0.01, for a `Regressor` 0.003.
    - `seed`: of the initial weights; None takes another one every time.

    ```python
    model = preprocessing.StandardScaler() | Classifier("foresight", hidden=(64, 64), seed=0)
    ```
    """

    _loss = "softmax"

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: base.typing.ClfTarget) -> None:
        """Learns from one example; its features and its label may be new."""
        label = self._label(y)
        row = self._row_to_learn(x, len(self._targets), len(self._labels))
        label = self._add_label(y) if label is None else label
        self._state, _ = self._made.update(self._state, row, self._targets[label])

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[base.typing.ClfTarget, float]:
        """The probability of every label that was seen so far."""
        if not self._labels:
            return {}
        chances = softmax(self._answer(x)[: len(self._labels)])
        return dict(zip(self._labels, chances.tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> base.typing.ClfTarget | None:
        """The most probable label, or None before the first."""
        if not self._labels:
            return None
        return [*self._labels][self._answer(x)[: len(self._labels)].argmax()]

    def learn_many(self, X: Any, y: Any) -> None:
        """Learns from the rows of a data frame one after the other, as `learn_one` does."""
        frame, labels = checked_frame(X, y)
        new = [at for at, label in enumerate(labels) if self._label(label) is None and label not in labels[:at]]
        if not labels:
            return
        self._take_in(frame.columns, len(self._targets), len(self._labels))
        rows = self._rows(frame)
        for first, end in pairwise(dict.fromkeys([0, *new, len(labels)])):  # a new label has the first row of its part
            if labels[first] not in self._labels:
                self._add_label(labels[first])
            numbers = np.array([self._labels[label] for label in labels[first:end]])
            self._state, _ = live(self._made, self._state, rows[first:end], numbers)

    def predict_proba_many(self, X: Any) -> Any:
        """A data frame with the probability of every label that was seen so far."""
        frame = dataframe.into_frame(X)
        chances = (
            softmax(self._answers(frame)[:, : len(self._labels)], axis=1) if self._labels else np.zeros((len(frame), 0))
        )
        return dataframe.to_native_frame(dict(zip(self._labels, chances.T, strict=True)), like=frame)

    def predict_many(self, X: Any) -> Any:
        """The most probable label of every row, or None before the first."""
        frame = dataframe.into_frame(X)
        names: list[Any] = [*self._labels]
        best: list[Any] = [None] * len(frame)
        if names:
            best = [names[at] for at in self._answers(frame)[:, : len(names)].argmax(axis=1)]
        return dataframe.to_native_series(best, name=None, like=frame)

    def _label(self, y: Any) -> int | None:
        """The number of a label, or None if it is new."""
        try:
            label = self._labels.get(y)
        except TypeError:
            raise TypeError(f"y must be a label, got {check.shown(y)}") from None
        if label is None and (y is None or (isinstance(y, float) and math.isnan(y))):
            raise ValueError(f"y must be a label, got {check.shown(y)}")
        return label

    def _add_label(self, y: Any) -> int:
        """Gives an output to a new label."""
        label = self._labels[y] = len(self._labels)
        if label == len(self._targets):
            self._grow(self._made.network.inputs, 2 * label, label)
            self._targets = np.eye(2 * label, dtype=float_type())
        self._state = _with_biases(self._state, label, 0.0)
        return label


class Regressor(_Online, base.MiniBatchRegressor):
    """A network that learns features online, as a River regressor with squared error.

    **Arguments:** as `Classifier`. Scale inputs and targets before it, such as by `river.preprocessing.StandardScaler`
    and `river.preprocessing.TargetStandardScaler`. Before the first example `predict_one` gives 0.

    ```python
    model = preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(Regressor("backprop", seed=0))
    ```
    """

    _loss = "squared"

    def learn_one(self, x: dict[Any, Any], y: base.typing.RegTarget) -> None:
        """Learns from one example; its features may be new."""
        target = np.array([finite_number("y", y)], float_type())
        row = self._row_to_learn(x, 1, 1)
        self._state, _ = self._made.update(self._state, row, target)

    def predict_one(self, x: dict[Any, Any]) -> base.typing.RegTarget:
        """The output for an example."""
        return 0.0 if self._state is None else float(self._answer(x)[0])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learns from the rows of a data frame one after the other, as `learn_one` does."""
        frame, targets = checked_frame(X, y)
        numbers = [finite_number(f"y[{at}]", value) for at, value in enumerate(targets)]
        if numbers:
            self._take_in(frame.columns, 1, 1)
            self._state, _ = live(self._made, self._state, self._rows(frame), np.array(numbers, float_type()))

    def predict_many(self, X: Any) -> Any:
        """The output for every row of a data frame."""
        frame = dataframe.into_frame(X)
        values = np.zeros(len(frame)) if self._state is None else self._answers(frame)[:, 0]
        return dataframe.to_native_series(values, name=None, like=frame)


def _placed(old: Any, new: Any, constant: int | None) -> Any:
    """An array of a state in that of a larger network. The last row of an axis of length `constant` stays the last."""
    if old.shape == new.shape:
        return old
    places = []
    for length, larger in zip(old.shape, new.shape, strict=True):
        place = np.arange(length)
        if length == constant and length != larger:
            place[-1] = larger - 1
        places.append(place)
    values = np.array(new)  # not JAX's own way, which would compile a program for these shapes
    values[np.ix_(*places)] = old
    return jnp.asarray(values)


def _with_biases(state: Any, outputs: Any, value: float) -> Any:
    """The state with other biases of some outputs."""
    outgoing = np.array(state.outgoing)
    outgoing[outputs, -1] = value
    return eqx.tree_at(lambda state: state.outgoing, state, jnp.asarray(outgoing))
