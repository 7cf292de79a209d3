r"""The oracle: the exact meta-gradient beside a learner, to compare the direction of its incoming weights with.

The outgoing weights W that a learner has now depend on the features that it had in the past, and so on the incoming
weights U of that time. Backprop's gradient at example t leaves this out. The meta-gradient does not. Shift every past U
by the same $\epsilon$, and let $W_t(\epsilon)$ follow the learner's own update of W from the first example on:

$$-\frac{d}{d\epsilon} \ell_t(U_t + \epsilon, W_t(\epsilon)) = -\frac{\partial \ell_t}{\partial U}
- \frac{\partial \ell_t}{\partial W} J_t \qquad J_t = \frac{d W_t}{d\epsilon}$$

The first term, *direct*, is backprop's direction. The second, *memory*, is what crossprop estimates. $U_t$ are the
incoming weights that the learner really had at t. $J$ is computed by forward-mode differentiation of the whole update,
with any optimizer: delta depends on W, W on U, and the optimizer's averages on both. $\ell$ is the loss that the
learner descends, half of the squared error or the cross-entropy, and every direction is one of descent.

In a network of several hidden layers, U is the incoming weights of all of them: all are held fixed in the past, W alone
follows its update, and each layer has its part of the meta-gradient. The *own* part of memory goes through a unit's own
outgoing weights, $\phi_j \sum_k \delta_k\, d w_{jk} / d u_{ij}$, and *cross* through those of all other units; both are
defined for the top hidden layer alone, since the units below it have no row of W.

J has as many numbers as U times W (times three with adam), so this is for small networks.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from crossprop._support import checks as check
from crossprop._support.programs import program
from crossprop.arguments import check_fit, checked_learners, checked_seeds, checked_steps
from crossprop.configuration import configuration
from crossprop.engines.feed import Feed
from crossprop.engines.protocol import Run
from crossprop.learners.base import CreditRule, State
from crossprop.learners.stack import Stack, respond
from crossprop.learners.states import check_state
from crossprop.learners.update import hidden_directions
from crossprop.network import Network, float_type
from crossprop.passes import checked_examples
from crossprop.running import coordinates, experiment, provenance
from crossprop.seeds import keys
from crossprop.streams.base import Stream
from crossprop.streams.iterator import Iterator as IteratorStream
from crossprop.variables import window_ends

if TYPE_CHECKING:
    import xarray

PARTS = ("whole", "direct", "memory", "own", "cross")
"""The meta-gradient and its parts."""
MEMORY_LIMIT = 2**32
"""Default limit on the bytes of the derivatives."""

Layers = tuple[Array, ...]


class Directions(NamedTuple):
    """The learner's direction of U before its optimizer, and the meta-gradient: one matrix per hidden layer in each."""

    learner: Layers
    direct: Layers
    memory: Layers
    own: Float[Array, "*examples fan_in hidden"]
    """The part of `memory` through a unit's own outgoing weights, for the top hidden layer alone."""

    @property
    def whole(self) -> Layers:
        """The meta-gradient."""
        return tuple(jnp.add(*parts) for parts in zip(self.direct, self.memory, strict=True))


class Derivative(NamedTuple):
    """The derivative of W and of the numbers in its optimizer's state by one layer's incoming weights: leaves of shape
    `(fan_in, hidden, ...)`."""

    outgoing: Any
    optimizer: Any


def directions(learner: CreditRule, state: State, x: Any, y: Any, *, memory_limit: float = MEMORY_LIMIT) -> Directions:
    """The learner's direction and the meta-gradient at every one of some examples, which it learns one by one.

    **Arguments:**

    - `learner`, `state`, `x`, `y`: as for `live`. The past begins with this state.
    - `memory_limit`: bytes that the result and the derivatives may take.

    **Returns:** `Directions`, whose matrices have the shapes `(examples, fan_in, hidden)`.

    ```python
    learner = Crossprop(Network(inputs=3, hidden=4), step_size=0.01)
    found = directions(learner, learner.init(jax.random.key(0)), np.eye(3), np.ones(3))
    found.memory[0].shape  # (3, 3, 4)
    ```
    """
    _check_learner("learner", learner)
    x, y = checked_examples(learner, x, y)
    _check_memory(learner, memory_limit, len(x))
    return _directions(learner, state, x, y)


@program
def _directions(learner: CreditRule, state: State, x: Array, y: Array) -> Directions:
    check_state(learner, state)

    def example(carry: Any, xy: Any) -> Any:
        state, derivatives = carry
        found, derivatives = _advance(learner, state, derivatives, *xy)
        return (learner.update(state, *xy)[0], derivatives), found(learner, state)

    return jax.lax.scan(example, (state, _no_derivatives(state)), (x, y))[1]


