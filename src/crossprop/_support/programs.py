"""Compiled programs of the package, freed before a process has too many of them.

JAX keeps every program that it compiled. Each takes some megabytes and memory maps, of which Linux allows a process
65,530: after a few hundred shapes of networks none are left. So the package counts its own programs and frees them when
there are many; those that are needed again are compiled again. The user's programs stay.
"""

import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

from crossprop._support import forks, xla

MOST = 384
"""Programs that are kept. A learner needs about four."""

_lock = threading.Lock()
_own: weakref.WeakSet[Any] = weakref.WeakSet()
_compiled: list[None] = []
"""An entry for each program since they were last freed: a list, to which all threads can append."""

xla.listen(xla.COMPILED, forks.note_use)


def program(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit(function, **options)`, counted when it is traced, and freed when there are many."""

    @wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        _compiled.append(None)
        return function(*arguments, **named)

    compiled = jax.jit(counted, **options)
    _own.add(compiled)
    return compiled


def make_room() -> bool:
    """Frees the package's compiled programs if there are many, and returns whether it did. Programs that run in other
    threads stay until they are done."""
    forks.check()
    if len(_compiled) < MOST or not _lock.acquire(blocking=False):
        return False
    try:
        _compiled.clear()
        for each in list(_own):
            xla.free(each)
        gc.collect()
        # Memory that is free goes back to the operating system; the C library would keep it. Only GNU's has this.
        if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            trim(0)
        return True
    finally:
        _lock.release()
