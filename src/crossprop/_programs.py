"""Compiled programs are freed before a process has too many of them.

JAX keeps every program that it compiled. Each takes memory maps, of which Linux allows a process 65,530, and some
megabytes of memory: a few hundred shapes of networks in one process would be its end. So they are counted, and all are
freed when there are many. What is still needed is compiled again, mostly from the cache on disk.
"""

import ctypes
import gc
import sys
import threading
from typing import Any

import jax

from crossprop import _forks

COMPILED = "/jax/core/compile/backend_compile_duration"
"""The event by which JAX reports that a program was compiled."""
MOST = 384
"""Programs that are kept. A learner needs about five."""

_lock = threading.Lock()
_compiled: list[None] = []
"""An entry for each program since they were last freed: a list, to which all threads can append."""


def _count(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event == COMPILED:
        _forks.note_use()
        _compiled.append(None)


jax.monitoring.register_event_duration_secs_listener(_count)


def make_room() -> bool:
    """Frees all compiled programs if there are many, and says whether it did. Those that run in other threads stay
    until they are done."""
    _forks.check()
    if len(_compiled) < MOST or not _lock.acquire(blocking=False):
        return False
    try:
        _compiled.clear()
        jax.clear_caches()
        gc.collect()
        _trim()
        return True
    finally:
        _lock.release()


def _trim() -> None:
    """Gives memory that is free back to the operating system, which the C library would keep."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in the GNU library
        if trim is not None:
            trim(0)