def follow(
    learners: CreditRule | Mapping[str, CreditRule],
    stream: Stream,
    seeds: int | Sequence[int] = 1,
    record_every: int = 50,
    *,
    steps: int | None = None,
    along: CreditRule | None = None,
    memory_limit: float = MEMORY_LIMIT,
) -> "xarray.Dataset":
    """Runs learners as `run` does, with the meta-gradient beside each, and compares their directions with it.

    **Arguments:**

    - `learners`, `stream`, `seeds`, `record_every`, `steps`: as for `run`; the learners are credit rules.
    - `along`: unset, every learner is followed on its own run. Given a learner with the same network, its run is the
      only one: the others see its weights at every example, keep a memory of their own, and say in which direction they
      would go. So they are compared at the same weights.
    - `memory_limit`: bytes that the derivatives may take; a network that needs more is refused.

    **Returns:** an `xarray.Dataset` with the dims `learner`, `seed`, `step`, `layer` ("all", then "1" for the first
    hidden layer, "2" ...) and `part` (of the meta-gradient: whole, direct, memory; own and cross, of the top layer).
    `cosine`: of the learner's direction with a part, the mean over the examples of a window at which neither is zero;
    `summed_cosine`: of their sums over the window. `added_cosine`, `summed_added_cosine`: the same for what the learner
    adds to backprop, its direction minus the direct part. `memory_cosine`: of a part with the memory part. `norm`: of a
    part; `direction_norm`: of the learner's direction. `loss`: as in `run`. All but the sums are means over the window.

    ```python
    net = Network(inputs=20, hidden=32)
    found = follow({"crossprop": Crossprop(net, 5e-4), "backprop": Backprop(net, 5e-4)}, Geoff(), record_every=500)
    found.cosine.sel(part="memory", layer="all")
    ```
    """
    import xarray

    named: dict[str, Any] = checked_learners(learners)
    chosen = checked_seeds(seeds)
    check.integer("record_every", record_every, low=1, high=2**31 - 1)
    check_fit(named, stream)
    if isinstance(stream, IteratorStream):
        raise TypeError("stream must be one that can be dealt again for every learner, not a crossprop.Iterator")
    steps = checked_steps(steps, stream)
    if along is not None:
        _check_learner("along", along)
    for name, learner in named.items():
        _check_learner(f"learners[{name!r}]", learner)
        _check_memory(learner if along is None else along, memory_limit)
        if along is not None and configuration(learner.network) != configuration(along.network):
            raise ValueError(
                f"learners[{name!r}].network must be the network of along, {along.network!r}, got {learner.network!r}"
            )
    depths = {name: len(learner.network.hidden) for name, learner in named.items()}
    if len(set(depths.values())) > 1:
        raise ValueError(f"learners must have as many hidden layers as each other, got {depths}")
    count = int(steps or stream.steps or 0)
    rows: list[dict[str, np.ndarray]] = []
    for seed in chosen:
        if along is not None:
            rows.append(_run(along, named, stream, seed, count, record_every))
        else:
            each = [_run(one, {name: one}, stream, seed, count, record_every) for name, one in named.items()]
            rows.append({variable: np.concatenate([row[variable] for row in each]) for variable in each[0]})
    dims = ("learner", "seed", "step", "layer", "part")
    data = {
        name: (dims[: one.ndim + 1], np.stack([row[name] for row in rows], axis=1)) for name, one in rows[0].items()
    }
    layers = ["all", *(str(at + 1) for at in range(next(iter(depths.values()))))]
    coords = coordinates(named, stream, chosen, window_ends(count, record_every)) | {"layer": layers, "part": [*PARTS]}
    attributes = experiment(named, stream, chosen, record_every) | provenance(dict.fromkeys(named, "oracle"))
    attributes |= {"steps": json.dumps(count), "along": json.dumps(along and configuration(along))}
    return xarray.Dataset(data, coords, attributes)


def _run(
    along: CreditRule, learners: Mapping[str, CreditRule], stream: Stream, seed: int, steps: int, record_every: int
) -> dict[str, np.ndarray]:
    """The records of one run, `(learner, step, ...)`."""
    feed = Feed.of([Run(along, stream, seed)])
    initial_key = keys(seed)[1]
    state, followers = along.init(initial_key), tuple(learners.values())
    carry = (state, _no_derivatives(state), tuple(each.init(initial_key) for each in followers))
    windows = []
    for end in window_ends(steps, record_every).tolist():
        begin = (end - 1) // record_every * record_every
        x, y = (np.asarray(values[0], float_type()) for values in feed.take(begin, end - begin))
        carry, window = _window(along, followers, carry, x, y)
        windows.append(jax.tree.map(np.asarray, window))
    return {variable: np.stack([window[variable] for window in windows], axis=1) for variable in windows[0]}


