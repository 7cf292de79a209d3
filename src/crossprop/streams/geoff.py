"""GEOFF, the generic online feature finding test bed."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

from crossprop._support import interrupts
from crossprop._support.memory import check_memory
from crossprop._support.programs import program
from crossprop.hyperparameters import check_parameters, parameter
from crossprop.network import float_type
from crossprop.streams.base import Pool, PoolStream, Tasks, checked_tasks, set_fields, task_numbers
from crossprop.streams.threshold_networks import threshold_outputs

FEATURES_AT_A_TIME = 2**26
"""Values of the target networks' features that are computed at a time."""


@dataclass(frozen=True)
class Geoff(PoolStream):
    r"""Examples labelled by a random target network of linear threshold units, whose outgoing weights change by task.

    $U^*$ is uniform on {-1, +1}, $W^*$ on {-1, 0, +1}, x on {0, 1}. Feature j fires when
    $\sum_i x_i u^*_{ij} > \theta_j = m \beta - S_j$, with $S_j$ the number of -1 in column j, and
    $y = \sum_j \phi^*_j w^*_j + \epsilon$. Each task is made from the one before it (B from A, C from B) by redrawing a
    share of $W^*$; $U^*$ never changes. A task visited again replays its own examples.

    **Arguments:**

    - `inputs`, `features`: the sizes m and n of the target network.
    - `beta`: the share of its inputs that must match for a feature to fire.
    - `noise`: the standard deviation of the targets' noise.
    - `tasks`: the tasks in the order of visits, `examples` steps each: letters, or a sequence of numbers from 0.
    - `mutation`: the share of W* that is redrawn from one task to the next.
    - `constant`: adds one input and one feature to the target network, both always 1 (and not in `x`).

    ```python
    x, y, task = Geoff(tasks="ABCABC").sample(jax.random.key(0))
    ```

    Sutton (2014), "Myths of representation learning"; Veeriah, Zhang and Sutton (2017), "GEOFF tasks".
    """

    inputs: int = parameter(20, whole=True, low=1)
    features: int = parameter(1000, whole=True, low=1)
    beta: float = parameter(0.6, low=0, high=1, scale="linear")
    noise: float = parameter(1.0, low=0)
    tasks: Tasks = "ABC"
    examples: int = parameter(5000, whole=True, low=1)
    mutation: float = parameter(0.5, low=0, high=1, scale="linear")
    constant: bool = parameter(False)

    outputs = 1
    one_hot = False

    def __post_init__(self):
        check_parameters(self)
        set_fields(self, tasks=checked_tasks(self.tasks))

    @property
    def steps(self) -> int:
        return len(self.tasks) * self.examples

    def task(self, steps: np.ndarray) -> np.ndarray:
        return task_numbers(self.tasks)[np.asarray(steps) // self.examples]

    def pool(self, key: Key[Array, ""]) -> Pool:
        visited, index = self._visits()
        count, width = len(visited) * self.examples, float_type().itemsize
        check_memory(f"{count:,} examples", count * (self.inputs + width))
        weights = (self.inputs + 1 + (visited[-1].item() + 1)) * (self.features + 1)
        check_memory(f"the target network of {visited[-1] + 1:,} tasks", weights * width)
        x, y = np.empty((count, self.inputs), np.uint8), np.empty((count, 1), float_type())
        target = self.target(key)
        for begin, task in zip(range(0, count, self.examples), visited, strict=True):
            interrupts.check()
            own = slice(begin, begin + self.examples)
            x[own], y[own] = _table(self, key, task, *target)
        return Pool(x, y, index)

    def pools(self, keys: Key[Array, " runs"]) -> Pool | None:
        visited, index = self._visits()
        if len(visited) * self.examples * self.features > FEATURES_AT_A_TIME:
            return None
        x, y = _tables(self, keys)
        return Pool(x, y, index)

    def _visits(self) -> tuple[np.ndarray, np.ndarray]:
        """The tasks that are visited, and the one of each visit."""
        return np.unique(task_numbers(self.tasks), return_inverse=True)

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        rows = index[steps // self.examples] * self.examples + steps % self.examples
        return rows, rows

    @partial(program, static_argnums=0)
    def target(
        self, key: Key[Array, ""]
    ) -> tuple[Float[Array, "all_inputs features"], Float[Array, "tasks all_features"]]:
        """The target network of one run: `U*`, and `W*` for every task from the first to the largest one visited."""
        incoming_key, outgoing_key, _ = jax.random.split(key, 3)
        incoming = jax.random.rademacher(incoming_key, (self.inputs + self.constant, self.features), float)
        size = self.features + self.constant
        redrawn = math.floor(self.mutation * size + 1e-9)

        def mutate(before, key):
            where_key, value_key = jax.random.split(key)
            where = jax.random.permutation(where_key, size)[:redrawn]
            after = before.at[where].set(jax.random.randint(value_key, (redrawn,), -1, 2).astype(float))
            return after, after

        keys = jax.random.split(outgoing_key, task_numbers(self.tasks).max() + 1)
        first = jax.random.randint(keys[0], (size,), -1, 2).astype(float)
        return incoming, jnp.concatenate([first[None], lax.scan(mutate, first, keys[1:])[1]])

    def label(self, x: Any, incoming: Any, outgoing: Any) -> Float[Array, "steps 1"]:
        """The targets of these inputs, without noise."""
        # Matches are whole numbers, so this is `matches > m * beta`, and no rounding of m * beta makes a tie fire.
        matches = jnp.full(self.features, math.floor(len(incoming) * self.beta + 1e-9))
        x = jnp.concatenate([x, jnp.ones((len(x), self.constant), x.dtype)], axis=1)
        constant = outgoing[self.features :].sum()
        return threshold_outputs(x, incoming, matches, outgoing[: self.features]) + constant


@partial(program, static_argnums=0)
def _tables(stream: Geoff, keys: Array) -> tuple[Array, Array]:
    """Inputs and targets of all tasks visited, of several runs."""
    visited = np.unique(task_numbers(stream.tasks))

    def of_run(key: Array) -> tuple[Array, Array]:
        target = stream.target(key)
        of_task = lambda task: _table(stream, key, task, *target)
        return jax.tree.map(jnp.concatenate, jax.vmap(of_task)(jnp.asarray(visited)))

    at_a_time = FEATURES_AT_A_TIME // (len(visited) * stream.examples * stream.features)
    return lax.map(of_run, keys, batch_size=at_a_time)


@partial(program, static_argnums=0)
def _table(stream: Geoff, key: Array, task: Any, incoming: Array, outgoing: Array) -> tuple[Array, Array]:
    """Inputs and targets of a task. These are sums of whole numbers and rounded noise: the same in any program."""
    x_key, noise_key = jax.random.split(jax.random.fold_in(jax.random.split(key, 3)[2], task))
    x = (jax.random.uniform(x_key, (stream.examples, stream.inputs)) < 0.5).astype(np.uint8)
    noise = lax.optimization_barrier(stream.noise * jax.random.normal(noise_key, (stream.examples, 1)))
    return x, stream.label(x, incoming, outgoing[task]) + noise
