"""The optimizers that learners take; `crossprop.optimizers` has them."""

from crossprop.optimizers import NETWORK_OPTIMIZERS
from crossprop.optimizers.base import (
    MOMENTUM,
    OPTIMIZERS,
    Optimizer,
    as_optimizer,
    check_optimizer,
    optimizer_field,
    transformation,
)

NAMES = (*OPTIMIZERS, *NETWORK_OPTIMIZERS)

__all__ = [
    "MOMENTUM",
    "NAMES",
    "OPTIMIZERS",
    "Optimizer",
    "as_optimizer",
    "check_optimizer",
    "optimizer_field",
    "transformation",
]
