"""Free memory, and a check that work fits into it before the work begins."""

import os
from pathlib import Path
from typing import Any

import jax

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
PROCESS = Path("/proc/self")
CGROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For both versions of Linux's control groups: their folder, a group's files with its limit and its usage, and the
entry of `memory.stat` with the part of the usage that the system can free, which is cached files."""


SMALL = 2**24
"""Bytes; less is not checked, since reading how much is free takes longer than using it."""


def check_memory(what: str, size: int, device: Any = None) -> None:
    """A ValueError if `what` takes more than the memory that is free, on the host or on a device."""
    if size <= SMALL:
        return
    free = free_memory(device)
    if size > free:
        raise ValueError(f"{what} would take {in_words(size)} of memory, and {in_words(free)} are free")


def free_memory(device: Any = None) -> int:
    """Free bytes: of a GPU's memory, or of the host's within the limits of its container and user."""
    stats = None if device is None else device.memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return min((_host_memory(), *_group_memory(), *_limited_memory()))


def _host_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**40  # an operating system that does not tell


def _group_memory() -> list[int]:
    """What is left in the control groups of this process, such as of a container or a cluster's job."""
    try:
        paths = [line.split(":", 2) for line in (PROCESS / "cgroup").read_text().splitlines()]
    except OSError:
        return []
    found = []
    for root, limit, used, files in CGROUPS:
        for _, controllers, path in paths:
            if controllers not in ("", "memory"):
                continue
            own = root / path.lstrip("/")  # as the host names it, which within a container need not be there
            for group in (own, *own.parents):
                try:
                    entries = dict(line.split(maxsplit=1) for line in (group / "memory.stat").read_text().splitlines())
                    in_use = int((group / used).read_text()) - int(entries.get(files, 0))
                    found.append(max(0, int((group / limit).read_text()) - in_use))
                except (OSError, ValueError):  # not there, or "max"
                    continue
    return found


def _limited_memory() -> list[int]:
    """What is left of the limits of `ulimit`, where the system reports the usage."""
    try:
        import resource

        status = dict(line.split(":", 1) for line in (PROCESS / "status").read_text().splitlines())
        limits = {"VmSize": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
        return [
            max(0, most - 1024 * int(status[used].split()[0]))
            for used, limit in limits.items()
            if (most := resource.getrlimit(limit)[0]) != resource.RLIM_INFINITY
        ]
    except (ImportError, OSError, KeyError):
        return []


def bytes_of(tree: Any) -> int:
    """The bytes of all arrays, or shapes of arrays, in a pytree."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def in_words(size: int) -> str:
    unit = min(len(UNITS) - 1, max(0, size.bit_length() - 1) // 10)
    return f"{size / 2 ** (10 * unit):,.{1 if unit else 0}f} {UNITS[unit]}"
