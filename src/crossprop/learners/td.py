"""Predictions of discounted sums: temporal-difference learning around any learner, and eligibility traces."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key

from crossprop._support import checks as check
from crossprop.hyperparameters import Hyperparameter, known
from crossprop.learners.base import CreditRule, Learner, Outcome, Wrapper
from crossprop.learners.calling import compiled_method
from crossprop.network import float_type
from crossprop.optimizers.base import Optimizer, required, with_extra_arguments


class TDState(NamedTuple):
    """The state of `TD`: that of the inner learner, and the last observation."""

    inner: Any
    x: Float[Array, " inputs"]
    discount: Float[Array, " outputs"]
    """Of the step to `x`; 0 where an episode began with it."""
    begun: Bool[Array, ""]
    """Whether there was an observation."""


def _as_trace(value: Any) -> Any:
    """None for a trace of 0, so that no traces are kept."""
    value = value if isinstance(value, jax.Array) else check.plain(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) or None
    return value


class TD(Wrapper):
    r"""Temporal-difference learning: a learner predicts the discounted sum of future cumulants.

    The stream gives $y_t = [c_t, \gamma_t, G_t]$ for every output: the cumulant $c_t$ and the discount $\gamma_t$ of
    the step from $x_{t-1}$ to $x_t$, and the return $G_t = c_{t+1} + \gamma_{t+1} G_{t+1}$, NaN where it is not known.
    With $v$ the learner's prediction, by the weights from before the example, it learns from

    $$\delta_t = c_t + \gamma_t v(x_t) - v(x_{t-1})$$

    $G_t$ is for the loss alone: `loss` is the squared error $(G_t - v(x_t))^2$, from before learning, or $\delta_t^2$
    where the return is not known, which is 0 at the first example. `known` in the records is the share of examples
    whose return is known.

    **Arguments:**

    - `learner`: any learner with squared loss.
    - `trace`: $\lambda$. At 0 the learner learns from $x_{t-1}$ with the target $c_t + \gamma_t v(x_t)$. Above 0 a
      credit rule keeps an eligibility trace for every weight, $e \leftarrow \gamma_{t-1} \lambda e + g$ with $g$ the
      rule's direction for an error of 1 at $x_{t-1}$, and its optimizer follows $\delta_t e$. Memories of a rule, such
      as crossprop's, follow their own equations.

    ```python
    learner = TD(Crossprop(Network(inputs=20, hidden=50), step_size=0.01), trace=0.9)
    ```

    Sutton (1988), "Learning to Predict by the Methods of Temporal Differences"; Sutton and Barto (2018), "Reinforcement
    Learning: An Introduction", equations 12.5 to 12.7 and 12.23.
    """

    trace: Hyperparameter | None = eqx.field(
        default=None,
        converter=_as_trace,
        metadata=known(None, low=0, high=1, scale="linear", help="Trace decay of predictions, lambda; default: 0"),
    )

    def __check_init__(self):
        if self.learner.predicts or self.network.loss != "squared":
            raise ValueError(f"learner must have targets and squared loss, got {check.shown(self.learner)}")
        if self.trace is not None and not isinstance(self.learner, CreditRule):
            raise ValueError(
                f"trace must be 0 for a learner that is no credit rule, got {check.shown(self.trace)} with "
                f"{check.shown(self.learner)}; a Normalize goes around the TD"
            )

    @property
    def predicts(self) -> bool:
        return True

    def init(self, key: Key[Array, ""]) -> TDState:
        x, discount = (jnp.zeros(size, float_type()) for size in (self.network.inputs, self.network.outputs))
        return TDState(self._with_traces(discount).init(key), x, discount, jnp.zeros((), bool))

    @compiled_method
    def predict(self, state: TDState, x: Array) -> Array:
        return self._with_traces(state.discount).predict(state.inner, x)

    @compiled_method
    def update(self, state: TDState, x: Array, y: Array) -> tuple[TDState, Outcome]:
        learner, dtype = self._with_traces(state.discount), state.x.dtype
        x, (cumulant, discount, returns) = x.astype(dtype), y.astype(dtype).reshape(-1, 3).T
        value = learner.predict(state.inner, x)
        target = cumulant + discount * value
        learned, outcome = learner.update(state.inner, state.x, target)
        inner = jax.tree.map(lambda new, old: jnp.where(state.begun, new, old), learned, state.inner)
        error = jnp.where(state.begun, target - outcome.outputs, 0)
        return TDState(inner, x, discount, jnp.ones((), bool)), Outcome(loss_of(returns, value, error), value)

    def _with_traces(self, discount: Array) -> Learner:
        """The learner, whose optimizer keeps traces unless `trace` is 0."""
        if self.trace is None:
            return self.learner
        return replace(self.learner, optimizer=_Eligibility(self.learner.optimizer, discount * self.trace))


def loss_of(returns: Array, value: Array, error: Array) -> Array:
    """The squared error for known returns, and the squared TD error for the others."""
    return jnp.sum(jnp.where(jnp.isnan(returns), error, returns - value) ** 2)


class _Eligibility(Optimizer):
    """Eligibility traces: `base` gets the traces of the directions for an error of 1, times the error."""

    base: Optimizer
    fade: Array
    """The decay of the traces of each output."""

    needs = ("delta", "directions")

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        outputs = len(self.fade)

        def init(params: Any) -> tuple[Any, ...]:
            return (jax.tree.map(jnp.zeros_like, params),) * outputs

        def follow(gradients: Any, traces: tuple[Any, ...], params: Any = None, **extra: Any) -> tuple[Any, Any]:
            delta, directions = required(self, extra)
            traces = tuple(
                jax.tree.map(lambda e, g, k=k: self.fade[k] * e + g, traces[k], directions(one))
                for k, one in enumerate(jnp.eye(outputs, dtype=delta.dtype))
            )
            return jax.tree.map(lambda *each: -sum(d * e for d, e in zip(delta, each, strict=True)), *traces), traces

        return optax.chain(with_extra_arguments(init, follow), self.base(step_size))
