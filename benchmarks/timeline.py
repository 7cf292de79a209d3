"""When the host does what in a call of `cp.run`: `python benchmarks/timeline.py [geoff] [wide] [--quick]`.

Prints, for one call after others that compile, when each function of a list began and how long it took, in which
thread. On a GPU a function that takes long may be waiting for it.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gpu
import wide

import crossprop as cp
from crossprop import execution, running
from crossprop.engines import feed, segments, session
from crossprop.engines.gpu import kernel, layout

SHORTEST = 3e-4
WATCHED = {
    running: ("checked_learners", "check_run_memory", "experiment", "_records"),
    execution: ("_batches", "open_session"),
    session.Session: ("advance", "_fetch", "results"),
    kernel.KernelSession: ("__init__", "examples", "execute"),
    segments.LoopSession: ("__init__", "examples", "execute"),
    feed: ("tables_at_once", "sent"),
    feed.Feed: ("take",),
    feed.SharedFeed: ("__init__", "take"),
    layout: ("gather", "begin"),
}
STEPS = 600 if wide.QUICK else 30_000


def watch(owner: Any, name: str, seen: list[tuple[float, float, str, str]]) -> None:
    inner, label = getattr(owner, name), f"{owner.__name__.rpartition('.')[2]}.{name}"

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            seen.append((began, time.perf_counter() - began, threading.current_thread().name, label))

    setattr(owner, name, timed)


def show(name: str, call: Callable[[], Any], seen: list[tuple[float, float, str, str]]) -> None:
    call()
    others = [wide.seconds(call) for _ in range(1 if wide.QUICK else 6)]
    seen.clear()
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    print(f"\n{name}: {took * 1e3:.0f} ms, others {', '.join(f'{each * 1e3:.0f}' for each in others)}")
    for start, seconds, thread, label in sorted(seen):
        if seconds > SHORTEST:
            print(f"  {(start - began) * 1e3:8.1f} ms  {seconds * 1e3:8.1f} ms long  {label}, {thread}")


def main() -> None:
    seen: list[tuple[float, float, str, str]] = []
    for owner, names in WATCHED.items():
        for name in names:
            watch(owner, name, seen)
    settings = {str(number): cp.Crossprop(gpu.NET, 5e-4 * 1.01**number) for number in range(2 if wide.QUICK else 33)}
    geoff, images = cp.Geoff(tasks="ABCABC", examples=STEPS // 6), wide.stream_of(wide.STEPS)
    calls: dict[str, Callable[[], Any]] = {
        "geoff": lambda: cp.run(settings, geoff, 2 if wide.QUICK else 32, progress=False),
        "wide": lambda: cp.run(wide.CASES["backprop"].learner, images, 1, progress=False),
    }
    for name in [each for each in sys.argv[1:] if each in calls] or calls:
        show(name, calls[name], seen)


if __name__ == "__main__":
    main()
