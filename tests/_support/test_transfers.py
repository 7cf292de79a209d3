"""Tables of examples on a device: nothing is read before it has arrived, and batches share what nobody can write to."""

import gc

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop._support import transfers
from crossprop._support.transfers import sent
from crossprop.engines.feed import Feed, SharedFeed
from crossprop.engines.protocol import Batch, Run, RunOptions
from crossprop.engines.scan import ExampleLoop
from crossprop.engines.segments import LoopSession
from crossprop.engines.tables import Tables


def read_only(*shape):
    table = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    table.flags.writeable = False
    return table


def test_batches_share_a_table_that_nobody_can_write_to():
    table, equal = read_only(5, 3), read_only(5, 3)
    first = sent(table)
    assert sent(table) is first and sent(equal) is not first
    np.testing.assert_array_equal(first.array, table)
    writeable = table.copy()
    assert sent(writeable) is not sent(writeable)
    before = len(transfers._sent)
    del first
    gc.collect()
    assert len(transfers._sent) < before, "a table that no batch uses is freed"


def test_a_table_that_did_not_arrive_whole_is_an_error():
    table = read_only(5000, 3)
    transfers._check_arrived(table, jax.numpy.asarray(table))
    part = jax.numpy.asarray(np.concatenate([table[:4000], np.zeros((1000, 3), np.float32)]))
    with pytest.raises(RuntimeError, match=r"\(5000, 3\) examples and inputs did not arrive"):
        transfers._check_arrived(table, part)


def test_a_table_of_the_device_is_used_as_it_is():
    table = jax.numpy.ones((2, 2))
    assert sent(table).array is table


@pytest.fixture
def waited_for(monkeypatch):
    """The shapes of all arrays that the host has waited for."""
    shapes, wait = [], jax.block_until_ready

    def noted(arrays):
        shapes.extend(leaf.shape for leaf in jax.tree.leaves(arrays))
        return wait(arrays)

    monkeypatch.setattr(jax, "block_until_ready", noted)
    return shapes


DATA = cp.datasets.DataSet("few", read_only(7, 3), np.arange(7) % 2, 2)
SENT = {
    "a table with rows": (cp.LabelShift(DATA, tasks="AB"), [(7, 3), (2, 2, 16 * 8)]),
    "a table of a stream that deals": (cp.PermutedInputs(DATA), [(7, 3), (2, 8)]),
    "some images": (cp.RandomLabels(DATA, images=5), [(5, 3), (2, 8)]),
    "examples of the host": (cp.Arrays(np.ones((20, 3)), np.ones(20)), [(20, 3), (2, 1, 16 * 8)]),
}


@pytest.mark.parametrize("what", SENT)
def test_examples_have_arrived_before_a_program_reads_them(what, waited_for):
    stream, expected = SENT[what]
    feed = Feed.of([Run(None, stream, seed) for seed in range(2)])
    SharedFeed(feed, segment=6, length=8, outputs=stream.outputs, stop=None).take(0, 6)
    assert {*expected} <= {*waited_for}


def test_row_numbers_are_sent_for_several_segments_and_not_beyond_the_end_of_a_run(monkeypatch):
    asked, rows = [], Tables.rows
    monkeypatch.setattr(Tables, "rows", lambda self, *span: asked.append(span) or rows(self, *span))
    stream = cp.Arrays(np.arange(60.0).reshape(20, 3), np.arange(20.0), kind="regression")
    feed = SharedFeed(Feed.of([Run(None, stream, 0)]), segment=6, length=8, outputs=1, stop=15)
    for start, count in ((0, 6), (6, 6), (12, 3)):
        np.testing.assert_array_equal(feed.take(start, count).y[0, :count, 0], np.arange(start, start + count))
    assert asked == [(0, 15)]


def test_examples_of_a_run_that_fills_a_device_alone_have_arrived(waited_for):
    """On a CPU they are read where they are."""
    learner, stream = cp.Backprop(cp.Network(3, 2), 0.1), cp.Arrays(np.ones((20, 3)), np.ones(20))
    batch = Batch([Run(learner, stream, 0)], RunOptions(10))
    session = LoopSession(ExampleLoop(), batch, width=1)
    assert all(isinstance(each, np.ndarray) for each in session.examples(20))
    session.platform = "gpu"
    assert all(isinstance(each, jax.Array) for each in session.examples(20)) and (20, 3) in waited_for
