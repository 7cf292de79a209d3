"""Ctrl-C is not lost when Python drops the exception.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a callback of the garbage collector, such as
JAX has, or in a `__del__`, the exception is printed and dropped. So the signal is recorded as well, and `check` raises
the exception again.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pending: list[int] = []  # a list, since no lock may be taken in the handler of a signal
_own = threading.local()


class Stopped(Exception):
    """Another run failed, or the user interrupted: this thread's work ends here."""


@contextmanager
def interruptible() -> Iterator[None]:
    """A context in which no Ctrl-C is lost: it is raised at the end at the latest. A handler that the user has set is
    kept, except that of `asyncio.run`, which would wait for the event loop."""
    in_main, found = threading.current_thread() is threading.main_thread(), signal.getsignal(signal.SIGINT)
    of_asyncio = getattr(getattr(found, "func", None), "__module__", None) == "asyncio.runners"
    if not in_main or not (found is signal.default_int_handler or of_asyncio):
        yield
        check()
        return
    _pending.clear()
    signal.signal(signal.SIGINT, _note)
    try:
        yield
        check()
    finally:
        signal.signal(signal.SIGINT, found)
        _pending.clear()


def _note(number: int, frame: FrameType | None) -> None:
    _pending.append(number)
    signal.default_int_handler(number, frame)


def check() -> None:
    """Raises `Stopped` if the work of this thread is no longer wanted, or a KeyboardInterrupt that was lost."""
    stop = getattr(_own, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped
    if _pending and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def handled() -> None:
    """Forgets interrupts that were handled, such as by a server that has stopped."""
    _pending.clear()


@contextmanager
def stopped_by(stop: threading.Event) -> Iterator[None]:
    """A context in which `check` raises `Stopped` in this thread once the event is set."""
    before, _own.stop = getattr(_own, "stop", None), stop
    try:
        yield
    finally:
        _own.stop = before
