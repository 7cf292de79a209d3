"""Variables: what is recorded of a run, once per window. Sums, names, sizes, titles and axes follow from this table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

AnyProbe = TypeVar("AnyProbe", bound=Callable[..., Any])


@dataclass(frozen=True)
class Variable:
    """Something recorded of a run, one value per window, with its title for axes and its unit."""

    name: str
    of: Any = None
    """For an example `of(outcome, y)`, or `of(outcome, y, after)`; for weights `of(*changes)`, the arrays of their
    changes since the start; for a state as `probed` calls it. None in records, where it is computed already."""
    reads: Literal["example", "weights", "state"] = "example"
    """An example's values are averaged over the window; the others are read at its end."""
    after: bool = False
    """Whether it also sees the outcome of an example after learning from it."""
    title: str = ""
    unit: str = ""
    log: bool = False
    """Whether charts show it on a logarithmic axis unless told otherwise."""

    @property
    def averaged(self) -> bool:
        """Whether a value is the mean over its window; otherwise that at the window's end."""
        return self.reads == "example"


def with_learner(probe: AnyProbe) -> AnyProbe:
    """Decorator for a probe that also sees the learner, as `f(initial_state, state, learner)`."""
    setattr(probe, "with_learner", True)  # noqa: B010, an attribute that functions do not declare
    return probe


def probed(probe: Callable[..., Any], initial: Any, state: Any, learner: Any) -> Any:
    """The value of a probe."""
    return probe(initial, state, learner) if getattr(probe, "with_learner", False) else probe(initial, state)


def norm(*changes: jax.Array) -> jax.Array:
    """The Euclidean norm of all these numbers, at full precision on every device."""
    squares = [jnp.vdot(change, change, precision=lax.Precision.HIGHEST) for change in changes]
    return jnp.sqrt(reduce(jnp.add, squares)) if squares else jnp.zeros(())


LOSS = Variable("loss", lambda outcome, y: outcome.loss, title="squared error", log=True)
ERROR = Variable(
    "error",
    lambda outcome, y: jnp.argmax(outcome.outputs) != jnp.argmax(y),
    title="share misclassified",
    unit="fraction of examples",
)
KNOWN = Variable(
    "known",
    lambda outcome, y: jnp.mean(~jnp.isnan(y[2::3])),
    title="share of examples whose return is known",
    unit="fraction of examples",
)
"""Of predictions: where it is 1, `loss` is the squared error of the return; where it is 0, the squared TD error."""
INCOMING = Variable("incoming_drift", norm, "weights", title="change of incoming weights, |U − U₀|", log=True)
OUTGOING = Variable("outgoing_drift", norm, "weights", title="change of outgoing weights, |W − W₀|", log=True)
VARIABLES = {variable.name: variable for variable in (LOSS, ERROR, KNOWN, INCOMING, OUTGOING)}
DRIFT = "drift_"
"""Prefix of the drift of weights other than U and W."""


def drift(weights: str) -> Variable:
    """The drift of the weights of this name."""
    title = f"change of {weights.replace('_', ' ')}"
    return VARIABLES.get(f"{weights}_drift") or Variable(DRIFT + weights, norm, "weights", title=title, log=True)


def of_examples(loss: str, predicts: bool = False) -> tuple[Variable, ...]:
    """The variables of the examples of every run, by the kind of its loss and whether its learner predicts."""
    if predicts:
        return LOSS, KNOWN
    return (LOSS, ERROR) if loss == "softmax" else (LOSS,)


def functions(variables: Iterable[Variable]) -> dict[str, Any]:
    """The function of every variable, by name."""
    return {variable.name: variable.of for variable in variables}


def window_ends(steps: int, record_every: int, first: int = 0) -> np.ndarray:
    """The coordinate `step` of the records: the number of examples before each window's end."""
    return np.append(np.arange((first // record_every + 1) * record_every, steps, record_every), steps)


def window_lengths(ends: np.ndarray, first: int = 0) -> np.ndarray:
    """The coordinate `window` of the records: the number of examples in each window."""
    return np.diff(ends, prepend=first)
