"""Times contenders that take turns, so that other work on the machine slows all of them alike."""

import time
from collections.abc import Callable, Mapping
from typing import Any

Clock = Callable[[], float]


def clock(cpu: bool) -> Clock:
    """The process's own time on all cores, which other work disturbs less, or the wall's."""
    return time.process_time if cpu else time.perf_counter


def take_turns(
    contenders: Mapping[str, Callable[[], Any]],
    repeats: int = 5,
    clock: Clock = time.perf_counter,
    enough: float = float("inf"),
) -> dict[str, list[float]]:
    """Seconds of each contender's calls, after one call each that compiles and does not count.

    A contender that has taken `enough` seconds is not repeated.
    """
    for call in contenders.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, call in contenders.items():
            if sum(seconds[name]) < enough:
                began = clock()
                call()
                seconds[name].append(clock() - began)
    return seconds


def least(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: min(taken) for name, taken in seconds.items()}


def show(title: str, seconds: Mapping[str, float]) -> None:
    """Prints microseconds for a step of each contender, and what multiple of the first's they are."""
    first = next(iter(seconds.values()))
    print(f"\n{title}")
    for name, each in seconds.items():
        print(f"  {name:24} {1e6 * each:10.2f} us a step, {each / first:6.2f}x the first row's", flush=True)
