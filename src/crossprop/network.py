"""The network that a learner learns in: one hidden layer, its sizes, activation, loss, bias and initial weights."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from crossprop import _checks as check

ACTIVATIONS = ("tanh", "sigmoid", "relu")
LOSSES = ("squared", "softmax")


class Activation(NamedTuple):
    """The hidden units' activations and their slopes: `phi_j = f(z_j)` and `f'(z_j)`."""

    phi: Float[Array, " hidden"]
    slope: Float[Array, " hidden"]


class Network(eqx.Module):
    r"""A network of one hidden layer: $y_k = \sum_j f(\sum_i x_i u_{ij}) w_{jk}$.

    **Arguments:**

    - `inputs`, `hidden`, `outputs`: the sizes.
    - `activation`: `"tanh"`, `"sigmoid"` (the logistic function) or `"relu"` (with slope 0 at 0).
    - `loss`: `"squared"`, the squared error summed over the outputs, or `"softmax"`, softmax with cross-entropy.
    - `bias`: adds a constant input (the last row of `incoming`) and a constant feature (the last row of `outgoing`).
    - `incoming_scale`, `outgoing_scale`: initial weights are normal with these standard deviations, biases too.

    ```python
    net = Network(inputs=20, hidden=500)
    ```
    """

    inputs: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True, default=1)
    activation: str = eqx.field(static=True, default="tanh")
    loss: str = eqx.field(static=True, default="squared")
    bias: bool = eqx.field(static=True, default=False)
    incoming_scale: float | Array = 1.0
    outgoing_scale: float | Array = 1.0

    def __check_init__(self):
        check.integer("inputs", self.inputs, low=1)
        check.integer("hidden", self.hidden, low=1)
        check.integer("outputs", self.outputs, low=1)
        check.choice("activation", self.activation, ACTIVATIONS)
        check.choice("loss", self.loss, LOSSES)
        check.flag("bias", self.bias)
        check.number("incoming_scale", self.incoming_scale, low=0)
        check.number("outgoing_scale", self.outgoing_scale, low=0)

    @property
    def fan_in(self) -> int:
        """The number of rows of `incoming`: the inputs, plus the constant input if there is a bias."""
        return self.inputs + self.bias

    @jax.jit
    def init(self, key: Key[Array, ""]) -> tuple[Float[Array, "fan_in hidden"], Float[Array, "features outputs"]]:
        incoming_key, outgoing_key = jax.random.split(key)
        incoming = self.incoming_scale * jax.random.normal(incoming_key, (self.fan_in, self.hidden))
        outgoing = self.outgoing_scale * jax.random.normal(outgoing_key, (self.hidden + self.bias, self.outputs))
        return incoming, outgoing

    def with_constant(self, values: Float[Array, " values"]) -> Float[Array, " values_and_bias"]:
        return jnp.concatenate([values, jnp.ones(1, values.dtype)]) if self.bias else values

    def without_constant(self, outgoing: Float[Array, "outputs features"]) -> Float[Array, "outputs hidden"]:
        """The outgoing weights without those of the constant feature."""
        return outgoing[:, : self.hidden]

    def weigh(self, values: Float[Array, " rows"], weights: Float[Array, "rows columns"]) -> Float[Array, " columns"]:
        """`sum_i values_i weights_ij`, at full precision on every device."""
        return jnp.matmul(values, weights, precision=jax.lax.Precision.HIGHEST)

    def outputs_of(
        self, features: Float[Array, " features"], outgoing: Float[Array, "outputs features"]
    ) -> Float[Array, " outputs"]:
        """The linear outputs."""
        return jnp.matmul(outgoing, features, precision=jax.lax.Precision.HIGHEST)

    def activate(self, z: Float[Array, "*batch hidden"]) -> Activation:
        match self.activation:
            case "tanh":
                phi = jnp.tanh(z)
                return Activation(phi, 1 - phi**2)
            case "sigmoid":
                phi = jax.nn.sigmoid(z)
                return Activation(phi, phi * (1 - phi))
            case _:
                return Activation(jnp.maximum(z, 0), (z > 0).astype(z.dtype))

    def preactivations(
        self, incoming: Float[Array, "fan_in hidden"], x: Float[Array, "batch inputs"]
    ) -> Float[Array, "batch hidden"]:
        """The weighted inputs `z` of the hidden units for a batch of examples."""
        return jax.vmap(lambda one: self.weigh(self.with_constant(one), incoming))(x)

    def error(self, outputs: Float[Array, " outputs"], y: Float[Array, " outputs"]) -> tuple[Array, Array]:
        """The reported loss, and `delta`: minus the gradient, by the outputs, of the loss (squared: of half of it)."""
        if self.loss == "squared":
            delta = y - outputs
            return jnp.sum(delta**2), delta
        return -jnp.sum(y * jax.nn.log_softmax(outputs)), y - jax.nn.softmax(outputs)


def float_type() -> np.dtype:
    """float32, or float64 if JAX's x64 is enabled."""
    return np.dtype(jax.dtypes.canonicalize_dtype(float))