@partial(program, donate_argnums=2)
def _window(
    along: CreditRule, learners: tuple[CreditRule, ...], carry: Any, x: Array, y: Array
) -> tuple[Any, dict[str, Array]]:
    def example(carry: Any, xy: Any) -> Any:
        (state, derivatives, states), sums = carry
        found, derivatives = _advance(along, state, derivatives, *xy)
        states = [_with_weights(each, state) for each in states]
        credits = [found(learner, each) for learner, each in zip(learners, states, strict=True)]
        states = tuple(learner.update(each, *xy)[0] for learner, each in zip(learners, states, strict=True))
        sums = [jax.tree.map(jnp.add, *pair) for pair in zip(sums, credits, strict=True)]
        state, outcome = along.update(state, *xy)
        measures = [_measures(each) | {"loss": outcome.loss} for each in credits]
        return ((state, derivatives, states), sums), measures

    blank = [jax.tree.map(jnp.zeros_like, _zero_directions(carry[0])) for _ in learners]
    (carry, sums), measures = jax.lax.scan(example, (carry, blank), (x, y))
    rows = [
        {name: jnp.nanmean(values, axis=0) for name, values in each.items()}
        | {f"summed_{name}": _measures(total)[name] for name in ("cosine", "added_cosine")}
        for each, total in zip(measures, sums, strict=True)
    ]
    return carry, jax.tree.map(lambda *each: jnp.stack(each), *rows)


def _advance(learner: CreditRule, state: State, derivatives: tuple[Derivative, ...], x: Array, y: Array) -> Any:
    """The directions at this example, as a function of a learner and its state, and the derivatives after this
    example's update of W."""
    network, matrices = learner.network, state.incoming
    x, y = (values.astype(state.outgoing.dtype) for values in (x, y))
    shifts = tuple(jnp.zeros_like(matrix[0]) for matrix in matrices)
    optimizer, fixed = eqx.partition(state.optimizer, eqx.is_inexact_array)

    def outputs_of(shifts: Layers, outgoing: Array) -> tuple[Array, Any]:
        inputs = _inputs(network, matrices, shifts, x)
        return network.outputs_of(inputs[-1], outgoing), inputs

    def next_outgoing(shifts: Layers, outgoing: Array, optimizer: Any) -> Derivative:
        outputs, inputs = outputs_of(shifts, outgoing)
        loss, delta = network.error(outputs, y)
        move, after = learner.outgoing_optimizer().update(
            -delta[:, None] * inputs[-1][None, :], eqx.combine(optimizer, fixed), outgoing, value=loss
        )
        return Derivative(outgoing + jnp.asarray(move), eqx.filter(after, eqx.is_inexact_array))

    outputs, pull, inputs = jax.vjp(outputs_of, shifts, state.outgoing, has_aux=True)
    errors, readout = pull(network.error(outputs, y)[1])
    after, push = jax.linearize(next_outgoing, shifts, state.outgoing, optimizer)
    still = jax.tree.map(jnp.zeros_like, (state.outgoing, optimizer))
    defined = lambda tangent: jax.tree.map(_defined, tangent, after)

    def next_derivative(at: int, derivative: Derivative) -> Derivative:
        one_hot = jnp.eye(len(shifts[at]), dtype=x.dtype)
        by_shift = jax.vmap(lambda row: defined(push((*shifts[:at], row, *shifts[at + 1 :]), *still)))(one_hot)
        kept = jax.vmap(jax.vmap(lambda each: defined(push(shifts, *each))))(derivative)
        return jax.tree.map(lambda old, new: old + inputs[at].reshape(-1, *[1] * new.ndim) * new[None], kept, by_shift)

    direct = tuple(jnp.outer(*pair) for pair in zip(inputs, errors, strict=False))
    memory = tuple(jnp.tensordot(each.outgoing, readout, 2) for each in derivatives)
    units = len(errors[-1])
    own = jnp.einsum("ijkj,kj->ij", derivatives[-1].outgoing[..., :units], readout[:, :units])
    found = lambda learner, state: Directions(_direction(learner, state, x, y), direct, memory, own)
    return found, tuple(next_derivative(at, each) for at, each in enumerate(derivatives))


def _with_weights(state: State, other: State) -> State:
    """The state with the weights of another one, and a memory of its own."""
    layers = zip(state.layers, other.incoming, strict=True)
    return state._replace(
        layers=tuple(layer._replace(weights=weights) for layer, weights in layers), outgoing=other.outgoing
    )


def _defined(tangent: Array, value: Array) -> Array:
    """The tangent, 0 where it is not defined: the root of Adam and RMSProp has no slope at 0, where the gradient of a
    weight has always been 0, for example by a dead unit. There the derivative of the step is 0."""
    return jnp.where(jnp.isnan(tangent) & jnp.isfinite(value), 0, tangent)


