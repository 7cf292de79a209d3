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


class Observed(NamedTuple):
    """What a learner that predicts keeps of the last observation."""

    x: Float[Array, " inputs"]
    discount: Float[Array, " outputs"]
    """Of the step to it: 0 where what is predicted began with it."""
    begun: Bool[Array, ""]
    """Whether there was one."""

    @classmethod
    def nothing(cls, network: Any) -> "Observed":
        """What is kept before the first observation."""
        return cls(
            jnp.zeros(network.inputs, float_type()), jnp.zeros(network.outputs, float_type()), jnp.zeros((), bool)
        )


class TDState(NamedTuple):
    """The state of `TD`."""

    inner: Any
    """The learner's own."""
    last: Observed


def _as_trace(value: Any) -> Any:
    """None for a trace of 0: the learner then keeps none."""
    value = value if isinstance(value, jax.Array) else check.plain(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) or None
    return value


class TD(Wrapper):
    r"""Temporal-difference learning: what a learner predicts is the discounted sum of what is to come.

    The stream gives $y_t = [c_t, \gamma_t, G_t]$ for every output: the cumulant $c_t$ and the discount $\gamma_t$ of
    the step from $x_{t-1}$ to $x_t$, and the return $G_t = c_{t+1} + \gamma_{t+1} G_{t+1}$, NaN where it is not known.
    With $v$ the learner's prediction, it learns at every example, with the weights from before it in both values, from

    $$\delta_t = c_t + \gamma_t v(x_t) - v(x_{t-1})$$

    Nothing learns from $G_t$. `loss` is the squared error $(G_t - v(x_t))^2$, from before learning; where the return is
    not known it is $\delta_t^2$, which is 0 at the first example. `known` in the records is the share of examples whose
    return is known.

    **Arguments:**

    - `learner`: any learner with squared loss.
    - `trace`: $\lambda$. At 0 the learner learns from $x_{t-1}$ with the target $c_t + \gamma_t v(x_t)$. Above it a
      credit rule keeps an eligibility trace for every weight, $e \leftarrow \gamma_{t-1} \lambda e + g$ with $g$ the
      direction that the rule gives for an error of 1 at $x_{t-1}$, and its optimizer follows $\delta_t e$. What a rule
      remembers besides, such as the memory of crossprop, goes by its own equations.

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
        """True."""
        return True

    def init(self, key: Key[Array, ""]) -> TDState:
        """The state before the first example."""
        last = Observed.nothing(self.network)
        return TDState(self._with_traces(last).init(key), last)

    @compiled_method
    def predict(self, state: TDState, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The predicted sums."""
        return self._with_traces(state.last).predict(state.inner, x)

    @compiled_method
    def update(
        self, state: TDState, x: Float[Array, " inputs"], y: Float[Array, " targets"]
    ) -> tuple[TDState, Outcome]:
        """Learns from the step to `x`."""
        learner, last = self._with_traces(state.last), state.last
        x, (cumulant, discount, returns) = x.astype(last.x.dtype), y.astype(last.x.dtype).reshape(-1, 3).T
        value = learner.predict(state.inner, x)
        target = cumulant + discount * value
        learned, outcome = learner.update(state.inner, last.x, target)
        inner = jax.tree.map(lambda new, old: jnp.where(last.begun, new, old), learned, state.inner)
        error = jnp.where(last.begun, target - outcome.outputs, 0)
        return TDState(inner, Observed(x, discount, jnp.ones((), bool))), Outcome(loss_of(returns, value, error), value)

    def _with_traces(self, last: Observed) -> Learner:
        """The learner, whose optimizer keeps traces where `trace` is not 0."""
        if self.trace is None:
            return self.learner
        return replace(self.learner, optimizer=_Eligibility(self.learner.optimizer, last.discount * self.trace))


def loss_of(returns: Array, value: Array, error: Array) -> Array:
    """The squared error against the returns that are known, and the squared TD error of the others."""
    return jnp.sum(jnp.where(jnp.isnan(returns), error, returns - value) ** 2)


class EligibilityState(NamedTuple):
    """The traces of every output, each shaped like the parameters, and the state of the base."""

    traces: tuple[Any, ...]
    base: Any


class _Eligibility(Optimizer):
    """Eligibility traces: `base` sees the traces of the directions for an error of 1, times the error."""

    base: Optimizer
    fade: Array
    """The share of the traces of each output that is left."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("delta", "directions", *self.base.needs)

    def __call__(self, step_size: Any) -> optax.GradientTransformationExtraArgs:
        base, outputs = self.base(step_size), len(self.fade)

        def init(params: Any) -> EligibilityState:
            return EligibilityState((jax.tree.map(jnp.zeros_like, params),) * outputs, base.init(params))

        def update(gradients: Any, state: EligibilityState, params: Any = None, **extra: Any) -> tuple[Any, Any]:
            delta, directions, *_ = required(self, extra)
            traces = tuple(
                jax.tree.map(lambda e, g, k=k: self.fade[k] * e + g, state.traces[k], directions(one))
                for k, one in enumerate(jnp.eye(outputs, dtype=delta.dtype))
            )
            gradients = jax.tree.map(lambda *each: -sum(d * e for d, e in zip(delta, each, strict=True)), *traces)
            steps, kept = base.update(gradients, state.base, params, **extra)
            return steps, EligibilityState(traces, kept)

        return with_extra_arguments(init, update)
