"""The floor: how long a run-step must take on this machine, from counted operations and measured ceilings."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop.bench.peers import RECORD_EVERY
from crossprop.learners import Frozen, Learner

NUMBER = 4
"""The bytes of a float32."""
ON_CHIP = 2**20
"""A run whose state is smaller, in bytes, can stay in a core's cache, or on a multiprocessor of a GPU."""
STEPS = {"sgd": 0, "momentum": 2, "rmsprop": 7, "adam": 11}
"""What an optimizer adds per weight: its averages, roots and divisions, and the step itself."""
AVERAGES = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2}
"""The averages that an optimizer keeps per weight."""
BLOCKED = ("sgd", "momentum")
"""The optimizers whose weights at a block's end are a combination of the block's inputs."""


class Count(NamedTuple):
    """What one step of one run takes, whoever executes it.

    In fused multiply-adds (a multiplication alone is one too), with m inputs and n hidden units, k outputs, and M
    memory matrices (M = k for exact crossprop and crossprop-sum, the projections where there are some, else 0):

    | for | per | multiply-adds |
    |---|---|---|
    | the pre-activations | incoming weight | 1 |
    | the step of U, if it moves | incoming weight | 1 from the input, M from the memory |
    | the memory matrices | incoming weight | 2 M |
    | the outputs and the step of W | outgoing weight | 2 |
    | the error brought back through W, if U moves | outgoing weight | 1 |
    | a memory at the units | outgoing weight | 3 |
    | an optimizer other than sgd | weight it moves | `STEPS` |

    So exact crossprop with one output and sgd takes 5 per incoming weight. Activations, softmax and the drifts, which
    are taken once in 50 steps, are left out: a floor may be too low, never too high.

    `blocked` counts the other way to get the same numbers, where the optimizer allows it: over a block of examples a
    matrix is read by one product and rebuilt by another, 2 (1 + M + averages) per incoming weight, or 1 where U rests.
    """

    operations: float
    blocked: float | None
    state: int
    """Numbers that a step changes: U, W, memories, averages."""
    data: float
    """Numbers read from the stream and written to the records."""


class Ceilings(NamedTuple):
    """What this machine was seen to do: float32 multiply-adds a second, and bytes a second, read and written."""

    operations: float
    bytes: float


def count(learner: Learner) -> Count:
    network, memory = learner.network, learner.shapes().memory or ()
    incoming, outgoing = network.fan_in * network.hidden, (network.hidden + network.bias) * network.outputs
    matrices, at_units = (memory[2] if len(memory) == 3 else 0), len(memory) == 2
    moves = not isinstance(learner, Frozen)
    name = learner.optimizer if isinstance(learner.optimizer, str) else "sgd"
    of_outgoing = (2 + moves + 3 * at_units + STEPS[name]) * outgoing
    of_incoming = 1 + moves * (1 + 3 * matrices + STEPS[name])
    blocked = 1 + moves * (1 + 2 * matrices + 2 * AVERAGES[name])
    moved = moves * incoming * (1 + AVERAGES[name]) + outgoing * (1 + AVERAGES[name])
    return Count(
        operations=of_incoming * incoming + of_outgoing,
        blocked=blocked * incoming + of_outgoing if name in BLOCKED else None,
        state=moved + int(np.prod(memory)) * bool(memory),
        data=network.inputs + network.outputs + 3 / RECORD_EVERY,
    )


def floor(learner: Learner, steps: int, ceilings: Ceilings) -> float:
    """The least seconds per run-step: arithmetic or memory, whichever takes longer, of the better way to do it.

    A run reads its examples and its state once and writes its records and its state; where the state does not stay on
    the chip, a step that changes it in place reads and writes all of it.
    """
    needs = count(learner)
    once = NUMBER * (needs.data + 2 * needs.state / steps)
    stays = NUMBER * needs.state <= ON_CHIP
    every_step = 0 if stays else 2 * NUMBER * needs.state
    ways = [max(needs.operations / ceilings.operations, (once + every_step) / ceilings.bytes)]
    if needs.blocked is not None and not stays:
        ways.append(max(needs.blocked / ceilings.operations, once / ceilings.bytes))
    return min(ways)


def measure_ceilings(quick: bool) -> Ceilings:
    """A large matrix product at full float32 precision, and a large array to which 1 is added in place."""
    gpu = jax.default_backend() != "cpu"
    size, length = (256, 2**16) if quick else (8192, 2**29) if gpu else (2048, 2**26)
    matrix = jnp.ones((size, size), jnp.float32)
    multiply = jax.jit(lambda a: jnp.matmul(a, a, precision=jax.lax.Precision.HIGHEST))
    seconds = _best(lambda _: multiply(matrix), None)
    operations = size**3 / seconds
    add = jax.jit(lambda a: a + 1, donate_argnums=0)
    return Ceilings(operations, 2 * NUMBER * length / _best(add, jnp.zeros(length, jnp.float32)))


def _best(call: Callable[[jax.Array | None], jax.Array], value: jax.Array | None, repeats: int = 7) -> float:
    """The seconds of the quickest call, each given what the last one returned; the first one compiles."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        value = jax.block_until_ready(call(value))
        taken.append(time.perf_counter() - began)
    return min(taken[1:])
