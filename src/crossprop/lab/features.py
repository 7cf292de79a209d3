"""Pictures of a run's features: incoming weights, and activations of the hidden units, task after task."""

import base64
import math
from typing import Any

import numpy as np

from crossprop.engines.feed import Feed
from crossprop.engines.protocol import Run
from crossprop.learners.base import NetworkLearner, features_of, innermost
from crossprop.seeds import keys

EXAMPLES = 64
"""The first examples of the stream, on which the hidden units are evaluated."""
PICTURES = 24
"""Units whose incoming weights are drawn, if they are pictures."""
UNITS = 100
ROWS = 12
"""Visits to tasks that are shown; of more, the first and the last ones."""
LEAST_SIDE = 5
"""Inputs are taken for the pixels of a square picture from this side on."""


class Features:
    """The features of one run, compared with those before the first example."""

    def __init__(self, run: Run, feed: Feed):
        self.learner = run.learner
        initial = run.learner.init(keys(run.seed)[1])
        self.initial = self._incoming(initial)
        self.x = np.asarray(feed.take(0, min(EXAMPLES, run.stream.steps or EXAMPLES))[0][0])
        self.rows: list[tuple[str, np.ndarray, float]] = []
        self.first = self._activations(initial)
        if self.first is not None:
            means = self.first.mean(axis=0)
            self.order = np.argsort(means)[np.linspace(0, len(means) - 1, min(UNITS, len(means))).astype(int)]
            self.rows.append(("start", means, 1.0))

    def look(self, state: Any, task: str, visit_ends: bool) -> dict[str, Any] | None:
        """Pictures of what the learner has: weights, activations; None if they are no longer finite."""
        incoming, now = self._incoming(state), self._activations(state)
        if not all(each is None or np.isfinite(each).all() for each in (incoming, now)):
            return None
        found: dict[str, Any] = {}
        if incoming is not None and self.initial is not None:
            found |= {"weights": self._pictures(incoming), "change": self._pictures(incoming - self.initial)}
        if now is not None and self.first is not None:
            found["activity"] = self._activity(self.first, now, task, visit_ends)
        return found

    def _activity(self, first: np.ndarray, now: np.ndarray, task: str, visit_ends: bool) -> dict[str, Any]:
        row = (task if visit_ends else "now", now.mean(axis=0), correlation(first, now))
        shown = [*self.rows, row]
        means = np.array([means[self.order] for _, means, _ in shown])
        if visit_ends:
            self.rows = shown if len(shown) < ROWS else [*shown[: ROWS // 2], *shown[1 + ROWS // 2 :]]
        return {
            "rows": [name for name, _, _ in shown],
            "kept": [None if math.isnan(kept) else round(kept, 3) for _, _, kept in shown],
            "units": len(self.order),
            "pixels": _bytes(means / max(1.0, float(np.abs(means).max()))),
        }

    def _incoming(self, state: Any) -> np.ndarray | None:
        """The weights from the inputs to the first hidden layer, `(inputs, units)`, without biases."""
        inputs, named = self.learner.network.inputs, self.learner.weights(state).get("incoming")
        while hasattr(state, "inner"):
            state = state.inner
        if isinstance(innermost(self.learner), NetworkLearner):
            named = state.incoming[0][:inputs] if state.incoming else None
        if named is None or np.ndim(named) != 2 or len(named) != inputs:
            return None
        return np.asarray(named, np.float64)

    def _activations(self, state: Any) -> np.ndarray | None:
        """The activations of the last hidden layer, `(examples, units)`."""
        layers = features_of(self.learner, state, self.x)
        return None if layers is None else np.asarray(layers[-1], np.float64)

    def _pictures(self, weights: np.ndarray) -> dict[str, Any]:
        """Pictures of single units if the inputs are pixels, else one of all weights, a column per unit."""
        inputs = len(weights)
        side = math.isqrt(inputs)
        if side * side == inputs and side >= LEAST_SIDE:
            chosen = weights.T[:PICTURES]
            largest = np.maximum(np.abs(chosen).max(axis=1, keepdims=True), np.finfo(float).tiny)
            return {"count": len(chosen), "width": side, "height": side, "pixels": _bytes(chosen / largest)}
        chosen = weights[:UNITS, :UNITS]
        largest = max(float(np.abs(chosen).max()), float(np.finfo(float).tiny))
        return {"count": 1, "width": chosen.shape[1], "height": chosen.shape[0], "pixels": _bytes(chosen / largest)}


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's correlation of all numbers; NaN if one does not vary."""
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    norms = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norms if norms else math.nan


def _bytes(values: np.ndarray) -> str:
    """Numbers from -1 to 1 as bytes from 1 to 255, in base 64."""
    return base64.b64encode((128 + np.round(127 * np.clip(values, -1, 1))).astype(np.uint8).tobytes()).decode()
