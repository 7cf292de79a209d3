"""The network that a learner learns in: its sizes, activation, loss, bias, normalisation and initial weights."""

from collections.abc import Sequence
from functools import lru_cache
from inspect import signature
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from crossprop._support import checks as check
from crossprop._support.memory import bytes_of, check_memory
from crossprop._support.programs import program
from crossprop.hyperparameters import Name, known

ACTIVATIONS = ("tanh", "sigmoid", "relu", "leaky_relu", "linear", "ltu")
LOSSES = ("squared", "softmax")
PYTORCH, SPARSE, SIGNS = "pytorch", "sparse", "signs"
SCHEMES = ("kaiming", "kaiming-uniform", "lecun", "lecun-uniform", PYTORCH, SPARSE, SIGNS)
LEAK = 0.01
NORM_EPSILON = 1e-5
SPARSITY = 0.9
BETA = 0.6
MOST_LAYERS = 1000
"""Each is a part of the compiled program, whose time to compile grows with it."""

GAINS = {"relu": np.sqrt(2.0), "leaky_relu": np.sqrt(2.0 / (1 + LEAK**2)), "tanh": 5 / 3}
"""Kaiming's factor for each activation; 1 for the others and for the output layer."""

PAPER: dict[str, Any] = {"bias": False, "incoming_scale": 1.0, "outgoing_scale": 1.0}
"""The fields of `Network.paper` that differ from the defaults."""

Scale = float | Array | Name


class Activation(NamedTuple):
    """The hidden units' activations and slopes, `phi_j = f(z_j)` and `f'(z_j)`; with layer norm, of normalised `z`."""

    phi: Float[Array, "*batch hidden"]
    slope: Float[Array, "*batch hidden"]
    norm: tuple[Float[Array, "*batch hidden"], Float[Array, "*batch 1"]] | None = None
    """Normalised pre-activations, and the reciprocal of the standard deviation that they were divided by."""


def _sizes(hidden: Any) -> tuple[Any, ...]:
    """The sizes of hidden layers as a tuple."""
    several = isinstance(hidden, list | tuple) or (isinstance(hidden, np.ndarray) and hidden.ndim == 1)
    return tuple(map(check.plain, hidden if several else (hidden,)))


