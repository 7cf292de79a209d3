"""The common part of the estimators for scikit-learn and River: a learner that grows with its inputs and labels."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import wraps
from inspect import signature
from types import SimpleNamespace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop._support import forks
from crossprop.learners import LEARNERS, Best, Learner, Normalize, Outcome
from crossprop.learners.base import Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import Network, float_type
from crossprop.passes import answers, learn_from, padded_lengths
from crossprop.seeds import keys

NEVER = -1e9
"""The bias of an output that no label has yet: its softmax is exactly 0, so it does not learn."""
FARTHEST = 1e18
"""Inputs and targets are clipped to this, so that float32 can hold their squares."""
ROWS = 64
"""Rows predicted at a time, padded: a prediction does not depend on the number of rows."""
OTHER_NAMES = {
    "hidden_layer_sizes": "hidden",
    "learning_rate": "step_size",
    "learning_rate_init": "step_size",
    "max_iter": "epochs",
    "solver": "optimizer",
}
"""Names of arguments in other packages."""


Estimator = TypeVar("Estimator", bound=type)


@dataclass(eq=False, repr=False)
class Arguments:
    """The arguments that all estimators have."""

    learner: Any = "foresight"
    _: KW_ONLY
    hidden: int | tuple[int, ...] = (100,)
    step_size: float | None = None
    optimizer: Any = "sgd"
    activation: str = "tanh"
    layer_norm: bool = False
    scale: bool = True


def with_public_names(estimator: Estimator) -> Estimator:
    """Class decorator: the error for an unknown argument has the name that it has here."""
    init = estimator.__init__

    @wraps(init)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        known = [*signature(init).parameters][1:]
        for name in named:
            if name not in known:
                hint = f"; here it is {OTHER_NAMES[name]}" if OTHER_NAMES.get(name) in known else ""
                raise TypeError(
                    f"{type(self).__name__} has no argument {name}{hint}; its arguments: {', '.join(known)}"
                )
        init(self, *values, **named)

    estimator.__init__ = checked
    return estimator


def built(estimator: Any, inputs: int, outputs: int, loss: str) -> Learner:
    """The learner that the arguments of an estimator describe."""
    check.flag("scale", estimator.scale)
    given = estimator.learner
    given = LEARNERS.find("learner", given) if isinstance(given, str) else given
    if isinstance(given, Learner):
        _check_own(estimator, loss)
        learner = resized(given, inputs, outputs)
    elif callable(given):
        start = {"bias": True, "incoming_scale": "lecun", "outgoing_scale": "lecun"}
        shape = {"activation": estimator.activation, "layer_norm": estimator.layer_norm}
        network = Network(inputs, estimator.hidden, outputs, loss=loss, **start, **shape)
        step_size = 1.0 if estimator.step_size is None else estimator.step_size
        learner = given(network, step_size=step_size, optimizer=estimator.optimizer)
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must make a crossprop learner, got {check.shown(learner)}")
        learner = Best(learner) if estimator.step_size is None else learner
    else:
        raise TypeError(
            "learner must be a name, such as 'foresight', a learner or a function that makes one, got "
            f"{check.shown(given)}"
        )
    return Normalize(learner, scale_targets=loss == "squared") if estimator.scale else learner


def _check_own(estimator: Any, loss: str) -> None:
    """Checks the loss of a user's learner, and that arguments which describe another one are left out."""
    if (has := estimator.learner.network.loss) != loss:
        raise ValueError(f"learner.network.loss must be {loss!r}, got {has!r}")
    for name in ("hidden", "step_size", "optimizer", "activation", "layer_norm"):
        if (given := getattr(estimator, name)) != (default := signature(type(estimator)).parameters[name].default):
            raise ValueError(
                f"{name} must be left at {default!r} with a learner of yours, which has its own, got "
                f"{check.shown(given)}"
            )


