"""Linear predictors of discounted sums, every output on its own: true online TD, TIDBD and SwiftTD."""

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
from crossprop.network import check_network


class Linear(NamedTuple):
    """The state of a linear predictor; each array has the outputs first."""

    weights: Float[Array, "outputs features"]
    kept: Any
    """The other variables of its rule; traces begin at 0."""
    value: Float[Array, " outputs"]
    """The prediction at the last observation, from before learning there."""
    begun: Bool[Array, ""]
    """Whether there was one."""


def _without_hidden(network: Any) -> Any:
    check_network(network)
    return replace(network, hidden=(), incoming_scale=1.0)


class LinearPredictor(Learner):
    """A linear predictor. A subclass has the equations of one output."""

    network: Any = eqx.field(converter=_without_hidden)
    step_size: Hyperparameter = hyperparameter(above=0, help="Step size of every learner")
    trace: Hyperparameter = hyperparameter(
        default=0.9, low=0, high=1, scale="linear", help="Trace decay of predictions, lambda"
    )

    def __check_init__(self):
        if self.network.loss != "squared":
            raise ValueError(f"network must have squared loss, got {check.shown(self.network)}")

    predicts = True

    @abstractmethod
    def _kept(self, weights: Array) -> Any:
        """The variables besides the weights before the first observation."""

    @abstractmethod
    def _step(
        self, weights: Array, kept: Any, x: Array, target: Array, discount: Array, last: Array
    ) -> tuple[Array, Any]:
        """The weights and the other variables after a step to the input `x` with this discount, the target for the
        prediction before it, and the last prediction."""

    def init(self, key: Key[Array, ""]) -> Linear:
        weights = self.network.init(jax.random.split(key)[0])[1].T  # those of every learner of this network
        value = jnp.zeros(self.network.outputs, weights.dtype)
        return Linear(weights, jax.vmap(self._kept)(weights), value, jnp.zeros((), bool))

    @compiled_method
    def predict(self, state: Linear, x: Array) -> Array:
        return self.network.outputs_of(self.network.with_constant(x.astype(state.value.dtype)), state.weights)

    @compiled_method
    def update(self, state: Linear, x: Array, y: Array) -> tuple[Linear, Outcome]:
        x, (cumulant, discount, returns) = x.astype(state.value.dtype), y.astype(state.value.dtype).reshape(-1, 3).T
        x = self.network.with_constant(x)
        value = self.network.outputs_of(x, state.weights)
        target = cumulant + discount * value
        step_of_each = jax.vmap(self._step, (0, 0, None, 0, 0, 0))
        weights, kept = step_of_each(state.weights, state.kept, x, target, discount, state.value)
        error = jnp.where(state.begun, target - state.value, 0)
        return Linear(weights, kept, value, jnp.ones((), bool)), Outcome(loss_of(returns, value, error), value)

    def weights(self, state: Linear) -> dict[str, Array]:
        return {"outgoing": state.weights[:, : self.network.inputs]}


class Dutch(NamedTuple):
    """The variables of `TrueOnlineTD`: the trace and the last input, both times the step size; and by how much the
    last step has changed the prediction at that input."""

    trace: Array
    recent: Array
    change: Array


class TrueOnlineTD(LinearPredictor):
    r"""True online TD($\lambda$), linear: at every step the weights of the forward view on the returns so far.

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

    def _step(self, weights, kept: Dutch, x, target, discount, last) -> tuple[Array, Dutch]:
        move = (target - last) * kept.trace - kept.recent * kept.change
        faded, recent = discount * self.trace * kept.trace, self.step_size * x
        return weights + move, Dutch(faded + (1 - faded @ x) * recent, recent, move @ x)


class TIDBDState(NamedTuple):
    """The variables of `TIDBD`: of every weight the logarithm of its step size, $h$, its trace, and the last input."""

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

    def _step(self, weights, kept: TIDBDState, x, target, discount, last) -> tuple[Array, TIDBDState]:
        delta = target - weights @ kept.last
        log = kept.log_step_size + self.meta_step_size * delta * kept.last * kept.h
        move = jnp.exp(log) * delta * kept.trace
        h = kept.h * jnp.maximum(0, 1 - jnp.exp(log) * kept.last * kept.trace) + move
        return weights + move, TIDBDState(log, h, discount * self.trace * kept.trace + x, x)


LEAST = 1e-10
"""The smallest step size of `SwiftTD`."""


class SwiftState(NamedTuple):
    """The variables of `SwiftTD`: those of `Dutch`, and of every weight the logarithm of its step size and the traces
    of the meta-gradient."""

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

    With $\tau = \sum_i e^{\beta_i} x_i^2$, the share of the error that a step would remove, the step sizes at an
    input are $\min(1, \eta / \tau) e^{\beta_i}$. Where $\tau > \eta$ those of active inputs decay,
    $\beta_i \mathrel{+}= x_i^2 \ln \epsilon$, and their meta-gradients begin anew.

    No step size falls below $10^{-10}$. It follows the authors' program for inputs of any kind, `SwiftTDNonSparse` of
    the package `swifttd`, which never reaches that bound.

    **Arguments:** `network` and `trace` as `TrueOnlineTD`, `step_size` that of the start, and

    - `meta_step_size`: of the logarithms of step sizes ($\theta$).
    - `bound`: the largest share of the error that a step removes ($\eta$), and the largest step size.
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

    def _step(self, weights, kept: SwiftState, x, target, discount, last) -> tuple[Array, SwiftState]:
        error, fade = target - last, discount * self.trace
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
