"""One pass over arrays of examples: `live` learns from them, `predict` only answers."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from crossprop._support import checks as check
from crossprop._support import forks
from crossprop._support.programs import make_room, program
from crossprop._support.transfers import this_device, to_device
from crossprop.engines.protocol import Rows
from crossprop.engines.scan import ExampleLoop
from crossprop.engines.segments import compiled
from crossprop.learners.base import Learner, Outcome, checked_learner
from crossprop.learners.calling import as_targets
from crossprop.learners.states import check_state
from crossprop.network import float_type
from crossprop.source_identity import drop_outdated_programs

ROWS = 4096
"""The most examples of a `predict` on the device at a time."""


def live(learner: Learner, state: Any, x: Any, y: Any) -> tuple[Any, Outcome]:
    """Learns from examples one after the other, in one compiled pass: the fast form of a loop of `update`.

    **Arguments:**

    - `learner`, `state`: as for `learner.update`.
    - `x`: `(examples, inputs)`. `y`: `(examples, outputs)`, or classes `(examples,)` if the loss is softmax, or
      numbers `(examples,)` if there is one output.

    **Returns:** the state after the last example, and an `Outcome` with `loss (examples,)` and
    `outputs (examples, outputs)`, from before learning from each.

    ```python
    learner = Backprop(Network(inputs=3, hidden=10), step_size=0.01)
    state, outcomes = live(learner, learner.init(jax.random.key(0)), np.ones((100, 3)), np.ones(100))
    ```
    """
    x, y = checked_examples(learner, x, y)
    make_room()
    drop_outdated_programs(learner)
    check_state(learner, state)
    if check.is_traced(x) or check.is_traced(y):  # it becomes a part of the caller's own program
        return _pass(learner, state, jnp.asarray(x), jnp.asarray(y), len(x), whole=False)
    state, outcomes = learn_from(learner, state, x, y)
    return state, Outcome(*(values[: len(x)] for values in outcomes))


def learn_from(learner: Learner, state: Any, x: np.ndarray, y: np.ndarray) -> tuple[Any, Outcome]:
    """`live` without its checks; the outcomes are padded."""
    drop_outdated_programs(learner)
    length = padded_length(len(x))
    padded = (np.concatenate([each, np.zeros((length - len(each), each.shape[1]), each.dtype)]) for each in (x, y))
    platform = this_device().platform
    learn_from_all = compiled(_pass, platform, static_argnames="whole")
    return learn_from_all(learner, state, *to_device([*padded]), len(x), whole=platform == "cpu")


def predict(learner: Learner, state: Any, x: Any) -> Float[Array, "examples outputs"]:
    """The linear outputs, before any softmax, for many examples `x (examples, inputs)`."""
    checked_learner(learner)
    x = _rows("x", x, learner.network.inputs)
    forks.check()
    drop_outdated_programs(learner)
    check_state(learner, state)
    if not len(x):
        return jnp.zeros((0, learner.network.outputs))
    return jnp.concatenate([answers(learner, state, x[i : i + ROWS]) for i in range(0, len(x), ROWS)])


def padded_length(examples: int) -> int:
    """The length to which a pass is padded, so that few programs are compiled: 1, 8, 64, 512, then powers of two."""
    bits = (examples - 1).bit_length()
    return 1 << (bits if bits > 9 else -(-bits // 3) * 3)


def padded_lengths(examples: int) -> list[int]:
    """The lengths that passes of up to so many examples are filled up to."""
    lengths = [1]
    while lengths[-1] < examples:
        lengths.append(padded_length(lengths[-1] + 1))
    return lengths


@program
def answers(learner: Learner, state: Any, x: Array) -> Array:
    """`predict` without its checks."""
    return jax.vmap(partial(learner.predict, state))(x)


class _Every:
    """Keeps every outcome, unlike the fold of a run, which adds them up."""

    @staticmethod
    def example(outcomes: Outcome, at: Any, outcome: Outcome, y: Array, answer: Any) -> Outcome:
        put = partial(lax.dynamic_update_index_in_dim, index=at, axis=0)
        return Outcome(put(outcomes.loss, outcome.loss), put(outcomes.outputs, outcome.outputs))


def _pass(learner: Learner, state: Any, x: Array, y: Array, count: Any, whole: bool) -> tuple[Any, Outcome]:
    loop = ExampleLoop(whole=whole)
    outcomes = Outcome(jnp.zeros(len(x), x.dtype), jnp.zeros((len(x), learner.network.outputs), x.dtype))
    rows = Rows(x, y, jnp.zeros((), int), count, 0)
    work, outcomes = loop.advance(learner, loop.enter(learner, state), outcomes, rows, _Every)
    return loop.leave(learner, work), outcomes


def checked_examples(learner: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """`x (examples, inputs)` and `y (examples, outputs)` as finite arrays of JAX's float type."""
    checked_learner(learner)
    x, y = _rows("x", x, learner.network.inputs), as_targets("y", y, learner, ndim=1)
    if isinstance(y, jax.Array) and not check.is_traced(y):
        y = np.asarray(y)
    y = _rows("y", y, learner.targets, returns=learner.predicts)
    if len(x) != len(y) or not len(x):
        raise ValueError(f"x and y must have as many examples as each other, at least one, got {len(x)} and {len(y)}")
    return x, y


def _rows(name: str, values: Any, size: int, returns: bool = False) -> Any:
    if check.is_traced(values):
        check.rows_shape(name, values, size)
        return values.astype(float_type())
    return check.rows(name, values, size, returns=returns).astype(float_type(), copy=False)