def resized(learner: Any, inputs: int, outputs: int) -> Any:
    """A learner with another number of inputs and outputs."""
    if (learner.network.inputs, learner.network.outputs) == (inputs, outputs):
        return learner
    if isinstance(learner, Wrapper):
        return replace(learner, learner=resized(learner.learner, inputs, outputs))
    if not isinstance(learner.network, Network):
        raise ValueError(
            f"learner.network must have {inputs} inputs and {outputs} outputs, got {check.shown(learner.network)}"
        )
    return replace(learner, network=replace(learner.network, inputs=inputs, outputs=outputs))


class Model:
    """A learner with its state, which grows without forgetting; in a classifier, which output is which label."""

    def __init__(self, learner: Learner, seed: int, labels: Iterable[Any] = ()):
        self.seed, self.heaviest = seed, 0.0
        self.labels = {label: number for number, label in enumerate(labels)}
        self.offset = np.zeros(learner.network.inputs)
        self.begun = False
        self._take(learner, None)

    def _take(self, learner: Learner, before: Any) -> None:
        """Continues with this learner, from the state of a smaller one."""
        self.state: Any = learner.init(keys(self.seed)[1])
        if before is not None:
            constant = self.learner.network.inputs + 1 if len(self.offset) != learner.network.inputs else None
            self.state = jax.tree.map(lambda old, new: _placed(old, new, constant), before, self.state)
        self.offset = np.pad(self.offset, (0, learner.network.inputs - len(self.offset)))
        self.learner, self.weighted = learner, Weighted(learner)  # pyright: ignore[reportCallIssue]
        self.is_classifier = learner.network.loss == "softmax"
        self.targets = np.eye(learner.network.outputs, dtype=float_type())
        if self.used < learner.network.outputs:
            self.state = _with_biases(learner, self.state, slice(self.used, None), NEVER)

    @property
    def used(self) -> int:
        """The number of outputs in use."""
        return len(self.labels) if self.is_classifier else self.learner.network.outputs

    def make_room(self, inputs: int, outputs: int = 1) -> None:
        """Grows to at least so many inputs and outputs, and at least doubles what it has to grow."""
        network = self.learner.network
        larger = (
            now if needed <= now else max(needed, 2 * now)
            for needed, now in ((inputs, network.inputs), (outputs, network.outputs))
        )
        learner = resized(self.learner, *larger)
        if learner is not self.learner:
            self._take(learner, self.state)

    def number(self, label: Any) -> int:
        """The output of a label, which may be new."""
        number = self.labels.get(label)
        if number is None:
            number = len(self.labels)
            self.make_room(0, number + 1)
            self.state = _with_biases(self.learner, self.state, number, 0.0)
            self.labels[label] = number
        return number

    def learn(self, rows: np.ndarray, targets: np.ndarray, weights: Any = None) -> np.ndarray:
        """Learns from examples one after the other; returns their losses, from before. Targets are `(rows, outputs)`,
        or numbers of outputs. An example with a weight of half the largest so far has steps of half the size."""
        learner = self.learner
        if not self.begun and isinstance(learner, Normalize):
            self.offset = np.array(rows[0])  # float32 has seven digits, which large numbers like times need
        self.begun, x = True, self._inputs(rows)
        if weights is None and self.heaviest != 1:
            weights = np.ones(len(x))
        if weights is not None:
            self.heaviest = float(np.max(weights, initial=self.heaviest))
            if self.heaviest == 0 or (weights != self.heaviest).any():
                learner, x = self.weighted, np.column_stack([x, weights / (self.heaviest or 1)]).astype(x.dtype)
        y = self.targets[targets] if self.is_classifier else targets.astype(x.dtype)
        if len(x) == 1:
            self.state, outcome = learner.update(self.state, x[0], y[0])
            return np.asarray(outcome.loss)
        self.state, outcomes = learn_from(learner, self.state, x, y)
        return np.asarray(outcomes.loss)[: len(x)]

    def answer(self, rows: np.ndarray) -> np.ndarray:
        """The outputs in use for examples."""
        forks.check()
        x, parts = self._inputs(rows), []
        for first in range(0, max(len(x), 1), ROWS):
            part = x[first : first + ROWS]
            whole = np.zeros((ROWS, x.shape[1]), x.dtype)
            whole[: len(part)] = part
            parts.append(np.asarray(answers(self.learner, self.state, whole), np.float64)[: len(part), : self.used])
        return np.concatenate(parts)

    def answer_one(self, row: np.ndarray) -> np.ndarray:
        """The outputs in use for one example, `(1, inputs)`: faster, with differences in the last bits."""
        return np.asarray(self.learner.predict(self.state, self._inputs(row)[0]), np.float64)[: self.used]

    def warm_up(self, rows: int) -> None:
        """Compiles the programs for any number of examples up to `rows`; nothing is learned."""
        check.integer("rows", rows, low=1)
        before = vars(self).copy()
        for count in padded_lengths(rows):
            zeros = np.zeros((count, len(self.offset)))
            targets = np.zeros(count, int) if self.is_classifier else np.zeros((count, self.used))
            self.learn(zeros, targets)
            self.learn(zeros, targets, np.full(count, self.heaviest))  # which is another program if it is not 1
            self.answer(zeros)
            self.answer_one(zeros[:1])
        vars(self).update(before)

    def _inputs(self, rows: np.ndarray) -> np.ndarray:
        rows = rows - self.offset
        if not np.vdot(rows, rows) < FARTHEST**2:
            rows = np.clip(rows, -FARTHEST, FARTHEST)
        return rows.astype(float_type())


