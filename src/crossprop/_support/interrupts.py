"""Ctrl-C is acted upon, even if Python loses the exception on its way.

Python raises KeyboardInterrupt wherever the main thread happens to be. If that is in a callback of its garbage
collector, such as JAX has, or in a `__del__`, the exception is printed and gone. So the signal is noted as well, and
`check` raises the exception again.
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
    """While it lasts no Ctrl-C is lost: at the latest it is raised at the end. Handlers that a user set are kept, but
    not that of `asyncio.run`, which would wait until the event loop has its turn."""
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
    """Forgets interrupts that were acted upon, as by a server that has stopped."""
    _pending.clear()


@contextmanager
def stopped_by(stop: threading.Event) -> Iterator[None]:
    """While it lasts, `check` in this thread raises `Stopped` once the event is set."""
    before, _own.stop = getattr(_own, "stop", None), stop
    try:
        yield
    finally:
        _own.stop = before
