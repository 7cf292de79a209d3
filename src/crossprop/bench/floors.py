"""The floor: the least time that a run-step can take on this machine, from counted operations and measured ceilings."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.bench.peers import RECORD_EVERY
from crossprop.learners import Frozen, Learner, UnitRule

BYTES = 4
"""Bytes in a float32."""
ON_CHIP = 2**20
"""Bytes of state that fit in a core's cache, or on one multiprocessor of a GPU."""
OPTIMIZER_COSTS = {"sgd": (0, 0), "momentum": (2, 1), "rmsprop": (7, 1), "adam": (11, 2)}
"""Per weight that the optimizer moves: multiply-adds (for averages, roots, divisions and the step itself), and running
averages that it stores. Learners with another optimizer have no floor."""
BLOCKED = ("sgd", "momentum")
"""Optimizers whose weights after a block of examples are a linear combination of the block's inputs."""


class Count(NamedTuple):
    """What one step of one run costs, on any engine.

    Counted in fused multiply-adds (a single multiplication counts as one), for a network with k outputs and a learner
    with M memory matrices: M = k for exact crossprop and crossprop-sum, the number of projections if there are any,
    else 0.

    | what | per | multiply-adds |
    |---|---|---|
    | pre-activations | incoming weight | 1 |
    | step of U, if the rule moves U | incoming weight | 1 from the input, M from the memory |
    | memory matrices | incoming weight | 2 M |
    | outputs and step of W | outgoing weight | 2 |
    | error propagated back through W, if the rule moves U | outgoing weight | 1 |
    | memory at the units | outgoing weight | 3 |
    | optimizer | weight that it moves | `OPTIMIZER_COSTS` |

    So exact crossprop with one output and sgd takes 5 per incoming weight. Activations, softmax and the drifts (once
    per record) are not counted: a floor may be too low, never too high.

    `blocked` counts the other way to compute the same numbers, for optimizers that allow it: per block of examples, one
    product reads each matrix and another rebuilds it, 2 (1 + M + averages) per incoming weight; 1 if U does not move.
    """

    operations: float
    blocked: float | None
    state: int
    """Numbers that a step changes: U, W, memories, averages."""
    data: float
    """Numbers per step that are read from the stream and written to the records."""


class Ceilings(NamedTuple):
    """The machine's measured limits: float32 multiply-adds per second, and bytes per second read and written."""

    operations: float
    bytes: float


def count(learner: Learner) -> Count | None:
    """The cost of a step, or None for a learner, a network or an optimizer whose cost is not known."""
    if not isinstance(learner, UnitRule) or len(learner.network.sizes) != 1:
        return None
    optimizer = learner.optimizer
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZER_COSTS:
        return None
    operations, averages = OPTIMIZER_COSTS[optimizer]
    network, shapes = learner.network, learner.by_layer()[0].shapes()
    incoming, outgoing = network.fan_in * network.units, (network.units + network.bias) * network.outputs
    matrices, memory = shapes.matrices, int(np.prod(shapes.memory)) if shapes.memory else 0
    at_units = memory > 0 and not matrices
    moves = not isinstance(learner, Frozen)
    per_outgoing = 2 + moves + 3 * at_units + operations
    per_incoming = 1 + moves * (1 + 3 * matrices + operations)
    per_incoming_blocked = 1 + moves * (1 + 2 * matrices + 2 * averages)
    weights = moves * incoming + outgoing
    return Count(
        operations=per_incoming * incoming + per_outgoing * outgoing,
        blocked=per_incoming_blocked * incoming + per_outgoing * outgoing if optimizer in BLOCKED else None,
        state=weights * (1 + averages) + memory,
        data=network.inputs + network.outputs + 3 / RECORD_EVERY,
    )


def floor(learner: Learner, steps: int, ceilings: Ceilings) -> float | None:
    """The least seconds per run-step: arithmetic or memory, whichever takes longer, of the cheaper way to compute it.

    A run reads its examples and its state once, and writes its records and its state once; if the state does not fit
    on the chip, a step that changes it in place reads and writes all of it. None if the cost of a step is not known.
    """
    needs = count(learner)
    if needs is None:
        return None
    once = BYTES * (needs.data + 2 * needs.state / steps)
    fits = BYTES * needs.state <= ON_CHIP
    every_step = 0 if fits else 2 * BYTES * needs.state
    ways = [max(needs.operations / ceilings.operations, (once + every_step) / ceilings.bytes)]
    if needs.blocked is not None and not fits:
        ways.append(max(needs.blocked / ceilings.operations, once / ceilings.bytes))
    return min(ways)


def measure_ceilings(quick: bool) -> Ceilings:
    """Times a large matrix product in full float32 precision, and adding 1 in place to a large array."""
    gpu = jax.default_backend() != "cpu"
    size, length = (256, 2**16) if quick else (8192, 2**29) if gpu else (2048, 2**26)
    matrix = jnp.ones((size, size), jnp.float32)
    multiply = jax.jit(lambda a: jnp.matmul(a, a, precision=jax.lax.Precision.HIGHEST))
    seconds = _least_seconds(lambda _: multiply(matrix), None)
    operations = size**3 / seconds
    add = jax.jit(lambda a: a + 1, donate_argnums=0)
    return Ceilings(operations, 2 * BYTES * length / _least_seconds(add, jnp.zeros(length, jnp.float32)))


def _least_seconds(call: Callable[[jax.Array | None], jax.Array], value: jax.Array | None) -> float:
    """The seconds of the quickest call after the first, which compiles; each call gets the last one's result."""
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        value = jax.block_until_ready(call(value))
        taken.append(time.perf_counter() - began)
    return min(taken[1:])
