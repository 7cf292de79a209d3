"""Every use of an API of JAX or XLA that may change without notice. If one is gone, runs are slower; they still run.

- `set_xla_metadata`, with `inlineable` and `xla_cpu_small_call`: loops as one compiled function, 1.2 to 3.7x with JAX
  0.10 and 0.11. Without it a loop is a list of functions. Tested in `test_one_function`.
- The equations of `jax.make_jaxpr`: whether a loop consists of simple operations. Without them it does not count as
  one. The kernel engine evaluates them, too, for shorter GPU instructions (`engines/gpu/fma_rewrite.py`); it would
  fail, and `engine="scan"` would not. Tested in `test_one_function` and `test_engines`.
- Pallas and its Triton backend: programs on GPUs. Without them all engines are XLA's loops (`engines/gpu/support.py`).
  Tested in `test_engines`.
- Compiler options (`known_options`): on a GPU the same bits in every process; on a CPU with AVX-512 vectors of 512
  bits, 1.0 to 1.15x. Unknown ones are left out. Tested in `test_engines` and `test_guest`.
- A number that is infinite and NaN (`update.depend_on`): matrices changed in place on a CPU. If XLA sees through it
  they are copied, 1.1 to 2x. Tested in `test_one_function`.
- `jax_threefry_partitionable`: a seed's numbers do not follow this setting of the user's (`partitionable_keys`). Tested
  in `test_source_identity`.
- `jax_default_device` (`execution.devices`): without it all local devices are used. Tested in `test_guest`.
- `clear_cache` of a compiled function: programs are freed when there are many. Without it they stay. Tested in
  `test_interrupts`.
- The event `COMPILED`, and `jax.monitoring`, which reports it: the lab says that it compiles, and a fork after JAX was
  used is an error at once. Tested in `test_lab`.
- `reset_cache`, and files whose names end in `-cache`: the cache on disk is used from the next program on, and has a
  bound. Without it, only if nothing was compiled before. Tested in `test_bounds`.
- The warning `UNREADABLE`: the command line removes damaged programs from that cache. Without it, JAX warns of them in
  every process. Tested in `test_bounds`.
- `cost_analysis` of a compiled program: the FLOPs and bytes of a step on a run card. Without it they are not known.
  Tested in `test_cards`.

`test_guest` takes them away one by one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import jax
import numpy as np

COMPILED = "/jax/core/compile/backend_compile_duration"
"""The event by which JAX reports that a program was compiled."""
CACHED = "-cache"
"""Suffix of compiled programs on disk."""
UNREADABLE = r"Error reading persistent compilation cache entry for '(\w+)'"
"""JAX's warning about a damaged program on disk; the names of its files begin with the one in the warning."""


def setting(name: str) -> Any:
    """One of JAX's settings as it is in this thread, or None if JAX does not have it."""
    return getattr(jax.config, name, None)


def partitionable_keys() -> AbstractContextManager[Any]:
    """A context in which keys of JAX give the same numbers whatever the user has set."""
    threefry = getattr(jax, "threefry_partitionable", None)
    return nullcontext() if threefry is None else threefry(True)


def with_metadata(value: Any, **marks: str) -> Any:
    """The array, with these metadata for XLA on the operation that makes it."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except ImportError:
        return value
    return set_xla_metadata(value, **marks)


def equations(traced: Any) -> Iterator[Any]:
    """The equations of a program from `jax.make_jaxpr`, and of all programs that it calls."""
    for equation in traced.eqns:
        yield equation
        for values in equation.params.values():
            for value in values if isinstance(values, tuple | list) else [values]:
                if hasattr(value, "eqns"):
                    yield from equations(value)


def known_options(options: Mapping[str, bool | int]) -> dict[str, bool | int]:
    """The options that this version of XLA knows."""

    def is_known(name: str) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options={name: options[name]}).lower().compile()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return {name: value for name, value in options.items() if is_known(name)}


def has_wide_vectors() -> bool:
    """Whether this CPU has vectors of 512 bits and keeps its clock with them: Ice Lake, Zen 4 and newer ones."""
    found = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return "AVX512_ICL" in (*found.get("baseline", ()), *found.get("found", ()))


def program_cost(compiled: Any) -> tuple[float | None, float | None]:
    """The FLOPs and the bytes read and written of a compiled program, by XLA's count; None if it gives none."""
    try:
        found = compiled.cost_analysis()
        return float(found["flops"]), float(found["bytes accessed"])
    except Exception:  # whatever another version of JAX or another device makes of it
        return None, None


def free(program: Any) -> None:
    """Frees what JAX has compiled for a function."""
    clear: Callable[[], None] | None = getattr(program, "clear_cache", None)
    if clear is not None:
        clear()


def listen(event: str, act: Callable[[], None]) -> None:
    """Calls `act` whenever JAX reports this event, which takes time."""

    heard: Any = lambda name, *_, **__: act() if name == event else None
    with suppress(AttributeError):
        jax.monitoring.register_event_duration_secs_listener(heard)


def cache_on_disk(folder: str, least_seconds: float) -> None:
    """Turns on JAX's cache on disk for this process, for programs that take so long to compile."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)
    try:  # what was compiled before has settled that there is none
        from jax.experimental.compilation_cache.compilation_cache import reset_cache
    except ImportError:
        return
    reset_cache()
