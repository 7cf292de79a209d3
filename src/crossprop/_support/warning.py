"""Warnings that point at the user's own line, however deep in the package they arise."""

import inspect
import warnings

SKIPPED = ("crossprop", "contextlib")
"""Packages whose frames are left out."""


def warn(message: str) -> None:
    """A UserWarning at the line that called into this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in SKIPPED:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
