"""Comparisons that many tests make, bit for bit."""

from pathlib import Path

import jax
import numpy as np
import xarray

from crossprop.engines.session import plain_numbers


def assert_same_records(one, other):
    assert set(one.data_vars) == set(other.data_vars)
    for name in one.data_vars:
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)


def assert_same_states(one, other):
    """Pytrees of arrays and keys."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for leaf, expected in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert leaf.dtype == expected.dtype
        np.testing.assert_array_equal(plain_numbers(leaf), plain_numbers(expected))


def assert_same_sweeps(one, other):
    """Records by learner."""
    assert list(one) == list(other)
    for name, records in one.items():
        xarray.testing.assert_identical(records, other[name])


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
