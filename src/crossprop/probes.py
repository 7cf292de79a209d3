"""Probes: numbers about a learner's features, for `run(..., probes={"rank": probes.effective_rank(net, batch)})`.

A probe is any function `f(initial_state, state)` that returns a number or an array; these look at the features of a
fixed batch of examples.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from crossprop._support import checks as check
from crossprop.learners import State
from crossprop.network import Network, float_type

Probe = Callable[[State, State], Float[Array, ""]]


def saturated(network: Network, batch: np.ndarray, threshold: float = 0.05) -> Probe:
    """The share of hidden units, of all layers, through which no error can flow: saturated (tanh, sigmoid) or dead
    (relu).

    A unit counts when its slope stays below `threshold` times the activation's largest slope on every example of
    `batch (examples, inputs)`.
    """
    check.number("threshold", threshold, above=0, high=1)
    x = _checked(network, batch)
    largest = 0.25 if network.activation == "sigmoid" else 1.0

    def share(initial: State, state: State):
        del initial
        layers = network.activations(state.incoming, jnp.asarray(x))
        slopes = jnp.concatenate([jnp.max(layer.slope, axis=0) for layer in layers])
        return jnp.mean(slopes < threshold * largest)

    return share


def dormant(network: Network, batch: np.ndarray, threshold: float = 0.0) -> Probe:
    """The share of hidden units, of all layers, that are hardly active: their mean absolute activation on `batch
    (examples, inputs)` is at most `threshold` times the mean over their layer.

    With a threshold of 0 it is the share of dead units, which are 0 for every example. Sokar et al. (2023), "The
    Dormant Neuron Phenomenon in Deep Reinforcement Learning".
    """
    check.number("threshold", threshold, low=0)
    x = _checked(network, batch)

    def share(initial: State, state: State):
        del initial
        layers = network.activations(state.incoming, jnp.asarray(x))
        sizes = [jnp.mean(jnp.abs(layer.phi), axis=0) for layer in layers]
        return jnp.mean(jnp.concatenate([size <= threshold * jnp.mean(size) for size in sizes]))

    return share


def weight_size(network: Network) -> Probe:
    """The mean absolute value of all weights, without biases."""
    _check_network(network)

    def mean(initial: State, state: State):
        del initial
        fan_ins = (network.inputs, *network.hidden)
        matrices = (*state.incoming, state.outgoing.T)
        sizes = [jnp.abs(weights[:rows]).ravel() for weights, rows in zip(matrices, fan_ins, strict=True)]
        return jnp.mean(jnp.concatenate(sizes))

    return mean


def effective_rank(network: Network, batch: np.ndarray) -> Probe:
    """The effective rank of the features, the top hidden layer, of `batch (examples, inputs)`: how many directions they
    use.

    The exponential of the entropy of the singular values, normalised to sum to one: Roy and Vetterli (2007), "The
    effective rank: a measure of effective dimensionality".
    """
    x = _checked(network, batch)

    def rank(initial: State, state: State):
        del initial
        features = network.activations(state.incoming, jnp.asarray(x))[-1].phi
        values = jnp.linalg.svd(features, compute_uv=False)
        share = values / jnp.maximum(jnp.sum(values), jnp.finfo(values.dtype).tiny)
        return jnp.exp(-jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.maximum(share, 1e-30)), 0)))

    return rank


def _check_network(network: Network) -> None:
    if not isinstance(network, Network):
        raise TypeError(f"network must be a crossprop.Network, got {check.shown(network)}")


def _checked(network: Network, batch: np.ndarray) -> np.ndarray:
    _check_network(network)
    if not network.hidden:
        raise ValueError("network must have a hidden layer, got hidden=()")
    x = check.rows("batch", batch, network.inputs)
    if not len(x):
        raise ValueError(f"batch must have at least one example, got shape {x.shape}")
    return x.astype(float_type(), copy=False)
