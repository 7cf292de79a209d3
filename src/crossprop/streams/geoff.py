"""GEOFF, the generic online feature finding test bed."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from crossprop import _checks as check
from crossprop.streams.base import Life, check_tasks, letters


@dataclass(frozen=True)
class Geoff:
    r"""Examples labelled by a random target network of linear threshold units, whose outgoing weights change by task.

    $U^*$ is uniform on {-1, +1}, $W^*$ on {-1, 0, +1}, x on {0, 1}. Feature j fires when
    $\sum_i x_i u^*_{ij} > \theta_j = m \beta - S_j$, with $S_j$ the number of -1 in column j, and
    $y = \sum_j \phi^*_j w^*_j + \epsilon$. Each task is made from the one before it in the alphabet by redrawing a
    share of $W^*$; $U^*$ never changes. A task visited again replays its own examples.

    **Arguments:**

    - `inputs`, `features`: the sizes m and n of the target network.
    - `beta`: how many of its inputs must match for a feature to fire, as a share.
    - `noise`: the standard deviation of the targets' noise.
    - `tasks`: the tasks in the order of visits, a letter each, `examples` steps each.
    - `mutation`: the share of W* that is redrawn from one task to the next.
    - `constant`: gives the target network one more input and one more feature, both always 1 (and not in `x`).

    ```python
    life = Geoff(tasks="ABCABC").sample(jax.random.key(0))
    ```

    Sutton (2014), "Myths of representation learning"; Veeriah, Zhang and Sutton (2017), "GEOFF tasks".
    """

    inputs: int = 20
    features: int = 1000
    beta: float = 0.6
    noise: float = 1.0
    tasks: str = "ABC"
    examples: int = 5000
    mutation: float = 0.5
    constant: bool = False

    def __post_init__(self):
        check.integer("inputs", self.inputs, low=1)
        check.integer("features", self.features, low=1)
        check.scalar("beta", self.beta, low=0, high=1)
        check.scalar("noise", self.noise, low=0)
        check_tasks(self.tasks)
        check.integer("examples", self.examples, low=1)
        check.scalar("mutation", self.mutation, low=0, high=1)
        check.flag("constant", self.constant)

    @property
    def outputs(self) -> int:
        return 1

    @property
    def one_hot(self) -> bool:
        return False

    @property
    def schedule(self) -> np.ndarray:
        return np.repeat(letters(self.tasks), self.examples)

    def sample(self, key: Key[Array, ""]) -> Life:
        pool, y = _examples(self, key)
        place = np.unique(letters(self.tasks), return_inverse=True)[1]
        order = (place[:, None] * self.examples + np.arange(self.examples)).ravel()
        return Life(pool, order, np.asarray(y)[order], self.schedule)

    @partial(jax.jit, static_argnums=0)
    def target(
        self, key: Key[Array, ""]
    ) -> tuple[Float[Array, "all_inputs features"], Float[Array, "tasks all_features"]]:
        """The target network of a life: `U*`, and `W*` for every task from A to the last letter visited."""
        incoming_key, outgoing_key, _ = jax.random.split(key, 3)
        incoming = jax.random.rademacher(incoming_key, (self.inputs + self.constant, self.features), float)
        size = self.features + self.constant
        redrawn = math.floor(self.mutation * size + 1e-9)

        def mutate(before, key):
            where_key, value_key = jax.random.split(key)
            where = jax.random.permutation(where_key, size)[:redrawn]
            after = before.at[where].set(jax.random.randint(value_key, (redrawn,), -1, 2).astype(float))
            return after, after

        first_key, *later = jax.random.split(outgoing_key, letters(self.tasks).max() + 1)
        first = jax.random.randint(first_key, (size,), -1, 2).astype(float)
        if not later:
            return incoming, first[None]
        return incoming, jnp.concatenate([first[None], jax.lax.scan(mutate, first, jnp.stack(later))[1]])

    def fire(self, x: Float[Array, "steps inputs"], incoming: Float[Array, "all_inputs features"]) -> Array:
        """The features of the target network, 0 or 1, with the constant one last where there is one."""
        constant = jnp.ones((len(x), 1 if self.constant else 0))
        negative = jnp.sum(incoming < 0, axis=0)[None, :]
        matches = jnp.concatenate([x, constant], axis=1) @ incoming + negative
        # Matches are whole numbers, so this is `matches > m * beta`, and no rounding of m * beta makes a tie fire.
        fired = matches > math.floor(len(incoming) * self.beta + 1e-9)
        return jnp.concatenate([fired.astype(float), constant], axis=1)


@partial(jax.jit, static_argnums=0)
def _examples(stream: Geoff, key: Key[Array, ""]) -> tuple[Array, Array]:
    """The examples of every task visited, in the alphabet's order: `x (visited * examples, inputs)` and `y`."""
    incoming, outgoing = stream.target(key)
    examples_key = jax.random.split(key, 3)[2]
    visited = np.unique(letters(stream.tasks))

    def task(letter):
        x_key, noise_key = jax.random.split(jax.random.fold_in(examples_key, letter))
        x = jax.random.bernoulli(x_key, 0.5, (stream.examples, stream.inputs)).astype(float)
        noise = stream.noise * jax.random.normal(noise_key, (stream.examples, 1))
        return x.astype(np.uint8), stream.fire(x, incoming) @ outgoing[letter][:, None] + noise

    x, y = jax.lax.map(task, jnp.array(visited))
    return x.reshape(-1, stream.inputs), y.reshape(-1, 1)
