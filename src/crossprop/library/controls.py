"""For `study why`: foresight with something else of the size of its v, and a regression stream that is not ours."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from crossprop.hyperparameters import check_parameters, hyperparameter, parameter
from crossprop.learners import LEARNERS, Credit, CreditRule, Outcome, Shapes, State, Units, compiled_method
from crossprop.learners.base import Hyperparameter, NetworkLearner
from crossprop.streams import STREAMS, Pool, PoolStream
from crossprop.streams.base import set_fields

SIGNED = ("random", "signs")
CONTROLS = (*SIGNED, "sign", "shuffled", "size", "direction")


def _norm(weights: Array) -> Array:
    return jnp.linalg.norm(weights, axis=0, keepdims=True)


def _of_norm(weights: Array, norm: Array) -> Array:
    own = _norm(weights)
    return jnp.where(own > 0, weights * norm / jnp.where(own > 0, own, 1), 0)


class _Controlled(CreditRule):
    ahead: Hyperparameter = hyperparameter(default=1.0, backprop_at=0)
    horizon: Hyperparameter = hyperparameter(default=1000.0, low=1)
    control: str = hyperparameter(default="random", choices=CONTROLS)

    def _credited(self, w: Array, v: Array, signs: Any) -> Array:
        match self.control:
            case "random":
                return w + self.ahead * _of_norm(signs[0], _norm(v))
            case "signs":
                return w + self.ahead * v * signs[0]
            case "sign":
                return w + self.ahead * _of_norm(jnp.sign(v), _norm(v))
            case "shuffled":
                return w + self.ahead * jnp.roll(v, 1, axis=1)
            case "size":
                return _of_norm(w, _norm(w + self.ahead * v))
            case _:
                return _of_norm(w + self.ahead * v, _norm(w))

    def credit(self, units: Units, delta: Array) -> Credit:
        assert units.memory is not None
        error = self.network.weigh(delta, self._credited(units.outgoing, units.memory, units.signs))
        kept = (1 - 1 / self.horizon) * units.memory
        return Credit(from_input=error * units.slope, error=error, unit_memory=kept, step_memory=1.0)

    def shapes(self) -> Shapes:
        sizes = (self.network.outputs, self.network.units)
        return Shapes(memory=sizes, signs=(1, *sizes) if self.control in SIGNED else None)


class ForesightControl(NetworkLearner):
    r"""Foresight whose credit has another direction, or another size, than $w_j + a v_j$.

    **Arguments:** as `Foresight`, and `control`:

    - in the place of $v_j$, the $v$ of a unit, with its norm: `"random"`, a direction drawn once; `"sign"`, the signs
      of $v_{jk}$; `"signs"`, $v_{jk}$ times signs drawn once; `"shuffled"`, the $v$ of another unit.
    - in the place of $w_j + a v_j$: `"size"`, its norm with the direction of $w_j$; `"direction"`, its direction with
      the norm of $w_j$.

    With one output all signs are +1. It is no `CreditRule`, since engines for these may divide the units.
    """

    ahead: Hyperparameter = hyperparameter(default=1.0, backprop_at=0)
    horizon: Hyperparameter = hyperparameter(default=1000.0, low=1)
    control: str = hyperparameter(default="random", choices=CONTROLS)

    def _rule(self) -> _Controlled:
        names = ("optimizer", "incoming_step_size", "replacement", "ahead", "horizon", "control")
        return _Controlled(self.network, self.step_size, **{name: getattr(self, name) for name in names})

    def init(self, key: Array) -> State:
        """The state before the first example."""
        return self._rule().init(key)

    @compiled_method
    def predict(self, state: State, x: Array) -> Array:
        """The linear outputs for one example, before any softmax."""
        return self._rule().predict(state, x)

    @compiled_method
    def update(self, state: State, x: Array, y: Array) -> tuple[State, Outcome]:
        """Learns from one example."""
        return self._rule().update(state, x, y)

    def weights(self, state: State) -> dict[str, Array]:
        """The incoming and the outgoing weights."""
        return self._rule().weights(state)

    def features(self, state: State, x: Array) -> Any:
        """The hidden units."""
        return self._rule().features(state, x)


@dataclass(frozen=True)
class Friedman(PoolStream):
    r"""Regression on five of ten inputs, others in every task.

    $y = 10 \sin(\pi x_1 x_2) + 20 (x_3 - 1/2)^2 + 10 x_4 + 5 x_5$ plus normal noise, with $x$ uniform on 0 to 1; task
    $t$ begins at input $3 t$. Targets and inputs are standardised by their known mean and deviation.

    Friedman (1991), "Multivariate Adaptive Regression Splines".
    """

    tasks: int = parameter(3, whole=True, low=1)
    examples: int = parameter(1600, whole=True, low=1)

    inputs = 10
    outputs = 1
    one_hot = False

    def __post_init__(self):
        check_parameters(self)
        set_fields(self, steps=self.tasks * self.examples)

    def task(self, steps: np.ndarray) -> np.ndarray:
        return np.asarray(steps) // self.examples

    def pool(self, key: Array) -> Pool:
        assert self.steps is not None
        drawn = np.asarray(jax.random.uniform(key, (self.steps, self.inputs)))
        noise = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (self.steps,)))
        columns = (3 * self.task(np.arange(self.steps))[:, None] + np.arange(5)) % self.inputs
        one, two, three, four, five = np.take_along_axis(drawn, columns, axis=1).T
        y = 10 * np.sin(np.pi * one * two) + 20 * (three - 0.5) ** 2 + 10 * four + 5 * five + noise
        return Pool(np.sqrt(12) * (drawn - 0.5), (y[:, None] - 14.4) / 5)

    def rows(self, index: Any, steps: Any) -> tuple[Any, Any]:
        del index
        return steps, steps


LEARNERS["foresight-control"] = ForesightControl
STREAMS["friedman"] = Friedman
