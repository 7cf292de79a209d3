"""Odd arguments and damaged files: a short form of `benchmarks/fuzz.py`."""

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
        yield importlib.import_module("fuzz")


@pytest.mark.parametrize(("part", "count"), [("calls", 1500), ("files", 150)])
def test_odd_input_ends_in_success_or_in_an_error_that_names_it(fuzz, part, count):
    outcome = fuzz.fuzz(part, count, seed=7)
    assert outcome.counts.total() == count and outcome.counts["ValueError"] and outcome.counts["success"]
    assert not outcome.complaints


@pytest.mark.long
def test_odd_runs_end_in_success_or_in_an_error_that_names_the_argument(fuzz):
    outcome = fuzz.fuzz("runs", 100, seed=7)
    assert outcome.counts["success"] and not outcome.complaints
