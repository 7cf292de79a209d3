"""The type checker that the tests run the package under: array shapes are checked, and an int will do for a float."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

UNCHECKED = {
    # These check their arguments, and the tests look at their messages.
    "crossprop.running.run",
    "crossprop.passes.live",
    "crossprop.passes.predict",
    "crossprop.sweeps.sweep",
    "crossprop.sweeps.grid.logspace",
    "crossprop.bench.peers.numpy_loop",
}

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if f"{function.__module__}.{function.__qualname__}" in UNCHECKED else _check(function)
