"""What all tests share: shapes are checked, warnings and rank promotion are errors, caches are the session's own."""

import os
import tempfile

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from browser import chromium  # noqa: F401

os.environ["CROSSPROP_CACHE"] = tempfile.mkdtemp(prefix="crossprop-tests-")
jax.config.update("jax_numpy_rank_promotion", "raise")
settings.register_profile("crossprop", deadline=None, derandomize=True, max_examples=5)
settings.load_profile("crossprop")

with install_import_hook(["crossprop.network", "crossprop.learners", "crossprop.probes"], "shapes.checked"):
    import crossprop  # noqa: F401


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def quick_compilation():
    """For modules whose many programs run once each, on a few numbers: compiling is most of their time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
