"""Optimizers: how big the step is. Each goes with every credit rule, and with plain optax."""

from crossprop.optimizers.base import NetworkOptimizer as NetworkOptimizer
from crossprop.optimizers.step_sizes import idbd as idbd

NETWORK_OPTIMIZERS: dict[str, type[NetworkOptimizer]] = {each.__name__: each for each in (idbd,)}
"""By name, for the command line and TOML files."""
