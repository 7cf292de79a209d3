"""What an arena records about weights and features, besides losses."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from crossprop import metrics, probes
from crossprop.engines.protocol import Metric, Probe
from crossprop.learners import State
from crossprop.network import Network
from crossprop.streams import Stream

BATCH = 64
"""Examples that the probes look at."""


def observers_of(network: Network, stream: Stream, plasticity: bool) -> tuple[dict[str, Probe], Mapping[str, Metric]]:
    """What is recorded about the weights and, with hidden units, about the features of a few examples of the stream,
    drawn with a seed that no run has. Learners whose state is not that of a credit rule have NaN."""
    found: dict[str, Probe] = {}
    if network.hidden:
        _, x, _ = stream.deal(stream.begin(jax.random.key(2**32 - 1)), min(BATCH, stream.steps or BATCH))
        batch = np.asarray(x)
        found = {
            "dead_units": probes.saturated(network, batch),
            "effective_rank": probes.effective_rank(network, batch),
        }
    found["weight_size"] = probes.weight_size(network)
    watched = {name: _of_credit_rules(probe) for name, probe in found.items()}
    return watched, {"plasticity": metrics.plasticity} if plasticity else {}


def _of_credit_rules(probe: Probe) -> Probe:
    return lambda initial, state: probe(initial, state) if isinstance(state, State) else jnp.nan
