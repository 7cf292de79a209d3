"""What all tests share: shapes are checked, warnings and rank promotion are errors, caches are the session's own."""

import asyncio
import gc
import os
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from browser import axe, chromium  # noqa: F401
from for_cuda import verified  # noqa: F401
from terminal import call  # noqa: F401

# A worker on every core leaves none for further threads, and OpenMP's (t-SNE's) would spin while they wait for one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A shell lets what it starts in the background, and all that this starts in turn, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" not in os.environ:
    # Workers and subprocesses inherit it: what one of them has compiled, the others read from disk.
    os.environ["CROSSPROP_CACHE"] = tempfile.mkdtemp(prefix="crossprop-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(os.environ["CROSSPROP_CACHE"]) / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_numpy_rank_promotion", "raise")
settings.register_profile("crossprop", deadline=None, derandomize=True, max_examples=5)
settings.load_profile("crossprop")

install_import_hook("crossprop", "shapes.checked")  # for what is imported from here on

from crossprop._support import xla  # noqa: E402
from crossprop.engines import segments  # noqa: E402
from crossprop.engines.gpu import support  # noqa: E402
from crossprop.learners import LEARNERS  # noqa: E402
from crossprop.replacements import REPLACEMENTS  # noqa: E402
from crossprop.streams import STREAMS  # noqa: E402
from registered import OWN_LEARNERS  # noqa: E402, F401

support.FOR_WIDE_NETWORKS = False  # a CPU runs GPU programs in the interpreter alone
segments.MOST_SIDE_BY_SIDE = 64  # tests that lay runs out as on a GPU do so on a CPU, where thousands take long


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests in a browser are long ones, which `make test` leaves out."""
    for item in items:
        if "chromium" in item.fixturenames:
            item.add_marker(pytest.mark.long)


def pytest_collection_finish():
    """What is imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_running_loop(request):
    """Between the tests of a browser, playwright's event loop counts as running in this thread."""
    running = asyncio._get_running_loop()
    if running is not None and "chromium" not in request.fixturenames:
        asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def own_registries(monkeypatch):
    """What the test registers is forgotten after it."""
    for registry in (LEARNERS, REPLACEMENTS, STREAMS):
        monkeypatch.setattr(registry, "_builders", dict(registry._builders))


@cache
def quick_options():
    return [
        *xla.known_options({"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}).items()
    ]


@pytest.fixture(scope="module")
def unoptimized():
    """Programs are compiled without most optimizations."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()


@pytest.fixture(scope="module")
def quick_compilation(unoptimized):
    """For modules whose many programs run once each, on a few numbers: compiling is most of their time."""
    compiler, further = sys.modules.get("jax._src.compiler"), quick_options()
    usual = getattr(compiler, "get_compile_options", None)

    def quick(*args, **kwargs):
        options = usual(*args, **kwargs)
        options.env_option_overrides = [*options.env_option_overrides, *further]
        return options

    with pytest.MonkeyPatch.context() as patch:
        if usual is not None:  # JAX has no public place for options of programs that others compile
            patch.setattr(compiler, "get_compile_options", quick)
        yield


@pytest.fixture(scope="module")
def quick_unless_full(request):
    """Quick compilation, for modules that CROSSPROP_FULL_GRID tests with the programs that users get."""
    if os.environ.get("CROSSPROP_FULL_GRID") != "1":
        request.getfixturevalue("quick_compilation")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """`made_once(name, make)`: a folder that `make(folder)` fills, once for all workers; meanwhile the others wait."""
    import fcntl

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made_once(name, make):
        folder = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                scratch = Path(tempfile.mkdtemp(dir=shared))
                make(scratch)
                scratch.rename(folder)
        return folder

    return made_once