class Weighted(Learner):
    """A learner whose last input is the example's weight, a factor of its step sizes."""

    learner: Any

    @property
    def network(self) -> Any:
        network = self.learner.network
        return SimpleNamespace(inputs=network.inputs + 1, outputs=network.outputs, loss=network.loss)

    def init(self, key: Key[Array, ""]) -> Any:
        return self.learner.init(key)

    def predict(self, state: Any, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return self.learner.predict(state, x[:-1])

    @compiled_method
    def update(self, state: Any, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[Any, Outcome]:
        return _with_steps(self.learner, x[-1]).update(state, x[:-1], y)

    def weights(self, state: Any) -> dict[str, Array]:
        return self.learner.weights(state)


def _with_steps(learner: Any, factor: Any) -> Any:
    """The learner with its step sizes, and the rate at which `Best` averages losses, times a factor."""
    if isinstance(learner, Best):
        sizes, horizon = tuple(factor * size for size in learner.step_sizes), learner.horizon / factor
        return replace(learner, step_sizes=sizes, horizon=horizon)
    if isinstance(learner, Wrapper):
        return replace(learner, learner=_with_steps(learner.learner, factor))
    sizes = {name: getattr(learner, name, None) for name in ("step_size", "incoming_step_size")}
    if sizes["step_size"] is None:
        raise ValueError(f"learner must have a step_size where examples have weights, got {check.shown(learner)}")
    scaled = {name: jax.tree.map(lambda size: factor * size, size) for name, size in sizes.items() if size is not None}
    return replace(learner, **scaled)


def _placed(old: Any, new: Any, constant: int | None) -> Any:
    """An array of a state put into that of a larger network. On axes of length `constant` the last row stays last."""
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


def _with_biases(learner: Any, state: Any, outputs: Any, value: float) -> Any:
    """The state with other biases of some outputs."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(state)
    found = [at for at, (path, _) in enumerate(leaves) if getattr(path[-1], "name", None) == "outgoing"]
    if not found or not getattr(learner.network, "bias", False):
        raise TypeError(
            f"learner must have its outgoing weights, with a bias, in state.outgoing, got {check.shown(learner)}"
        )
    values = [leaf for _, leaf in leaves]
    for at in found:
        outgoing = np.array(values[at])
        outgoing[..., outputs, -1] = value
        values[at] = jnp.asarray(outgoing)
    return jax.tree.unflatten(structure, values)
