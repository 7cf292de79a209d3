"""Sends arrays to a device and waits until they are there.

With JAX 0.11.2 on an H200, one of some 3,000 batches learned in its first segment as if more than half of its table of
images were missing, as if XLA had started the program before the transfer was complete. So the host waits for every
array before a program gets it, and compares rows from all over a table with those that were sent.
"""

import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support import xla

ROWS_COMPARED = 256


def to_device(arrays: Any) -> Any:
    """Copies a tree of arrays, of any byte order, to the device and waits until all of it is there."""
    return jax.block_until_ready(jax.tree.map(lambda values: jnp.asarray(_native(values)), arrays))


def _native(values: Any) -> Any:
    if not isinstance(values, np.ndarray):
        return values
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def this_device() -> Any:
    """The device that JAX uses here: `jax.default_device`, if it is set."""
    chosen = xla.setting("jax_default_device")
    return chosen if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)[0]


class SentTable:
    """A table on the device. It keeps the host array alive, because `sent` is keyed by its `id`."""

    def __init__(self, table: Any):
        self.table = self.array = table
        if not isinstance(table, jax.Array):
            self.array = to_device(table)
            _check_arrived(table, self.array)


_sent: weakref.WeakValueDictionary[tuple[int, Any], SentTable] = weakref.WeakValueDictionary()
_sending = threading.Lock()


def sent(table: Any) -> SentTable:
    """A table on the device; batches that use a read-only table at the same time share one copy."""
    if not isinstance(table, np.ndarray) or table.flags.writeable:
        return SentTable(table)
    with _sending:
        key = id(table), this_device()
        shared = _sent.get(key) or SentTable(table)
        _sent[key] = shared
        return shared


def _check_arrived(table: np.ndarray, array: Any) -> None:
    rows = np.unique(np.linspace(0, len(table) - 1, ROWS_COMPARED, dtype=np.int32))
    expected = table[rows].astype(array.dtype)
    if not np.array_equal(array[rows], expected):
        raise RuntimeError(
            f"a table of {table.shape} examples and inputs did not arrive on {this_device()} as it was sent"
        )
