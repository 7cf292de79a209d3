"""The two tiers of learners: any online learner, and credit rules.

A credit rule computes the credit of a hidden unit from the units, their outgoing weights and the error, never from the
input. The optimizer sets the step.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop._support.memory import check_memory
from crossprop.hyperparameters import Checked, Hyperparameter, hyperparameter, layers_field
from crossprop.learners.calling import compiled_method
from crossprop.learners.credit import Credit, Layer, Outcome, Replaced, Shapes, State, Units
from crossprop.learners.stack import Stack, answer
from crossprop.learners.states import state_bytes
from crossprop.learners.update import learn
from crossprop.network import Network, check_network
from crossprop.optimizers.base import Optax, Optimizer, check_optimizer, needs_of, optimizer_field
from crossprop.replacements import Replacement, replacement_field

KEY_OF_STEPS = 2
"""Folded into the key of `init` for the key of an optimizer's noise."""
KEY_OF_REPLACEMENTS = 3
"""Folded into it for the key of a replacement."""


class Learner(Checked):
    """An online learning rule with its hyperparameters. It is immutable and knows nothing about data.

    Subclasses have a `network` (any object with `inputs`, `outputs` and `loss`, "squared" or "softmax") and the four
    methods below. The state is any pytree; a learner that needs randomness keeps a key in it. Numbers among the fields
    are leaves of the learner's pytree, so that one compiled program serves all their values and `jax.vmap` can map
    over them; other fields are `eqx.field(static=True)`.
    """

    network: eqx.AbstractVar[Any]

    replaces: ClassVar[tuple[str, ...]] = ()
    """Fields of the learner inside that a wrapper sets itself: a sweep does not vary them."""
    predicts = False
    """Whether `y` has a cumulant, a discount and a return per output, as streams that `predict` give, not a target."""

    @property
    def targets(self) -> int:
        """The size of `y`."""
        return self.network.outputs * (3 if self.predicts else 1)

    @abstractmethod
    def init(self, key: Key[Array, ""]) -> Any:
        """The state before the first example."""

    @abstractmethod
    def update(self, state: Any, x: Float[Array, " inputs"], y: Float[Array, " targets"]) -> tuple[Any, Outcome]:
        """Learns from one example; `y` is one-hot if the loss is softmax. The outcome is from before learning."""

    @abstractmethod
    def predict(self, state: Any, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The linear outputs for one example, before any softmax."""

    @abstractmethod
    def weights(self, state: Any) -> dict[str, Array]:
        """The weights whose drift is recorded, by name; an empty dict records none."""

    def features(self, state: Any, x: Float[Array, " inputs"]) -> Any:
        """The hidden units for one example, `(units,)`, or a tuple with those of every layer, the lowest first. None,
        the default, means that the learner has none to look at."""
        del state, x


def checked_learner(given: Any) -> Learner:
    """A TypeError unless it is a learner."""
    if not isinstance(given, Learner):
        raise TypeError(f"learner must be a crossprop learner, got {check.shown(given)}")
    return given


class Wrapper(Learner):
    """A learner around another, whose state is the field `inner` of its own."""

    learner: Any = eqx.field(converter=checked_learner)

    if TYPE_CHECKING:  # to type checkers, a property over a field is still an argument
        network: Any = eqx.field(init=False)
    else:

        @property
        def network(self) -> Any:
            return self.learner.network

    @property
    def predicts(self) -> bool:
        return self.learner.predicts

    def seen(self, state: Any, x: Array) -> Array:
        """The input that the inner learner gets for `x`."""
        del state
        return x

    @compiled_method
    def predict(self, state: Any, x: Array) -> Array:
        return self.learner.predict(state.inner, self.seen(state, x))

    def weights(self, state: Any) -> dict[str, Array]:
        return self.learner.weights(state.inner)

    def features(self, state: Any, x: Array) -> Any:
        return self.learner.features(state.inner, self.seen(state, x))


class NetworkLearner(Learner):
    """The common fields of learners with a `Network`."""

    network: Network
    step_size: Hyperparameter = hyperparameter(above=0, help="Step size of every learner")
    optimizer: Any = optimizer_field(kw_only=True)
    """An `Optimizer`, also if it was given by name or as a function of optax."""
    incoming_step_size: Hyperparameter | tuple[Hyperparameter, ...] | None = hyperparameter(
        default=None,
        above=0,
        by_layer=True,
        kw_only=True,
        help="Step size of the incoming weights; default: that of the learner",
    )
    replacement: Replacement | None = replacement_field()

    def __check_init__(self):
        check_network(self.network)
        given = self.incoming_step_size
        if isinstance(given, tuple) and len(given) != len(self.network.hidden):
            raise ValueError(
                f"incoming_step_size must be a number, or have one per hidden layer, {len(self.network.hidden)}, "
                f"got {check.shown(given)}"
            )
        check_optimizer(self.optimizer)
        if not isinstance(self.replacement, Replacement | None):
            raise TypeError(
                "replacement must be None, a name, or a replacement such as crossprop.ContinualReplacement(rate=1e-4), "
                f"got {check.shown(self.replacement)}"
            )
        if self.replacement is not None and not self.network.hidden:
            raise ValueError(
                f"replacement must be None where there are no hidden units, got {check.shown(self.replacement)}"
            )


def features_of(learner: Learner, state: Any, x: Any) -> tuple[Array, ...] | None:
    """The hidden units of every layer, `(examples, units)`, the lowest first, for `x (examples, inputs)`; None for a
    learner without features."""
    found = jax.vmap(lambda one: learner.features(state, one))(jnp.asarray(x))
    return found if found is None or isinstance(found, tuple) else (found,)


def innermost(learner: Learner) -> Learner:
    """The learner inside all wrappers."""
    while isinstance(learner, Wrapper):
        learner = learner.learner
    return learner


class CreditRule(NetworkLearner):
    """A credit rule. Every engine runs it.

    `credit` and `shapes` are written for a network with one hidden layer. In a deep network every hidden layer follows
    the rule, with the layer above for the outputs and its error for `delta` (`by_layer`). With `layers="top"` the top
    hidden layer alone does so, and those below follow backprop.
    """

    layers: str = layers_field("all")

    adds_up = False
    """Whether the credit of a unit is a sum over the units of the layer above. Several GPU programs can then share a
    run: each computes the sum over some of those units. It is declared beside `credit`; a subclass with a `credit` of
    its own does not inherit it."""

    @abstractmethod
    def credit(self, units: Units, delta: Float[Array, " outputs"]) -> Credit:
        """The credit of each hidden unit for the error `delta`: the coefficients for one example."""

    @abstractmethod
    def shapes(self) -> Shapes:
        """The shapes of what the rule keeps besides the weights."""

    def by_layer(self) -> "tuple[CreditRule, ...]":
        """One rule per hidden layer, each for the network from the layer below to the layer above and with the step
        sizes of these weights. With one hidden layer it is the rule itself."""
        if len(self.network.hidden) == 1:
            return (self,)
        given = self.incoming_step_size
        steps = given if isinstance(given, tuple) else [first_set(given, self.step_size)] * len(self.network.hidden)
        rules: list[CreditRule] = []
        for network, step, above in zip(self.network.layers(), steps, [*steps, self.step_size][1:], strict=True):
            if self.layers == "all" or len(rules) == len(steps) - 1:
                rules.append(replace(self, network=network, step_size=above, incoming_step_size=step))
            else:
                rules.append(_Below(network, above, optimizer=self.optimizer, incoming_step_size=step))
        return tuple(rules)

    def init(self, key: Key[Array, ""]) -> State:
        """The state before the first example; one key gives every learner of a network the same weights."""
        if not check.is_traced(key):
            if not isinstance(key, np.ndarray | jax.Array):
                raise TypeError(f"key must be a key of JAX, such as crossprop.keys(7)[1], got {check.shown(key)}")
            check_memory(f"the state of this {type(self).__name__}", state_bytes(self))
        weights_key, signs_key = jax.random.split(key)
        incoming, outgoing = self.network.init(weights_key)
        outgoing, rules, whole = outgoing.T, self.by_layer(), self.network_optimizer()
        signs_keys = [signs_key] if len(rules) == 1 else jax.random.split(signs_key, max(len(rules), 1))
        layers = []
        for rule, weights, layer_key in zip(rules, incoming, signs_keys[: len(rules)], strict=True):
            shapes = rule.shapes()
            memory = None if shapes.memory is None else jnp.zeros(shapes.memory, weights.dtype)
            signs = None if shapes.signs is None else _signs(layer_key, shapes.signs, weights.dtype)
            optimizer = None if whole else rule.incoming_optimizer().init(weights)
            layers.append(Layer(weights, memory, signs, optimizer))
        replaced = None
        if self.replacement is not None:
            memories: list[Any] = [self.replacement.init(layer) for layer in self.network.layers()]
            replaced = Replaced(jax.random.fold_in(key, KEY_OF_REPLACEMENTS), tuple(memories))
        return self.with_optimizer(State(tuple(layers), outgoing, None, None, replaced), key)

    def with_optimizer(self, state: State, key: Key[Array, ""]) -> State:
        """The state with that of its optimizer, of the outgoing weights or of all."""
        whole = self.network_optimizer()
        if whole is None:
            return state._replace(optimizer=self.outgoing_optimizer().init(state.outgoing))
        optimizer = whole(self.step_sizes()).init(Stack.of(self).weights(state))
        steps_key = jax.random.fold_in(key, KEY_OF_STEPS) if "key" in needs_of(whole) else None
        return state._replace(optimizer=optimizer, key=steps_key)

    @compiled_method
    def predict(self, state: State, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return answer(Stack.of(self), state, self.network.with_constant(x.astype(state.outgoing.dtype)))

    @compiled_method
    def update(self, state: State, x: Float[Array, " inputs"], y: Float[Array, " outputs"]) -> tuple[State, Outcome]:
        """Learns from one example. Lists can be given for arrays, and the number of a class for a one-hot `y`."""
        dtype = state.outgoing.dtype
        return learn(Stack.of(self), state, self.network.with_constant(x.astype(dtype)), y.astype(dtype))

    def weights(self, state: State) -> dict[str, Array]:
        """The incoming weights of all hidden layers and the outgoing weights, without biases."""
        network = self.network
        rows = (network.inputs, *network.hidden)
        flat = [weights[:fan_in].ravel() for weights, fan_in in zip(state.incoming, rows, strict=False)]
        outgoing = state.outgoing[:, : network.units]
        return {"incoming": jnp.concatenate(flat) if flat else jnp.zeros(0, outgoing.dtype), "outgoing": outgoing}

    def features(self, state: State, x: Float[Array, " inputs"]) -> tuple[Array, ...] | None:
        return tuple(layer.phi[0] for layer in self.network.activations(state.incoming, x[None])) or None

    def own_step_size(self) -> Hyperparameter:
        """The step size of the incoming weights of one hidden layer."""
        given = self.incoming_step_size
        if isinstance(given, tuple):
            (given,) = given  # in a deep network `by_layer` gives every layer its own
        return first_set(given, self.step_size)

    def network_optimizer(self) -> Optimizer | None:
        """The optimizer, if it sees all weights of the network at once."""
        return None if isinstance(self.optimizer, Optax) else self.optimizer

    def step_sizes(self) -> tuple[Hyperparameter, ...]:
        """The step sizes of the incoming weights of each hidden layer, and of the outgoing weights."""
        return (*(rule.own_step_size() for rule in self.by_layer()), self.step_size)

    def incoming_optimizer(self) -> optax.GradientTransformationExtraArgs:
        """The optimizer of the incoming weights of one hidden layer."""
        return self.optimizer.of_matrix(self.own_step_size())

    def outgoing_optimizer(self) -> optax.GradientTransformationExtraArgs:
        """The optimizer of the outgoing weights, which it sees transposed, `(outputs, features)`."""
        return self.optimizer.of_matrix(self.step_size)


class _Below(CreditRule):
    """Backprop, for the hidden layers below the top with `layers="top"`."""

    adds_up = True

    def credit(self, units: Units, delta: Float[Array, " outputs"]) -> Credit:
        error = self.network.weigh(delta, units.outgoing)
        return Credit(from_input=error * units.slope, error=error)

    def shapes(self) -> Shapes:
        return Shapes()


def credit_adds_up(rule: CreditRule) -> bool:
    """Whether the class that defines the rule's `credit` says that it `adds_up`."""
    definition = next(cls for cls in type(rule).__mro__ if "credit" in vars(cls))
    return rule.adds_up and vars(definition).get("adds_up", False)


def _signs(key: Array, shape: tuple[int, int, int], dtype: Any) -> Array:
    """Random signs; with one output there is nothing to project, and they are all +1."""
    projections, outputs, units = shape
    if outputs == 1:
        return jnp.ones(shape, dtype)
    return jnp.swapaxes(jax.random.rademacher(key, (projections, units, outputs), dtype), 1, 2)


def first_set(*values: Hyperparameter | None) -> Hyperparameter:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
