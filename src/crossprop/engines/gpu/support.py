"""Whether a device can run Pallas programs, which JAX compiles with Triton."""

import os
from typing import Any

import jax


def _pallas() -> tuple[Any, Any]:
    """Pallas and its Triton backend, or None each: both are experimental in JAX."""
    try:
        from jax.experimental import pallas
        from jax.experimental.pallas import triton
    except ImportError:
        return None, None
    return pallas, triton


pl, triton = _pallas()

FOR_WIDE_NETWORKS = True
"""Whether scan and chunked use them; the kernel engine always does."""
PLATFORMS = ("gpu", "cuda")
LEAST_CAPABILITY = 8.0
"""NVIDIA's Ampere and later, which Triton supports and which have TF32 products."""


def why_no_programs(platform: str) -> str | None:
    """What a device lacks to run Pallas programs, or None."""
    if platform not in PLATFORMS:
        return f"a GPU, and this device is a {platform}"
    if triton is None:
        return f"Pallas's Triton backend, which JAX {jax.__version__} does not have"
    capability = getattr(jax.local_devices()[0], "compute_capability", LEAST_CAPABILITY)
    try:
        enough = float(capability) >= LEAST_CAPABILITY
    except ValueError:  # of another maker
        enough = False
    if not enough:
        return f"an NVIDIA GPU of compute capability {LEAST_CAPABILITY} or more, and this one has {capability}"
    return None


def for_wide_networks(platform: str) -> bool:
    """Whether scan and chunked use programs on such a device."""
    return FOR_WIDE_NETWORKS and why_no_programs(platform) is None


def multiprocessors() -> int:
    """How many multiprocessors the GPU has, or 0 if that is not known."""
    return getattr(jax.local_devices()[0], "core_count", None) or 0


def may_wait() -> bool:
    """Whether programs of a launch may wait for each other. With NVIDIA's MPS they could deadlock: programs of other
    processes may hold the multiprocessors that the missing ones need."""
    return "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
