"""Linear predictors of discounted sums, each output for itself: true online TD, TIDBD and SwiftTD."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.learners.base import Learner, Outcome
from crossprop.learners.calling import compiled_method
from crossprop.learners.td import loss_of
from crossprop.network import Network


class Linear(NamedTuple):
    """The state of a linear predictor; each array has the outputs first."""

    weights: Float[Array, "outputs features"]
    kept: Any
    """What its rule keeps, in which all that fades by the trace is 0 at first."""
    value: Float[Array, " outputs"]
    """The prediction at the last observation, from before learning there."""
    begun: Bool[Array, ""]
    """Whether there was one."""


class Step(NamedTuple):
    """A step to the input `x`, with its cumulant and discount, the prediction there, and the last one."""

    x: Array
    cumulant: Array
    discount: Array
    value: Array
    last: Array


def _without_hidden(network: Any) -> Any:
    if not isinstance(network, Network):
        raise TypeError(f"network must be a crossprop.Network, got {check.shown(network)}")
    return replace(network, hidden=(), incoming_scale=1.0)


class LinearPredictor(Learner):
    """A linear predictor: its subclasses say what a weight keeps, and how it moves."""

    network: Any = eqx.field(converter=_without_hidden)
    step_size: Hyperparameter = hyperparameter(above=0, help="Step size of every learner")
    trace: Hyperparameter = hyperparameter(
        default=0.9, low=0, high=1, scale="linear", help="Trace decay of predictions, lambda"
    )

    def __check_init__(self):
        if self.network.loss != "squared":
            raise ValueError(f"network must have squared loss, got {check.shown(self.network)}")

    @property
    def predicts(self) -> bool:
        """True."""
        return True

    @abstractmethod
    def _kept(self, weights: Array) -> Any:
        """What is kept for one output before the first observation."""

    @abstractmethod
    def _step(self, weights: Array, kept: Any, step: Step) -> tuple[Array, Any]:
        """The weights of one output and what is kept with them, after a step."""

    def init(self, key: Key[Array, ""]) -> Linear:
        """The state before the first example."""
        weights = self.network.init(jax.random.split(key)[0])[1].T  # those of every learner of this network
        value = jnp.zeros(self.network.outputs, weights.dtype)
        return Linear(weights, jax.vmap(self._kept)(weights), value, jnp.zeros((), bool))

    @compiled_method
    def predict(self, state: Linear, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The predicted sums."""
        return self.network.outputs_of(self.network.with_constant(x.astype(state.value.dtype)), state.weights)

    @compiled_method
    def update(self, state: Linear, x: Float[Array, " inputs"], y: Float[Array, " targets"]) -> tuple[Linear, Outcome]:
        """Learns from the step to `x`."""
        x, (cumulant, discount, returns) = x.astype(state.value.dtype), y.astype(state.value.dtype).reshape(-1, 3).T
        x = self.network.with_constant(x)
        value = self.network.outputs_of(x, state.weights)
        step = Step(x, cumulant, discount, value, state.value)
        axes = (0, 0, Step(None, 0, 0, 0, 0))  # pyright: ignore[reportArgumentType]
        weights, kept = jax.vmap(self._step, axes)(state.weights, state.kept, step)
        error = jnp.where(state.begun, cumulant + discount * value - state.value, 0)
        return Linear(weights, kept, value, jnp.ones((), bool)), Outcome(loss_of(returns, value, error), value)

    def weights(self, state: Linear) -> dict[str, Array]:
        """The weights, without biases."""
        return {"outgoing": state.weights[:, : self.network.inputs]}


class Dutch(NamedTuple):
    """What `TrueOnlineTD` keeps of a weight: its trace times the step size, the last input times the step size, and
    for all of them by how much the prediction at the last input has changed."""

    trace: Array
    recent: Array
    change: Array


class TrueOnlineTD(LinearPredictor):
    r"""True online TD($\lambda$), linear: at every step what the forward view of the returns so far would have learned.

    With $V = w^\top x_{t-1}$ and $V' = w^\top x_t$ by the present weights, and $V_{old}$ the last step's $V'$:

    $$z \leftarrow \gamma_{t-1} \lambda z + (1 - \alpha \gamma_{t-1} \lambda z^\top x_{t-1}) x_{t-1}$$
    $$w \mathrel{+}= \alpha (c_t + \gamma_t V' - V_{old}) z - \alpha (V - V_{old}) x_{t-1}$$

    **Arguments:**

    - `network`: its inputs, outputs, bias and `outgoing_scale` count; hidden layers are left out.
    - `step_size`: $\alpha$. `trace`: $\lambda$.

    ```python
    learner = TrueOnlineTD(Network(inputs=20, hidden=(), outgoing_scale=0), step_size=0.1, trace=0.9)
    ```

    Van Seijen, Mahmood, Pilarski, Machado and Sutton (2016), "True Online Temporal-Difference Learning".
    """

    def _kept(self, weights: Array) -> Dutch:
        zeros = jnp.zeros_like(weights)
        return Dutch(zeros, zeros, zeros[0])

    def _step(self, weights: Array, kept: Dutch, step: Step) -> tuple[Array, Dutch]:
        x, cumulant, discount, value, last = step
        move = (cumulant + discount * value - last) * kept.trace - kept.recent * kept.change
        faded, recent = discount * self.trace * kept.trace, self.step_size * x
        return weights + move, Dutch(faded + (1 - faded @ x) * recent, recent, move @ x)


class TIDBDState(NamedTuple):
    """What `TIDBD` keeps of a weight: the logarithm of its step size, $h$, its trace, and the last input."""

    log_step_size: Array
    h: Array
    trace: Array
    last: Array


