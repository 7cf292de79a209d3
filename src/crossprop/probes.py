"""Probes: numbers about a learner's features, for `run(..., probes={"rank": probes.effective_rank(net, batch)})`.

A probe is any function `f(initial_state, state)` that returns a number or an array, or `f(initial_state, state,
learner)` with the decorator `with_learner`. These measure the features for a fixed batch of examples, by the learner's
method `features`; for a learner without one they are NaN, and `run` warns of it.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from crossprop._support import checks as check
from crossprop.learners.base import Learner, NetworkLearner, features_of, innermost
from crossprop.network import Network, check_network, float_type
from crossprop.variables import with_learner

Probe = Callable[..., Float[Array, ""] | float]
SLOPES: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda phi: 1 - phi**2,
    "sigmoid": lambda phi: phi * (1 - phi),
    "relu": lambda phi: (phi > 0).astype(phi.dtype),
    "leaky_relu": lambda phi: jnp.where(phi > 0, 1.0, 0.01),
    "linear": jnp.ones_like,
    "ltu": jnp.zeros_like,
}
"""The slope of an activation, from its value."""


def saturated(network: Network, batch: np.ndarray, threshold: float = 0.05) -> Probe:
    """The share of hidden units, of all layers, through which no error can flow: saturated (tanh, sigmoid) or dead
    (relu).

    A unit counts when its slope stays below `threshold` times the activation's largest slope on every example of
    `batch (examples, inputs)`. It is NaN for a learner of your own that is no credit rule, whose slopes are not known.
    """
    check.number("threshold", threshold, above=0, high=1)
    check_network(network)
    largest = 0.25 if network.activation == "sigmoid" else 1.0

    def share(layers: tuple[Array, ...], learner: Learner):
        if not isinstance(innermost(learner), NetworkLearner):
            return jnp.nan
        slopes = jnp.concatenate([jnp.max(SLOPES[network.activation](layer), axis=0) for layer in layers])
        return jnp.mean(slopes <= threshold * largest)

    return _of_features(share, network, batch)


def dormant(network: Network, batch: np.ndarray, threshold: float = 0.0) -> Probe:
    """The share of hidden units, of all layers, that are hardly active: their mean absolute activation on `batch
    (examples, inputs)` is at most `threshold` times the mean over their layer.

    With a threshold of 0 it is the share of dead units, which are 0 for every example. Sokar et al. (2023), "The
    Dormant Neuron Phenomenon in Deep Reinforcement Learning".
    """
    check.number("threshold", threshold, low=0)

    def share(layers: tuple[Array, ...], learner: Learner):
        del learner
        sizes = [jnp.mean(jnp.abs(layer), axis=0) for layer in layers]
        return jnp.mean(jnp.concatenate([size <= threshold * jnp.mean(size) for size in sizes]))

    return _of_features(share, network, batch)


def effective_rank(network: Network, batch: np.ndarray) -> Probe:
    """The effective rank of the features, the top hidden layer, of `batch (examples, inputs)`: how many directions they
    use.

    The exponential of the entropy of the singular values, normalised to sum to one: Roy and Vetterli (2007), "The
    effective rank: a measure of effective dimensionality".
    """

    def rank(layers: tuple[Array, ...], learner: Learner):
        del learner
        values = jnp.linalg.svd(layers[-1], compute_uv=False)
        share = values / jnp.maximum(jnp.sum(values), jnp.finfo(values.dtype).tiny)
        return jnp.exp(-jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-30)), 0)))

    return _of_features(rank, network, batch)


def weight_size(network: Network) -> Probe:
    """The mean absolute value of all weights that the learner names, without biases."""
    check_network(network)

    @with_learner
    def mean(initial: Any, state: Any, learner: Learner):
        del initial
        weights = [jnp.abs(each).ravel() for each in learner.weights(state).values()]
        return jnp.mean(jnp.concatenate(weights)) if weights else jnp.nan

    return mean


def _of_features(measure: Callable[..., Any], network: Network, batch: np.ndarray) -> Probe:
    """The probe `measure(layers, learner)` of the hidden units for a batch; NaN without features."""
    check_network(network)
    if not network.hidden:
        raise ValueError("network must have a hidden layer, got hidden=()")
    x = check.rows("batch", batch, network.inputs).astype(float_type(), copy=False)
    if not len(x):
        raise ValueError(f"batch must have at least one example, got shape {x.shape}")

    @with_learner
    def probe(initial: Any, state: Any, learner: Learner):
        del initial
        layers = features_of(learner, state, jnp.asarray(x))
        return jnp.nan if layers is None else measure(layers, learner)

    setattr(probe, "of_features", True)  # noqa: B010, an attribute that functions do not declare
    return probe