def _scale(value: Any) -> Any:
    """Numbers and arrays as they are, strings as names, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(_scale(each) for each in value)
    if isinstance(value, str):
        return Name(value)
    return value if isinstance(value, jax.Array) else check.plain(value)


class Network(eqx.Module):
    r"""A network of fully connected layers: $y_k = \sum_j f(\sum_i x_i u_{ij}) w_{jk}$ with one hidden layer.

    **Arguments:**

    - `inputs`, `outputs`: the sizes.
    - `hidden`: the number of hidden units, or a tuple with one number per hidden layer, which is also how it is kept:
      500 is `(500,)`. `()` is a linear unit.
    - `activation`: `"tanh"`, `"sigmoid"` (the logistic function), `"relu"` (with slope 0 at 0), `"leaky_relu"` (with
      slope 0.01 up to 0), `"linear"`, or `"ltu"`, a linear threshold unit: 1 above 0, else 0, with slope 0.
    - `loss`: `"squared"`, the squared error summed over the outputs, or `"softmax"`, softmax with cross-entropy.
    - `bias`: a constant input (the last row of `incoming`) and a constant feature (the last row of `outgoing`).
    - `incoming_scale`, `outgoing_scale`: the initial weights into the hidden layers and into the outputs. A number is
      the standard deviation of normal weights; `incoming_scale` can be a tuple, one entry per hidden layer. A name is
      `"kaiming"` or `"lecun"` (normal, standard deviation $g / \sqrt{\text{fan-in}}$; lecun has $g = 1$, kaiming the
      gain of the activation), `"kaiming-uniform"` or `"lecun-uniform"` (uniform with the same deviation),
      `"pytorch"` (uniform up to $1 / \sqrt{\text{fan-in}}$, biases too, as PyTorch's linear layers begin), or
      `"sparse"` (uniform up to the same, nine in ten of a unit's weights zero), or `"signs"` (-1 or +1, with biases
      such that an `"ltu"` of input bits fires when more than 0.6 of them match its signs, as features of `Geoff` do).
    - `layer_norm`: normalises the pre-activations of each hidden layer to mean 0 and variance 1, without parameters.
    - `bias_scale`: the standard deviation of the initial biases. Unset, it is that of the weights where these are
      given by number, and 0 where by name, except with `"pytorch"`.

    ```python
    net = Network(inputs=20, hidden=500)
    deep = Network(784, hidden=(256, 256), outputs=10, activation="relu", loss="softmax", incoming_scale="kaiming")
    as_in_2017 = Network.paper(inputs=20, hidden=500)
    ```

    The defaults suit inputs of about unit size. The outgoing weights start at 0, so that the first answers are 0.

    Kaiming: He et al. (2015), "Delving Deep into Rectifiers". LeCun: LeCun et al. (1998), "Efficient BackProp". Sparse:
    Elsayed, Vasan and Mahmood (2024), "Streaming Deep Reinforcement Learning Finally Works". Layer norm: Ba, Kiros and
    Hinton (2016), "Layer Normalization".
    """

    inputs: int = eqx.field(static=True, converter=check.plain)
    hidden: tuple[int, ...] = eqx.field(static=True, converter=_sizes)
    outputs: int = eqx.field(static=True, default=1, converter=check.plain)
    activation: str = eqx.field(static=True, default="tanh", metadata=known("tanh", choices=tuple(ACTIVATIONS)))
    loss: str = eqx.field(static=True, default="squared")
    bias: bool = eqx.field(static=True, default=True, converter=check.plain)
    incoming_scale: Scale | tuple[Scale, ...] = eqx.field(
        default=Name("lecun"), converter=_scale, metadata=known("lecun", low=0)
    )
    outgoing_scale: Scale = eqx.field(default=0.0, converter=_scale, metadata=known(0.0, low=0))
    layer_norm: bool = eqx.field(static=True, default=False, converter=check.plain)
    bias_scale: float | Array | None = eqx.field(default=None, metadata=known(None, low=0))

    def __check_init__(self):
        check.integer("inputs", self.inputs, low=1)
        if len(self.hidden) > MOST_LAYERS:
            raise ValueError(f"hidden must have at most {MOST_LAYERS:,} layers, got {len(self.hidden):,}")
        for layer, size in enumerate(self.hidden):
            check.integer("hidden" if len(self.hidden) == 1 else f"hidden[{layer}]", size, low=1)
        check.integer("outputs", self.outputs, low=1)
        check.choice("activation", self.activation, ACTIVATIONS)
        check.choice("loss", self.loss, LOSSES)
        check.flag("bias", self.bias)
        check.flag("layer_norm", self.layer_norm)
        check.number("bias_scale", self.bias_scale, low=0, optional=True)
        _check_scale("outgoing_scale", self.outgoing_scale)
        if isinstance(self.incoming_scale, tuple):
            if len(self.incoming_scale) != len(self.hidden):
                raise ValueError(
                    f"incoming_scale must be one value, or have one per hidden layer, {len(self.hidden)}, "
                    f"got {check.shown(self.incoming_scale)}"
                )
            for layer, scale in enumerate(self.incoming_scale):
                _check_scale(f"incoming_scale[{layer}]", scale)
        else:
            _check_scale("incoming_scale", self.incoming_scale)

    @classmethod
    def paper(cls, *values: Any, **named: Any) -> "Network":
        """The network of Veeriah, Zhang and Sutton (2017), with the same arguments: no bias, and all initial weights
        from N(0, 1), unless they are given."""
        return cls(**PAPER | signature(cls).bind(*values, **named).arguments)

    @property
    def units(self) -> int:
        """The size of the top hidden layer, or of a linear unit's inputs."""
        return self.hidden[-1] if self.hidden else self.inputs

    @property
    def fan_in(self) -> int:
        """The number of rows of the first weight matrix: the inputs, plus the constant input if there is a bias."""
        return self.inputs + self.bias

    def layers(self) -> tuple["Network", ...]:
        """One network per hidden layer, from the layer below to the layer above."""
        if len(self.hidden) == 1:
            return (self,)
        same = {"activation": self.activation, "loss": self.loss, "bias": self.bias, "layer_norm": self.layer_norm}
        return _layers((self.inputs, *self.hidden, self.outputs), **same)

    @program
    def init(self, key: Key[Array, ""]) -> tuple[tuple[Array, ...], Float[Array, "features outputs"]]:
        """The initial weights into every hidden layer, and into the outputs."""
        scales = (
            self.incoming_scale if isinstance(self.incoming_scale, tuple) else [self.incoming_scale] * len(self.hidden)
        )
        widths = (self.inputs, *self.hidden, self.outputs)
        *incoming, outgoing = (
            self._initial(key, fan_in, size, scale, gain)
            for key, fan_in, size, scale, gain in zip(
                jax.random.split(key, len(widths) - 1),
                widths[:-1],
                widths[1:],
                [*scales, self.outgoing_scale],
                [GAINS.get(self.activation, 1.0)] * len(self.hidden) + [1.0],
                strict=True,
            )
        )
        sizes = f"{self.inputs} inputs, hidden={self.hidden} and {self.outputs} outputs"
        check_memory(f"a network with {sizes}", bytes_of((incoming, outgoing)))  # while it is traced: before work
        return tuple(incoming), outgoing

    def fresh_unit(self, key: Key[Array, ""], layer: int = 0, scheme: str | None = None) -> Float[Array, " fan_in"]:
        """New incoming weights for one unit of a hidden layer, from the distribution of the initial ones; or from that
        of a `scheme` such as `"kaiming-uniform"`, with a bias of 0."""
        fan_in = (self.inputs, *self.hidden)[layer]
        gain = GAINS.get(self.activation, 1.0)
        if scheme is not None:
            weights = _by_name(Name(scheme), key, fan_in, 1, gain)
            return jnp.concatenate([weights, jnp.zeros((int(self.bias), 1), weights.dtype)])[:, 0]
        scale = self.incoming_scale[layer] if isinstance(self.incoming_scale, tuple) else self.incoming_scale
        return self._initial(key, fan_in, 1, scale, gain)[:, 0]

    def _initial(self, key: Array, fan_in: int, size: int, scale: Scale, gain: float) -> Array:
        """The initial weights of one layer, its biases in the last row."""
        if not isinstance(scale, Name):
            weights = scale * jax.random.normal(key, (fan_in + self.bias, size))
            if not self.bias or self.bias_scale is None:
                return weights
            weights = weights[:fan_in]
        else:
            weights = _by_name(scale, key, fan_in, size, gain)
        if not self.bias:
            return weights
        # JAX's split(key)[1] is fold_in(key, 1), with which sparse weights have drawn their zeros.
        if scale == SIGNS and self.bias_scale is None:
            matches = jnp.sum(weights < 0, axis=0, keepdims=True) - np.floor(BETA * fan_in + 1e-9) - 0.5
            return jnp.concatenate([weights, matches.astype(weights.dtype)])
        bias_key = jax.random.fold_in(key, 2 if scale == SPARSE else 1)
        if scale == PYTORCH and self.bias_scale is None:
            return jnp.concatenate([weights, _within(1 / np.sqrt(fan_in), bias_key, (1, size))])
        biases = jax.random.normal(bias_key, (1, size))
        return jnp.concatenate([weights, (0.0 if self.bias_scale is None else self.bias_scale) * biases])

    def with_constant(self, values: Float[Array, " values"]) -> Float[Array, " values_and_bias"]:
        return jnp.concatenate([values, jnp.ones(1, values.dtype)]) if self.bias else values

    def without_constant(self, outgoing: Float[Array, "outputs features"]) -> Float[Array, "outputs hidden"]:
        """The outgoing weights without those of the constant feature."""
        return outgoing[:, : self.units]

    def transposed(self, above: Float[Array, "features hidden_above"]) -> Float[Array, "hidden_above hidden"]:
        """The weights of the layer above, as outgoing ones without those of the constant feature. They are cut before
        they are transposed, or XLA would copy them on a CPU."""
        return above[: self.units].T

    def weigh(self, values: Float[Array, " rows"], weights: Float[Array, "rows columns"]) -> Float[Array, " columns"]:
        """`sum_i values_i weights_ij`, at full precision on every device."""
        return jnp.matmul(values, weights, precision=jax.lax.Precision.HIGHEST)

    def outputs_of(
        self, features: Float[Array, " features"], outgoing: Float[Array, "outputs features"]
    ) -> Float[Array, " outputs"]:
        return jnp.matmul(outgoing, features, precision=jax.lax.Precision.HIGHEST)

    def activate(self, z: Float[Array, "*batch hidden"]) -> Activation:
        """The units of one hidden layer from their pre-activations."""
        if not self.layer_norm:
            return Activation(*activation_and_slope(self.activation, z))
        return self.activate_centred(z - jnp.mean(z, axis=-1, keepdims=True))

    def activate_centred(self, centred: Float[Array, "*batch hidden"]) -> Activation:
        """The units of a layer with layer norm from their pre-activations less the mean of these."""
        variance = jnp.sum(centred**2, axis=-1, keepdims=True) / self.units
        reciprocal = jax.lax.rsqrt(variance + jnp.asarray(NORM_EPSILON, centred.dtype))
        values = centred * reciprocal
        return Activation(*activation_and_slope(self.activation, values), (values, reciprocal))

    def through_norm(self, error: Float[Array, " hidden"], units: Activation) -> Float[Array, " hidden"]:
        """The error at the pre-activations from the one at normalised pre-activations; without layer norm the same."""
        if units.norm is None:
            return error
        values, reciprocal = units.norm
        mean = lambda each: jnp.sum(each, keepdims=True) / self.units
        return (error - mean(error) - values * mean(error * values)) * reciprocal

    def own_slope(self, units: Activation) -> Float[Array, " hidden"] | None:
        """The derivative of a unit's normalised pre-activation by its own pre-activation; None without layer norm."""
        if units.norm is None:
            return None
        values, reciprocal = units.norm
        return (1 - (1 + values**2) / self.units) * reciprocal

    def activations(self, incoming: Sequence[Array], x: Float[Array, "batch inputs"]) -> list[Activation]:
        """The units of every hidden layer for a batch of examples; `incoming` as in a learner's state."""
        layers: list[Activation] = []
        for net, weights in zip(self.layers(), incoming, strict=True):
            z = jax.vmap(lambda one, net=net, weights=weights: net.weigh(net.with_constant(one), weights))
            layers.append(net.activate(z(layers[-1].phi if layers else x)))
        return layers

    def error(self, outputs: Float[Array, " outputs"], y: Float[Array, " outputs"]) -> tuple[Array, Array]:
        """The reported loss, and `delta`: minus the gradient, by the outputs, of the loss (squared: of half of it)."""
        return error_of(self.loss, outputs, y)

    def hessian_root(self, outputs: Float[Array, " outputs"]) -> Float[Array, "rows outputs"]:
        """Rows whose outer products sum up to the Hessian of the loss (squared: of half of it) by the outputs."""
        one = jnp.eye(self.outputs, dtype=outputs.dtype)
        if self.loss == "squared":
            return one
        share = jax.nn.softmax(outputs)
        return jnp.sqrt(share)[:, None] * (one - share[None, :])


@lru_cache(256)
def _layers(widths: tuple[int, ...], **same: Any) -> tuple[Network, ...]:
    """`Network.layers`, cached, since engines ask for them often."""
    around = zip(widths[:-2], widths[1:-1], widths[2:], strict=True)
    return tuple(Network(below, own, above, **same) for below, own, above in around)


def error_of(loss: str, outputs: Array, y: Array) -> tuple[Array, Array]:
    """`Network.error` of this loss."""
    if loss == "squared":
        delta = y - outputs
        return jnp.sum(delta**2), delta
    return -jnp.sum(y * jax.nn.log_softmax(outputs)), y - jax.nn.softmax(outputs)


def activation_and_slope(activation: str, z: Array) -> tuple[Array, Array]:
    """`f(z)` and `f'(z)`."""
    match activation:
        case "tanh":
            phi = jnp.tanh(z)
            return phi, 1 - phi**2
        case "sigmoid":
            phi = jax.nn.sigmoid(z)
            return phi, phi * (1 - phi)
        case "relu":
            return jnp.maximum(z, 0), (z > 0).astype(z.dtype)
        case "leaky_relu":
            slope = jnp.where(z > 0, jnp.ones((), z.dtype), jnp.asarray(LEAK, z.dtype))
            return z * slope, slope
        case "ltu":
            return (z > 0).astype(z.dtype), jnp.zeros_like(z)
        case _:
            return z, jnp.ones_like(z)


def _by_name(scheme: Name, key: Array, fan_in: int, size: int, gain: float) -> Array:
    deviation = (gain if scheme.startswith("kaiming") else 1.0) / np.sqrt(fan_in)
    if scheme in ("kaiming", "lecun"):
        return deviation * jax.random.normal(key, (fan_in, size))
    if scheme == SIGNS:
        return jax.random.rademacher(key, (fan_in, size), float_type())
    if scheme == PYTORCH:
        return _within(deviation, key, (fan_in, size))
    if scheme != SPARSE:
        return _within(np.sqrt(3.0) * deviation, key, (fan_in, size))
    values_key, zeros_key = jax.random.split(key)
    values = _within(deviation, values_key, (fan_in, size))
    # Each unit keeps the weights whose rank in a random order is high enough: all keep equally many, and at least one.
    order = jnp.argsort(jax.random.uniform(zeros_key, (fan_in, size)), axis=0)
    zeros = min(int(np.ceil(SPARSITY * fan_in)), fan_in - 1)
    return jnp.where(jnp.argsort(order, axis=0) < zeros, 0.0, values)


def _within(bound: float, key: Array, shape: tuple[int, int]) -> Array:
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def check_network(network: Any) -> None:
    """A TypeError unless it is a network of this package."""
    if not isinstance(network, Network):
        raise TypeError(f"network must be a crossprop.Network, got {check.shown(network)}")


def _check_scale(name: str, value: Any) -> None:
    if isinstance(value, str):
        check.choice(name, value, SCHEMES)
    else:
        check.number(name, value, low=0)


def float_type() -> np.dtype:
    """float32, or float64 if JAX's x64 is enabled."""
    return np.dtype(jax.dtypes.canonicalize_dtype(float))
