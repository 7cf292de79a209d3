"""Refuses work in a process that was forked after JAX had started its threads: the fork lacks them and would hang."""

import os

_used: list[None] = []
_lost: list[None] = []


def note_use() -> None:
    """To be called when JAX has started its threads."""
    if not _used:
        _used.append(None)


def check() -> None:
    """To be called before work."""
    if _lost:
        raise RuntimeError(
            "this process was forked after JAX had been used, and what crossprop runs in it would hang: begin it by "
            'multiprocessing\'s "spawn" or "forkserver", such as multiprocessing.get_context("spawn")'
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _lost.extend(_used))