class TIDBD(LinearPredictor):
    r"""TD($\lambda$), linear, whose weights learn their step sizes: IDBD for predictions, by semi-gradients.

    With $\delta$ the TD error, $z$ the trace and $x$ the input before the step:

    $$\beta_i \mathrel{+}= \theta \delta x_i h_i \qquad \alpha_i = e^{\beta_i} \qquad
      w_i \mathrel{+}= \alpha_i \delta z_i$$
    $$h_i \leftarrow h_i \max(0, 1 - \alpha_i x_i z_i) + \alpha_i \delta z_i$$

    **Arguments:** `network` and `trace` as `TrueOnlineTD`, `step_size` that of the start, and

    - `meta_step_size`: of the logarithms of step sizes ($\theta$).

    ```python
    learner = TIDBD(Network(inputs=20, hidden=(), outgoing_scale=0), step_size=0.05, trace=0.9)
    ```

    Kearney, Veeriah, Travnik, Sutton and Pilarski (2018), "TIDBD: Adapting Temporal-difference Step-sizes Through
    Stochastic Meta-descent".
    """

    meta_step_size: Hyperparameter = hyperparameter(
        default=0.01, low=0, help="Step size of the logarithms of step sizes"
    )

    def _kept(self, weights: Array) -> TIDBDState:
        zeros = jnp.zeros_like(weights)
        return TIDBDState(jnp.full_like(weights, jnp.log(self.step_size)), zeros, zeros, zeros)

    def _step(self, weights: Array, kept: TIDBDState, step: Step) -> tuple[Array, TIDBDState]:
        x, cumulant, discount, value, _ = step
        delta = cumulant + discount * value - weights @ kept.last
        log = kept.log_step_size + self.meta_step_size * delta * kept.last * kept.h
        move = jnp.exp(log) * delta * kept.trace
        h = kept.h * jnp.maximum(0, 1 - jnp.exp(log) * kept.last * kept.trace) + move
        return weights + move, TIDBDState(log, h, discount * self.trace * kept.trace + x, x)


LEAST = 1e-10
"""The smallest step size of `SwiftTD`."""


class SwiftState(NamedTuple):
    """What `SwiftTD` keeps of a weight. The first three are as in `Dutch`; then the logarithm of the step size, and the
    traces of the meta-gradient."""

    trace: Array
    recent: Array
    change: Array
    log_step_size: Array
    h: Array
    h_next: Array
    h_trace: Array
    slope_trace: Array


class SwiftTD(LinearPredictor):
    r"""True online TD($\lambda$), linear, whose weights learn their step sizes, with a bound on what a step changes.

    With $\tau = \sum_i e^{\beta_i} x_i^2$, the share of an error that a step would take away, the step sizes at an
    input are $\min(1, \eta / \tau) e^{\beta_i}$. Where $\tau > \eta$ those of active inputs decay,
    $\beta_i \mathrel{+}= x_i^2 \ln \epsilon$, and their meta-gradients begin anew.

    No step size falls below $10^{-10}$. It follows the authors' program for inputs of any kind, `SwiftTDNonSparse` of
    the package `swifttd`, where that bound never comes into force.

    **Arguments:** `network` and `trace` as `TrueOnlineTD`, `step_size` that of the start, and

    - `meta_step_size`: of the logarithms of step sizes ($\theta$).
    - `bound`: the most of an error that a step takes away ($\eta$), and the largest step size.
    - `decay`: of step sizes that were too large together ($\epsilon$).

    ```python
    learner = SwiftTD(Network(inputs=20, hidden=(), outgoing_scale=0), step_size=1e-3, trace=0.9)
    ```

    Javed, Sharifnassab and Sutton (2024), "SwiftTD: A Fast and Robust Algorithm for Temporal Difference Learning".
    """

    meta_step_size: Hyperparameter = hyperparameter(
        default=1e-3, low=0, help="Step size of the logarithms of step sizes"
    )
    bound: Hyperparameter = hyperparameter(default=0.1, above=0, help="The most of an error that a step takes away")
    decay: Hyperparameter = hyperparameter(
        default=0.999, above=0, high=1, scale="decay", help="Decay of step sizes that were too large together"
    )

    def _kept(self, weights: Array) -> SwiftState:
        zeros = jnp.zeros_like(weights)
        log = jnp.full_like(weights, jnp.log(self.step_size))
        return SwiftState(zeros, zeros, zeros[0], log, zeros, zeros, zeros, zeros)

    def _step(self, weights: Array, kept: SwiftState, step: Step) -> tuple[Array, SwiftState]:
        x, cumulant, discount, value, last = step
        error, fade = cumulant + discount * value - last, discount * self.trace
        correction = kept.recent * kept.change
        move = error * kept.trace - correction
        meta = self.meta_step_size * (error - kept.change) * kept.slope_trace
        least, most = jnp.log(LEAST), jnp.log(self.bound)
        log = jnp.clip(kept.log_step_size + meta / jnp.exp(kept.log_step_size), least, most)
        h = kept.h_next + error * kept.h_trace - correction
        size = jnp.exp(log)
        total = jnp.sum(size * x**2)
        recent = jnp.minimum(1, self.bound / total) * size * x
        faded, faded_h = fade * kept.trace, fade * kept.h_trace
        new = 1 - faded @ x
        trace = faded + new * recent
        kept_h = total <= self.bound
        h_next = h - kept.h * x * (trace - recent) - h * recent * x
        return weights + move, SwiftState(
            trace,
            recent,
            move @ x,
            jnp.where(kept_h, log, jnp.maximum(log + jnp.log(self.decay) * x**2, least)),
            jnp.where(kept_h, h, 0),
            jnp.where(kept_h, h_next, 0),
            jnp.where(kept_h, faded_h + recent * (new - faded_h * x), 0),
            fade * kept.slope_trace + kept.h * x,
        )