def _inputs(network: Network, matrices: Layers, shifts: Layers, x: Array) -> list[Array]:
    """The inputs of every layer, the output layer last, with their constant; `shifts` are added to pre-activations."""
    inputs = [network.with_constant(x)]
    for layer, matrix, shift in zip(network.layers(), matrices, shifts, strict=True):
        units = layer.activate(layer.weigh(inputs[-1], matrix) + shift)
        inputs.append(layer.with_constant(units.phi))
    return inputs


def _direction(learner: CreditRule, state: State, x: Array, y: Array) -> Layers:
    """The learner's direction of its incoming weights, before its optimizer; zeros if it does not move them."""
    stack, inputs = Stack.of(learner), learner.network.with_constant(x)
    z = stack.nets[0].weigh(inputs, state.layers[0].weights)
    _, directions = hidden_directions(state, respond(stack, state, inputs, z, y))
    still = [jnp.zeros_like(weights) for weights in state.incoming]
    return tuple(zeros if each is None else each for zeros, each in zip(still, directions, strict=True))


def _no_derivatives(state: State) -> tuple[Derivative, ...]:
    """Derivatives of 0: before the first example nothing depends on U."""
    numbers = Derivative(state.outgoing, eqx.filter(state.optimizer, eqx.is_inexact_array))
    zeros = lambda matrix: jax.tree.map(lambda leaf: jnp.zeros((*matrix.shape, *leaf.shape), leaf.dtype), numbers)
    return tuple(zeros(matrix) for matrix in state.incoming)


def _zero_directions(state: State) -> Directions:
    matrices = state.incoming
    return Directions(matrices, matrices, matrices, matrices[-1])


def _measures(found: Directions) -> dict[str, Array]:
    """Cosines and norms, `(layer, part)`: of all layers together, then of each."""
    products = jnp.stack([_products(found, at) for at in range(len(found.memory))])
    products = jnp.concatenate([jnp.sum(products, axis=0, keepdims=True), products])
    norms = jnp.sqrt(jnp.diagonal(products, axis1=1, axis2=2))
    cosines = products / (norms[:, :, None] * norms[:, None, :])  # NaN where one of the two is zero
    return {
        "cosine": cosines[:, 0, 2:],
        "added_cosine": cosines[:, 1, 2:],
        "memory_cosine": cosines[:, 2 + PARTS.index("memory"), 2:],
        "norm": norms[:, 2:],
        "direction_norm": norms[:, 0],
    }


def _products(found: Directions, at: int) -> Array:
    """The inner products, in one layer, of the learner's direction, what it adds to backprop, and all `PARTS`."""
    learner, direct, memory = found.learner[at], found.direct[at], found.memory[at]
    own = found.own if at == len(found.memory) - 1 else jnp.full_like(memory, jnp.nan)
    rows = jnp.stack([learner, _added(learner, direct), direct + memory, direct, memory, own, memory - own])
    rows = rows.reshape(len(rows), -1)
    return jnp.matmul(rows, rows.T, precision=jax.lax.Precision.HIGHEST)


def _added(direction: Array, direct: Array) -> Array:
    """What a learner adds to backprop; 0 where that is within rounding."""
    added = direction - direct
    return jnp.where(jnp.vdot(added, added) > 1e-10 * jnp.vdot(direct, direct), added, 0)


def _check_learner(name: str, learner: Any) -> None:
    if not isinstance(learner, CreditRule):
        raise TypeError(f"{name} must be a credit rule such as crossprop.Crossprop(net, 1e-3), got {learner!r}")
    if learner.network.hidden == ():
        raise ValueError(f"{name} must have a hidden layer: a linear unit has no incoming weights, got hidden=()")
    if learner.replacement is not None:
        raise ValueError(f"{name} must keep its units, got replacement={learner.replacement!r}")
    if learner.network_optimizer() is not None:
        raise ValueError(f"{name} must have an optimizer of single matrices, such as 'adam', got {learner.optimizer!r}")


def _check_memory(learner: CreditRule, limit: float, examples: int = 0) -> None:
    """A ValueError unless the derivatives, twice while they are updated, and the directions at some examples fit."""
    check.scalar("memory_limit", limit, above=0)

    def kept(key: Array) -> Any:
        state = learner.init(key)
        return 2 * [_no_derivatives(state)], examples * [_zero_directions(state)]

    leaves = jax.tree.leaves(jax.eval_shape(kept, jax.random.key(0)))
    needed = sum(math.prod(leaf.shape) for leaf in leaves) * float_type().itemsize
    if needed > limit:
        network = learner.network
        raise ValueError(
            f"memory_limit must be at least {needed / 2**30:.3g} GiB for the derivatives of W by U with "
            f"inputs={network.inputs}, hidden={network.hidden}, outputs={network.outputs}, got {limit / 2**30:.3g} "
            "GiB: take a smaller network, or raise it"
        )
